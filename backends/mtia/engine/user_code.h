// SPDX-License-Identifier: Apache-2.0
//
// Marks code of the program that the machine runs: kernel bodies and host
// functions.  Most calls are refused from there.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_USER_CODE_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_USER_CODE_H_

namespace devrt::mtia {

// What the calling thread runs for the machine, for messages: "a host
// function", "a kernel body".  nullptr while it runs code of its own.
inline thread_local const char* t_user_code
    __attribute__((tls_model("initial-exec"))) = nullptr;

class UserCodeScope {
 public:
  explicit UserCodeScope(const char* what) : previous_(t_user_code) {
    t_user_code = what;
  }
  ~UserCodeScope() { t_user_code = previous_; }
  UserCodeScope(const UserCodeScope&) = delete;
  UserCodeScope& operator=(const UserCodeScope&) = delete;

 private:
  const char* const previous_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_USER_CODE_H_
