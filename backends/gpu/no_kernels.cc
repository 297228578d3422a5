// SPDX-License-Identifier: Apache-2.0
//
// Built without a device's compiler: the extensions over kernels are absent.
#include "backends/gpu/kernel_image.h"

namespace devrt::gpu {

const KernelImage kProbeImage = {};
const KernelImage kElementwiseImage = {};
const KernelImage kRowsImage = {};
const KernelImage kCastImage = {};
const KernelImage kReduceImage = {};
const KernelImage kColumnsImage = {};

}  // namespace devrt::gpu
