// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/internal/pinned_allocator.h"
