// SPDX-License-Identifier: Apache-2.0
//
// The objects of a running program, and functions that run its steps.

#ifndef DEVRT_CTS_RANDOM_RUN_STATE_H_
#define DEVRT_CTS_RANDOM_RUN_STATE_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cts/random/program.h"
#include "cts/random/runner.h"
#include "devrt/devrt.h"

namespace devrt::cts {

// Shared by the runner and by host functions: a wrong plugin may call a host
// function after the end of the program.
class RunState : public std::enable_shared_from_this<RunState> {
 public:
  RunState(const Program& program, const Venue& venue);
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  // Called on the thread of the step.  Does nothing after a mismatch.
  void Do(size_t step);
  // Any thread may call this at any time.
  void OpenGates();
  void Fail(size_t step, std::string what);
  // Called on the main thread, after the other threads have ended.
  void GiveUp();
  std::optional<Mismatch> mismatch() const { return mismatch_; }

 private:
  absl::Status Make(const Step& s);
  absl::Status Drop(const Step& s);
  absl::Status Work(size_t index);
  absl::Status HostFunction(size_t index, StreamRef stream);
  void Called(size_t index, const absl::Status& given);
  absl::Status Order(const Step& s);
  absl::Status Host(size_t index);
  absl::Status Query(size_t index);
  absl::Status Poll(const Step& s);
  absl::Status Elapsed(const Step& s);
  absl::Status Compare(const Step& s) const;
  void Put(const Step& s) const;
  absl::StatusOr<bool> IsComplete(const Step& s) const;

  Device DeviceOf(int device) const {
    return venue_.devices[static_cast<size_t>(device)];
  }
  absl::StatusOr<StreamRef> StreamOf(int stream) const;
  const Event& EventOf(int event) const {
    return *events_[static_cast<size_t>(event)];
  }
  uint8_t* At(const Span& span) const;
  uint64_t Bytes(const Span& span) const {
    return static_cast<uint64_t>(span.count) * program_.slice_bytes;
  }
  absl::Status Allocate(int block);
  absl::Status Release(int block);

  const Program program_;
  const Venue venue_;
  std::vector<std::optional<Stream>> streams_;
  std::vector<std::optional<Event>> events_;
  std::vector<std::optional<Flag>> gates_;
  std::vector<void*> blocks_;
  std::vector<std::vector<uint8_t>> plain_;  // blocks of pageable memory
  // For each step, how often a host function was submitted and called.
  std::vector<std::atomic<int>> calls_;
  std::vector<char> submitted_;  // not bool, because several threads write
  std::atomic<bool> failed_{false};
  std::atomic<bool> over_{false};  // true when the memory is freed
  std::mutex mutex_;
  std::optional<Mismatch> mismatch_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_RUN_STATE_H_
