// SPDX-License-Identifier: Apache-2.0
//
// For a build without a device compiler: the extensions that need kernels are
// absent.
#include "backends/gpu/kernel_image.h"

namespace devrt::gpu {

const KernelImage kProbeImage = {};
const KernelImage kElementwiseImage = {};
const KernelImage kRowsImage = {};
const KernelImage kCastImage = {};
const KernelImage kReduceImage = {};
const KernelImage kAdjacentImage = {};
const KernelImage kColumnsImage = {};

}  // namespace devrt::gpu
