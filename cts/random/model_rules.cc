// SPDX-License-Identifier: Apache-2.0
//
// Which steps are legal.
#include "cts/random/model.h"

namespace devrt::cts {

// ---- Objects

const char* Model::WhyNot(const Step& s) const {
  switch (s.act) {
    case Act::kNewStream:
    case Act::kNewEvent:
    case Act::kNewBlock:
      return WhyNotMade(s);
    case Act::kDropStream:
    case Act::kDropEvent:
    case Act::kFreeBlock:
    case Act::kOpen:
      return WhyNotGiven(s);
    case Act::kBarrier:
      if (!program_.concurrent) return "there is nothing to wait for";
      return AnyClosed() ? "a gate is closed" : nullptr;
    case Act::kSelectDevice:
    case Act::kSyncDevice:
      return nullptr;
    default:
      return IsWork(s.act) ? WhyNotWork(s) : WhyNotHost(s);
  }
}

const char* Model::WhyNotMade(const Step& s) const {
  switch (s.act) {
    case Act::kNewStream:
      return WasStream(s.stream) ? "the stream exists" : nullptr;
    case Act::kNewEvent:
      if (EventInfoOf(s.event).timing && !limits_.timing) return "no timing";
      return WasEvent(s.event) ? "the event exists" : nullptr;
    default:
      if (BlockOf(s.dst).space == Space::kPinned && !limits_.pinned) {
        return "no pinned memory";
      }
      return store_.WasAllocated(s.dst.block) ? "the block exists" : nullptr;
  }
}

const char* Model::WhyNotGiven(const Step& s) const {
  switch (s.act) {
    case Act::kDropStream:
      if (!InfoOf(s.stream).IsCreated()) return "it is a default stream";
      if (!Of(s.stream).alive) return "there is no such stream";
      // The default stream may still wait for its work, or not.
      return InfoOf(s.stream).IsBlocking() && IsHeldUp(Of(s.stream).clock)
                 ? "the stream is held"
                 : nullptr;
    case Act::kDropEvent:
      return At(s.event).alive ? nullptr : "there is no such event";
    case Act::kFreeBlock:
      return store_.IsAlive(s.dst.block) ? nullptr : "there is no such block";
    default:
      return IsHeld(s.gate) && !IsOpen(s.gate) ? nullptr : "it is not closed";
  }
}

bool Model::Usable(int stream, int thread) const {
  const StreamInfo& info = InfoOf(stream);
  return Of(stream).alive &&
         (info.kind != StreamKind::kPerThread || info.thread == thread);
}

bool Model::Fits(const Span& span) const {
  return span.count > 0 && store_.IsAlive(span.block) &&
         span.first + span.count <= BlockOf(span).slices;
}

// ---- Work

const char* Model::WhyNotWork(const Step& s) const {
  if (!Usable(s.stream, s.thread)) return "there is no such stream";
  const int device = InfoOf(s.stream).device;
  switch (s.act) {
    case Act::kFill:
      if (!Fits(s.dst) || s.value.stride != 0) return "nothing to fill";
      return OnHost(s.dst) || BlockOf(s.dst).device != device
                 ? "fills are of the stream's device"
                 : nullptr;
    case Act::kCopy:
      return WhyNotCopy(s);
    case Act::kHostFunc:
      if (!limits_.host_func) return "no host functions";
      for (const Span& span : {s.src, s.dst}) {
        if (span.block < 0) continue;
        if (!Fits(span) || !OnHost(span)) return "not in host memory";
      }
      if (s.src.block >= 0 && s.src.block == s.dst.block) return "one block";
      return s.src.block >= 0 && !store_.IsDefined(s.src) ? "undefined"
                                                          : nullptr;
    case Act::kRecord:
      if (!At(s.event).alive) return "there is no such event";
      return EventInfoOf(s.event).device != device ? "another device's event"
                                                   : nullptr;
    case Act::kWait:
      return At(s.event).alive ? nullptr : "there is no such event";
    case Act::kWaitStream:
      return Usable(s.other, s.thread) ? nullptr : "there is no such stream";
    case Act::kHold:
      if (!limits_.gates) return "no gates";
      if (IsOpen(s.gate)) return "it was opened";
      return program_.gates[Index(s.gate)].device != device
                 ? "another device's gate"
                 : nullptr;
    default:
      return limits_.gates ? nullptr : "no spins";
  }
}

const char* Model::WhyNotCopy(const Step& s) const {
  if (!Fits(s.src) || !Fits(s.dst) || s.src.count != s.dst.count) {
    return "nothing to copy";
  }
  if (s.src.block == s.dst.block && s.src.first < s.dst.first + s.dst.count &&
      s.dst.first < s.src.first + s.src.count) {
    return "they overlap";
  }
  if (!store_.IsDefined(s.src)) return "undefined";
  // The stream is on a device of the program.
  const int device = InfoOf(s.stream).device;
  const bool from = !OnHost(s.src) && BlockOf(s.src).device == device;
  const bool to = !OnHost(s.dst) && BlockOf(s.dst).device == device;
  if (from || to || (OnHost(s.src) && OnHost(s.dst))) return nullptr;
  return "of another device";
}

// ---- The host

const char* Model::WhyNotHost(const Step& s) const {
  switch (s.act) {
    case Act::kSyncStream:
    case Act::kPollStream:
    case Act::kQueryStream:
      if (!Usable(s.stream, s.thread)) return "there is no such stream";
      break;
    case Act::kSyncEvent:
    case Act::kPollEvent:
    case Act::kQueryEvent:
      if (!At(s.event).alive) return "there is no such event";
      break;
    case Act::kElapsed:
      return WhyNotElapsed(s);
    case Act::kHostWrite:
      return Fits(s.dst) && OnHost(s.dst) ? nullptr : "nothing to write";
    default:
      break;
  }
  if (s.src.block < 0) {
    return s.act == Act::kHostRead ? "nothing to read" : nullptr;
  }
  if (!Fits(s.src) || !OnHost(s.src)) return "nothing to read";
  return store_.IsDefined(s.src) ? nullptr : "undefined";
}

const char* Model::WhyNotElapsed(const Step& s) const {
  for (const int e : {s.event, s.other}) {
    if (!IsRecorded(e) || !IsTimed(e)) return "not both timed and recorded";
  }
  if (EventInfoOf(s.event).device != EventInfoOf(s.other).device) {
    return "two devices";
  }
  if (IsHeldUp(At(s.event).clock) || IsHeldUp(At(s.other).clock)) {
    return nullptr;
  }
  return Knows(s, At(s.event).clock) && Knows(s, At(s.other).clock)
             ? nullptr
             : "it is open whether both are complete";
}

// ---- Order

// A pageable source may be read while the copy is submitted (C53).
bool Model::ReadsAtOnce(const Step& s) const {
  return s.act == Act::kCopy && BlockOf(s.src).space == Space::kPlain &&
         !OnHost(s.dst);
}

std::optional<Epoch> Model::ConflictOf(const Step& s) const {
  if (ReadsAtOnce(s)) {
    const std::optional<Epoch> e = store_.Conflict(s.src, false, Me(s));
    if (e.has_value()) return e;
  }
  switch (s.act) {
    case Act::kFill:
    case Act::kCopy:
    case Act::kHostFunc: {
      const Clock clock = Submitted(s, s.stream);
      std::optional<Epoch> conflict;
      if (s.src.block >= 0) conflict = store_.Conflict(s.src, false, clock);
      if (!conflict.has_value() && s.dst.block >= 0) {
        conflict = store_.Conflict(s.dst, true, clock);
      }
      return conflict;
    }
    case Act::kFreeBlock: {
      const Span all = {s.dst.block, 0, BlockOf(s.dst).slices};
      return store_.Conflict(all, true, Me(s));
    }
    case Act::kHostWrite:
      return store_.Conflict(s.dst, true, Me(s));
    case Act::kHostRead:
      return store_.Conflict(s.src, false, Me(s));
    case Act::kQueryStream:
    case Act::kQueryEvent: {
      if (s.src.block < 0) return std::nullopt;
      Clock clock = Me(s);  // the clock if the query returns true
      clock.Join(s.act == Act::kQueryEvent ? At(s.event).clock
                                           : Covered(s.stream));
      return store_.Conflict(s.src, false, clock);
    }
    default:
      return std::nullopt;
  }
}

// True if the call may wait forever for a closed gate.
const char* Model::WhyNotStuck(const Step& s) const {
  const char* const kStuck = "it may wait for a closed gate";
  switch (s.act) {
    case Act::kNewBlock:
    case Act::kFreeBlock:
      return limits_.free_waits && BlockOf(s.dst).space != Space::kPlain &&
                     AnyClosed()
                 ? kStuck
                 : nullptr;
    case Act::kCopy: {
      const bool plain = BlockOf(s.src).space == Space::kPlain ||
                         BlockOf(s.dst).space == Space::kPlain;
      const bool host_side = OnHost(s.src) || OnHost(s.dst);
      const bool staged = !limits_.peer_copy && !host_side &&
                          BlockOf(s.src).device != BlockOf(s.dst).device;
      if (!plain && !staged && !(OnHost(s.src) && OnHost(s.dst)) &&
          !(s.blocking && host_side)) {
        return nullptr;
      }
      Clock clock = Submitted(s, s.stream);
      clock.Join(Reach(s.stream));
      return IsHeldUp(clock) ? kStuck : nullptr;
    }
    case Act::kSyncStream:
    case Act::kPollStream:
      return IsHeldUp(Reach(s.stream)) ? kStuck : nullptr;
    case Act::kSyncEvent:
    case Act::kPollEvent:
      return IsHeldUp(At(s.event).clock) ? kStuck : nullptr;
    case Act::kSyncDevice:
      return IsHeldUp(ReachDevice(s.device)) ? kStuck : nullptr;
    default:
      return nullptr;
  }
}

// ---- Ownership

std::vector<Model::Use> Model::UsesOf(const Step& s) {
  std::vector<Use> uses;
  const auto use_device = [&](int device) {
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (program_.streams[i].device == device) {
        uses.push_back({&streams_[i].owner, true});
      }
    }
  };
  for (const int stream :
       {s.stream, s.act == Act::kWaitStream ? s.other : -1}) {
    if (stream < 0) continue;
    const StreamInfo& info = InfoOf(stream);
    if (info.kind == StreamKind::kDefault) use_device(info.device);
    uses.push_back({&Of(stream).owner, true});
    if (info.IsBlocking()) {
      const int def = FindStream(program_, StreamKind::kDefault, info.device);
      uses.push_back({&Of(def).owner, false});
    }
  }
  for (const int event : {s.event, s.act == Act::kElapsed ? s.other : -1}) {
    if (event >= 0) uses.push_back({&At(event).owner, true});
  }
  for (const Span& span : {s.src, s.dst}) {
    if (span.block >= 0) {
      uses.push_back({&block_owners_[Index(span.block)], true});
    }
  }
  if (s.gate >= 0) uses.push_back({&gates_[Index(s.gate)].owner, true});
  if (s.act == Act::kSyncDevice) use_device(s.device);
  return uses;
}

bool Model::TakeOwnership(const Step& s) {
  if (!program_.concurrent || s.act == Act::kBarrier) return true;
  const std::vector<Use> uses = UsesOf(s);
  for (const Use& use : uses) {
    if (use.owner->section == section_ && use.owner->thread != s.thread) {
      return false;
    }
  }
  for (const Use& use : uses) {
    if (use.claims) *use.owner = {section_, s.thread};
  }
  return true;
}

}  // namespace devrt::cts
