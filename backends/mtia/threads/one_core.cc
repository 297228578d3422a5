// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/threads/one_core.h"

#include <algorithm>
#include <cstdint>

namespace devrt::mtia {

void OneCore::DropInherited(const HostThread* thread) {
  cpu_set_t cores;
  if (CPU_COUNT(&chosen_) == 0 ||
      sched_getaffinity(thread->tid, sizeof cores, &cores) != 0) {
    return;
  }
  cpu_set_t both;
  CPU_AND(&both, &cores, &chosen_);
  if (CPU_COUNT(&cores) == 1 && CPU_COUNT(&both) == 1) {
    sched_setaffinity(thread->tid, sizeof cores_, &cores_);
  }
}

void OneCore::Keep(const std::vector<HostThread*>& threads) {
  const bool is_first = before_.empty();
  std::vector<HostThread*> added;
  for (HostThread* const thread : threads) {
    cpu_set_t cores;
    if (before_.count(thread) == 0 &&
        sched_getaffinity(thread->tid, sizeof cores, &cores) == 0) {
      before_.emplace(thread, cores);
      added.push_back(thread);
    }
  }
  if (added.empty()) return;
  if (is_first) {
    cores_ = before_.at(added.front());
    CPU_ZERO(&core_);
    CPU_SET(static_cast<uint32_t>(std::max(sched_getcpu(), 0)), &core_);
    CPU_OR(&chosen_, &chosen_, &core_);
  }
  for (const HostThread* const thread : added) {
    sched_setaffinity(thread->tid, sizeof core_, &core_);
  }
}

void OneCore::Release(HostThread* thread) {
  const auto kept = before_.find(thread);
  if (kept == before_.end()) return;
  sched_setaffinity(thread->tid, sizeof kept->second, &kept->second);
  before_.erase(kept);
}

}  // namespace devrt::mtia
