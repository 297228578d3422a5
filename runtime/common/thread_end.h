// SPDX-License-Identifier: Apache-2.0
//
// Handles code of the program that ends its own thread: by pthread_exit, or at
// a cancellation point after pthread_cancel.  glibc then unwinds the stack.  A
// catch (...) that does not rethrow, or a function that is noexcept, would end
// the process.
//
// On a thread of the program this is legal, and devrt lets the unwinding pass:
//
//   try {
//     return callback();
//   } catch (...) {
//     PassThreadEnd();
//     return absl::InternalError("the callback threw an exception");
//   }
//
// A thread of a backend also serves other work, and a kernel of the simulator
// may run on any thread.  There only the code ends, and the thread goes on:
//
//   const NoCancel no_cancel;
//   if (!RunToItsEnd([&] { function(); })) Log("the function called ...");

#ifndef DEVRT_RUNTIME_COMMON_THREAD_END_H_
#define DEVRT_RUNTIME_COMMON_THREAD_END_H_

#include <pthread.h>

#include <exception>

#include "absl/functional/function_ref.h"

namespace devrt::internal {

// Call it in a catch (...) clause: rethrows anything but a C++ exception.
inline void PassThreadEnd() {
  if (std::current_exception() == nullptr) throw;
}

// Calls `code`.  Returns false if `code` called pthread_exit or was cancelled:
// its stack is unwound, and the thread goes on.  C++ exceptions pass through.
bool RunToItsEnd(absl::FunctionRef<void()> code);

// Consumes a request to cancel the calling thread; the thread goes on.  After a
// request was consumed, later requests have no effect.
void DropCancellation();

// Postpones requests to cancel the thread until the end of the scope.
class NoCancel {
 public:
  NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_COMMON_THREAD_END_H_
