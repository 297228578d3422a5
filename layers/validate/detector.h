// SPDX-License-Identifier: Apache-2.0
//
// Finds what is wrong with the order of a program's work: accesses of memory
// that nothing orders, and uses of memory outside its life.  Judges each call
// when the program makes it, and so finds a race in a run in which the device
// happened to do the right thing.
//
//   Detector detector([](const Finding& finding) { ... });
//   const Actor host = detector.order().AddThread();
//   ...
//   detector.Enqueue({host, name, site}, stream, {{p, 4096, Mode::kWrite}});
//
// Knows nothing of the plugin ABI: validate_layer.cc translates the calls.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_DETECTOR_H_
#define DEVRT_LAYERS_VALIDATE_DETECTOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/types/span.h"
#include "layers/validate/finding.h"
#include "layers/validate/flag_waits.h"
#include "layers/validate/held_findings.h"
#include "layers/validate/history.h"
#include "layers/validate/memory_map.h"
#include "layers/validate/order.h"

namespace devrt::race {

// Bytes that an operation uses.  Rows of `size` bytes, `pitch` apart.
struct MemoryAccess {
  uint64_t address = 0;
  uint64_t size = 0;
  Mode mode = Mode::kRead;
  uint32_t reduction = 0;  // the operator of kReduce
  uint64_t rows = 1;
  uint64_t pitch = 0;
  bool approximate = false;  // holds bytes that the operation does not use
  bool by_kernel = false;    // a kernel uses the bytes by their address
  // The program's own memory, to which the system may have given the addresses
  // of a block that is gone.
  bool is_programs = false;
  // A thread that is not known uses the bytes: later uses are not compared.
  bool is_noted = true;
};

// The accesses of one operation.
using AccessList = absl::Span<const MemoryAccess>;

// The call that does something, as reports name it.
struct Call {
  Actor thread = 0;
  uint32_t name = 0;  // numbers of Texts
  uint32_t site = 0;
};

class Detector {
 public:
  // Only the first finding of a kind at two places has an explanation.
  using Sink = std::function<void(const Finding&)>;

  explicit Detector(Sink sink) : sink_(std::move(sink)), held_(&flags_) {}

  // Operation::number of the next operation.
  uint64_t next_number() const { return operations_ + 1; }
  // Calls visit(operation) for each operation that a later finding may name.
  template <typename Visit>
  void ForEachOperation(Visit visit) const {
    memory_.ForEachOperation(visit);
    held_.ForEachOperation(visit);
  }
  // The sink drops this finding.  So one of the same kind and places is
  // explained when it comes.
  void Forget(const Finding& finding) { made_.erase(KeyOf(finding)); }
  // `use` was found as one of a freed block, but the memory is another's by
  // now.  Forgets the block and judges the use anew.
  void JudgeAgain(const Finding& use);
  Order& order() { return order_; }
  MemoryMap& memory() { return memory_; }
  const History& history() const { return history_; }

  // A new stream, which may get the number of one that is gone.
  Actor AddStream(Actor thread, StreamTraits traits) {
    const Actor actor = order_.AddStream(thread, traits);
    history_.Forget(actor);
    return actor;
  }

  // Work of a stream, with what it uses.
  void Enqueue(const Call& call, Actor stream, AccessList accesses) {
    const Operation& operation =
        NewOperation(call, order_.Submit(call.thread, stream));
    const VectorClock& clock = order_.ClockOf(stream);
    if (!flags_.empty()) NoteClock(operation, clock);
    for (const MemoryAccess& access : accesses) {
      Access(operation, clock, access);
    }
  }
  // The backend refused the work with these accesses.  Nothing is known of
  // their bytes now: an unfounded finding would be worse than a missed one.
  void Retract(AccessList accesses);
  // A use of memory by the calling thread, at once.  `over`: what else it comes
  // after.
  Operation UseByHost(const Call& call, AccessList accesses,
                      const VectorClock& over = {});

  // Kernels of `device` may, or may no longer, use memory of `peer`.
  void EnablePeer(uint32_t device, uint32_t peer) {
    peers_.insert({device, peer});
  }
  void DisablePeer(uint32_t device, uint32_t peer) {
    peers_.erase({device, peer});
  }
  // Forgets the peers of the devices [begin, end).
  void ForgetPeers(uint32_t begin, uint32_t end) {
    peers_.erase(peers_.lower_bound({begin, 0}), peers_.lower_bound({end, 0}));
  }

  // An event's record and the waits for it.  `event` names the event in
  // reports.  A caller that keeps RecordsOf(event), until RemoveEvent, spares
  // the record a search.
  using Records = History::Records;
  Records* RecordsOf(uint64_t event) { return history_.RecordsOf(event); }
  void Record(const Call& call, Actor stream, Records* records, Mark* mark) {
    const Epoch epoch = order_.Submit(call.thread, stream);
    History::AddRecord(records, NewOperation(call, epoch));
    *mark = order_.ClockOf(stream);
  }
  Mark Record(const Call& call, Actor stream, uint64_t event) {
    Mark mark;
    Record(call, stream, RecordsOf(event), &mark);
    return mark;
  }
  // `mark`: what the wait is certain to cover; nullptr: nothing.  `record`: the
  // event's newest record, which another thread may make after the wait;
  // nullptr: it is that of `mark`.
  void Wait(const Call& call, Actor stream, uint64_t event, const Mark* mark,
            const Mark* record = nullptr) {
    if (mark != nullptr) order_.Wait(call.thread, stream, *mark);
    const Operation operation = {order_.ClockOf(stream).now(), ++operations_,
                                 call.name, call.site};
    const Mark* const newest = record == nullptr ? mark : record;
    *history_.AddWait(stream) = {event, stream, record != nullptr, operation,
                                 newest == nullptr ? Epoch() : newest->now()};
  }
  void RemoveEvent(uint64_t event) { history_.RemoveEvent(event); }

  // The host thread has waited for the mark.
  void HostWait(Actor thread, const Mark& mark);

  // A query that devrt made for itself found the mark complete.  The program
  // did not learn that, so its accesses do not come after the mark.  But devrt
  // may use memory again.  The waits of one host thread are such answers to the
  // other threads.
  void EndOwnQuery(const Mark& mark) { own_.Join(mark); }
  // All that devrt has found complete.
  const Mark& own() const { return own_; }

  // Flags that kernels of streams wait for, by their numbers.  kNoActor: the
  // host sets the flag.
  void WaitForFlag(const Call& call, Actor stream, uint64_t flag);
  void SetFlag(const Call& call, Actor stream, uint64_t flag);
  // The work of the stream is one of several that come before the waits for the
  // flag.  EndAdds: all of them are known.
  void AddToFlag(const Call& call, Actor stream, uint64_t flag);
  void EndAdds(uint64_t flag);
  void ClearFlag(uint64_t flag) { flags_.Unset(flag); }
  void RemoveFlag(uint64_t flag) { flags_.Remove(flag); }
  void ForgetFlags() {
    held_.Clear();
    flags_.Clear();
    clocks_.clear();
  }
  // Unordered pairs that no set of a flag has decided.
  uint64_t undecided() const { return held_.undecided(); }

  // Memory that a backend gives and takes at once.
  void Allocate(const Call& call, uint64_t address, uint64_t size,
                MemoryKind kind, uint32_t device);
  // A free returns the number of the block that it ends; 0: none.
  uint64_t Free(const Call& call, uint64_t address);
  // In the order of a stream.
  void AllocateOn(const Call& call, Actor stream, uint64_t address,
                  uint64_t size, uint32_t device);
  uint64_t FreeOn(const Call& call, Actor stream, uint64_t address);
  // Parts of an allocator's memory.  `stream` is where the block is used first,
  // or after whose work it is free; kNoActor: all uses are complete.  `over`:
  // what else the allocator's locks put before the uses of the new owner.
  void HandOut(const Call& call, Actor stream, uint64_t address, uint64_t size,
               MemoryKind kind, uint32_t device, const VectorClock& over = {});
  // The allocator has waited, or waits, for `waited`.
  void TakeBack(const Call& call, Actor stream, uint64_t address,
                const Mark& waited = {});
  // The allocator knows uses of the block, and waits for them before it hands
  // the block out again.
  void TakeBackUnjudged(const Call& call, uint64_t address);

 private:
  // Keeps the clock of an operation with accesses while there are waits for
  // flags.  Its stream may learn of a wait later, which does not order the
  // operation.
  void NoteClock(const Operation& operation, const VectorClock& clock);
  // Returns the kept clock, or an empty one.
  VectorClock NotedClock(const Operation& operation) const;
  // The operation stays there until the actor has some more.
  const Operation& NewOperation(const Call& call, Epoch epoch) {
    Operation* const made = history_.AddOperation(epoch.actor);
    made->epoch = epoch;
    made->number = ++operations_;
    made->name = call.name;
    made->site = call.site;
    return *made;
  }
  // Mostly an access is exact, in one live block, and without a finding.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Access(const Operation& by,
                                           const VectorClock& clock,
                                           const MemoryAccess& access) {
    if (ABSL_PREDICT_FALSE(access.rows != 1 || access.size == 0)) {
      return AccessRows(by, clock, access);
    }
    Block* const block = memory_.At(access.address);
    const uint64_t begin = access.address - block->begin;
    const bool is_usual =
        access.size <= block->size() - begin && block->live() &&
        !access.approximate && access.is_noted &&
        (!access.by_kernel || CanReach(by.epoch.actor, *block));
    if (ABSL_PREDICT_FALSE(!is_usual)) {
      return AccessRange(by, clock, access,
                         {access.address, access.address + access.size},
                         access.approximate);
    }
    conflicts_.clear();
    block->shadow.Access({begin, begin + access.size}, access.mode, by, clock,
                         &conflicts_, access.reduction);
    if (ABSL_PREDICT_FALSE(!conflicts_.empty())) {
      ReportConflicts(*block, by, clock, access.mode, false);
    }
  }
  void ReportConflicts(const BlockInfo& block, const Operation& by,
                       const VectorClock& clock, Mode mode, bool approximate);
  void AccessRows(const Operation& by, const VectorClock& clock,
                  const MemoryAccess& access);
  // Calls use(range of addresses, true if it has bytes that are not used).
  template <typename Use>
  static void ForEachRange(const MemoryAccess& access, Use use);
  bool CanReach(Actor stream, const BlockInfo& block) const {
    if (block.kind != MemoryKind::kDevice || !order_.IsStream(stream)) {
      return true;
    }
    const uint32_t device = order_.TraitsOf(stream).device;
    return device == block.device || peers_.count({device, block.device}) != 0;
  }
  void FindCertain(const Block& block, Range range, const MemoryAccess& access,
                   const VectorClock& clock);
  void AccessRange(const Operation& by, const VectorClock& clock,
                   const MemoryAccess& access, Range addresses,
                   bool approximate);
  void Report(FindingKind kind, const BlockInfo& block,
              const Conflict& conflict, const Operation& later,
              const VectorClock& clock, Mode later_mode, bool approximate);
  // Reports uses of `block` that are not `known` to the free or hand-out `by`.
  void ReportUnknown(FindingKind kind, const Block& block,
                     const Knowledge& known, const Operation& by);

  Sink sink_;
  Order order_;
  MemoryMap memory_;
  History history_;
  Mark own_;
  FlagWaits flags_;
  HeldFindings held_;  // that a later set of a flag may prove unfounded
  std::unordered_map<uint64_t, VectorClock> clocks_;  // by Operation::number
  size_t most_clocks_ =
      1 << 12;  // with more, those that are over are forgotten
  std::set<std::pair<uint32_t, uint32_t>> peers_;
  // The findings that the sink has, by what they have in common when they come
  // again: the search for an explanation looks at all events.
  using Key = std::tuple<FindingKind, uint32_t, uint32_t, uint32_t, uint32_t>;
  static Key KeyOf(const Finding& finding) {
    const Operation& earlier = finding.earlier;
    const Operation& later = finding.later;
    return {finding.kind, earlier.name, earlier.site, later.name, later.site};
  }
  std::set<Key> made_;
  uint64_t operations_ = 0;
  std::vector<Conflict> conflicts_;  // kept, for its memory
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_DETECTOR_H_
