// SPDX-License-Identifier: Apache-2.0
//
// The reference model: which steps are legal, and what they must read.
//
//   Model model(program, limits);
//   for (Step& step : program.steps) {
//     const Verdict v = model.Execute(&step);
//     if (!v.ok) std::puts(v.why);
//   }
//
// The model has a partial order, by the edges of docs/reference/semantics.md
// 1.14, and a store.  A step is legal if its objects exist, if it conflicts
// with no unordered access, and if it cannot wait for a closed gate.  So each
// read has one legal value, and every program terminates.
//
// Where docs/reference/semantics.md leaves a choice, the model assumes the
// worse one: an edge that a backend may omit does not order, and a wait that a
// backend may make can block.
//
// In concurrent programs an object belongs to the first thread that uses it,
// until the next barrier.

#ifndef DEVRT_CTS_RANDOM_MODEL_H_
#define DEVRT_CTS_RANDOM_MODEL_H_

#include <optional>
#include <vector>

#include "cts/random/clock.h"
#include "cts/random/program.h"
#include "cts/random/store.h"

namespace devrt::cts {

// The capabilities of the backend, and its permitted deviations.
struct Limits {
  bool pinned = false;      // PINNED_HOST
  bool host_func = false;   // HOST_FUNC
  bool peer_copy = false;   // PEER_COPY; without it copies use the host
  bool timing = false;      // EVENT_TIMING
  bool gates = false;       // devrt.probe/0
  bool free_waits = false;  // a raw free or allocation may wait for work
};

struct Verdict {
  bool ok = false;
  const char* why = "";           // the reason if not
  std::optional<Epoch> conflict;  // the access that is not ordered before,
  bool on_host = false;           // and for which the host has to wait
};

class Model {
 public:
  // `program` gives the tables and must outlive the model.
  Model(const Program& program, const Limits& limits);

  // Executes the step, and fills in what it must read.  An illegal step changes
  // nothing.
  Verdict Execute(Step* step);

  // ---- What the generator looks at.

  bool IsAliveStream(int s) const { return Of(s).alive; }
  bool WasStream(int s) const { return Of(s).alive || Of(s).dead; }
  bool IsAliveEvent(int e) const { return At(e).alive; }
  bool WasEvent(int e) const { return At(e).alive || At(e).dead; }
  bool IsRecorded(int e) const { return At(e).alive && At(e).recorded; }
  bool IsTimed(int e) const;
  // The stream of the newest record of the event.
  int RecordedOn(int e) const { return StreamOf(At(e).record); }
  // True if the newest capture of the event covers `epoch`.
  bool EventHas(int e, Epoch epoch) const {
    return IsRecorded(e) && At(e).clock.Has(epoch);
  }
  bool IsHeld(int gate) const { return gates_[Index(gate)].held; }
  bool IsOpen(int gate) const { return gates_[Index(gate)].open; }
  bool AnyClosed() const;
  const BlockStore& store() const { return store_; }
  // The stream of an actor; -1 for host threads.
  int StreamOf(Epoch epoch) const { return epoch.actor - program_.threads; }

 private:
  // The thread that has used an object since the last barrier.
  struct Owner {
    int section = -1;
    int thread = -1;
  };
  struct StreamState {
    bool alive = false, dead = false;
    Clock clock;
    // The tick of the newest operation other than a wait for an event.
    uint32_t work = 0;
    Owner owner;
  };
  struct EventState {
    bool alive = false, dead = false, recorded = false;
    Clock clock;
    Epoch record;
    Owner owner;
  };
  struct GateState {
    bool held = false, open = false;
    std::vector<Epoch> holds;
    Owner owner;
  };
  // The owner of an object that a step uses.
  struct Use {
    Owner* owner;
    bool claims;  // the object belongs to the step's thread from then on
  };

  static size_t Index(int i) { return static_cast<size_t>(i); }
  StreamState& Of(int stream) { return streams_[Index(stream)]; }
  const StreamState& Of(int stream) const { return streams_[Index(stream)]; }
  EventState& At(int event) { return events_[Index(event)]; }
  const EventState& At(int event) const { return events_[Index(event)]; }
  const StreamInfo& InfoOf(int stream) const {
    return program_.streams[Index(stream)];
  }
  const EventInfo& EventInfoOf(int event) const {
    return program_.events[Index(event)];
  }
  const BlockInfo& BlockOf(const Span& s) const {
    return program_.blocks[Index(s.block)];
  }
  bool OnHost(const Span& s) const {
    return BlockOf(s).space != Space::kDevice;
  }
  int Actor(int stream) const { return program_.threads + stream; }
  // The number of the clock of the step's thread.  Unless the program is
  // concurrent its steps run one after the other, so all threads share one
  // clock.
  int HostActor(const Step& s) const {
    return program_.concurrent ? s.thread : 0;
  }
  Clock& Me(const Step& s) { return threads_[Index(HostActor(s))]; }
  const Clock& Me(const Step& s) const { return threads_[Index(HostActor(s))]; }

  // ---- Legality (model_rules.cc).  nullptr, or why not.
  const char* WhyNot(const Step& s) const;
  const char* WhyNotMade(const Step& s) const;
  const char* WhyNotGiven(const Step& s) const;
  const char* WhyNotWork(const Step& s) const;
  const char* WhyNotCopy(const Step& s) const;
  const char* WhyNotHost(const Step& s) const;
  const char* WhyNotElapsed(const Step& s) const;
  const char* WhyNotStuck(const Step& s) const;
  bool Usable(int stream, int thread) const;
  bool Fits(const Span& span) const;
  bool ReadsAtOnce(const Step& s) const;
  std::optional<Epoch> ConflictOf(const Step& s) const;
  std::vector<Use> UsesOf(const Step& s);
  bool TakeOwnership(const Step& s);

  // ---- Edges (model.cc)
  // The stream's clock, joined with the submission of the step.
  Clock Submitted(const Step& s, int stream) const;
  // What a synchronisation of the stream covers for certain, and all that a
  // synchronisation or a query may cover.
  Clock Covered(int stream) const;
  Clock Reach(int stream) const;
  Clock ReachDevice(int device) const;
  // Returns true if a closed gate holds an operation that `clock` covers.
  bool IsHeldUp(const Clock& clock) const;
  // Returns true if the thread of `s` knows that all operations on streams that
  // `clock` covers are complete.
  bool Knows(const Step& s, const Clock& clock) const {
    return Me(s).HasAll(clock, program_.threads);
  }
  // Returns true if the thread of `s` knows this of each stream's operations up
  // to the last that is not a wait for an event.
  bool KnowsWork(const Step& s, const Clock& clock) const;
  // Adds an operation other than a wait for an event to the stream.
  Epoch NextWork(int stream);
  // True if the act enqueues an operation on a stream.
  static bool IsWork(Act act);
  // Brings the model up to date with a step that was taken.
  void Apply(Step* s);
  void Objects(const Step& s);
  void Work(Step* s);
  void Copied(const Step& s, Epoch op);
  void Record(int event, const Step& s, int stream);
  void Wait(const Step& s, const Clock& captured);
  void Host(Step* s);
  void Query(Step* s);
  void Elapsed(Step* s) const;

  const Program& program_;
  const Limits limits_;
  const int actors_;
  std::vector<Clock> threads_;
  std::vector<StreamState> streams_;
  std::vector<EventState> events_;
  std::vector<GateState> gates_;
  std::vector<Owner> block_owners_;
  BlockStore store_;
  int section_ = 0;
};

// The steps of `program` that are legal in their order, with what they must
// read.
Program Repaired(const Program& program, const Limits& limits);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_MODEL_H_
