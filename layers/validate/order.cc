// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/order.h"

#include <algorithm>
#include <utility>

namespace devrt::race {
namespace {

// How many numbers of removed actors a new one looks at.
constexpr size_t kLooksAtRemoved = 4;
// More threads that ended and that nobody joined take no further numbers.  A
// new thread then counts as one that comes after the oldest of them: the
// detector may miss a race between these two.
constexpr size_t kMostRemovedThreads = 1024;

}  // namespace

Actor Order::AddThread(Actor parent) {
  const auto actor = static_cast<Actor>(actors_.size());
  State state;
  state.clock = VectorClock(actor);
  if (parent != kNoActor) {
    state.clock.Join(actors_[parent].clock);
    Act(parent);
  }
  actors_.push_back(std::move(state));
  Act(actor);
  return actor;
}

Actor Order::AddThreadAfter(const VectorClock& known) {
  Actor actor = kNoActor;
  if (removed_threads_.size() < kMostRemovedThreads) {
    actor = NumberFor(known, &removed_threads_);
  } else {
    actor = removed_threads_.front();
    removed_threads_.pop_front();
    actors_[actor].forgets = true;
  }
  State& state = actors_[actor];
  const VectorClock before = std::move(state.clock);
  state.clock = VectorClock(actor);
  state.clock.Join(known);
  // Clocks that know an action of the thread that had the number before are
  // taken to know what that thread knew.
  if (before.now().actor == actor) state.clock.Join(before);
  state.begin = state.clock;
  return actor;
}

void Order::RemoveThread(Actor thread) { removed_threads_.push_back(thread); }

Actor Order::NumberFor(const VectorClock& known, std::deque<Actor>* removed) {
  const size_t looks = std::min(removed->size(), kLooksAtRemoved);
  for (size_t i = 0; i < looks; ++i) {
    const Actor actor = removed->front();
    removed->pop_front();
    if (known.Knows(actors_[actor].clock.now())) return actor;
    removed->push_back(actor);
  }
  actors_.emplace_back();
  return size() - 1;
}

Actor Order::AddStream(Actor thread, StreamTraits traits) {
  const Actor actor = NumberFor(actors_[thread].clock, &removed_);
  State& state = actors_[actor];
  const Epoch last = state.clock.now();
  state.clock = VectorClock(actor);
  if (last.actor == actor) state.clock.Learn(last);
  state.clock.JoinSubmitter(actors_[thread].clock);
  state.traits = traits;
  state.is_stream = true;
  std::vector<Actor>& live = StreamsOf(traits.device).Live(traits.kind);
  state.place = static_cast<uint32_t>(live.size());
  live.push_back(actor);
  return actor;
}

void Order::RemoveStream(Actor stream) {
  const State& state = actors_[stream];
  DeviceStreams& streams = StreamsOf(state.traits.device);
  streams.removed.Join(state.clock);
  if (state.traits.kind == StreamKind::kBlocking) {
    streams.removed_blocking.Join(state.clock);
  }
  // The last one takes its place: the lists have no order.
  std::vector<Actor>& live = streams.Live(state.traits.kind);
  actors_[live.back()].place = state.place;
  live[state.place] = live.back();
  live.pop_back();
  if (streams.newest == stream) streams.newest = kNoActor;
  removed_.push_back(stream);
}

Mark Order::Record(Actor thread, Actor stream) {
  Submit(thread, stream);
  return actors_[stream].clock;
}

Mark Order::MarkOfStream(Actor stream) const {
  const State& state = actors_[stream];
  Mark mark = state.clock;
  if (state.traits.kind == StreamKind::kLegacy) {
    JoinLegacyRule(state.traits, &mark);
  }
  return mark;
}

void Order::AddWorkBefore(Actor thread, Actor stream, Mark* legacy,
                          Knowledge* known) const {
  if (stream == kNoActor) return known->Add(actors_[thread].clock);
  const State& state = actors_[stream];
  known->Add(state.clock);  // which mostly has the answer
  known->Add(actors_[thread].clock);
  if (state.traits.kind == StreamKind::kNonBlocking) return;
  JoinOthers(state.traits, legacy);
  known->Add(*legacy);
}

Mark Order::MarkOfDevice(uint32_t device) const {
  Mark mark;
  if (device >= devices_.size()) return mark;
  const DeviceStreams& streams = devices_[device];
  // Often it knows most of the others.
  if (streams.newest != kNoActor) mark.Join(actors_[streams.newest].clock);
  for (const std::vector<Actor>& live : streams.live) {
    for (const Actor stream : live) mark.Join(actors_[stream].clock);
  }
  mark.Join(streams.removed);
  return mark;
}

void Order::HostWait(Actor thread, const Mark& mark) {
  actors_[thread].clock.Join(mark);
}

Epoch Order::HostAction(Actor thread) { return Act(thread); }

void Order::ReplaceKnowledge(Actor thread, const VectorClock& known) {
  VectorClock clock(thread);
  clock.Learn(actors_[thread].clock.now());
  clock.Join(actors_[thread].begin);  // as in AddThreadAfter
  clock.Join(known);
  actors_[thread].clock = std::move(clock);
  actors_[thread].forgets = true;
}

Order::DeviceStreams& Order::StreamsOf(uint32_t device) {
  if (device >= devices_.size()) devices_.resize(device + 1);
  return devices_[device];
}

void Order::JoinOthers(const StreamTraits& traits, VectorClock* clock) const {
  const DeviceStreams& streams = devices_[traits.device];
  if (traits.kind == StreamKind::kBlocking) {
    for (const Actor legacy : streams.Live(StreamKind::kLegacy)) {
      clock->Join(actors_[legacy].clock);
    }
    return;
  }
  for (const Actor blocking : streams.Live(StreamKind::kBlocking)) {
    clock->Join(actors_[blocking].clock);
  }
  clock->Join(streams.removed_blocking);
}

}  // namespace devrt::race
