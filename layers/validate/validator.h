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
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"
#include "layers/validate/detector.h"
#include "layers/validate/findings.h"
#include "layers/validate/report.h"
#include "layers/validate/texts.h"

namespace devrt::race {

// The call of a program that a function of Validator is about.
struct Caller {
  const char* name = "";  // "copy", or the program's name of the operation
  const char* file = nullptr;
  int32_t line = 0;
  const char* place = nullptr;  // in place of file and line
  // The number that programs see of the stream of the call, plus 1; 0: unknown.
  uint64_t stream_number = 0;
};

// A device of a backend: unique in the process.
using DeviceKey = uint32_t;

class Validator final : private Names {
 public:
  // `foreign_is_declared`: the program declares all that other libraries do on
  // adopted streams, so that these are judged as all others.
  Validator(Findings* findings, bool foreign_is_declared)
      : findings_(findings), foreign_is_declared_(foreign_is_declared) {}

  // Returns the key of the backend's device 0; device N has that key + N.
  DeviceKey AddBackend(const char* name, bool has_foreign_users);

  // ---- Streams and events --------------------------------------------------

  // `native` is the vendor's handle: two handles with one native stream are one
  // stream.  Another library may enqueue on an `adopted` stream.
  // Returns the stream's actor.
  Actor AddStream(DeviceKey device, devrt_stream stream, StreamKind kind,
                  const void* native, bool adopted);
  void RemoveStream(devrt_stream stream);
  // Removes the stream if the handle is still that of `actor`.
  void RemoveStream(devrt_stream stream, Actor actor);

  void AddEvent(DeviceKey device, devrt_event event);
  void RemoveEvent(devrt_event event);
  // Before the backend's call; the event holds the mark once the call has
  // succeeded.
  Mark BeginRecord(const Caller& caller, devrt_stream stream,
                   devrt_event event);
  void EndRecord(devrt_event event, Mark mark);
  void Wait(const Caller& caller, devrt_stream stream, devrt_event event);

  void EnablePeer(DeviceKey device, DeviceKey peer);
  void DisablePeer(DeviceKey device, DeviceKey peer);

  // What a host wait covers, as of this call; for EndHostWait when it is over,
  // or when a query answered that the work is complete.
  Mark MarkOfStream(devrt_stream stream);
  // What an operation that is enqueued next comes after.
  Mark MarkOfNext(devrt_stream stream);
  Mark MarkOfEvent(devrt_event event);
  Mark MarkOfDevice(DeviceKey device);
  void EndHostWait(const Mark& mark);

  // The simulator was restarted: its streams, events and memory are gone.
  // `device0` is the key of its device 0.
  void Restart(DeviceKey device0);

  // ---- Work and memory -----------------------------------------------------

  // Work with the accesses that it declares.  Returns the first finding's text,
  // or an empty one.
  std::string Enqueue(const Caller& caller, devrt_stream stream,
                      const std::vector<MemoryAccess>& accesses);

  // A use of memory by the calling thread, now.
  std::string UseByHost(const Caller& caller,
                        const std::vector<MemoryAccess>& accesses);
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
  void Retract(const std::vector<MemoryAccess>& accesses);

  void Allocate(const Caller& caller, DeviceKey device, const void* ptr,
                uint64_t size, MemoryKind kind);
  std::string Free(const Caller& caller, const void* ptr);
  void AllocateOn(const Caller& caller, devrt_stream stream, const void* ptr,
                  uint64_t size);
  std::string FreeOn(const Caller& caller, devrt_stream stream,
                     const void* ptr);
  // True if the program has ever allocated pinned memory.
  bool has_pinned() const { return has_pinned_.load(); }

  // Memory of the program that is pinned for a while.
  void Register(const void* ptr, uint64_t size);
  void Unregister(const Caller& caller, const void* ptr);
  void Uncarve(const void* base, uint64_t size);
  void HandOut(const Caller& caller, devrt_stream stream, const void* ptr,
               uint64_t size);
  void TakeBack(const Caller& caller, devrt_stream stream, const void* ptr);

  // At the end of the process; returns what to print.  Does nothing while
  // another call is under way, because that call may be the one that ends the
  // process.
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
    bool has_foreign_users = false;  // other libraries may use its streams
  };

  Call ToCall(const Caller& caller);
  Actor Thread();
  // The stream of a call; actor kNoActor if it is unknown.
  StreamEntry Find(devrt_stream stream, uint64_t number = 0);
  void ForgetSometimes();
  void NotePinned(const std::vector<MemoryAccess>& accesses);
  void Remove(devrt_stream stream);

  // Names.
  std::string ActorName(Actor actor) const override;
  std::string DeviceName(uint32_t device) const override;
  const std::string& Text(uint32_t number) const override {
    return texts_.Text(number);
  }

  Findings* const findings_;
  const bool foreign_is_declared_;
  mutable std::mutex mutex_;
  Texts texts_;
  std::string first_;  // the first finding of the present call
  Detector detector_{[this](const Finding& f) { Found(f); }};
  void Found(const Finding& finding);
  // Returns true if another library may have ordered the operations.
  bool MayBeOrdered(const Finding& finding) const;

  std::vector<BackendEntry> backends_;
  // The program has adopted a stream that another library may use.
  bool has_adopted_ = false;
  Actor host_ = kNoActor;
  std::unordered_map<devrt_stream, StreamEntry> streams_;
  std::map<std::pair<DeviceKey, const void*>, Actor> natives_;
  std::unordered_map<Actor, ActorEntry> actors_;
  struct EventEntry {
    DeviceKey device = 0;
    std::optional<Mark> mark;  // none: never recorded
  };
  std::unordered_map<devrt_event, EventEntry> events_;
  uint64_t until_forget_ = 0;
  std::unordered_map<const void*, uint64_t> registered_;  // sizes
  // The streams of blocks that allocators handed out.  A block may come back
  // after its stream has ended.
  std::unordered_map<const void*, Actor> homes_;
  // Blocks of pinned memory that work has used, by begin, with their ends, for
  // ForEachPageChange.
  std::map<uint64_t, uint64_t> pinned_;
  std::atomic<bool> has_pinned_{false};
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_VALIDATOR_H_
