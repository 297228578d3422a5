// SPDX-License-Identifier: Apache-2.0
//
// Code of the program that ends its thread, by pthread_exit or as a thread that
// pthread_cancel was called for.  glibc unwinds the stack of such a thread.  A
// catch (...) that does not rethrow then ends the process, and so does a
// function that is noexcept.
//
// On a thread of the program's own this is the program's right, and the
// unwinding passes through devrt:
//
//   try {
//     return callback();
//   } catch (...) {
//     PassThreadEnd();
//     return absl::InternalError("the callback threw an exception");
//   }
//
// A backend's thread serves other work as well, and a kernel runs on whichever
// thread the simulator takes.  There the code ends, and the thread goes on:
//
//   const NoCancel no_cancel;
//   if (!RunToItsEnd([&] { function(); })) Log("the function called ...");

#ifndef DEVRT_RUNTIME_INTERNAL_THREAD_END_H_
#define DEVRT_RUNTIME_INTERNAL_THREAD_END_H_

#include <pthread.h>

#include <exception>

#include "absl/functional/function_ref.h"

namespace devrt::internal {

// In a catch (...) clause: rethrows what is not an exception of C++.
inline void PassThreadEnd() {
  if (std::current_exception() == nullptr) throw;
}

// Calls `code`.  False: it called pthread_exit or acted on a cancellation; its
// stack is unwound, and the thread goes on.  Exceptions pass.
bool RunToItsEnd(absl::FunctionRef<void()> code);

// Acts on a request to cancel the calling thread, which goes on all the same.
// Later requests have no effect if there was one.
void DropCancellation();

// Requests to cancel the thread wait until the end of the scope.
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

#endif  // DEVRT_RUNTIME_INTERNAL_THREAD_END_H_
