// SPDX-License-Identifier: Apache-2.0
//
// A worker as its supervisor sees it: a process, its pipe, what it writes.
//
// The process has a group of its own, which is killed with it: neither it nor
// what a test has started outlives the supervisor, however that ends.

#ifndef DEVRT_CTS_CHILD_H_
#define DEVRT_CTS_CHILD_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cts/recorder.h"
#include "cts/wire.h"
#include "devrt/cts/cts.h"

namespace devrt::cts {

class Child {
 public:
  // Whether somebody wants the whole run to end.
  using Interrupted = std::function<bool()>;

  // Forks a worker for `tests`.  RESOURCE_EXHAUSTED if that cannot be.
  static absl::StatusOr<Child> Start(const Options& options,
                                     const std::vector<size_t>& tests,
                                     CallRing* ring, Interrupted interrupted);
  Child(Child&& other) noexcept;
  ~Child();  // kills it

  struct Event {
    enum class Kind { kMessage, kClosed, kTimeout, kInterrupted } kind;
    Message message;
  };
  // The next message; kClosed when the process has ended or given up its pipe.
  Event Next(double seconds);

  // Waits for the end; false, and it was killed, when it took too long or was
  // interrupted.
  bool Wait(double seconds);
  void Kill();
  // After Wait or Kill.
  bool Died() const;  // by a signal, or with a code that is not 0
  bool BySignal() const;
  std::string HowItEnded() const;  // "signal 11 (Segmentation fault)"

  // What it wrote since its last test began, or since it said that it leaves;
  // of much the beginning and the end.
  std::string ReadLog() const;

 private:
  Child() = default;
  bool HasEnded() const;
  void Reap();

  pid_t pid_ = -1;
  int pipe_ = -1;
  int log_ = -1;
  int status_ = 0;
  Interrupted interrupted_;
  MessageReader reader_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_CHILD_H_
