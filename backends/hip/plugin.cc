// SPDX-License-Identifier: Apache-2.0
//
// The backend "hip": backends/gpu over AMD's runtime.
#include "backends/gpu/backend.h"
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
#include "backends/hip/api.h"

using HipBackend = devrt::gpu::Backend<devrt::hip::Api>;

DEVRT_DEFINE_PLUGIN(HipBackend, "hip", "devrt", DEVRT_VERSION,
                    HipBackend::kCapabilities, 10);
