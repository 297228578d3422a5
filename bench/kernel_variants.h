// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BENCH_KERNEL_VARIANTS_H_
#define DEVRT_BENCH_KERNEL_VARIANTS_H_

#include <cuda.h>

#include "bench/kernels_support.h"

namespace bench {

// Times every kernel of an image of kernel_variants.cu on tensors of 256 MiB
// within `blocks` and says what is the fastest of each group.
void RunVariants(const char* path, CUstream stream, const Timer& timer,
                 const CUdeviceptr* blocks, double copy_rate);

}  // namespace bench

#endif  // DEVRT_BENCH_KERNEL_VARIANTS_H_
