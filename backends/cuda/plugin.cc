// SPDX-License-Identifier: Apache-2.0
//
// The backend "cuda": backends/gpu over CUDA's driver.
#include "backends/cuda/api.h"
#include "backends/gpu/backend.h"
#include "backends/gpu/captures.h"
#include "backends/gpu/copy.h"
#include "backends/gpu/device.h"
#include "backends/gpu/elementwise.h"
#include "backends/gpu/ending.h"
#include "backends/gpu/event.h"
#include "backends/gpu/kernels.h"
#include "backends/gpu/legacy_edges.h"
#include "backends/gpu/memory.h"
#include "backends/gpu/pool.h"
#include "backends/gpu/probe.h"
#include "backends/gpu/records.h"
#include "backends/gpu/reduce.h"
#include "backends/gpu/stream.h"
#include "backends/gpu/virtual_memory.h"

using CudaBackend = devrt::gpu::Backend<devrt::cuda::Api>;

DEVRT_DEFINE_PLUGIN(CudaBackend, "cuda", "devrt", DEVRT_VERSION,
                    CudaBackend::kCapabilities, 10);
