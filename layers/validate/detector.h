// SPDX-License-Identifier: Apache-2.0
//
// Finds what is wrong with the order of a program's work: accesses of memory
// that nothing orders, and uses of memory outside its life.  Judges each call
// when the program makes it, and so finds a race in a run in which the device
// happened to do the right thing.
//
//   Detector detector([](const Finding& finding) { ... });
//   const Actor host = detector.order().AddThread();
//   ...
//   detector.Enqueue({host, name, site}, stream, {{p, 4096, Mode::kWrite}});
//
// Knows nothing of the plugin ABI: validate_layer.cc translates the calls.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_DETECTOR_H_
#define DEVRT_LAYERS_VALIDATE_DETECTOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "layers/validate/history.h"
#include "layers/validate/memory_map.h"
#include "layers/validate/order.h"

namespace devrt::race {

enum class FindingKind : uint8_t {
  kWriteAfterWrite,
  kReadAfterWrite,
  kWriteAfterRead,
  kUseBeforeAllocation,  // by a stream that does not wait for the allocation
  kUseAfterFree,
  kFreeWhileUsed,   // work that the free does not come after uses the block
  kReuseWhileUsed,  // the allocator gave the block out again
  kHostAccess,      // the host uses memory of work in flight
  kWrongDevice,     // a kernel uses memory that its device cannot access
};

// Bytes that an operation uses.  Rows of `size` bytes, `pitch` apart.
struct MemoryAccess {
  uint64_t address = 0;
  uint64_t size = 0;
  Mode mode = Mode::kRead;
  uint32_t reduction = 0;  // the operator of kReduce
  uint64_t rows = 1;
  uint64_t pitch = 0;
  bool approximate = false;  // holds bytes that the operation does not use
  bool by_kernel = false;    // a kernel uses the bytes by their address
  // The program's own memory, to which the system may have given the addresses
  // of a block that is gone.
  bool is_programs = false;
};

// The call that does something, as reports name it.
struct Call {
  Actor thread = 0;
  uint32_t name = 0;  // numbers of Texts
  uint32_t site = 0;
};

struct Finding {
  FindingKind kind = FindingKind::kWriteAfterWrite;
  BlockInfo block;
  Range range;               // of the block
  bool approximate = false;  // the range holds bytes that were not used
  Operation earlier;
  Mode earlier_mode = Mode::kRead;
  Operation later;
  Mode later_mode = Mode::kRead;
  Explanation explanation;
};

class Detector {
 public:
  using Sink = std::function<void(const Finding&)>;

  explicit Detector(Sink sink) : sink_(std::move(sink)) {}

  Order& order() { return order_; }
  MemoryMap& memory() { return memory_; }

  // A new stream, which may get the number of one that is gone.
  Actor AddStream(Actor thread, StreamTraits traits) {
    const Actor actor = order_.AddStream(thread, traits);
    history_.Forget(actor);
    return actor;
  }

  // Work of a stream, with what it uses.
  Operation Enqueue(const Call& call, Actor stream,
                    const std::vector<MemoryAccess>& accesses);
  // The backend refused the work with these accesses.  Nothing is known of
  // their bytes now: an unfounded finding would be worse than a missed one.
  void Retract(const std::vector<MemoryAccess>& accesses);
  // A use of memory by the calling thread, at once.
  Operation UseByHost(const Call& call,
                      const std::vector<MemoryAccess>& accesses);

  // Kernels of `device` may, or may no longer, use memory of `peer`.
  void EnablePeer(uint32_t device, uint32_t peer) {
    peers_.insert({device, peer});
  }
  void DisablePeer(uint32_t device, uint32_t peer) {
    peers_.erase({device, peer});
  }
  // Forgets the peers of the devices [begin, end).
  void ForgetPeers(uint32_t begin, uint32_t end) {
    peers_.erase(peers_.lower_bound({begin, 0}), peers_.lower_bound({end, 0}));
  }

  // An event's record and the waits for it.  `event` names the event in
  // reports.
  Mark Record(const Call& call, Actor stream, uint64_t event);
  void Wait(const Call& call, Actor stream, uint64_t event, const Mark* mark);
  void RemoveEvent(uint64_t event) { history_.RemoveEvent(event); }

  // Memory that a backend gives and takes at once.
  void Allocate(const Call& call, uint64_t address, uint64_t size,
                MemoryKind kind, uint32_t device);
  void Free(const Call& call, uint64_t address);
  // In the order of a stream.
  void AllocateOn(const Call& call, Actor stream, uint64_t address,
                  uint64_t size, uint32_t device);
  void FreeOn(const Call& call, Actor stream, uint64_t address);
  // Parts of an allocator's memory.  `stream` is where the block is used first,
  // or after whose work it is free; kNoActor: all uses are complete.
  void HandOut(const Call& call, Actor stream, uint64_t address, uint64_t size,
               MemoryKind kind, uint32_t device);
  void TakeBack(const Call& call, Actor stream, uint64_t address);

 private:
  Operation NewOperation(const Call& call, Epoch epoch);
  void Access(const Operation& by, const VectorClock& clock,
              const MemoryAccess& access);
  // Calls use(range of addresses, true if it has bytes that are not used).
  template <typename Use>
  static void ForEachRange(const MemoryAccess& access, Use use);
  bool CanReach(Actor stream, const BlockInfo& block) const;
  void FindCertain(const Block& block, Range range, const MemoryAccess& access,
                   const VectorClock& clock);
  void AccessRange(const Operation& by, const VectorClock& clock,
                   const MemoryAccess& access, Range addresses,
                   bool approximate);
  void Report(FindingKind kind, const BlockInfo& block,
              const Conflict& conflict, const Operation& later,
              const VectorClock& clock, Mode later_mode, bool approximate);
  // Reports uses of `block` that `clock` does not know.
  void ReportPending(FindingKind kind, const Block& block,
                     const VectorClock& clock, const Operation& by);

  Sink sink_;
  Order order_;
  MemoryMap memory_;
  History history_;
  std::set<std::pair<uint32_t, uint32_t>> peers_;
  uint64_t operations_ = 0;
  std::vector<Conflict> conflicts_;  // kept, for its memory
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_DETECTOR_H_
