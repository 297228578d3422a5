// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/order.h"

#include <algorithm>

namespace devrt::race {
namespace {

// How many numbers of removed streams a new stream looks at.
constexpr size_t kLooksAtRemoved = 4;

}  // namespace

Actor Order::AddThread(Actor parent) {
  const auto actor = static_cast<Actor>(actors_.size());
  State state;
  state.clock = VectorClock(actor);
  if (parent != kNoActor) {
    state.clock.Join(actors_[parent].clock);
    actors_[parent].clock.Tick();
  }
  state.clock.Tick();
  actors_.push_back(std::move(state));
  return actor;
}

Actor Order::NumberFor(Actor thread) {
  const VectorClock& known = actors_[thread].clock;
  const size_t looks = std::min(removed_.size(), kLooksAtRemoved);
  for (size_t i = 0; i < looks; ++i) {
    const Actor actor = removed_.front();
    removed_.pop_front();
    if (known.Knows(actors_[actor].clock.now())) return actor;
    removed_.push_back(actor);
  }
  actors_.emplace_back();
  return size() - 1;
}

Actor Order::AddStream(Actor thread, StreamTraits traits) {
  const Actor actor = NumberFor(thread);
  State& state = actors_[actor];
  const Epoch last = state.clock.now();
  state.clock = VectorClock(actor);
  if (last.actor == actor) state.clock.Learn(last);
  state.clock.JoinSubmitter(actors_[thread].clock);
  state.traits = traits;
  state.is_stream = true;
  DeviceStreams& streams = StreamsOf(traits.device);
  streams.all.push_back(actor);
  if (traits.kind == StreamKind::kLegacy) streams.legacy.push_back(actor);
  if (traits.kind == StreamKind::kBlocking) streams.blocking.push_back(actor);
  return actor;
}

void Order::RemoveStream(Actor stream) {
  const State& state = actors_[stream];
  DeviceStreams& streams = StreamsOf(state.traits.device);
  const auto erase = [stream](std::vector<Actor>* list) {
    list->erase(std::remove(list->begin(), list->end(), stream), list->end());
  };
  streams.removed.Join(state.clock);
  if (state.traits.kind == StreamKind::kBlocking) {
    streams.removed_blocking.Join(state.clock);
  }
  erase(&streams.legacy);
  erase(&streams.blocking);
  erase(&streams.all);
  removed_.push_back(stream);
}

Epoch Order::Submit(Actor thread, Actor stream) {
  State& state = actors_[stream];
  state.clock.JoinSubmitter(actors_[thread].clock);
  JoinLegacyRule(state.traits, &state.clock);
  const Epoch epoch = state.clock.Tick();
  actors_[thread].clock.Tick();
  return epoch;
}

Mark Order::Record(Actor thread, Actor stream) {
  Submit(thread, stream);
  return actors_[stream].clock;
}

void Order::Wait(Actor thread, Actor stream, const Mark& mark) {
  State& state = actors_[stream];
  if (state.traits.kind == StreamKind::kLegacy) {
    // A wait is an action of the legacy stream: the blocking streams are
    // ordered by it.
    state.clock.Join(mark);
    Submit(thread, stream);
    return;
  }
  state.clock.Join(mark);
}

Mark Order::MarkOfStream(Actor stream) const {
  const State& state = actors_[stream];
  Mark mark = state.clock;
  if (state.traits.kind == StreamKind::kLegacy) {
    JoinLegacyRule(state.traits, &mark);
  }
  return mark;
}

Mark Order::MarkOfNext(Actor thread, Actor stream) const {
  Mark mark = actors_[thread].clock;
  if (stream == kNoActor) return mark;
  mark.Join(actors_[stream].clock);
  JoinLegacyRule(actors_[stream].traits, &mark);
  return mark;
}

Mark Order::MarkOfDevice(uint32_t device) const {
  Mark mark;
  if (device >= devices_.size()) return mark;
  for (const Actor stream : devices_[device].all) {
    mark.Join(actors_[stream].clock);
  }
  mark.Join(devices_[device].removed);
  return mark;
}

void Order::HostWait(Actor thread, const Mark& mark) {
  actors_[thread].clock.Join(mark);
}

Epoch Order::HostAction(Actor thread) { return actors_[thread].clock.Tick(); }

Order::DeviceStreams& Order::StreamsOf(uint32_t device) {
  if (device >= devices_.size()) devices_.resize(device + 1);
  return devices_[device];
}

void Order::JoinLegacyRule(const StreamTraits& traits,
                           VectorClock* clock) const {
  if (traits.kind == StreamKind::kNonBlocking) return;
  const DeviceStreams& streams = devices_[traits.device];
  if (traits.kind == StreamKind::kBlocking) {
    for (const Actor legacy : streams.legacy) {
      clock->Join(actors_[legacy].clock);
    }
    return;
  }
  for (const Actor blocking : streams.blocking) {
    clock->Join(actors_[blocking].clock);
  }
  clock->Join(streams.removed_blocking);
}

}  // namespace devrt::race
