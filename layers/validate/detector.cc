// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/detector.h"

#include <algorithm>

#include "absl/base/optimization.h"

namespace devrt::race {
namespace {

// Rows of an access that are noted one by one.  More rows become one range.
constexpr uint64_t kMaxRows = 4096;

bool Reads(Mode mode) {
  return mode == Mode::kRead || mode == Mode::kReadWrite;
}

FindingKind KindOf(Mode earlier, Mode later) {
  if (earlier == Mode::kRead) return FindingKind::kWriteAfterRead;
  return Reads(later) ? FindingKind::kReadAfterWrite
                      : FindingKind::kWriteAfterWrite;
}

}  // namespace

Operation Detector::UseByHost(const Call& call, AccessList accesses,
                              const VectorClock& over) {
  const Operation operation =
      NewOperation(call, order_.HostAction(call.thread));
  VectorClock clock = order_.ClockOf(call.thread);
  clock.Join(over);
  if (!flags_.empty()) NoteClock(operation, clock);
  for (const MemoryAccess& access : accesses) Access(operation, clock, access);
  return operation;
}

void Detector::HostWait(Actor thread, const Mark& mark) {
  order_.HostWait(thread, mark);
  if (flags_.empty()) return;
  const VectorClock& clock = order_.ClockOf(thread);
  flags_.EndKnown(clock);
  held_.Settle(sink_);
  VectorClock complete = clock;
  flags_.Complete(&complete);
  order_.HostWait(thread, complete);
  if (held_.empty()) flags_.Forget(order_.ClockOf(thread));
  if (flags_.empty()) clocks_.clear();
}

void Detector::NoteClock(const Operation& operation, const VectorClock& clock) {
  if (clocks_.size() >= most_clocks_) {
    std::unordered_map<uint64_t, VectorClock> needed;
    memory_.ForEachOperation([&](const Operation& used) {
      const auto found = clocks_.find(used.number);
      if (found != clocks_.end()) needed.insert(*found);
    });
    clocks_ = std::move(needed);
    most_clocks_ = std::max<size_t>(1 << 12, 2 * clocks_.size());
  }
  clocks_.emplace(operation.number, clock);
}

VectorClock Detector::NotedClock(const Operation& operation) const {
  const auto found = clocks_.find(operation.number);
  return found == clocks_.end() ? VectorClock() : found->second;
}

void Detector::WaitForFlag(const Call& call, Actor stream, uint64_t flag) {
  const Operation operation =
      NewOperation(call, order_.Submit(call.thread, stream));
  VectorClock sets;
  flags_.Wait(flag, operation.epoch, &sets);
  order_.Wait(call.thread, stream, sets);
}

void Detector::SetFlag(const Call& call, Actor stream, uint64_t flag) {
  const bool by_host = stream == kNoActor;
  NewOperation(call, by_host ? order_.HostAction(call.thread)
                             : order_.Submit(call.thread, stream));
  flags_.Set(flag, order_.ClockOf(by_host ? call.thread : stream));
  held_.Settle(sink_);
}

void Detector::AddToFlag(const Call& call, Actor stream, uint64_t flag) {
  NewOperation(call, order_.Submit(call.thread, stream));
  flags_.Add(flag, order_.ClockOf(stream));
}

void Detector::EndAdds(uint64_t flag) {
  flags_.Set(flag, {});
  held_.Settle(sink_);
}

void Detector::Allocate(const Call& call, uint64_t address, uint64_t size,
                        MemoryKind kind, uint32_t device) {
  memory_.Add(address, size, kind, device,
              NewOperation(call, order_.HostAction(call.thread)));
}

uint64_t Detector::Free(const Call& call, uint64_t address) {
  Block* const block = memory_.Find(address);
  if (block == nullptr) return 0;  // the backend has the error
  const Operation operation =
      NewOperation(call, order_.HostAction(call.thread));
  Knowledge known = order_.ClockOf(call.thread);
  known.Add(own_);
  ReportUnknown(FindingKind::kFreeWhileUsed, *block, known, operation);
  // A live part at the address is a mistake of the program, or of an allocator.
  Block* const whole = memory_.FindOfBackend(address);
  if (whole == nullptr) return memory_.Release(block, operation);
  // An allocator's other parts of the block are free by now.
  memory_.EraseParts(whole->begin, whole->end - whole->begin);
  return memory_.Release(whole, operation);
}

void Detector::AllocateOn(const Call& call, Actor stream, uint64_t address,
                          uint64_t size, uint32_t device) {
  const Operation operation =
      NewOperation(call, order_.Submit(call.thread, stream));
  Block* const block =
      memory_.Add(address, size, MemoryKind::kDevice, device, operation);
  block->shadow.Access({0, size}, Mode::kWrite, operation,
                       order_.ClockOf(stream), &conflicts_);
}

uint64_t Detector::FreeOn(const Call& call, Actor stream, uint64_t address) {
  Block* const block = memory_.Find(address);
  if (block == nullptr) return 0;
  const Operation operation =
      NewOperation(call, order_.Submit(call.thread, stream));
  Knowledge known = order_.ClockOf(stream);
  known.Add(own_);
  ReportUnknown(FindingKind::kFreeWhileUsed, *block, known, operation);
  return memory_.Release(block, operation);
}

void Detector::HandOut(const Call& call, Actor stream, uint64_t address,
                       uint64_t size, MemoryKind kind, uint32_t device,
                       const VectorClock& over) {
  const Operation operation =
      NewOperation(call, order_.HostAction(call.thread));
  Mark legacy;
  Knowledge known;
  order_.AddWorkBefore(call.thread, stream, &legacy, &known);
  known.Add(own_);
  if (!over.empty()) known.Add(over);
  Block* handed = memory_.PartAt(address, size);
  if (ABSL_PREDICT_TRUE(handed != nullptr)) {
    ReportUnknown(FindingKind::kReuseWhileUsed, *handed, known, operation);
    memory_.HandOutAgain(handed, kind, device, operation);
  } else {
    std::vector<std::pair<BlockInfo, Conflict>> unknown;
    handed = memory_.HandOut(address, size, kind, device, operation, known,
                             &unknown);
    const VectorClock clock = unknown.empty() ? VectorClock() : known.Joined();
    for (const auto& [block, conflict] : unknown) {
      Report(FindingKind::kReuseWhileUsed, block, conflict, operation, clock,
             Mode::kWrite, false);
    }
  }
  handed->home = stream;
  // The new owner did not ask.  So uses that are complete must not wait for it.
  handed->shadow.Forget(own_);
  if (!over.empty()) handed->shadow.Forget(over);
}

void Detector::TakeBack(const Call& call, Actor stream, uint64_t address,
                        const Mark& waited) {
  Block* const block = memory_.Find(address);
  if (block == nullptr || !block->is_part) return;
  const Operation operation =
      NewOperation(call, order_.HostAction(call.thread));
  Mark legacy;
  Knowledge known;
  order_.AddWorkBefore(call.thread, stream, &legacy, &known);
  if (!waited.empty()) known.Add(waited);
  known.Add(own_);
  ReportUnknown(FindingKind::kFreeWhileUsed, *block, known, operation);
  memory_.Release(block, operation);
}

void Detector::TakeBackUnjudged(const Call& call, uint64_t address) {
  Block* const block = memory_.Find(address);
  if (block == nullptr || !block->is_part) return;
  memory_.Release(block, NewOperation(call, order_.HostAction(call.thread)));
}

void Detector::JudgeAgain(const Finding& use) {
  Forget(use);
  memory_.EraseReleased(use.block);
  // A finding does not have the operator of a reduction.
  if (use.later_mode == Mode::kReduce) return;
  const uint64_t begin = use.block.begin + use.range.begin;
  const uint64_t size = use.range.end - use.range.begin;
  AccessRange(use.later, order_.ClockOf(use.later.epoch.actor),
              {begin, size, use.later_mode}, {begin, begin + size},
              use.approximate);
}

template <typename Use>
void Detector::ForEachRange(const MemoryAccess& access, Use use) {
  if (access.size == 0 || access.rows == 0) return;
  const bool one_range = access.rows == 1 || access.pitch <= access.size;
  if (one_range || access.rows > kMaxRows) {
    const uint64_t end =
        access.address + access.pitch * (access.rows - 1) + access.size;
    use(Range{access.address, end}, access.approximate || !one_range);
    return;
  }
  for (uint64_t row = 0; row < access.rows; ++row) {
    const uint64_t begin = access.address + row * access.pitch;
    use(Range{begin, begin + access.size}, false);
  }
}

void Detector::AccessRows(const Operation& by, const VectorClock& clock,
                          const MemoryAccess& access) {
  ForEachRange(access, [&](Range addresses, bool approximate) {
    AccessRange(by, clock, access, addresses, approximate);
  });
}

void Detector::Retract(AccessList accesses) {
  for (const MemoryAccess& access : accesses) {
    ForEachRange(access, [&](Range addresses, bool /*approximate*/) {
      while (addresses.begin < addresses.end) {
        Block* const block = memory_.At(addresses.begin);
        const uint64_t end = std::min(addresses.end, block->end);
        block->shadow.Erase(
            {addresses.begin - block->begin, end - block->begin});
        addresses.begin = end;
      }
    });
  }
}

// An approximate range has bytes that the operation does not use.  It conflicts
// for certain with a use of so many bytes in a row that one of them is used.
// The access is not noted: later uses of the bytes between would conflict.
void Detector::FindCertain(const Block& block, Range range,
                           const MemoryAccess& access,
                           const VectorClock& clock) {
  block.shadow.FindUnknown(range, clock, &conflicts_);
  const uint64_t enough =
      access.approximate ? range.end - range.begin : access.pitch + access.size;
  const auto is_unfounded = [&](const Conflict& conflict) {
    if (conflict.range.end - conflict.range.begin < enough) return true;
    return access.mode == conflict.earlier_mode &&
           (access.mode == Mode::kRead || access.mode == Mode::kReduce);
  };
  conflicts_.erase(
      std::remove_if(conflicts_.begin(), conflicts_.end(), is_unfounded),
      conflicts_.end());
}

void Detector::AccessRange(const Operation& by, const VectorClock& clock,
                           const MemoryAccess& access, Range addresses,
                           bool approximate) {
  while (addresses.begin < addresses.end) {
    Block* block = memory_.At(addresses.begin);
    const uint64_t end = std::min(addresses.end, block->end);
    if (access.is_programs && !block->live()) block = memory_.OfProgram();
    const Range range = {addresses.begin - block->begin, end - block->begin};
    addresses.begin = end;
    conflicts_.clear();
    if (!block->live()) {
      Report(FindingKind::kUseAfterFree, *block,
             {range, *block->released, Mode::kWrite}, by, clock, access.mode,
             approximate);
      continue;
    }
    if (access.by_kernel && !CanReach(by.epoch.actor, *block)) {
      Report(FindingKind::kWrongDevice, *block,
             {range, block->made, Mode::kWrite}, by, clock, access.mode,
             approximate);
    }
    if (approximate || !access.is_noted) {
      FindCertain(*block, range, access, clock);
    } else {
      block->shadow.Access(range, access.mode, by, clock, &conflicts_,
                           access.reduction);
    }
    ReportConflicts(*block, by, clock, access.mode, approximate);
  }
}

void Detector::ReportConflicts(const BlockInfo& block, const Operation& by,
                               const VectorClock& clock, Mode mode,
                               bool approximate) {
  for (const Conflict& conflict : conflicts_) {
    FindingKind kind = KindOf(conflict.earlier_mode, mode);
    if (conflict.earlier.number == block.made.number) {
      kind = FindingKind::kUseBeforeAllocation;
    } else if (!order_.IsStream(by.epoch.actor)) {
      kind = FindingKind::kHostAccess;
    }
    Report(kind, block, conflict, by, clock, mode, approximate);
  }
}

void Detector::ReportUnknown(FindingKind kind, const Block& block,
                             const Knowledge& known, const Operation& by) {
  conflicts_.clear();
  block.shadow.FindUnknown(known, &conflicts_);
  if (ABSL_PREDICT_TRUE(conflicts_.empty())) return;
  const VectorClock clock = known.Joined();
  for (const Conflict& conflict : conflicts_) {
    Report(kind, block, conflict, by, clock, Mode::kWrite, false);
  }
}

void Detector::Report(FindingKind kind, const BlockInfo& block,
                      const Conflict& conflict, const Operation& later,
                      const VectorClock& clock, Mode later_mode,
                      bool approximate) {
  Finding finding;
  finding.kind = kind;
  finding.block = block;
  finding.range = conflict.range;
  finding.approximate = approximate;
  finding.earlier = conflict.earlier;
  finding.earlier_mode = conflict.earlier_mode;
  finding.earlier_is_work = order_.IsStream(conflict.earlier.epoch.actor);
  finding.later = later;
  finding.later_mode = later_mode;
  const auto key = KeyOf(finding);
  const bool is_new = made_.count(key) == 0;
  if (is_new) {
    finding.explanation = history_.Explain(conflict.earlier, later, clock);
  }
  if (!flags_.empty() &&
      held_.Hold(finding, clock, NotedClock(conflict.earlier))) {
    return;
  }
  // Before the sink, which may call Forget.
  if (is_new) made_.insert(key);
  sink_(finding);
}

}  // namespace devrt::race
