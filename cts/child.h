// SPDX-License-Identifier: Apache-2.0
//
// A worker process as its supervisor sees it: the process, its pipe, its
// output.
//
// The worker has a process group of its own, which is killed together with it.
// So neither the worker nor a process that a test started outlives the
// supervisor, even if the supervisor is killed.

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
  // Returns true if the whole run is to end.
  using Interrupted = std::function<bool()>;

  // Forks a worker for `tests`.  RESOURCE_EXHAUSTED if fork fails.
  static absl::StatusOr<Child> Start(const Options& options,
                                     const std::vector<size_t>& tests,
                                     CallRing* ring, Interrupted interrupted);
  Child(Child&& other) noexcept;
  ~Child();  // kills the worker

  struct Event {
    enum class Kind { kMessage, kClosed, kTimeout, kInterrupted } kind;
    Message message;
  };
  // The next message; kClosed if the worker has ended or closed its pipe.
  Event Next(double seconds);

  // Waits for the worker's end.  Kills it and returns false after `seconds`, or
  // if the run is interrupted.
  bool Wait(double seconds);
  void Kill();
  // Call these after Wait or Kill.
  bool Died() const;  // by a signal, or with a code that is not 0
  bool BySignal() const;
  std::string HowItEnded() const;  // "signal 11 (Segmentation fault)"

  // The worker's output since its last test began, or since it reported that it
  // leaves.  A long output is cut in the middle.
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
