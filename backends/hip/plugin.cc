// SPDX-License-Identifier: Apache-2.0
//
// The backend "hip": backends/gpu over AMD's runtime.
#include "backends/gpu/backend.h"
#include "backends/hip/api.h"

using HipBackend = devrt::gpu::Backend<devrt::hip::Api>;

DEVRT_DEFINE_PLUGIN(HipBackend, "hip", "devrt", DEVRT_VERSION,
                    HipBackend::kCapabilities, 10);
