// SPDX-License-Identifier: Apache-2.0
//
// Built without a device's compiler: the extensions over kernels are absent.
#include "backends/gpu/backend.h"

namespace devrt::gpu {

extern const KernelImage kProbeImage;
const KernelImage kProbeImage = {};
extern const KernelImage kElementwiseImage;
const KernelImage kElementwiseImage = {};
extern const KernelImage kReduceImage;
const KernelImage kReduceImage = {};

}  // namespace devrt::gpu
