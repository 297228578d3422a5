// SPDX-License-Identifier: Apache-2.0
//
// Calls into the program that have to wait until the thread has left the
// machine: they may call devrt again.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_DEFERRED_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_DEFERRED_H_

#include <vector>

#include "backends/mtia/common/error.h"

namespace devrt::mtia {

// The closure of a kernel that has ended.
struct EndedClosure {
  void (*destroy)(void*);
  void* arg;
};

// A host function whose stream failed.  The function is called with the error
// of `fault`, or with DEVRT_CANCELLED if there is none.
struct FailedHostFunc {
  void (*fn)(void*, devrt_status);
  void* arg;
  Fault fault;
};

struct Deferred {
  std::vector<EndedClosure> closures;
  std::vector<FailedHostFunc> host_funcs;

  bool empty() const { return closures.empty() && host_funcs.empty(); }
};

// Makes the calls.  The calling thread is outside the machine.
void RunDeferred(const Deferred& deferred);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_DEFERRED_H_
