// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/pinned_guard.h"

#include <sys/mman.h>

namespace devrt::mtia {
namespace {

constexpr int kOpen = PROT_READ | PROT_WRITE;

int ProtectionFor(uint32_t access) {
  return ((access & DEVRT_ACCESS_READ) != 0 ? PROT_READ : 0) |
         ((access & DEVRT_ACCESS_WRITE) != 0 ? PROT_WRITE : 0);
}

uint32_t ModeOf(Access access) {
  if (access == Access::kUnknown) return 0;
  return access == Access::kRead ? DEVRT_ACCESS_READ : DEVRT_ACCESS_WRITE;
}

}  // namespace

std::atomic<PinnedGuard::IsExempt> PinnedGuard::exempt_{nullptr};

PinnedGuard::PinnedGuard(AddressWindow* window) : window_(window) {
  AddSegvListener(this);
}

PinnedGuard::~PinnedGuard() { RemoveSegvListener(this); }

bool PinnedGuard::Protect(const void* ptr, uint64_t size, uint32_t access) {
  const auto offset = static_cast<uint64_t>(static_cast<const std::byte*>(ptr) -
                                            window_->base());
  if (offset >= window_->size() || size > window_->size() - offset ||
      offset % PageSize() != 0 || size % PageSize() != 0) {
    return false;
  }
  return mprotect(window_->base() + offset, size, ProtectionFor(access)) == 0;
}

uint32_t PinnedGuard::Take(devrt_host_touch_v0* touches, uint32_t capacity) {
  // Most calls find nothing, and need not look at each note.
  if (!has_notes_.load(std::memory_order_relaxed)) return 0;
  has_notes_.store(false);
  uint32_t taken = 0;
  for (Note& note : notes_) {
    if (taken == capacity) {
      has_notes_.store(true);
      break;
    }
    State full = State::kFull;
    if (note.state.load(std::memory_order_relaxed) != full ||
        !note.state.compare_exchange_strong(full, State::kClaimed)) {
      continue;
    }
    touches[taken++] = note.touch;
    note.state.store(State::kEmpty, std::memory_order_release);
  }
  return taken;
}

bool PinnedGuard::OnSegv(const AccessFault& fault) noexcept {
  if (fault.address < window_->base() ||
      fault.address >= window_->base() + window_->size()) {
    return false;
  }
  for (Note& note : notes_) {
    if (exempt_.load()()) break;
    State empty = State::kEmpty;
    if (!note.state.compare_exchange_strong(empty, State::kClaimed)) continue;
    note.touch = {fault.address, fault.instruction, ModeOf(fault.access), 0};
    note.state.store(State::kFull, std::memory_order_release);
    has_notes_.store(true);
    break;
  }
  const auto offset = static_cast<uint64_t>(fault.address - window_->base());
  return mprotect(window_->base() + offset / PageSize() * PageSize(),
                  PageSize(), kOpen) == 0;
}

void PinnedGuard::Reset() {
  mprotect(window_->base(), window_->size(), kOpen);
  for (Note& note : notes_) note.state.store(State::kEmpty);
}

}  // namespace devrt::mtia
