// SPDX-License-Identifier: Apache-2.0
#include "cts/random/maker.h"

#include <algorithm>
#include <utility>

namespace devrt::cts {
namespace {

constexpr uint32_t kSliceBytes[] = {1, 3, 16, 64, 100, 512, 1000, 4096, 65536};
constexpr int kTriesToOrder = 6;
constexpr int kMostOtherWaits = 5;

// The most objects of each kind, for a device or for the whole program.
constexpr int kMostStreams = 5, kMostEvents = 6, kMostBlocks = 2;

}  // namespace

Maker::Maker(uint64_t seed, const ProgramShape& shape)
    : shape_(shape), dice_(seed) {
  program_.seed = seed;
  MakeTables();
  model_ = std::make_unique<Model>(program_, shape.limits);
}

// ---- Tables

void Maker::MakeTables() {
  program_.devices = dice_.Between(shape_.min_devices, shape_.max_devices);
  program_.threads =
      shape_.max_threads < 2 ? 1 : dice_.Between(2, shape_.max_threads);
  program_.concurrent = shape_.concurrent && dice_.Percent(50);
  // Large slices are rare: they are slow.
  program_.slice_bytes = kSliceBytes[dice_.Below(dice_.Percent(10) ? 9 : 7)];
  default_percent_ = program_.concurrent ? 0 : dice_.Below(35);
  per_thread_percent_ = dice_.Below(25);
  AddStreams();
  const int events = dice_.Between(2, kMostEvents);
  for (int i = 0; i < events; ++i) {
    EventInfo info;
    info.device = dice_.Below(program_.devices);
    info.timing = shape_.limits.timing && dice_.Percent(40);
    info.blocking_sync = dice_.Percent(20);
    program_.events.push_back(info);
  }
  AddBlocks();
  const int gates = shape_.limits.gates ? dice_.Below(4) : 0;
  for (int i = 0; i < gates; ++i) {
    program_.gates.push_back({dice_.Below(program_.devices)});
  }
}

void Maker::AddStreams() {
  for (int d = 0; d < program_.devices; ++d) {
    program_.streams.push_back({StreamKind::kDefault, d, 0, false});
    for (int t = 0; t < program_.threads; ++t) {
      program_.streams.push_back({StreamKind::kPerThread, d, t, false});
    }
  }
  const int blocking_percent = dice_.Below(100);
  const int created = dice_.Between(2, kMostStreams) + program_.devices - 1;
  for (int i = 0; i < created; ++i) {
    StreamInfo info;
    info.kind = dice_.Percent(blocking_percent) ? StreamKind::kBlocking
                                                : StreamKind::kNonBlocking;
    info.device = dice_.Below(program_.devices);
    info.native = dice_.Percent(40);
    program_.streams.push_back(info);
  }
}

void Maker::AddBlocks() {
  for (int d = 0; d < program_.devices; ++d) {
    const int blocks = dice_.Between(1, kMostBlocks);
    for (int i = 0; i < blocks; ++i) {
      program_.blocks.push_back({Space::kDevice, d, dice_.Between(1, 5)});
    }
  }
  const int host = dice_.Between(1, 3);
  for (int i = 0; i < host; ++i) {
    const bool pinned = shape_.limits.pinned && dice_.Percent(75);
    program_.blocks.push_back({pinned ? Space::kPinned : Space::kPlain,
                               dice_.Below(program_.devices),
                               dice_.Between(1, 5)});
  }
}

// ---- Objects

bool Maker::IsUsable(int stream) const {
  const StreamInfo& info = program_.streams[static_cast<size_t>(stream)];
  return model_->IsAliveStream(stream) &&
         (info.kind != StreamKind::kPerThread || info.thread == thread_);
}

bool Maker::HasStream(int stream) {
  if (IsUsable(stream)) return true;
  if (model_->WasStream(stream)) return false;
  Step step;
  step.act = Act::kNewStream;
  step.stream = stream;
  return Offer(step);
}

bool Maker::HasEvent(int event) {
  if (model_->IsAliveEvent(event)) return true;
  if (model_->WasEvent(event)) return false;
  Step step;
  step.act = Act::kNewEvent;
  step.event = event;
  return Offer(step);
}

bool Maker::HasBlock(int block) {
  if (model_->store().IsAlive(block)) return true;
  if (model_->store().WasAllocated(block)) return false;
  Step step;
  step.act = Act::kNewBlock;
  step.dst.block = block;
  return Offer(step);
}

int Maker::AStream(int device) {
  const int d = device >= 0 ? device : dice_.Below(program_.devices);
  if (dice_.Percent(default_percent_)) {
    return FindStream(program_, StreamKind::kDefault, d);
  }
  if (dice_.Percent(per_thread_percent_)) {
    return FindStream(program_, StreamKind::kPerThread, d, thread_);
  }
  std::vector<int> streams;
  for (size_t i = 0; i < program_.streams.size(); ++i) {
    const StreamInfo& info = program_.streams[i];
    const int stream = static_cast<int>(i);
    if (info.IsCreated() && (device < 0 || info.device == device) &&
        (model_->IsAliveStream(stream) || !model_->WasStream(stream))) {
      streams.push_back(stream);
    }
  }
  const int stream =
      streams.empty() ? FindStream(program_, StreamKind::kPerThread, d, thread_)
                      : dice_.Of(streams);
  return HasStream(stream) ? stream : -1;
}

int Maker::AnEvent(int device) {
  std::vector<int> events;
  for (size_t i = 0; i < program_.events.size(); ++i) {
    const int event = static_cast<int>(i);
    if (program_.events[i].device == device &&
        (model_->IsAliveEvent(event) || !model_->WasEvent(event))) {
      events.push_back(event);
    }
  }
  if (events.empty()) return -1;
  const int event = dice_.Of(events);
  return HasEvent(event) ? event : -1;
}

int Maker::ARecordedEvent(int like, bool timed) {
  std::vector<int> events;
  for (size_t i = 0; i < program_.events.size(); ++i) {
    const int event = static_cast<int>(i);
    if (!model_->IsRecorded(event) || (timed && !model_->IsTimed(event)) ||
        (like >= 0 && model_->RecordedOn(event) != model_->RecordedOn(like))) {
      continue;
    }
    events.push_back(event);
  }
  return events.empty() ? -1 : dice_.Of(events);
}

int Maker::EventWith(Epoch epoch) {
  std::vector<int> events;
  for (size_t i = 0; i < program_.events.size(); ++i) {
    if (model_->EventHas(static_cast<int>(i), epoch)) {
      events.push_back(static_cast<int>(i));
    }
  }
  return events.empty() ? -1 : dice_.Of(events);
}

Content Maker::AValue(bool may_rise) {
  value_ = value_ % 251 + 1;
  Content value;
  value.defined = true;
  value.base = static_cast<uint8_t>(value_);
  if (may_rise && dice_.Percent(70)) {
    value.stride = static_cast<uint8_t>(2 * dice_.Below(20) + 1);
  }
  return value;
}

// ---- Steps

bool Maker::Offer(Step step) {
  step.thread = thread_;
  if (!model_->Execute(&step).ok) return false;
  program_.steps.push_back(std::move(step));
  return true;
}

bool Maker::OfferOrdered(const Step& offered) {
  Step step = offered;
  step.thread = thread_;
  for (int i = 0; i < kTriesToOrder; ++i) {
    const Verdict verdict = model_->Execute(&step);
    if (verdict.ok) {
      program_.steps.push_back(std::move(step));
      return true;
    }
    if (!verdict.conflict.has_value()) return false;
    const bool in_stream = !verdict.on_host && dice_.Percent(80);
    // The wait that matters is one of many, and not always the last.
    const bool among_others = in_stream && dice_.Percent(40);
    if (among_others) WaitForOthers(step.stream);
    const bool done =
        (in_stream && OrderInStream(*verdict.conflict, step.stream)) ||
        OrderOnHost(*verdict.conflict);
    if (!done) return false;
    if (among_others) WaitForOthers(step.stream);
  }
  return false;
}

bool Maker::Record(int event, int stream) {
  if (event < 0) return false;
  Step step;
  step.act = Act::kRecord;
  step.event = event;
  step.stream = stream;
  return Offer(step);
}

bool Maker::WaitFor(int event, int stream) {
  if (event < 0) return false;
  Step step;
  step.act = Act::kWait;
  step.event = event;
  step.stream = stream;
  return Offer(step);
}

void Maker::WaitForOthers(int stream) {
  for (int i = dice_.Below(kMostOtherWaits + 1); i > 0; --i) {
    WaitFor(ARecordedEvent(), stream);
  }
}

// Makes the next operation of `stream` come after `before`.
bool Maker::OrderInStream(Epoch before, int stream) {
  const int from = model_->StreamOf(before);
  if (from < 0) return false;
  const int device = program_.streams[static_cast<size_t>(from)].device;
  // An event that captured it, or one that captured more.
  if (dice_.Percent(50) && WaitFor(EventWith(before), stream)) return true;
  if (!IsUsable(from)) return WaitFor(EventWith(before), stream);
  switch (dice_.Below(4)) {
    case 0: {
      Step step;
      step.act = Act::kWaitStream;
      step.stream = stream;
      step.other = from;
      return Offer(step);
    }
    case 1: {  // through another stream
      const int middle = AStream();
      const int first = AnEvent(device);
      if (middle < 0 || middle == from || middle == stream ||
          !Record(first, from) || !WaitFor(first, middle)) {
        return false;
      }
      const int second =
          AnEvent(program_.streams[static_cast<size_t>(middle)].device);
      return Record(second, middle) && WaitFor(second, stream);
    }
    default: {
      const int event = AnEvent(device);
      return Record(event, from) && WaitFor(event, stream);
    }
  }
}

// Makes the next action of this thread come after `before`.
bool Maker::OrderOnHost(Epoch before) {
  const int from = model_->StreamOf(before);
  if (from < 0) return false;
  Step step;
  step.event = EventWith(before);
  const int choice = dice_.Below(10);
  if (step.event >= 0 && choice < 5) {
    step.act = choice < 3 ? Act::kSyncEvent : Act::kPollEvent;
    return Offer(step);
  }
  step.event = -1;
  if (IsUsable(from) && choice < 9) {
    step.act = choice < 7 ? Act::kSyncStream : Act::kPollStream;
    step.stream = from;
    return Offer(step);
  }
  step.act = Act::kSyncDevice;
  step.device = program_.streams[static_cast<size_t>(from)].device;
  return Offer(step);
}

}  // namespace devrt::cts
