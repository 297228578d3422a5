// SPDX-License-Identifier: Apache-2.0
//
// A chain of layers in front of one backend, callable as one {self, table}.

#ifndef DEVRT_RUNTIME_REGISTRY_LAYER_CHAIN_H_
#define DEVRT_RUNTIME_REGISTRY_LAYER_CHAIN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/mutex.h"

namespace devrt::internal {

// An opened layer; lives until the end of the process.
struct Layer {
  std::string name;
  devrt_layer_v0 table{};
};

// Threads: one thread calls Attach before other threads use the chain.
class LayerChain {
 public:
  // Every slot of `ops` is set; all pointers outlive the chain.
  LayerChain(const devrt_manifest_v0* manifest, void* self,
             const devrt_ops_v0* ops, uint64_t capabilities);
  ~LayerChain();
  LayerChain(const LayerChain&) = delete;
  LayerChain& operator=(const LayerChain&) = delete;

  // Puts `layer` in front of the chain.
  absl::Status Attach(const Layer* layer);

  // The front of the chain; callers use these.
  void* self() const;
  const devrt_ops_v0& ops() const;
  uint64_t capabilities() const;
  // An extension as seen from the front; table is nullptr if there is none.
  // Threads: any.
  Extension FindExtension(const char* name);

  // Shuts down every layer, the outermost first, then the backend.  Continues
  // after an exception; the result is then INTERNAL.
  absl::Status Shutdown();

 private:
  struct Link;
  static const void* NextExtension(const devrt_next_v0* next, const char* name,
                                   void** self);
  std::vector<std::unique_ptr<Link>> links_;  // [0] is the backend
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_LAYER_CHAIN_H_
