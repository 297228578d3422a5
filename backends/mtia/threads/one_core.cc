// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/threads/one_core.h"

#include <algorithm>
#include <cstdint>

namespace devrt::mtia {

void OneCore::Add(const std::vector<HostThread*>& threads, HostThread* me) {
  const auto set = [](int32_t tid, const cpu_set_t& cpus) {
    sched_setaffinity(tid, sizeof cpus, &cpus);
  };
  cpu_set_t one;
  CPU_ZERO(&one);
  if (!is_used_) {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    is_used_ = true;
    CPU_SET(static_cast<uint32_t>(std::max(sched_getcpu(), 0)), &one);
    for (const HostThread* const thread : threads) set(thread->tid, one);
    return;
  }
  const HostThread* const first = threads.front();
  if (sched_getaffinity(first->tid, sizeof one, &one) == 0) {
    set(me->tid, one);
  }
}

void OneCore::Remove(HostThread* me) {
  if (is_used_) sched_setaffinity(me->tid, sizeof before_, &before_);
}

void OneCore::RemoveAll(const std::vector<HostThread*>& threads) {
  if (!is_used_) return;
  for (HostThread* const thread : threads) Remove(thread);
  is_used_ = false;
}

}  // namespace devrt::mtia
