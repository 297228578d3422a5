// SPDX-License-Identifier: Apache-2.0
#include "layers/trace/clock.h"

#include <time.h>

#include <algorithm>
#include <string>

namespace devrt::trace {
namespace {

// A thread's last time; trivial, so that it works in every destructor.
struct Seen {
  const Clock* clock;
  uint64_t now;
  uint32_t resets;
};
__thread Seen t_seen;

}  // namespace

uint64_t NowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u +
         static_cast<uint64_t>(t.tv_nsec);
}

Clock::Clock(const devrt_next_v0* next, const devrt_host_v0* host)
    : host_(host) {
  const auto* const sim = static_cast<const devrt_sim_v1*>(
      next->extension(next, DEVRT_SIM_EXTENSION, &self_));
  if (sim == nullptr) return;
  sim_ = sim;
  std::string config(4096, '\0');
  uint64_t size = 0;
  if (devrt_status error =
          sim->config(self_, config.data(), config.size(), &size)) {
    host_->error_destroy(host_->host, error);
    return;
  }
  config.resize(std::min<uint64_t>(size, config.size()));
  is_virtual_ = config.find("mode=threaded") == std::string::npos;
  Align();
}

bool Clock::Ask(uint64_t* now) const {
  devrt_status error = sim_->now_ns(self_, now);
  if (error == nullptr) return true;
  host_->error_destroy(host_->host, error);
  return false;
}

void Clock::Align() {
  if (is_virtual_ || sim_ == nullptr) return;
  // The simulator is read after the host's clock, so each difference is a lower
  // bound of the offset, and the largest of several comes close.  A reset of
  // the simulator makes the offset much larger.
  constexpr uint64_t kClose = 1000;
  constexpr int kLooks = 16;
  for (int left = 1; left > 0; --left) {
    uint64_t now = 0;
    const uint64_t before = NowNs();
    if (!Ask(&now)) return;
    const uint64_t least = before - now;
    uint64_t base = base_.load(std::memory_order_relaxed);
    if (least > base + kClose) left = kLooks;
    while (base < least && !base_.compare_exchange_weak(base, least)) {
    }
  }
}

uint64_t Clock::VirtualNow() {
  uint64_t now = 0;
  if (!Ask(&now)) return latest_.load(std::memory_order_relaxed);
  uint32_t resets = resets_.load(std::memory_order_acquire);
  if (t_seen.clock != this || t_seen.resets != resets) {
    t_seen = {this, 0, resets};
  }
  // A thread's time goes back only at a reset.  In a kernel's body it may lag a
  // little.
  if (now < t_seen.now / 2) {
    const std::lock_guard<std::mutex> lock(reset_mutex_);
    if (resets_.load(std::memory_order_relaxed) == resets) {
      base_.store(latest_.load(std::memory_order_relaxed),
                  std::memory_order_relaxed);
      resets_.store(++resets, std::memory_order_release);
    }
    t_seen.resets = resets_.load(std::memory_order_relaxed);
  }
  t_seen.now = now;
  const uint64_t told = OfSimulator(now);
  uint64_t latest = latest_.load(std::memory_order_relaxed);
  while (latest < told && !latest_.compare_exchange_weak(latest, told)) {
  }
  return told;
}

}  // namespace devrt::trace
