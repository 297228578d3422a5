// SPDX-License-Identifier: Apache-2.0
//
// DeferredRecovery: a request that finds no room at once leaves the waits of
// its recovery (docs/semantics.md 2.6, from the step "cached segments go back"
// on) to its caller, who can be interrupted there.
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
// Three rounds are left to the caller at most: cached segments, pending frees,
// the work of cached segments.  The fourth waits itself, as the memory that
// room was made with may be somebody else's by then.
//
// What it is not: for calls that are not made again.  They fail with CANCELLED.
// Threads: a scope is its thread's; what TakeWork gives may run anywhere, even
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

  // Requests of this thread are left to `deferred`; scopes nest.
  class DEVRT_EXPORT Scope {
   public:
    explicit Scope(DeferredRecovery* deferred);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    DeferredRecovery* const outer_;
  };
  // Of this thread; null outside scopes.
  static DeferredRecovery* Current();

  // What the request would wait for; empty if it did not have to.
  Work TakeWork() { return std::exchange(work_, nullptr); }
  // Of the request.
  std::optional<Device> device() const { return device_; }

  // For the allocator: how many rounds were left to the caller.
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
