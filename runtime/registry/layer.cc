// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/layer.h"

#include "runtime/registry/registry.h"

namespace devrt {

absl::Status SetLayers(const std::vector<std::string>& names) {
  return internal::SetLayerNames(names);
}

std::vector<std::string> Layers() {
  return internal::LayerNames().value_or(std::vector<std::string>());
}

absl::Status RegisterLayer(const devrt_manifest_v0* manifest,
                           devrt_layer_open_fn_v0 open) {
  return internal::RegisterLayerRecord(manifest, open);
}

}  // namespace devrt
