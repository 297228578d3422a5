// SPDX-License-Identifier: Apache-2.0
//
// The backend "cuda": backends/gpu over CUDA's driver.
#include "backends/cuda/api.h"
#include "backends/gpu/backend.h"

using CudaBackend = devrt::gpu::Backend<devrt::cuda::Api>;

DEVRT_DEFINE_PLUGIN(CudaBackend, "cuda", "devrt", DEVRT_VERSION,
                    CudaBackend::kCapabilities, 10);
