// SPDX-License-Identifier: Apache-2.0
//
// The place in the program from which devrt was called.  Reports (deadlocks,
// faults, timelines) name it.  Calls that enqueue or wait take one as their
// last argument; leave it out.

#ifndef DEVRT_RUNTIME_CALL_SITE_H_
#define DEVRT_RUNTIME_CALL_SITE_H_

namespace devrt {

struct CallSite {
  const char* file = nullptr;  // static storage
  int line = 0;

  static constexpr CallSite Here(const char* file = __builtin_FILE(),
                                 int line = __builtin_LINE()) {
    return CallSite{file, line};
  }
};

}  // namespace devrt

#endif  // DEVRT_RUNTIME_CALL_SITE_H_
