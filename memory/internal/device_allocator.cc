// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/internal/device_allocator.h"

#include "devrt/memory/internal/address_map.h"
