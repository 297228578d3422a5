// SPDX-License-Identifier: Apache-2.0
//
// The images of devrt's kernels that the plugin was built with.

#ifndef DEVRT_BACKENDS_GPU_KERNEL_IMAGE_H_
#define DEVRT_BACKENDS_GPU_KERNEL_IMAGE_H_

namespace devrt::gpu {

// Compiled kernels for every architecture that the plugin was built for.
struct KernelImage {
  const void* data = nullptr;  // a fat binary; nullptr: there is none
};

extern const KernelImage kProbeImage;
extern const KernelImage kElementwiseImage;
extern const KernelImage kRowsImage;
extern const KernelImage kCastImage;
extern const KernelImage kReduceImage;
extern const KernelImage kAdjacentImage;
extern const KernelImage kColumnsImage;

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_KERNEL_IMAGE_H_
