// SPDX-License-Identifier: Apache-2.0
//
// DeferredRecovery: lets the caller of a request do the waits of its recovery
// (docs/reference/semantics.md 2.6, from the step "cached segments go back" on)
// at a place where the caller can be interrupted.
//
//   DeferredRecovery deferred;
//   for (;;) {
//     absl::StatusOr<Array> made = [&] {
//       const DeferredRecovery::Scope scope(&deferred);
//       return Array::Empty(shape, dtype, place, site);
//     }();
//     const auto work = deferred.TakeWork();
//     if (!work || !absl::IsCancelled(made.status())) return made;
//     ... work() ...      // on any thread; then once more
//   }
//
// The caller does at most three rounds: cached segments, pending frees, the
// work of cached segments.  The fourth request waits itself, because other
// requests may have taken the room that the rounds have made.
//
// What it is not: for calls that are not repeated.  They fail with CANCELLED.
// Threads: a scope belongs to its thread.  The work may run on any thread, also
// after the request was given up.

#ifndef DEVRT_MEMORY_DEVICE_DEFERRED_RECOVERY_H_
#define DEVRT_MEMORY_DEVICE_DEFERRED_RECOVERY_H_

#include <functional>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt::internal {

class DEVRT_EXPORT DeferredRecovery {
 public:
  using Work = std::function<absl::Status()>;

  // Requests of this thread leave their waits to `deferred`.  Scopes nest.
  class DEVRT_EXPORT Scope {
   public:
    explicit Scope(DeferredRecovery* deferred);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    DeferredRecovery* const outer_;
  };
  // The innermost one of this thread; null outside scopes.
  static DeferredRecovery* Current();

  // The wait that the request left; empty if it left none.
  Work TakeWork() { return std::exchange(work_, nullptr); }
  // The device of the request.
  std::optional<Device> device() const { return device_; }

  // For the allocator: how many rounds it has left to the caller.
  int rounds() const { return rounds_; }
  static constexpr int kMostRounds = 3;
  void Leave(Device device, Work work) {
    ++rounds_;
    device_ = device;
    work_ = std::move(work);
  }

 private:
  Work work_;
  std::optional<Device> device_;
  int rounds_ = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_DEFERRED_RECOVERY_H_
