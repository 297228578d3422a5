// SPDX-License-Identifier: Apache-2.0
//
// Built without a device's compiler: the extensions over kernels are absent.
#include "backends/gpu/backend.h"

namespace devrt::gpu {

extern const KernelImage kProbeImage;
const KernelImage kProbeImage = {};
extern const KernelImage kElementwiseImage;
const KernelImage kElementwiseImage = {};
extern const KernelImage kRowsImage;
const KernelImage kRowsImage = {};
extern const KernelImage kCastImage;
const KernelImage kCastImage = {};
extern const KernelImage kReduceImage;
const KernelImage kReduceImage = {};
extern const KernelImage kColumnsImage;
const KernelImage kColumnsImage = {};

}  // namespace devrt::gpu
