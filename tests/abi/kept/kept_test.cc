// SPDX-License-Identifier: Apache-2.0
//
// The present headers have all that a kept version has, where it has it.  The
// compiler decides; a test that compiles has passed.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "devrt/backends/abi/devrt_tensor.h"

static_assert(DEVRT_ABI_MINOR >= KEPT_MINOR);
#undef DEVRT_ABI_MINOR
#define DEVRT_ABI_MINOR KEPT_MINOR

#define STRUCT(type, size) static_assert(sizeof(type) >= (size), #type);
#define FIELD(type, field, offset, size)                              \
  static_assert(offsetof(type, field) == (offset), #type "." #field); \
  static_assert(sizeof(type::field) == (size), #type "." #field);
#define VALUE(macro, number) static_assert((macro) == (number), #macro);
#define TEXT(macro, string) \
  static_assert(std::string_view(macro) == (string), #macro);
#include KEPT_CONSTANTS
#include KEPT_LAYOUT

int main() { return 0; }
