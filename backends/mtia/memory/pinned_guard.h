// SPDX-License-Identifier: Apache-2.0
//
// Closes pages of pinned memory to the host for a race detector, and notes the
// touches of closed pages (devrt_pinned_guard.h).

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_PINNED_GUARD_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_PINNED_GUARD_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/mtia/memory/address_window.h"
#include "backends/mtia/memory/segv_handler.h"
#include "devrt/backends/abi/devrt_pinned_guard.h"

namespace devrt::mtia {

// The guard of one window.  Thread-safe.
class PinnedGuard final : public SegvListener {
 public:
  // Returns true on threads whose touches do not count.  Async-signal-safe.
  using IsExempt = bool (*)();

  // Lets windows of pinned memory that are mapped from now on have a guard.
  static void Enable(IsExempt is_exempt) { exempt_.store(is_exempt); }
  static bool enabled() { return exempt_.load() != nullptr; }

  // `window` outlives the guard, and was mapped as kGuarded.
  explicit PinnedGuard(AddressWindow* window);
  ~PinnedGuard();
  PinnedGuard(const PinnedGuard&) = delete;
  PinnedGuard& operator=(const PinnedGuard&) = delete;

  // The functions of the extension.  Protect returns false for a range that is
  // not whole pages of the window, or if the system refuses.
  bool Protect(const void* ptr, uint64_t size, uint32_t access);
  uint32_t Take(devrt_host_touch_v0* touches, uint32_t capacity);
  // Opens all pages and forgets the touches.
  void Reset();

  bool OnSegv(const AccessFault& fault) noexcept override;

 private:
  enum class State : uint8_t { kEmpty, kClaimed, kFull };
  struct Note {
    std::atomic<State> state{State::kEmpty};
    devrt_host_touch_v0 touch{};
  };
  static constexpr size_t kNotes = 64;

  static std::atomic<IsExempt> exempt_;

  AddressWindow* const window_;
  std::array<Note, kNotes> notes_;
  std::atomic<bool> has_notes_{false};  // false: no note is full
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_PINNED_GUARD_H_
