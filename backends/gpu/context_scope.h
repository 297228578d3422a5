// SPDX-License-Identifier: Apache-2.0
//
// Makes a context current for a scope, and checks whether a context is alive.

#ifndef DEVRT_BACKENDS_GPU_CONTEXT_SCOPE_H_
#define DEVRT_BACKENDS_GPU_CONTEXT_SCOPE_H_

#include <cstdint>

namespace devrt::gpu {

// Makes `context` the thread's current context until the scope's end.
template <class Api>
class ContextScope {
 public:
  using Error = typename Api::Error;
  using Context = typename Api::Context;

  ContextScope(const Api& api, Context context) : api_(api) {
    error_ = api_.Current(&previous_);
    if (error_ != Api::kSuccess || previous_ == context) return;
    error_ = api_.SetCurrent(context);
    switched_ = error_ == Api::kSuccess;
  }
  ~ContextScope() {
    if (switched_) (void)api_.SetCurrent(previous_);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  // Api::kSuccess if the context is current.
  Error error() const { return error_; }

 private:
  const Api& api_;
  Context previous_{};
  Error error_;
  bool switched_ = false;
};

// Returns success if the context with the number `id` still exists.  It does
// not if another library has reset the device or destroyed a context of its
// own.  Objects that were made in it are gone then, and using them may crash
// the driver.  A new context may have the address of the old one, but not its
// number.
template <class Api>
typename Api::Error CheckAlive(const Api& api, typename Api::Context context,
                               uint64_t id) {
  uint64_t now = 0;
  const typename Api::Error error = api.ContextId(context, &now);
  // The driver does not answer inside a host function.
  if (error == Api::kNotPermitted) return Api::kSuccess;
  if (error != Api::kSuccess) return error;
  return __builtin_expect(now == id, 1) ? error : Api::kContextIsDestroyed;
}

// CheckAlive for the context in which a stream or an event was made.
template <class Api, typename Object>
typename Api::Error CheckAlive(const Api& api, const Object& object) {
  return CheckAlive(api, object.context, object.context_id);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_CONTEXT_SCOPE_H_
