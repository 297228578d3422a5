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

struct StreamTraits {
  uint32_t device = 0;
  StreamKind kind = StreamKind::kNonBlocking;
};

// What an event holds after a record, or a host wait waits for: the work that
// came before it.
using Mark = VectorClock;

class Order {
 public:
  // `parent` started the thread; kNoActor: it is not known which thread did.
  Actor AddThread(Actor parent = kNoActor);
  // A new stream may have the number of one that was removed, if `thread` knows
  // all work of that one: then its operations are later ones of one actor.
  Actor AddStream(Actor thread, StreamTraits traits);
  // The stream's work keeps its order; `stream` gets no more calls.
  void RemoveStream(Actor stream);

  // An operation that `thread` enqueues on `stream`.
  Epoch Submit(Actor thread, Actor stream);
  // A record of an event: an operation without accesses.
  Mark Record(Actor thread, Actor stream);
  // `stream` waits for the mark that an event has at this call.
  void Wait(Actor thread, Actor stream, const Mark& mark);

  // What a host wait for the stream waits for, as of this call.  Waits on a
  // legacy stream cover the blocking streams of its device.
  Mark MarkOfStream(Actor stream) const;
  // All streams of the device, those that were removed too.
  Mark MarkOfDevice(uint32_t device) const;
  // What an operation that `thread` enqueues on `stream` now would come after.
  // kNoActor: what an action of the thread comes after.
  Mark MarkOfNext(Actor thread, Actor stream) const;
  // `thread` has waited for the mark, or a query said that it is complete.
  void HostWait(Actor thread, const Mark& mark);

  // A host action that others may be ordered after: a write to host memory.
  Epoch HostAction(Actor thread);

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
  };

  struct DeviceStreams {
    std::vector<Actor> legacy;    // none or one
    std::vector<Actor> blocking;  // live ones
    VectorClock removed;          // what was enqueued on streams that are gone
    VectorClock removed_blocking;
    std::vector<Actor> all;  // live ones
  };

  DeviceStreams& StreamsOf(uint32_t device);
  // The number of a removed stream whose work `thread` knows, or a new one.
  Actor NumberFor(Actor thread);
  // Adds what the rule of the legacy stream puts before an action on a stream.
  void JoinLegacyRule(const StreamTraits& traits, VectorClock* clock) const;

  std::vector<State> actors_;
  std::vector<DeviceStreams> devices_;
  std::deque<Actor> removed_;  // numbers that may be used again
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_ORDER_H_
