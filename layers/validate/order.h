// SPDX-License-Identifier: Apache-2.0
//
// The order in which a program has asked for its work: the rules of streams,
// events and host threads (docs/reference/semantics.md 1.2 to 1.5), as vector
// clocks.  Two operations that are unordered here may run in either order on a
// device, whatever order one run shows.
//
//   Order order;
//   const Actor host = order.AddThread();
//   const Actor a = order.AddStream(host, {device, StreamKind::kNonBlocking});
//   const Actor b = order.AddStream(host, {device, StreamKind::kNonBlocking});
//   const Epoch write = order.Submit(host, a);
//   const Mark mark = order.Record(host, a);
//   order.Wait(host, b, mark);
//   order.Submit(host, b);
//   order.ClockOf(b).Knows(write);  // true; false without the wait
//
// The rules are those of the calls, not of one run: a wait takes the event's
// newest mark at the call, and a new record leaves earlier waits as they are.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_ORDER_H_
#define DEVRT_LAYERS_VALIDATE_ORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "layers/validate/vector_clock.h"

namespace devrt::race {

// How a stream relates to its device's legacy default stream.
enum class StreamKind : uint8_t {
  kLegacy,       // the implicit default stream: one of a device
  kBlocking,     // ordered with the legacy stream, as PER_THREAD streams are
  kNonBlocking,  // ordered by events and host waits only
};
inline constexpr size_t kStreamKinds = 3;

struct StreamTraits {
  uint32_t device = 0;
  StreamKind kind = StreamKind::kNonBlocking;
};

// The work before a record, which the event holds then; or the work that a host
// wait waits for.
using Mark = VectorClock;

class Order {
 public:
  // `parent` started the thread; kNoActor: it is not known which thread did.
  Actor AddThread(Actor parent = kNoActor);
  // A thread that begins with the knowledge of `known`.  It may have the number
  // of a thread that was removed, if `known` has all actions of that one.
  Actor AddThreadAfter(const VectorClock& known);
  // The thread makes no more calls.
  void RemoveThread(Actor thread);
  // A new stream may have the number of one that was removed, if `thread` knows
  // all work of that one: then its operations are later ones of one actor.
  Actor AddStream(Actor thread, StreamTraits traits);
  // The stream's work keeps its order; `stream` gets no more calls.
  void RemoveStream(Actor stream);

  // An operation that `thread` enqueues on `stream`.
  Epoch Submit(Actor thread, Actor stream) {
    State& state = actors_[stream];
    state.clock.JoinSubmitter(actors_[thread].clock);
    JoinLegacyRule(state.traits, &state.clock);
    devices_[state.traits.device].newest = stream;
    const Epoch epoch = state.clock.Publish();
    Act(thread);
    return epoch;
  }
  // A record of an event: an operation without accesses.
  Mark Record(Actor thread, Actor stream);
  // `stream` waits for the mark that an event has at this call.
  void Wait(Actor thread, Actor stream, const Mark& mark) {
    State& state = actors_[stream];
    state.clock.Join(mark);
    // A wait is an action of the legacy stream: the blocking streams are
    // ordered by it.
    if (state.traits.kind == StreamKind::kLegacy) Submit(thread, stream);
  }

  // The work that a host wait for the stream would wait for now.  Waits on a
  // legacy stream cover the blocking streams of its device.
  Mark MarkOfStream(Actor stream) const;
  // All streams of the device, those that were removed too.
  Mark MarkOfDevice(uint32_t device) const;
  // Adds the work before an operation that `thread` would enqueue on `stream`
  // now.  kNoActor: the work before an action of the thread.  `legacy` holds a
  // part of it.
  void AddWorkBefore(Actor thread, Actor stream, Mark* legacy,
                     Knowledge* known) const;
  // `thread` has waited for the mark, or a query said that it is complete.
  void HostWait(Actor thread, const Mark& mark);

  // A host action that others may be ordered after: a write to host memory.
  Epoch HostAction(Actor thread);
  // From now on the thread knows nothing but `known`, its own past and what it
  // knew when it began.
  void ReplaceKnowledge(Actor thread, const VectorClock& known);

  const VectorClock& ClockOf(Actor actor) const { return actors_[actor].clock; }
  bool IsStream(Actor actor) const { return actors_[actor].is_stream; }
  const StreamTraits& TraitsOf(Actor stream) const {
    return actors_[stream].traits;
  }
  uint32_t size() const { return static_cast<uint32_t>(actors_.size()); }

 private:
  struct State {
    VectorClock clock;
    StreamTraits traits;
    bool is_stream = false;
    uint32_t place = 0;  // in the list of the live streams of its kind
    // What a thread knew at its begin.  Its number may be that of another one.
    VectorClock begin;
    // Of a thread whose later actions need not know what its earlier ones did.
    bool forgets = false;
  };

  // The live streams of a device by kind, and what was enqueued on those that
  // are gone.
  struct DeviceStreams {
    std::array<std::vector<Actor>, kStreamKinds> live;
    Actor newest = kNoActor;  // the stream of the last operation
    VectorClock removed;
    VectorClock removed_blocking;

    const std::vector<Actor>& Live(StreamKind kind) const {
      return live[static_cast<size_t>(kind)];
    }
    std::vector<Actor>& Live(StreamKind kind) {
      return live[static_cast<size_t>(kind)];
    }
  };

  // An action of a thread.
  Epoch Act(Actor thread) {
    State& state = actors_[thread];
    return state.forgets ? state.clock.Tick() : state.clock.Publish();
  }
  DeviceStreams& StreamsOf(uint32_t device);
  // The number of a removed actor whose past `known` has, or a new one.
  Actor NumberFor(const VectorClock& known, std::deque<Actor>* removed);
  // Adds what the rule of the legacy stream puts before an action on a stream.
  void JoinLegacyRule(const StreamTraits& traits, VectorClock* clock) const {
    if (traits.kind != StreamKind::kNonBlocking) JoinOthers(traits, clock);
  }
  void JoinOthers(const StreamTraits& traits, VectorClock* clock) const;

  std::vector<State> actors_;
  std::vector<DeviceStreams> devices_;
  // Numbers that may be used again.
  std::deque<Actor> removed_;
  std::deque<Actor> removed_threads_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_ORDER_H_
