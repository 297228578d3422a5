// SPDX-License-Identifier: Apache-2.0
//
// Every offset, size and constant of the C ABI as numbers, for a C++ compiler:
// compiled as C++17 and as C++20. What layout_test.c looks at when it runs is
// not repeated here.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "devrt/backends/abi/devrt_capture.h"
#include "devrt/backends/abi/devrt_dlpack.h"
#include "devrt/backends/abi/devrt_event_ipc.h"
#include "devrt/backends/abi/devrt_faults.h"
#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_own_query.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/backends/abi/devrt_program_stack.h"
#include "devrt/backends/abi/devrt_race.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "devrt/backends/abi/devrt_stream_number.h"
#include "devrt/backends/abi/devrt_suballocation.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "devrt/backends/abi/devrt_virtual_memory.h"

#define STRUCT(type, size)                           \
  static_assert(sizeof(type) == (size));             \
  static_assert(std::is_standard_layout_v<type>);    \
  static_assert(std::is_trivially_copyable_v<type>); \
  static_assert(std::is_trivially_constructible_v<type>);
#define FIELD(type, field, offset, size)          \
  static_assert(offsetof(type, field) == offset); \
  static_assert(sizeof(type::field) == size);
#include "layout.inc"
#undef FIELD
#undef STRUCT

#define VALUE(macro, number) static_assert((macro) == (number));
#define TEXT(macro, string) static_assert(sizeof(macro) == sizeof(string));
#include "constants.inc"
#undef TEXT
#undef VALUE

// The types of handles and codes are part of the calling convention.
static_assert(sizeof(devrt_status) == 8 && std::is_pointer_v<devrt_status>);
static_assert(sizeof(devrt_stream) == 8 && std::is_pointer_v<devrt_stream>);
static_assert(sizeof(devrt_event) == 8 && std::is_pointer_v<devrt_event>);
static_assert(sizeof(devrt_flag) == 8 && std::is_pointer_v<devrt_flag>);
static_assert(std::is_same_v<devrt_code, int32_t>);
static_assert(std::is_same_v<decltype(DEVRT_INTERNAL), devrt_code>);

int main() { return 0; }
