// SPDX-License-Identifier: Apache-2.0
//
// One backend and the layers in front of it, as one {self, table} pair.

#ifndef DEVRT_RUNTIME_INTERNAL_LAYER_CHAIN_H_
#define DEVRT_RUNTIME_INTERNAL_LAYER_CHAIN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/mutex.h"

namespace devrt::internal {

// An opened layer; never goes away.
struct Layer {
  std::string name;
  devrt_layer_v0 table{};
};

// Threads: Attach by one thread, before the others know of the chain.
class LayerChain {
 public:
  // `ops` has no empty slot; the pointers are valid as long as the chain.
  LayerChain(const devrt_manifest_v0* manifest, void* self,
             const devrt_ops_v0* ops, uint64_t capabilities);
  ~LayerChain();
  LayerChain(const LayerChain&) = delete;
  LayerChain& operator=(const LayerChain&) = delete;

  // Puts `layer` in front of all that is there.
  absl::Status Attach(const Layer* layer);

  // The front: what calls go to.
  void* self() const;
  const devrt_ops_v0& ops() const;
  uint64_t capabilities() const;
  // An extension as seen from the front; no table: there is none.  From any
  // thread.
  Extension FindExtension(const char* name);

  // Ends every layer, the outermost first, then the backend.  INTERNAL if one
  // of them threw; the others have ended all the same.
  absl::Status Shutdown();

 private:
  struct Link;
  static const void* NextExtension(const devrt_next_v0* next, const char* name,
                                   void** self);
  std::vector<std::unique_ptr<Link>> links_;  // [0]: the backend
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_LAYER_CHAIN_H_
