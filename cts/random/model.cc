// SPDX-License-Identifier: Apache-2.0
//
// The edges of docs/reference/semantics.md 1.14.
#include "cts/random/model.h"

#include <algorithm>

namespace devrt::cts {

Model::Model(const Program& program, const Limits& limits)
    : program_(program),
      limits_(limits),
      actors_(program.threads + static_cast<int>(program.streams.size())),
      store_(program) {
  threads_.assign(Index(program.threads), Clock(actors_));
  streams_.resize(program.streams.size());
  for (size_t i = 0; i < streams_.size(); ++i) {
    streams_[i].clock = Clock(actors_);
    streams_[i].alive = !program.streams[i].IsCreated();
  }
  events_.resize(program.events.size());
  for (EventState& event : events_) event.clock = Clock(actors_);
  gates_.resize(program.gates.size());
  block_owners_.resize(program.blocks.size());
}

bool Model::IsTimed(int e) const { return EventInfoOf(e).timing; }

bool Model::AnyClosed() const {
  for (const GateState& gate : gates_) {
    if (gate.held && !gate.open) return true;
  }
  return false;
}

bool Model::IsWork(Act act) {
  switch (act) {
    case Act::kFill:
    case Act::kCopy:
    case Act::kHostFunc:
    case Act::kSpin:
    case Act::kRecord:
    case Act::kWait:
    case Act::kWaitStream:
    case Act::kHold:
      return true;
    default:
      return false;
  }
}

Verdict Model::Execute(Step* s) {
  Verdict verdict;
  verdict.why = WhyNot(*s);
  if (verdict.why != nullptr) return verdict;
  verdict.conflict = ConflictOf(*s);
  if (verdict.conflict.has_value()) {
    verdict.why = "it touches memory that something unordered touches";
    verdict.on_host =
        (s->act != Act::kFill && s->act != Act::kCopy &&
         s->act != Act::kHostFunc) ||
        (ReadsAtOnce(*s) && store_.Conflict(s->src, false, Me(*s)).has_value());
    return verdict;
  }
  verdict.why = WhyNotStuck(*s);
  if (verdict.why != nullptr) return verdict;
  if (!TakeOwnership(*s)) {
    verdict.why = "another thread has touched its objects";
    return verdict;
  }
  verdict.ok = true;
  s->truth = Truth::kAny;
  s->found.clear();
  Apply(s);
  return verdict;
}

void Model::Apply(Step* s) {
  if (IsWork(s->act)) return Work(s);
  switch (s->act) {
    case Act::kSyncStream:
    case Act::kSyncEvent:
    case Act::kSyncDevice:
    case Act::kQueryStream:
    case Act::kQueryEvent:
    case Act::kPollStream:
    case Act::kPollEvent:
    case Act::kElapsed:
    case Act::kHostWrite:
    case Act::kHostRead:
      Host(s);
      break;
    default:
      Objects(*s);
  }
}

// ---- Clocks

Clock Model::Submitted(const Step& s, int stream) const {
  Clock clock = Of(stream).clock;
  clock.Join(Me(s));
  const StreamInfo& info = InfoOf(stream);
  if (info.kind == StreamKind::kDefault) clock.Join(Covered(stream));
  if (info.IsBlocking()) {
    clock.Join(
        Of(FindStream(program_, StreamKind::kDefault, info.device)).clock);
  }
  return clock;
}

Clock Model::Covered(int stream) const {
  Clock clock = Of(stream).clock;
  const StreamInfo& info = InfoOf(stream);
  if (info.kind != StreamKind::kDefault) return clock;
  for (size_t i = 0; i < streams_.size(); ++i) {
    const StreamInfo& other = program_.streams[i];
    if (other.device == info.device && other.IsBlocking() &&
        streams_[i].alive) {
      clock.Join(streams_[i].clock);
    }
  }
  return clock;
}

Clock Model::Reach(int stream) const {
  const StreamInfo& info = InfoOf(stream);
  if (info.kind == StreamKind::kDefault) return ReachDevice(info.device);
  Clock clock = Of(stream).clock;
  if (info.IsBlocking()) {
    clock.Join(
        Of(FindStream(program_, StreamKind::kDefault, info.device)).clock);
  }
  return clock;
}

Clock Model::ReachDevice(int device) const {
  Clock clock(actors_);
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (program_.streams[i].device == device) clock.Join(streams_[i].clock);
  }
  return clock;
}

bool Model::KnowsWork(const Step& s, const Clock& clock) const {
  for (size_t i = 0; i < streams_.size(); ++i) {
    const int actor = Actor(static_cast<int>(i));
    if (Me(s).of(actor) < std::min(clock.of(actor), streams_[i].work)) {
      return false;
    }
  }
  return true;
}

Epoch Model::NextWork(int stream) {
  const Epoch op = Of(stream).clock.Tick(Actor(stream));
  Of(stream).work = op.tick;
  return op;
}

bool Model::IsHeldUp(const Clock& clock) const {
  for (const GateState& gate : gates_) {
    if (gate.open) continue;
    for (const Epoch hold : gate.holds) {
      if (clock.Has(hold)) return true;
    }
  }
  return false;
}

// ---- Steps

void Model::Objects(const Step& s) {
  switch (s.act) {
    case Act::kNewStream:
      Of(s.stream).alive = true;
      break;
    case Act::kDropStream:
      Of(s.stream).alive = false;
      Of(s.stream).dead = true;
      break;
    case Act::kNewEvent:
      At(s.event).alive = true;
      break;
    case Act::kDropEvent:
      At(s.event).alive = false;
      At(s.event).dead = true;
      break;
    case Act::kNewBlock:
      store_.Allocate(s.dst.block);
      break;
    case Act::kFreeBlock:
      store_.Free(s.dst.block);
      break;
    case Act::kOpen:
      gates_[Index(s.gate)].open = true;
      break;
    case Act::kBarrier: {
      Clock all = threads_[0];
      for (const Clock& clock : threads_) all.Join(clock);
      for (Clock& clock : threads_) clock = all;
      ++section_;
      break;
    }
    default:
      break;
  }
}

void Model::Work(Step* s) {
  if (s->act == Act::kRecord) return Record(s->event, *s, s->stream);
  if (s->act == Act::kWait) {
    if (At(s->event).recorded) Wait(*s, At(s->event).clock);
    return;
  }
  if (s->act == Act::kWaitStream) {
    if (s->other == s->stream) return;
    // A record on the other stream, then a wait.
    Of(s->other).clock = Submitted(*s, s->other);
    NextWork(s->other);
    const Clock captured = Of(s->other).clock;
    NextWork(s->other);
    return Wait(*s, captured);
  }
  Of(s->stream).clock = Submitted(*s, s->stream);
  const Epoch op = NextWork(s->stream);
  switch (s->act) {
    case Act::kFill:
      store_.Write(s->dst, op,
                   Slices(s->value, s->dst.count, program_.slice_bytes));
      break;
    case Act::kCopy:
      Copied(*s, op);
      break;
    case Act::kHostFunc:
      if (s->src.block >= 0) s->found = store_.Read(s->src, op);
      if (s->dst.block >= 0) {
        store_.Write(s->dst, op,
                     Slices(s->value, s->dst.count, program_.slice_bytes));
      }
      break;
    case Act::kHold:
      gates_[Index(s->gate)].held = true;
      gates_[Index(s->gate)].holds.push_back(op);
      break;
    default:
      break;
  }
}

void Model::Copied(const Step& s, Epoch op) {
  const std::vector<Content> contents = store_.Read(s.src, op);
  store_.Write(s.dst, op, contents);
  const bool within_host = OnHost(s.src) && OnHost(s.dst);
  const bool host_side = OnHost(s.src) || OnHost(s.dst);
  if (within_host || (s.blocking && host_side)) Me(s).Join(Covered(s.stream));
}

// Two ticks: the event completes at the first.  The operation of the stream, as
// a query of the stream sees it, completes at the second.
void Model::Record(int event, const Step& s, int stream) {
  Of(stream).clock = Submitted(s, stream);
  EventState& e = At(event);
  e.record = NextWork(stream);
  e.clock = Of(stream).clock;
  e.recorded = true;
  NextWork(stream);
}

// A wait on the default stream takes part in the legacy rule.  On other streams
// a wait orders only later operations.  The tick is for queries: a wait may
// complete later than its event.
void Model::Wait(const Step& s, const Clock& captured) {
  Clock& clock = Of(s.stream).clock;
  if (InfoOf(s.stream).kind == StreamKind::kDefault) {
    clock = Submitted(s, s.stream);
  }
  clock.Tick(Actor(s.stream));
  clock.Join(captured);
}

void Model::Host(Step* s) {
  switch (s->act) {
    case Act::kSyncStream:
    case Act::kPollStream:
      Me(*s).Join(Covered(s->stream));
      break;
    case Act::kSyncEvent:
    case Act::kPollEvent:
      if (At(s->event).recorded) Me(*s).Join(At(s->event).clock);
      break;
    case Act::kSyncDevice:
      Me(*s).Join(ReachDevice(s->device));
      break;
    case Act::kQueryStream:
    case Act::kQueryEvent:
      Query(s);
      break;
    case Act::kElapsed:
      Elapsed(s);
      break;
    case Act::kHostRead:
      s->found = store_.Read(s->src, Me(*s).Tick(HostActor(*s)));
      break;
    case Act::kHostWrite:
      store_.Write(s->dst, Me(*s).Tick(HostActor(*s)),
                   Slices(s->value, s->dst.count, program_.slice_bytes));
      break;
    default:
      break;
  }
}

void Model::Query(Step* s) {
  const bool of_event = s->act == Act::kQueryEvent;
  // An event that was never recorded has an empty clock, so a query is true.
  const Clock sure = of_event ? At(s->event).clock : Covered(s->stream);
  const Clock reach = of_event ? At(s->event).clock : Reach(s->stream);
  if (Knows(*s, reach)) {
    s->truth = Truth::kTrue;
  } else if (KnowsWork(*s, reach)) {
    s->truth = Truth::kSoon;
    Me(*s).Join(sure);  // the query is repeated until it is true
  } else if (IsHeldUp(sure)) {
    s->truth = Truth::kFalse;
  }
  if (s->src.block >= 0) {
    s->found = store_.Read(s->src, Me(*s).Tick(HostActor(*s)));
  }
}

void Model::Elapsed(Step* s) const {
  const EventState& begin = At(s->event);
  const EventState& end = At(s->other);
  if (IsHeldUp(begin.clock) || IsHeldUp(end.clock)) {
    s->truth = Truth::kError;
  } else if (begin.record.actor == end.record.actor) {
    s->truth =
        begin.record.tick <= end.record.tick ? Truth::kTrue : Truth::kFalse;
  }
}

Program Repaired(const Program& program, const Limits& limits) {
  Program repaired = program;
  repaired.steps.clear();
  Model model(program, limits);
  for (Step step : program.steps) {
    if (model.Execute(&step).ok) repaired.steps.push_back(std::move(step));
  }
  return repaired;
}

}  // namespace devrt::cts
