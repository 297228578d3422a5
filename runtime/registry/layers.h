// SPDX-License-Identifier: Apache-2.0
//
// The layers of the process: the linked-in ones, the chosen names, and the
// opened layers for these names.

#ifndef DEVRT_RUNTIME_REGISTRY_LAYERS_H_
#define DEVRT_RUNTIME_REGISTRY_LAYERS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_layer.h"
#include "runtime/registry/discovery.h"
#include "runtime/registry/layer_chain.h"

namespace devrt::internal {

// Threads: callers hold the registry's lock.
class LayerSet {
 public:
  using Choice = std::vector<const Layer*>;

  absl::Status Register(const devrt_manifest_v0* manifest,
                        devrt_layer_open_fn_v0 open);

  // Opens the layers `names` and chooses them.  An error leaves the choice
  // unchanged.  Appends all attempts to `findings`.
  absl::Status Choose(const std::vector<std::string>& names,
                      const Environment& environment,
                      std::vector<Finding>* findings);

  // The chosen layers.  If Choose was not called, chooses environment.layers;
  // an error of that choice stays until Choose is called.
  const absl::StatusOr<Choice>& Chosen(const Environment& environment,
                                       std::vector<Finding>* findings);

  // True if code of a layer has run.
  bool any_opened() const { return any_opened_; }

 private:
  struct Entry {
    Layer layer;
    devrt_manifest_v0 manifest{};
    devrt_layer_open_fn_v0 open = nullptr;
    std::string canonical;  // of its file; empty if linked in
    bool opened = false;
  };

  absl::StatusOr<Choice> Resolve(const std::vector<std::string>& names,
                                 const Environment& environment,
                                 std::vector<Finding>* findings);
  absl::StatusOr<const Layer*> Find(const std::string& name,
                                    const Environment& environment,
                                    std::vector<Finding>* findings);
  absl::StatusOr<Entry*> FindFile(const std::string& name,
                                  const Environment& environment,
                                  std::vector<Finding>* findings);
  absl::StatusOr<Entry*> LoadFile(const std::string& path,
                                  std::vector<Finding>* findings);
  absl::StatusOr<const Layer*> Open(Entry* entry);
  Entry* FindEntry(const std::string& name);

  std::vector<std::unique_ptr<Entry>> entries_;
  std::optional<absl::StatusOr<Choice>> choice_;
  bool any_opened_ = false;
};

// The names in DEVRT_LAYERS; skips blanks and empty names.
std::vector<std::string> SplitLayers(const std::string& text);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_LAYERS_H_
