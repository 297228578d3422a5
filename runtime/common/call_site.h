// SPDX-License-Identifier: Apache-2.0
//
// CallSite: the place in the program that called devrt.  Reports of deadlocks,
// faults and timelines name it.  Functions that enqueue or wait take a CallSite
// as their last argument; the default argument is the caller's line.

#ifndef DEVRT_RUNTIME_COMMON_CALL_SITE_H_
#define DEVRT_RUNTIME_COMMON_CALL_SITE_H_

namespace devrt {

// A line of the program.
struct CallSite {
  const char* file = nullptr;  // static storage
  int line = 0;

  // The line of the call; as a default argument, the caller's line.
  static constexpr CallSite Here(const char* file = __builtin_FILE(),
                                 int line = __builtin_LINE()) {
    return CallSite{file, line};
  }
};

}  // namespace devrt

#endif  // DEVRT_RUNTIME_COMMON_CALL_SITE_H_
