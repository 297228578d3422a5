// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/host_ranges.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <mutex>
#include <vector>

#include "backends/mtia/common/error.h"
#include "backends/mtia/common/text.h"
#include "backends/mtia/memory/address_window.h"
#include "backends/mtia/memory/block.h"

namespace devrt::mtia {
namespace {

constexpr int64_t kAlreadyRegistered = 712;  // CUDA's numbers
constexpr int64_t kNotRegistered = 713;

std::string Text(const HostRange& range) {
  return "the range of " + Bytes(range.size) + " at " + Hex(range.begin) +
         " registered at " + range.site.Text();
}

// Finds pages that are not mapped: an operation on them would end the process.
// A driver finds them when it locks the pages.
bool IsMapped(uintptr_t begin, uint64_t size) {
  constexpr uint64_t kPagesAtOnce = 4096;
  const uint64_t page = PageSize();
  const uint64_t step = kPagesAtOnce * page;
  std::vector<unsigned char> residency(kPagesAtOnce);
  const uintptr_t end = begin + size;
  for (uintptr_t at = begin & ~(page - 1); at < end; at += step) {
    const uint64_t left = std::min<uint64_t>(step, end - at);
    if (mincore(reinterpret_cast<void*>(at), left, residency.data()) != 0 &&
        errno == ENOMEM) {
      return false;
    }
    if (left < step) break;
  }
  return true;
}

}  // namespace

devrt_status HostRanges::Add(uint32_t device, uintptr_t begin, uint64_t size,
                             const devrt_call_site_v0& site) {
  if (!IsMapped(begin, size)) {
    return InvalidArgument("cannot register " + Bytes(size) + " at " +
                           Hex(begin) + ": not all of it is mapped memory");
  }
  const std::unique_lock lock(mutex_);
  const auto next = ranges_.lower_bound(begin);
  auto overlapped = ranges_.end();
  if (next != ranges_.end() && next->first - begin < size) {
    overlapped = next;
  } else if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (begin - before->first < before->second.size) overlapped = before;
  }
  if (overlapped != ranges_.end()) {
    return MakeError(DEVRT_ALREADY_EXISTS, kAlreadyRegistered,
                     "cannot register " + Bytes(size) + " at " + Hex(begin) +
                         ": they overlap " + Text(overlapped->second));
  }
  HostRange range;
  range.begin = begin;
  range.size = size;
  range.id = NextAllocationId();
  range.device = device;
  range.site = CallSite(site);
  ranges_.emplace_hint(next, begin, std::move(range));
  count_.store(ranges_.size(), std::memory_order_release);
  return nullptr;
}

devrt_status HostRanges::Remove(uintptr_t begin) {
  const std::unique_lock lock(mutex_);
  const auto found = Holding(begin);
  if (found == ranges_.end()) {
    return MakeError(DEVRT_NOT_FOUND, kNotRegistered,
                     Hex(begin) + " is not registered");
  }
  if (found->first != begin) {
    return InvalidArgument("cannot unregister " + Hex(begin) + ": it points " +
                           Bytes(begin - found->first) + " into " +
                           Text(found->second));
  }
  ranges_.erase(found);
  count_.store(ranges_.size(), std::memory_order_release);
  return nullptr;
}

bool HostRanges::Find(uintptr_t address, HostRange* range) const {
  if (size() == 0) return false;
  const std::shared_lock lock(mutex_);
  const auto found = Holding(address);
  if (found == ranges_.end()) return false;
  range->begin = found->second.begin;
  range->size = found->second.size;
  range->id = found->second.id;
  range->device = found->second.device;
  return true;
}

void HostRanges::Clear() {
  if (size() == 0) return;
  const std::unique_lock lock(mutex_);
  ranges_.clear();
  count_.store(0, std::memory_order_release);
}

HostRanges::Ranges::const_iterator HostRanges::Holding(
    uintptr_t address) const {
  const auto above = ranges_.upper_bound(address);
  if (above == ranges_.begin()) return ranges_.end();
  const auto found = std::prev(above);
  return address - found->first < found->second.size ? found : ranges_.end();
}

}  // namespace devrt::mtia
