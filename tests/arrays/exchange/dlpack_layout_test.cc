// SPDX-License-Identifier: Apache-2.0
//
// The structs of dlpack_abi.h for a C++ compiler.  It has passed when it
// compiles.

#include <cstddef>
#include <type_traits>

#include "devrt/arrays/dlpack_abi.h"

#define STRUCT(type, size)               \
  static_assert(sizeof(type) == (size)); \
  static_assert(std::is_standard_layout_v<type>);
#define FIELD(type, field, offset) \
  static_assert(offsetof(type, field) == (offset));
#define NUMBER(name, value) static_assert((name) == (value));
#include "tests/arrays/exchange/dlpack_layout.inc"

static_assert(std::is_same_v<std::underlying_type_t<DLDeviceType>, int32_t>);

int main() { return 0; }
