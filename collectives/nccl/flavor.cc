// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/flavor.h"

#include <stdlib.h>

#include "collectives/nccl/abi.h"

namespace devrt::collectives::nccl {

const Flavor kNccl = {
    "NCCL",
    "nccl",
    "cuda",
    "libnccl.so.2",
    "DEVRT_NCCL_LIBRARY",
    []() -> const char* { return secure_getenv("DEVRT_NCCL_LIBRARY"); },
    "pip install nvidia-nccl-cu13",
    "ncclAlltoAll",
    22400,
    kSharedDeviceVersion,
    22600,
    true,
    true,
};

// Its float8 types are those of the device, which differ between devices.
const Flavor kRccl = {
    "RCCL",
    "rccl",
    "hip",
    "librccl.so.1",
    "DEVRT_RCCL_LIBRARY",
    []() -> const char* { return secure_getenv("DEVRT_RCCL_LIBRARY"); },
    "install ROCm's package rccl",
    "ncclAllToAll",
    0,
    0,
    0,
    false,
    false,
};

}  // namespace devrt::collectives::nccl
