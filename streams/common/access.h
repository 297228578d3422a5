// SPDX-License-Identifier: Apache-2.0
//
// Access: bytes of memory that work of the program uses, for Launch,
// LaunchHostFunc and the functions of devrt/streams/validate.h.
//
//   devrt::Access in = devrt::Read(src, bytes);
//   devrt::Access out = devrt::Write(dst, bytes);
//
// A plain value: the memory stays the program's.  No function here can fail.

#ifndef DEVRT_STREAMS_COMMON_ACCESS_H_
#define DEVRT_STREAMS_COMMON_ACCESS_H_

#include <cstdint>

#include "devrt/backends/abi/devrt_launch.h"

namespace devrt {

// A range of bytes that an operation uses.
using Access = devrt_access_v0;

// A range of `bytes` bytes from `ptr` on that the operation reads, writes, or
// both:
inline Access Read(const void* ptr, uint64_t bytes) {
  return Access{const_cast<void*>(ptr), bytes, DEVRT_ACCESS_READ, 0};
}
inline Access Write(void* ptr, uint64_t bytes) {
  return Access{ptr, bytes, DEVRT_ACCESS_WRITE, 0};
}
inline Access ReadWrite(void* ptr, uint64_t bytes) {
  return Access{ptr, bytes, DEVRT_ACCESS_READ | DEVRT_ACCESS_WRITE, 0};
}
// A range that the operation updates with atomic operations of one operator,
// such as sums of a histogram.  Reductions with equal numbers may run at one
// time; the program chooses a number for each operator.
inline Access Reduction(void* ptr, uint64_t bytes, uint32_t number = 0) {
  return Access{ptr, bytes,
                DEVRT_ACCESS_READ | DEVRT_ACCESS_WRITE | DEVRT_ACCESS_REDUCE,
                number};
}

}  // namespace devrt

#endif  // DEVRT_STREAMS_COMMON_ACCESS_H_
