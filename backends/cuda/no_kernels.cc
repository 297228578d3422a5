// SPDX-License-Identifier: Apache-2.0
//
// Built without nvcc: devrt.probe/0 is absent.
#include "backends/gpu/backend.h"

namespace devrt::gpu {

extern const KernelImage kProbeImage;
const KernelImage kProbeImage = {};

}  // namespace devrt::gpu
