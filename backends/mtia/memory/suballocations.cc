// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/suballocations.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "backends/mtia/common/error.h"
#include "backends/mtia/common/text.h"

namespace devrt::mtia {
namespace {

constexpr uint64_t kHeld = UINT64_MAX;

}  // namespace

void Suballocations::Reset() {
  if (empty_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(mutex_);
  segments_.clear();
  parts_.clear();
  empty_ = true;
}

// The segment that `offset` is in, or nullptr.
const Suballocations::Segment* Suballocations::SegmentOf(
    uint64_t offset, uint64_t* begin) const {
  const auto above = segments_.upper_bound(offset);
  if (above == segments_.begin()) return nullptr;
  const auto& [at, segment] = *std::prev(above);
  if (offset - at >= segment.size) return nullptr;
  *begin = at;
  return &segment;
}

std::string Suballocations::Describe(const Part& part) {
  std::string text = "a part of " + Bytes(part.size) + ", handed out at " +
                     part.handed_at.Text();
  if (part.taken != kHeld) text += ", taken back at " + part.taken_at.Text();
  return text;
}

devrt_status Suballocations::Carve(uint64_t offset, uint64_t size) {
  const std::unique_lock lock(mutex_);
  uint64_t begin = 0;
  auto next = segments_.lower_bound(offset);
  if (SegmentOf(offset, &begin) != nullptr ||
      (next != segments_.end() && next->first < offset + size)) {
    return MakeError(DEVRT_ALREADY_EXISTS, 0,
                     "some of the " + Bytes(size) +
                         " is in a carved segment already: uncarve it first");
  }
  Segment segment{size, 0};
  if (next != segments_.end() && next->first == offset + size) {
    segment.size += next->second.size;
    segment.forgotten = next->second.forgotten;
    next = segments_.erase(next);
  }
  if (next != segments_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.size == offset) {
      offset = before->first;
      segment.size += before->second.size;
      segment.forgotten = std::max(segment.forgotten, before->second.forgotten);
    }
  }
  segments_.insert_or_assign(offset, segment);
  empty_ = false;
  return nullptr;
}

// Forgets the blocks in [offset, offset + size).  Returns the text of one that
// is handed out, or "".
std::string Suballocations::Forget(uint64_t offset, uint64_t size) {
  std::string held;
  auto old = parts_.upper_bound(offset);
  if (old != parts_.begin() &&
      offset - std::prev(old)->first < std::prev(old)->second.size) {
    --old;
  }
  while (old != parts_.end() && old->first < offset + size) {
    if (old->second.taken == kHeld) held = Describe(old->second);
    old = parts_.erase(old);
  }
  return held;
}

devrt_status Suballocations::Uncarve(uint64_t offset, uint64_t size,
                                     uint64_t now) {
  const std::unique_lock lock(mutex_);
  uint64_t begin = 0;
  const Segment* const found = SegmentOf(offset, &begin);
  if (found == nullptr || size > found->size - (offset - begin)) {
    return MakeError(DEVRT_NOT_FOUND, 0,
                     "some of the " + Bytes(size) + " is in no carved segment");
  }
  const uint64_t end = begin + found->size;
  segments_.erase(begin);
  if (begin != offset) segments_[begin] = {offset - begin, now};
  if (end != offset + size) {
    segments_[offset + size] = {end - offset - size, now};
  }
  const std::string held = Forget(offset, size);
  empty_ = segments_.empty();
  if (held.empty()) return nullptr;
  return MakeError(
      DEVRT_FAILED_PRECONDITION, 0,
      "the uncarved segment has a block that is still handed out: " + held);
}

devrt_status Suballocations::HandOut(uint64_t offset, uint64_t size,
                                     uint64_t now,
                                     const devrt_call_site_v0& site) {
  const std::unique_lock lock(mutex_);
  uint64_t begin = 0;
  const Segment* const segment = SegmentOf(offset, &begin);
  if (segment == nullptr || size > segment->size - (offset - begin)) {
    return MakeError(DEVRT_NOT_FOUND, 0,
                     "the part of " + Bytes(size) + " is in no carved segment");
  }
  const std::string held = Forget(offset, size);
  segments_[begin].forgotten = now;
  Part part;
  part.size = size;
  part.handed = now;
  part.taken = kHeld;
  part.handed_at = CallSite(site);
  parts_.insert_or_assign(offset, std::move(part));
  if (held.empty()) return nullptr;
  return MakeError(DEVRT_FAILED_PRECONDITION, 0,
                   "the block handed out at " + CallSite(site).Text() +
                       " is handed out already: " + held);
}

devrt_status Suballocations::TakeBack(uint64_t offset, uint64_t now,
                                      const devrt_call_site_v0& site) {
  const std::unique_lock lock(mutex_);
  const auto found = parts_.find(offset);
  if (found == parts_.end() || found->second.taken != kHeld) {
    return MakeError(
        DEVRT_NOT_FOUND, 0,
        "the block taken back at " + CallSite(site).Text() +
            " is not handed out" +
            (found == parts_.end() ? std::string()
                                   : ": " + Describe(found->second)));
  }
  found->second.taken = now;
  found->second.taken_at = CallSite(site);
  return nullptr;
}

bool Suballocations::Check(uint64_t offset, uint64_t size, uint64_t op,
                           std::string* why) const {
  if (is_empty()) return true;
  const std::shared_lock lock(mutex_);
  uint64_t begin = 0;
  const Segment* const segment = SegmentOf(offset, &begin);
  if (segment == nullptr) return true;
  const auto above = parts_.upper_bound(offset);
  const auto found = above == parts_.begin() ? parts_.end() : std::prev(above);
  const bool near = found != parts_.end() && found->first >= begin;
  if (!near || offset - found->first >= found->second.size) {
    if (op <= segment->forgotten) return true;
    *why = "free memory of an allocator";
    if (near) {
      *why += ": " + Bytes(offset - found->first - found->second.size) +
              " behind " + Describe(found->second);
    }
    return false;
  }
  const Part& part = found->second;
  if (op <= part.handed) return true;
  if (op > part.taken) {
    *why = "use after free of " + Describe(part);
    return false;
  }
  const uint64_t left = part.size - (offset - found->first);
  if (size <= left) return true;
  *why = "the last " + Bytes(size - left) + " lie behind " + Describe(part);
  return false;
}

}  // namespace devrt::mtia
