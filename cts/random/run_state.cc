// SPDX-License-Identifier: Apache-2.0
#include "cts/random/run_state.h"

#include <sched.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace devrt::cts {
namespace {

using RealClock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPollPatience(10);

size_t Index(int i) { return static_cast<size_t>(i); }

// A mismatch, in contrast to an error that devrt returned.
absl::Status Wrong(const std::string& text) {
  return absl::DataLossError(text);
}

std::string Text(const absl::Status& status) {
  return absl::IsDataLoss(status) ? std::string(status.message())
                                  : status.ToString();
}

}  // namespace

RunState::RunState(const Program& program, const Venue& venue)
    : program_(program),
      venue_(venue),
      streams_(program.streams.size()),
      events_(program.events.size()),
      gates_(program.gates.size()),
      blocks_(program.blocks.size()),
      plain_(program.blocks.size()),
      calls_(program.steps.size()),
      submitted_(program.steps.size()) {
  for (const Step& step : program.steps) {
    if (step.act != Act::kHold || gates_[Index(step.gate)].has_value())
      continue;
    const int device = program.gates[Index(step.gate)].device;
    auto flag = Flag::Create(DeviceOf(device));
    if (flag.ok()) {
      gates_[Index(step.gate)].emplace(*std::move(flag));
    } else {
      Fail(SIZE_MAX, flag.status().ToString());
    }
  }
}

void RunState::Fail(size_t step, std::string what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  failed_ = true;
  if (mismatch_.has_value()) return;
  const int number = step == SIZE_MAX ? 0 : static_cast<int>(step) + 1;
  mismatch_ = Mismatch{number, std::move(what)};
}

void RunState::Do(size_t index) {
  if (failed_) return;
  const Step& s = program_.steps[index];
  absl::Status status;
  switch (s.act) {
    case Act::kNewStream:
    case Act::kNewEvent:
    case Act::kNewBlock:
      status = Make(s);
      break;
    case Act::kDropStream:
    case Act::kDropEvent:
    case Act::kFreeBlock:
      status = Drop(s);
      break;
    case Act::kFill:
    case Act::kCopy:
    case Act::kHostFunc:
    case Act::kSpin:
    case Act::kHold:
      status = Work(index);
      break;
    case Act::kRecord:
    case Act::kWait:
    case Act::kWaitStream:
      status = Order(s);
      break;
    default:
      status = Host(index);
  }
  if (!status.ok()) Fail(index, Text(status));
}

// ---- Objects

absl::Status RunState::Make(const Step& s) {
  if (s.act == Act::kNewBlock) return Allocate(s.dst.block);
  if (s.act == Act::kNewEvent) {
    const EventInfo& info = program_.events[Index(s.event)];
    EventOptions options;
    options.timing = info.timing;
    options.blocking_sync = info.blocking_sync;
    DEVRT_ASSIGN_OR_RETURN(Event event,
                           Event::Create(DeviceOf(info.device), options));
    events_[Index(s.event)].emplace(std::move(event));
    return absl::OkStatus();
  }
  const StreamInfo& info = program_.streams[Index(s.stream)];
  StreamOptions options;
  options.blocking = info.kind == StreamKind::kBlocking;
  DEVRT_ASSIGN_OR_RETURN(Stream stream,
                         Stream::Create(DeviceOf(info.device), options));
  streams_[Index(s.stream)].emplace(std::move(stream));
  if (!info.native) return absl::OkStatus();
  return streams_[Index(s.stream)]->Native().status();
}

absl::Status RunState::Allocate(int block) {
  const BlockInfo& info = program_.blocks[Index(block)];
  const uint64_t bytes = Bytes({block, 0, info.slices});
  void*& at = blocks_[Index(block)];
  if (info.space == Space::kPlain) {
    plain_[Index(block)].resize(bytes);
    at = plain_[Index(block)].data();
    return absl::OkStatus();
  }
  const Device device = DeviceOf(info.device);
  DEVRT_ASSIGN_OR_RETURN(at, info.space == Space::kPinned
                                 ? AllocateHost(device, bytes)
                                 : devrt::Allocate(device, bytes));
  return absl::OkStatus();
}

absl::Status RunState::Release(int block) {
  const BlockInfo& info = program_.blocks[Index(block)];
  void* const at = std::exchange(blocks_[Index(block)], nullptr);
  switch (info.space) {
    case Space::kDevice:
      return Free(DeviceOf(info.device), at);
    case Space::kPinned:
      return FreeHost(at);
    case Space::kPlain:
      plain_[Index(block)] = {};
  }
  return absl::OkStatus();
}

absl::Status RunState::Drop(const Step& s) {
  if (s.act == Act::kFreeBlock) return Release(s.dst.block);
  if (s.act == Act::kDropEvent) {
    events_[Index(s.event)].reset();
  } else {
    streams_[Index(s.stream)].reset();
  }
  return absl::OkStatus();
}

absl::StatusOr<StreamRef> RunState::StreamOf(int stream) const {
  const StreamInfo& info = program_.streams[Index(stream)];
  if (info.kind == StreamKind::kDefault) {
    return DefaultStream(DeviceOf(info.device));
  }
  if (info.kind == StreamKind::kPerThread) {
    return PerThreadDefaultStream(DeviceOf(info.device));
  }
  return streams_[Index(stream)]->ref();
}

uint8_t* RunState::At(const Span& span) const {
  return static_cast<uint8_t*>(blocks_[Index(span.block)]) +
         static_cast<uint64_t>(span.first) * program_.slice_bytes;
}

void RunState::OpenGates() {
  for (const std::optional<Flag>& gate : gates_) {
    if (!gate.has_value()) continue;
    const absl::Status status = gate->Set();
    if (!status.ok()) Fail(SIZE_MAX, status.ToString());
  }
}

void RunState::GiveUp() {
  OpenGates();
  for (int d = 0; d < program_.devices; ++d) {
    const absl::Status status = DeviceOf(d).Synchronize();
    if (status.ok()) continue;
    Fail(SIZE_MAX, status.ToString());
    // Unfinished work may still write to it.
    (void)new std::vector<std::vector<uint8_t>>(std::move(plain_));
    plain_.resize(program_.blocks.size());
  }
  for (size_t i = 0; i < calls_.size(); ++i) {
    const int calls = calls_[i].load();
    if (calls == (submitted_[i])) continue;
    Fail(i, absl::StrCat("the host function was called ", calls, " times"));
  }
  over_ = true;
  events_.clear();
  streams_.clear();
  gates_.clear();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i] == nullptr) continue;
    const absl::Status status = Release(static_cast<int>(i));
    if (!status.ok()) Fail(SIZE_MAX, status.ToString());
  }
  (void)SetCurrentDevice(DeviceOf(0));
}

// ---- Work and order

absl::Status RunState::Work(size_t index) {
  const Step& s = program_.steps[index];
  DEVRT_ASSIGN_OR_RETURN(const StreamRef stream, StreamOf(s.stream));
  switch (s.act) {
    case Act::kFill:
      return FillAsync(stream, At(s.dst), s.value.base, Bytes(s.dst));
    case Act::kCopy:
      return s.blocking ? Copy(stream, At(s.dst), At(s.src), Bytes(s.src))
                        : CopyAsync(stream, At(s.dst), At(s.src), Bytes(s.src));
    case Act::kHostFunc:
      return HostFunction(index, stream);
    case Act::kSpin:
      return Spin(stream, s.nanoseconds);
    default:
      return gates_[Index(s.gate)]->WaitOn(stream, venue_.gate_timeout_ns);
  }
}

absl::Status RunState::HostFunction(size_t index, StreamRef stream) {
  const absl::Status status = LaunchHostFunc(
      stream, [self = shared_from_this(), index](absl::Status given) {
        self->Called(index, given);
      });
  if (status.ok()) submitted_[index] = 1;
  return status;
}

void RunState::Called(size_t index, const absl::Status& given) {
  const Step& s = program_.steps[index];
  ++calls_[index];
  if (over_) return;
  absl::Status seen = given;
  if (seen.ok() && s.src.block >= 0) seen = Compare(s);
  if (s.dst.block >= 0) Put(s);
  if (!seen.ok()) {
    Fail(index, absl::StrCat("in the host function: ", Text(seen)));
  }
}

absl::Status RunState::Order(const Step& s) {
  DEVRT_ASSIGN_OR_RETURN(const StreamRef stream, StreamOf(s.stream));
  if (s.act == Act::kRecord) return EventOf(s.event).Record(stream);
  if (s.act == Act::kWait) return stream.Wait(EventOf(s.event));
  DEVRT_ASSIGN_OR_RETURN(const StreamRef other, StreamOf(s.other));
  return stream.Wait(other);
}

// ---- The host

absl::Status RunState::Host(size_t index) {
  const Step& s = program_.steps[index];
  switch (s.act) {
    case Act::kSyncStream: {
      DEVRT_ASSIGN_OR_RETURN(const StreamRef stream, StreamOf(s.stream));
      return stream.Synchronize();
    }
    case Act::kSyncEvent:
      return EventOf(s.event).Synchronize();
    case Act::kSyncDevice:
      return DeviceOf(s.device).Synchronize();
    case Act::kQueryStream:
    case Act::kQueryEvent:
      return Query(index);
    case Act::kPollStream:
    case Act::kPollEvent:
      return Poll(s);
    case Act::kElapsed:
      return Elapsed(s);
    case Act::kOpen:
      return gates_[Index(s.gate)]->Set();
    case Act::kHostWrite:
      Put(s);
      return absl::OkStatus();
    case Act::kHostRead:
      return Compare(s);
    case Act::kSelectDevice:
      return SetCurrentDevice(DeviceOf(s.device));
    default:
      return absl::OkStatus();
  }
}

absl::StatusOr<bool> RunState::IsComplete(const Step& s) const {
  if (s.event >= 0) return EventOf(s.event).Query();
  DEVRT_ASSIGN_OR_RETURN(const StreamRef stream, StreamOf(s.stream));
  return stream.Query();
}

absl::Status RunState::Query(size_t index) {
  const Step& s = program_.steps[index];
  if (s.truth == Truth::kSoon) {
    DEVRT_RETURN_IF_ERROR(Poll(s));
    return s.src.block >= 0 ? Compare(s) : absl::OkStatus();
  }
  DEVRT_ASSIGN_OR_RETURN(const bool done, IsComplete(s));
  if (s.truth == Truth::kTrue && !done) {
    return Wrong("the answer is false although the host has waited for all");
  }
  if (s.truth == Truth::kFalse && done) {
    return Wrong("the answer is true although a gate before it is closed");
  }
  return done && s.src.block >= 0 ? Compare(s) : absl::OkStatus();
}

absl::Status RunState::Poll(const Step& s) {
  const auto end = RealClock::now() + kPollPatience;
  while (true) {
    DEVRT_ASSIGN_OR_RETURN(const bool done, IsComplete(s));
    if (done) return absl::OkStatus();
    if (RealClock::now() > end) return Wrong("the answer is never true");
    if (!venue_.simulator.has_value()) sched_yield();
  }
}

absl::Status RunState::Elapsed(const Step& s) {
  const absl::StatusOr<double> time =
      ElapsedMilliseconds(EventOf(s.event), EventOf(s.other));
  if (s.truth == Truth::kError) {
    if (absl::IsFailedPrecondition(time.status())) return absl::OkStatus();
    return Wrong(
        absl::StrCat("an event behind a closed gate is not complete, and has "
                     "no time; the answer is ",
                     time.ok() ? "OK" : time.status().ToString()));
  }
  if (!time.ok()) return time.status();
  if ((s.truth == Truth::kTrue && *time < 0) ||
      (s.truth == Truth::kFalse && *time > 0)) {
    return Wrong(absl::StrCat("the time is ", *time, " ms: of the wrong sign"));
  }
  return absl::OkStatus();
}

void RunState::Put(const Step& s) const {
  uint8_t* const at = At(s.dst);
  for (uint64_t i = 0; i < Bytes(s.dst); ++i) at[i] = s.value.After(i).base;
}

absl::Status RunState::Compare(const Step& s) const {
  const uint8_t* const at = At(s.src);
  for (uint64_t i = 0; i < Bytes(s.src); ++i) {
    const uint64_t slice = i / program_.slice_bytes;
    const uint8_t expected =
        s.found[slice].After(i % program_.slice_bytes).base;
    if (at[i] == expected) continue;
    return Wrong(absl::StrCat("byte ", i, " of the ", Bytes(s.src), " read is ",
                              +at[i], ", not ", +expected));
  }
  return absl::OkStatus();
}

}  // namespace devrt::cts
