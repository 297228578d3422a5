// SPDX-License-Identifier: Apache-2.0

#include "memory/device/pending_frees.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "devrt/runtime/status.h"
#include "memory/device/block_pool.h"
#include "runtime/registry/records.h"
#include "streams/objects/ordering.h"

namespace devrt::internal {

namespace {

// The standard library's heaps have the greatest element first.
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.epoch > b.epoch;
};

// The pause between two queries: 2 us at first, doubled up to 1 ms.
void Pause(int turn) {
  constexpr long kShortest = 2'000;
  constexpr int kDoublings = 9;
  timespec time{0, kShortest << std::min(turn, kDoublings)};
  nanosleep(&time, nullptr);
}

// Records an event behind the point, unless there is one or none is needed.
absl::Status EnsureCheck(const OrderPoint& point) {
  OrderedPoint covered;
  DEVRT_ASSIGN_OR_RETURN(CheckpointEvent* const check,
                         point.timeline->PinCheckpoint(point.epoch, &covered));
  if (check != nullptr) point.timeline->Unpin(check);
  return absl::OkStatus();
}

}  // namespace

absl::Status WaitFor(const OrderPoint& point) {
  Timeline* const timeline = point.timeline;
  DeviceRecord* const device = timeline->device();
  for (int turn = 0; !timeline->IsComplete(point.epoch); ++turn) {
    if (!IsOpen(device)) return ClosedError(device);
    if (turn > 0) Pause(turn);
    absl::Status error;
    timeline->PollFor(point.epoch, &error);
    if (timeline->IsComplete(point.epoch)) break;
    if (!error.ok()) return error;
    // Once: if the end of the device's work does not complete the point,
    // nothing will.
    if (timeline->IsOutOfReach()) return WaitForDevice(device);
    // A stream that always gets new work is never idle: only an event tells
    // that the work of the point is over.
    DEVRT_RETURN_IF_ERROR(EnsureCheck(point));
  }
  return absl::OkStatus();
}

bool PendingFrees::IsOver(PendingFree* item) {
  const auto over = [item](const StreamUse& use) {
    return use.timeline == nullptr || use.timeline->IsComplete(use.epoch) ||
           (item->home != nullptr && item->home->IsPast(use));
  };
  item->uses.erase(std::remove_if(item->uses.begin(), item->uses.end(), over),
                   item->uses.end());
  return item->uses.empty();
}

void PendingFrees::Add(PendingFree item) {
  const StreamUse use = item.uses.back();
  item.uses.pop_back();
  std::unique_ptr<StreamUses> others;
  if (!item.uses.empty()) {
    others = std::make_unique<StreamUses>(std::move(item.uses));
  }
  MutexLock lock(&mutex_);
  Queue& queue = queues_[use.timeline];
  std::vector<Entry>& heap = queue.heap;
  if (heap.empty()) order_.push_back(use.timeline);
  queue.newest = std::max(queue.newest, use.epoch);
  heap.push_back(
      {use.epoch, use.stream, item.block, item.home, std::move(others)});
  std::push_heap(heap.begin(), heap.end(), kLater);
  AddToCount(1);
}

absl::InlinedVector<PendingFrees::Turn, 4> PendingFrees::NextTurns(
    size_t most) {
  absl::InlinedVector<Turn, 4> next;
  MutexLock lock(&mutex_);
  most = std::min(most, order_.size());
  for (size_t i = 0; i < most; ++i) {
    Timeline* const timeline = order_[(next_ + i) % order_.size()];
    const Queue& queue = queues_[timeline];
    next.push_back({timeline, queue.heap.front().epoch, queue.newest});
  }
  if (!order_.empty()) next_ = (next_ + most) % order_.size();
  return next;
}

PendingFrees::Taken PendingFrees::TakeComplete(Timeline* timeline) {
  Taken taken;
  MutexLock lock(&mutex_);
  const auto found = queues_.find(timeline);
  if (found == queues_.end() || found->second.heap.empty()) return taken;
  std::vector<Entry>& heap = found->second.heap;
  while (!heap.empty() && timeline->IsComplete(heap.front().epoch)) {
    std::pop_heap(heap.begin(), heap.end(), kLater);
    taken.push_back(std::move(heap.back()));
    heap.pop_back();
  }
  taken_ += taken.size();
  t_taken_ += taken.size();
  if (heap.empty()) {
    order_.erase(std::find(order_.begin(), order_.end(), timeline));
    if (next_ >= order_.size()) next_ = 0;
  }
  return taken;
}

bool PendingFrees::Query(const Turn& turn, bool once) {
  Timeline* const timeline = turn.timeline;
  const uint64_t before = timeline->completed();
  if (once) {
    (void)timeline->CheckpointUnlessDestroyed(turn.newest);
    timeline->PollOnceFor(turn.oldest);
  }
  // A block of a later use may fit a request better than what is free.
  if ((!once || timeline->IsComplete(turn.oldest)) &&
      !timeline->IsComplete(turn.newest)) {
    timeline->PollFor(turn.newest);
  }
  if (!once) (void)timeline->CheckpointUnlessDestroyed(turn.newest);
  return timeline->completed() > before;
}

bool PendingFrees::Poll(size_t most, bool once, bool* answered) {
  bool settled = false;
  if (empty()) return settled;
  for (const Turn& next : NextTurns(most)) {
    Timeline* const timeline = next.timeline;
    const bool more = Query(next, once);
    Taken taken = TakeComplete(timeline);
    if (taken.empty()) continue;
    if (answered != nullptr) *answered |= more;
    for (Entry& entry : taken) {
      PendingFree item = {entry.block, entry.home, {}};
      if (entry.others != nullptr) item.uses = std::move(*entry.others);
      if (IsOver(&item)) {
        settle_(item.block);
        settled = true;
      } else {
        Add(std::move(item));
      }
    }
    MutexLock lock(&mutex_);
    taken_ -= taken.size();
    t_taken_ -= taken.size();
    AddToCount(-static_cast<ptrdiff_t>(taken.size()));
  }
  return settled;
}

std::vector<OrderPoint> PendingFrees::Points() {
  for (int turn = 0;; ++turn) {
    {
      MutexLock lock(&mutex_);
      if (taken_ <= t_taken_) {
        std::vector<OrderPoint> points;
        for (const auto& [timeline, queue] : queues_) {
          for (const Entry& entry : queue.heap) {
            points.push_back({timeline, entry.epoch});
            if (entry.others == nullptr) continue;
            points.insert(points.end(), entry.others->begin(),
                          entry.others->end());
          }
        }
        return points;
      }
    }
    Pause(turn);
  }
}

absl::Status PendingFrees::WaitForAll() {
  absl::Status gave_up;
  const std::vector<OrderPoint> points = Points();
  for (const OrderPoint& point : points) gave_up.Update(WaitFor(point));
  // A block moves from the queue of one use to that of the next, so there are
  // at most as many rounds as uses.  Blocks that other threads free meanwhile
  // are not waited for.
  for (size_t i = 0; i <= points.size() && Poll(SIZE_MAX); ++i) {
  }
  (void)Points();  // until other threads have settled what their Poll took out
  return gave_up;
}

PendingFrees::Waits PendingFrees::List() {
  Waits waits;
  MutexLock lock(&mutex_);
  for (const auto& [timeline, queue] : queues_) {
    for (const Entry& entry : queue.heap) {
      std::vector<uint64_t>& streams = waits[entry.block];
      streams.push_back(entry.stream);
      if (entry.others != nullptr) {
        for (const StreamUse& use : *entry.others) {
          streams.push_back(use.stream);
        }
      }
      std::sort(streams.begin(), streams.end());
    }
  }
  return waits;
}

std::vector<void*> PendingFrees::TakeAll() {
  std::vector<void*> blocks;
  MutexLock lock(&mutex_);
  for (auto& [timeline, queue] : queues_) {
    for (Entry& entry : queue.heap) blocks.push_back(entry.block);
  }
  queues_.clear();
  order_.clear();
  next_ = 0;
  AddToCount(-static_cast<ptrdiff_t>(blocks.size()));
  return blocks;
}

}  // namespace devrt::internal
