// SPDX-License-Identifier: Apache-2.0
#include "runtime/common/thread_end.h"

#include <cxxabi.h>

#include <csetjmp>
#include <cstring>

namespace devrt::internal {
namespace {

// The layout of __cxa_eh_globals of the Itanium C++ ABI.
struct ExceptionState {
  void* handled;          // exceptions that catch clauses are handling
  unsigned int uncaught;  // the result of std::uncaught_exceptions()
};

// Hides the exceptions that the thread is handling, because libstdc++ ends the
// process if a forced unwind is caught during such handling.
class Handlers {
 public:
  Handlers() : before_(Get()) { Set({nullptr, before_.uncaught}); }
  ~Handlers() { Set({before_.handled, Get().uncaught}); }
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;
  // A frame that rethrew the unwind has counted it as an uncaught exception.
  void ForgetUncaught() const { Set(before_); }

 private:
  static ExceptionState Get() {
    ExceptionState state;
    std::memcpy(&state, abi::__cxa_get_globals(), sizeof state);
    return state;
  }
  static void Set(const ExceptionState& state) {
    std::memcpy(static_cast<void*>(abi::__cxa_get_globals()), &state,
                sizeof state);
  }

  const ExceptionState before_;
};

// Not inlined and without UBSan's null check: GCC's UBSan reports the reference
// to a forced unwind, which has no object, as a null reference.
#if defined(__clang__)
[[gnu::noinline]]
#else
[[gnu::noinline, gnu::no_sanitize("null")]]
#endif
void Call(absl::FunctionRef<void()> code, jmp_buf* resume) {
  try {
    code();
  } catch (abi::__forced_unwind&) {
    // The frames of `code` are gone.  Leaving this clause in any other way ends
    // the thread or the process.
    std::longjmp(*resume, 1);
  }
}

}  // namespace

bool RunToItsEnd(absl::FunctionRef<void()> code) {
  const Handlers handlers;
  jmp_buf resume;
  if (setjmp(resume) == 0) {
    Call(code, &resume);
    return true;
  }
  handlers.ForgetUncaught();
  return false;
}

void DropCancellation() {
  static_cast<void>(RunToItsEnd([] { pthread_testcancel(); }));
}

}  // namespace devrt::internal
