// SPDX-License-Identifier: Apache-2.0
//
// The process's detector, with what the plugin ABI calls things: handles of
// streams and events, devices of several backends, lines of the program.
//
// All backends share one detector, because a program's threads order the work
// of one backend after that of another.
//
// Threads: any; each function takes the lock.  No function calls a backend or
// waits.  Lives until the process ends.

#ifndef DEVRT_LAYERS_VALIDATE_VALIDATOR_H_
#define DEVRT_LAYERS_VALIDATE_VALIDATOR_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "layers/validate/call_stacks.h"
#include "layers/validate/detector.h"
#include "layers/validate/findings.h"
#include "layers/validate/findings_mutex.h"
#include "layers/validate/handle_map.h"
#include "layers/validate/host_threads.h"
#include "layers/validate/leaks.h"
#include "layers/validate/meetings.h"
#include "layers/validate/op_id.h"
#include "layers/validate/report.h"
#include "layers/validate/texts.h"

namespace devrt::race {

// The call of a program that a function of Validator is about.
struct Caller {
  const char* name = "";   // "copy", or the program's name of the operation
  bool is_static = false;  // the name never changes, as that of a literal
  bool uses_memory = true;
  const char* file = nullptr;
  int32_t line = 0;
  const char* place = nullptr;  // in place of file and line
  // The number that programs see of the stream of the call, plus 1; 0: unknown.
  uint64_t stream_number = 0;
  OpId op;             // as the simulator names the operation
  uint32_t stack = 0;  // of CallStacks; 0: nobody wants it
};

// One submission of devrt_collectives.h, copied.
struct Collectives {
  devrt_comm comm = nullptr;
  devrt_stream stream = nullptr;
  std::vector<devrt_collective_v0> calls;
  // What EnqueueGroup has noted, for EndGroup and RetractGroup.
  std::vector<Meetings::Step> steps;
  bool is_enqueued = false;
};

// A device of a backend: unique in the process.
using DeviceKey = uint32_t;

class Validator final : private Names {
 public:
  // `foreign_is_declared`: the program declares all that other libraries do on
  // adopted streams, so that these are judged as all others.
  // `log` gets the texts of LogLater, without a lock.
  Validator(Findings* findings, bool foreign_is_declared,
            FindingsMutex::Log log)
      : findings_(findings),
        foreign_is_declared_(foreign_is_declared),
        mutex_(std::move(log)) {}
  // The calling thread does not tell the object of its end any more.  The
  // layer's object is never destroyed, because other threads may end later.
  ~Validator() override;

  // The work that a wait of the host covers.  Its clock shares parts with those
  // of the detector, so it ends under the lock, on any thread.
  class WaitedWork {
   public:
    WaitedWork() = default;  // none
    WaitedWork(WaitedWork&& other) noexcept
        : validator_(std::exchange(other.validator_, nullptr)),
          mark_(std::move(other.mark_)) {}
    ~WaitedWork() {
      if (validator_ == nullptr) return;
      const std::lock_guard<FindingsMutex> lock(validator_->mutex_);
      mark_ = Mark();
    }

   private:
    friend class Validator;
    WaitedWork(Validator* validator, Mark mark)
        : validator_(validator), mark_(std::move(mark)) {}
    // The caller has the lock.
    Mark Take() {
      validator_ = nullptr;
      return std::move(mark_);
    }

    Validator* validator_ = nullptr;
    Mark mark_;
  };

  // Callers' numbers of stacks are those of `stacks`, which outlives this
  // object.  Before the first call.
  void KeepStacks(CallStacks* stacks) { stacks_ = stacks; }

  // For the findings, which log inside a function of this object.
  void LogLater(const std::string& text) { mutex_.LogLater(text); }

  // ---- Host threads (host_threads.h) ---------------------------------------

  bool HasExactHostOrder() const;
  void SetExactHostOrder(bool is_exact);
  void Release(uint64_t object);
  void Acquire(uint64_t object);
  void ForgetObject(uint64_t object);
  // devrt records the event and waits for it under its own locks, so the newest
  // record counts for each wait.
  void OwnEvent(devrt_event event);
  void EndThread();
  // A host function runs in the calling thread; `work` ends with it.
  void BeginHostFunction(WaitedWork work);
  void EndHostFunction() { HostThreads::EndFunction(); }

  // Returns true if the backend has memory at the address now, whoever has
  // allocated it.  Called without the lock.
  using HasMemory = std::function<bool(const void* ptr)>;
  // Returns the key of the backend's device 0; device N has that key + N.
  // Of a simulator nobody else has memory, and `has_memory` is not called.
  DeviceKey AddBackend(const char* name, bool is_simulated,
                       HasMemory has_memory = {});

  // ---- Streams and events --------------------------------------------------

  // `native` is the vendor's handle: two handles with one native stream are one
  // stream.  Another library may enqueue on an `adopted` stream.
  // Returns the stream's actor.
  Actor AddStream(DeviceKey device, devrt_stream stream, StreamKind kind,
                  const void* native, bool adopted);
  void RemoveStream(devrt_stream stream);
  // Removes the stream if the handle is still that of `actor`.
  void RemoveStream(devrt_stream stream, Actor actor);

  // Other processes may record and wait for a `shared` event.
  void AddEvent(DeviceKey device, devrt_event event, bool shared);
  void RemoveEvent(devrt_event event);
  // Before the backend's call, because another thread may enqueue right after
  // that call.  Returns false if the stream is unknown.
  bool Record(const Caller& caller, devrt_stream stream, devrt_event event);
  // The backend refused the last record: the event holds what it held before.
  void UndoRecord(devrt_event event);
  void Wait(const Caller& caller, devrt_stream stream, devrt_event event);

  // Flags of devrt_probe.h.  `stream` nullptr: the host sets the flag.
  void WaitForFlag(const Caller& caller, devrt_stream stream, devrt_flag flag);
  void SetFlag(const Caller& caller, devrt_stream stream, devrt_flag flag,
               bool value);
  void RemoveFlag(devrt_flag flag);

  // Communicators of devrt_collectives.h (meetings.h).  `device0`: the key of
  // the backend's device 0.
  void BeginComm(DeviceKey device0, devrt_comm comm, const void* id,
                 uint64_t size, uint32_t ranks, uint32_t rank);
  // Before the backend's call.  EndComm gets the place, and whether the backend
  // has accepted the call.
  Meetings::Taken TakeComm(devrt_comm comm);
  void EndComm(devrt_comm comm, Meetings::Taken taken, bool accepted);
  // Before the backend's call.  EndChild gets what it made (nullptr: nothing),
  // and whether it has accepted the call.
  Meetings::Child SplitComm(devrt_comm comm, int32_t color, int32_t key);
  Meetings::Child ShrinkComm(devrt_comm comm, const uint32_t* gone,
                             uint32_t count);
  void EndChild(const Meetings::Child& child, devrt_comm comm, bool accepted);
  // One group of submissions, and the callers of each, before the backend's
  // call.  Returns the first finding's text, or an empty one.  Findings that
  // other ranks may still prove unfounded come at an EndGroup.
  std::string EnqueueGroup(const std::vector<Caller>& callers,
                           std::vector<Collectives>* group);
  // The backend has accepted the group, or refused it.
  void EndGroup(const std::vector<Collectives>& group);
  void RetractGroup(const std::vector<Collectives>& group);

  void EnablePeer(DeviceKey device, DeviceKey peer);
  void DisablePeer(DeviceKey device, DeviceKey peer);

  // The work that a host wait covers if it begins now.  For EndHostWait, once
  // the wait is over or a query has answered that the work is complete.
  WaitedWork WorkOfStream(devrt_stream stream);
  WaitedWork WorkOfEvent(devrt_event event);
  WaitedWork WorkOfDevice(DeviceKey device);
  void EndHostWait(WaitedWork work);
  // A query that devrt made for itself has answered that the work is complete.
  void EndOwnQuery(WaitedWork work);
  // Later work of the stream, or of the calling thread if that is nullptr,
  // comes after what such queries have found complete, and with exact order of
  // host threads after what any thread has waited for.
  void OrderAfterOwnQueries(devrt_stream later);

  // The simulator was restarted: its streams, events and memory are gone.
  // `device0` is the key of its device 0.
  void Restart(DeviceKey device0);

  // ---- Work and memory -----------------------------------------------------

  // Work with the accesses that it declares.  Returns the first finding's text,
  // or an empty one.
  std::string Enqueue(const Caller& caller, devrt_stream stream,
                      AccessList accesses);

  // A use of memory by the calling thread, now.
  std::string UseByHost(const Caller& caller, AccessList accesses);
  // Some thread has used the byte at `ptr`, by a pointer.
  void UseByPointer(const Caller& caller, const void* ptr, Mode mode);
  // The pages [begin, end) for which the host's access, bits of DEVRT_ACCESS_*,
  // changes because of work that uses pinned memory.
  struct PageChange {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint32_t access = 0;
  };
  // Calls apply(change) for the changes since the last call, under the lock.
  // With blocks of pinned memory that are whole pages only.
  void ForEachPageChange(const std::function<void(const PageChange&)>& apply);
  // Later work of `later` comes after the present work of `earlier`.
  void OrderStreams(devrt_stream earlier, devrt_stream later);
  // Visits the findings after the first `after`, each once; returns how many
  // there are.
  uint64_t VisitFindings(
      uint64_t after,
      const std::function<void(const std::string& id, const Findings::Made&)>&
          visit) const;

  // The backend refused the work of the last Enqueue with these accesses.
  void Retract(AccessList accesses);

  void Allocate(const Caller& caller, DeviceKey device, const void* ptr,
                uint64_t size, MemoryKind kind);
  // Frees return the number of the block that they end, for Unfree; 0: none.
  uint64_t Free(const Caller& caller, const void* ptr);
  // `captured`: into a graph.  No call shows when the graph allocates, so the
  // block may be used from now on.
  void AllocateOn(const Caller& caller, devrt_stream stream, const void* ptr,
                  uint64_t size, bool captured);
  // A graph with a `captured` free may allocate the block again, so the layer
  // forgets it.
  uint64_t FreeOn(const Caller& caller, devrt_stream stream, const void* ptr,
                  bool captured);
  // The backend refused the free of block `id` at `ptr`, which lives on.
  void Unfree(const void* ptr, uint64_t id);
  // The block that has the address, or the host memory.
  BlockInfo BlockAt(const void* ptr);
  // True if the program has ever allocated pinned memory.
  bool has_pinned() const { return has_pinned_.load(); }

  // Memory of the program that is pinned for a while.
  void Register(const void* ptr, uint64_t size);
  void Unregister(const Caller& caller, const void* ptr);
  void Uncarve(const void* base, uint64_t size);
  void HandOut(const Caller& caller, devrt_stream stream, const void* ptr,
               uint64_t size);
  // The allocator waits for the present work of the `users`, too.
  void TakeBack(const Caller& caller, devrt_stream stream, const void* ptr,
                const std::vector<devrt_stream>& users = {});
  void HandOutPinned(const Caller& caller, DeviceKey device, const void* ptr,
                     uint64_t size);
  void TakeBackPinned(const Caller& caller, const void* ptr);

  void Carve(const void* base);

  // ---- Notices -------------------------------------------------------------

  // The host thread that the simulator gives this number may wait from now on.
  void NoteHostWait(uint32_t thread, const Caller& caller);
  // The simulator reports a deadlock in `text`.
  void AddDeadlock(const std::string& text);
  // A stream or an event of the program: `noun` says which.
  void NoteMade(const Caller& caller, DeviceKey device, const void* object,
                const char* noun);
  void NoteEnded(const void* object);
  // Makes a finding of all that is alive.
  void AddLeaks();

  // Returns true while a call is under way.  That call may be the one that ends
  // the process, by a signal handler: then the end must not call any function
  // that waits for it.
  bool IsBusy() const;
  // At the end of the process; returns the text to print.  Does nothing and
  // returns "" while another call is under way.
  std::string End();

 private:
  struct StreamEntry {
    Actor actor = kNoActor;
    DeviceKey device = 0;
    uint64_t number = 0;  // as the last call had it
  };
  struct ActorEntry {
    DeviceKey device = 0;
    uint64_t number = 0;
    StreamKind kind = StreamKind::kNonBlocking;
    const void* native = nullptr;
    uint32_t handles = 0;
  };
  struct BackendEntry {
    std::string name;
    bool is_simulated = false;
    HasMemory has_memory;
  };

  // Inline, so that the members stay in registers.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Call ToCall(const Caller& caller) {
    if (ABSL_PREDICT_FALSE(caller.op.known())) NoteOp(caller.op);
    Texts::Place place =
        texts_.PlaceOf(caller.name, caller.is_static, caller.file, caller.line);
    if (ABSL_PREDICT_FALSE(caller.place != nullptr)) {
      place.site = texts_.Number(caller.place);
    }
    if (ABSL_PREDICT_FALSE(caller.stack != 0)) {
      place.site = SiteWithStack(place.site, caller.stack);
    }
    if (ABSL_PREDICT_FALSE(threads_.is_exact())) {
      place.name = NameInThread(place.name);
    }
    return {Thread(), place.name, place.site};
  }
  // The next operation has this name.  Forgets names that no finding can need.
  void NoteOp(const OpId& op);
  // The number of the site for calls with this stack.
  uint32_t SiteWithStack(uint32_t site, uint32_t stack);
  // The number of the name for calls of the calling thread.
  uint32_t NameInThread(uint32_t name);
  Actor Thread() { return threads_.Current(); }
  // The stream of a call; actor kNoActor if it is unknown.
  StreamEntry Find(devrt_stream stream, uint64_t number = 0) {
    StreamEntry* const found = streams_.Find(stream);
    if (found == nullptr) return {};
    if (number != 0 && number != found->number) {
      found->number = number;
      actors_[found->actor].number = number;
    }
    return *found;
  }
  void ForgetSometimes() {
    if (ABSL_PREDICT_FALSE(++until_forget_ == kForgetAfter)) Forget();
  }
  void Forget();
  void NotePinned(AccessList accesses) {
    if (has_pinned()) FindPinned(accesses);
  }
  void FindPinned(AccessList accesses);
  void Remove(devrt_stream stream);
  // The locks of devrt's allocators put all that any thread knows before a new
  // use of memory.  Empty with observed order, where each thread knows that.
  VectorClock KnownInAllocators();
  // The calling thread has waited for the mark.
  void NoteWait(const Mark& mark);
  // Calls EndThread at the end of the calling thread.
  void WatchThread();

  // Names.
  std::string ActorName(Actor actor) const override;
  bool IsOnHardware(Actor actor) const override;
  std::string DeviceName(uint32_t device) const override;
  std::string ThreadOf(uint32_t name) const override;
  const std::string& Text(uint32_t number) const override {
    return texts_.Text(number);
  }
  OpId OpOf(const Operation& operation) const override;
  CallStack StackOf(uint32_t site) const override;

  Findings* const findings_;
  const bool foreign_is_declared_;
  mutable FindingsMutex mutex_;
  Texts texts_;
  std::string first_;  // the first finding of the present call
  // Uses of blocks that went back to a backend.  Another library may have got
  // their addresses.
  std::vector<Finding> doubtful_;
  Detector detector_{[this](const Finding& f) { Found(f); }};
  // With exact order of host threads: the numbers of names of calls by name and
  // thread, and the threads of these numbers.  So operations need no member.
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> names_in_threads_;
  std::unordered_map<uint32_t, uint32_t> threads_of_names_;
  // Of calls with a stack, the numbers of their sites, by the number of the
  // line's text and of the stack; and the stacks of these numbers.
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> sites_with_stacks_;
  std::unordered_map<uint32_t, uint32_t> stacks_of_sites_;
  CallStacks* stacks_ = nullptr;
  HostThreads threads_{&detector_.order(), [this] { WatchThread(); }};
  // The last waits of host threads with stacks: the numbers of their sites, by
  // the simulator's number of the thread.
  std::unordered_map<uint32_t, uint32_t> host_waits_;
  CallStack StackOfPart(const Notice::Part& part) const;
  void Found(const Finding& finding);
  void Make(const Finding& finding);
  // Makes the findings of `doubtful_`, or drops them.  Gives the lock back for
  // a moment, to ask backends.
  void JudgeDoubtful();
  const BackendEntry& BackendOf(DeviceKey device) const {
    return backends_[device >> kDeviceBits];
  }
  // No other library knows the streams of a simulator.
  bool IsSimulated(DeviceKey device) const;
  // Returns true if another library may have ordered the operations.
  bool MayBeOrdered(const Finding& finding) const;

  static constexpr uint32_t kDeviceBits = 16;  // devices of a backend
  std::vector<BackendEntry> backends_;
  // The program has adopted a stream that another library may use.
  bool has_adopted_ = false;
  HandleMap<devrt_stream, StreamEntry> streams_;
  std::map<std::pair<DeviceKey, const void*>, Actor> natives_;
  std::unordered_map<Actor, ActorEntry> actors_;
  struct EventEntry {
    DeviceKey device = 0;
    bool shared = false;
    bool is_own = false;                   // devrt's, and no program's
    Detector::Records* records = nullptr;  // nullptr: not known yet
    // Of the last two records, for UndoRecord.  Of no actor: there is none.
    Mark marks[2];
    uint32_t newest = 0;

    const Mark& mark() const { return marks[newest]; }
    const Mark& before() const { return marks[1 - newest]; }
    bool IsRecorded() const { return mark().now().actor != kNoActor; }
  };
  // A record, with the action of the thread that made it.
  struct ThreadRecord {
    Epoch by;
    Mark mark;
  };
  // The work that a wait for the event waits for now.
  Mark MarkOf(const EventEntry& event) const;
  // With exact order, the newest record that comes before the calling thread's
  // call: it is certain to wait for that one.  `event` has been recorded.
  // nullptr: there may be none yet.
  const Mark* CertainMark(devrt_event event, const EventEntry& entry);
  void NoteRecord(devrt_event event, const EventEntry& entry);
  HandleMap<devrt_event, EventEntry> events_;
  // With exact order of host threads: the last records of events that are not
  // devrt's, the newest last.
  std::unordered_map<devrt_event, std::deque<ThreadRecord>> records_;
  // The work that records of shared events covered.  Another process may wait
  // for them and then record a shared event, which this process does not see.
  Mark shared_records_;
  Leaks leaks_;
  Meetings meetings_;
  // Uses that every thread knows are forgotten after so many operations.
  static constexpr uint64_t kForgetAfter = 1 << 14;
  uint64_t until_forget_ = 0;
  std::unordered_map<const void*, uint64_t> registered_;  // sizes
  // The simulator's names of operations, by Operation::number; empty unless a
  // witness is wanted.
  std::unordered_map<uint64_t, OpId> ops_;
  size_t most_ops_ = 1 << 14;  // with more, those that are over are forgotten
  // Blocks of pinned memory that work has used, by begin, with their ends, for
  // ForEachPageChange.
  std::map<uint64_t, uint64_t> pinned_;
  std::atomic<bool> has_pinned_{false};
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_VALIDATOR_H_
