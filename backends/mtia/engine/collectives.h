// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_COLLECTIVES_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_COLLECTIVES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/communicator.h"
#include "backends/mtia/engine/driver.h"
#include "backends/mtia/engine/fault_rules.h"
#include "backends/mtia/engine/history.h"
#include "backends/mtia/engine/lazy_memory.h"
#include "backends/mtia/engine/tokens.h"

namespace devrt::mtia {

// Owns the communicators, and lets the operations of their ranks meet.
//
// A rank's part begins as any operation does, and then waits until the parts
// of the other ranks have begun.  The last one to begin makes the results of
// all (collective_data.h).  Each part then ends by itself, and writes its own.
//
// A rank whose communicator has failed, or was aborted, revoked or destroyed,
// is over: its parts end without meeting any, and their outputs are undefined.
//
// Threads: every member is called inside the machine.
class Collectives {
 public:
  // All of them outlive this object.
  Collectives(const Config* config, History* history, const LazyMemory* memory,
              Tokens* tokens, FaultRules* rules)
      : config_(config),
        history_(history),
        memory_(memory),
        tokens_(tokens),
        rules_(rules) {}

  // Sets the driver of the machine that begins.
  void UseDriver(Driver* driver) { driver_ = driver; }
  // Ends all communicators.  No operation is left.
  void Reset();

  // ---- communicators: communicators.cc ----

  // The live object of `handle`, or nullptr with `*error` set.
  Comm* Find(devrt_comm handle, devrt_status* error) const;
  // The bytes of a new unique id.
  std::string NewId() { return "mtia collective " + std::to_string(++ids_); }
  // Makes the place of `rank`.
  devrt_status BeginComm(uint32_t device, uint32_t ranks, uint32_t rank,
                         const std::string& id, const CommOptions& options,
                         Comm** out);
  // Sets `*pending`, or returns why the communicator has failed.
  devrt_status Poll(const Comm& comm, bool* pending) const;
  // The error of a call on `comm` that must be ready and work, or NULL.
  devrt_status CheckReady(const Comm& comm) const;
  devrt_status Split(Comm* comm, int32_t color, int32_t key,
                     const CommOptions* options, Comm** out);
  // `gone` is sorted, and names no rank twice.
  devrt_status Shrink(Comm* comm, const std::vector<uint32_t>& gone,
                      bool abort_first, Comm** out);
  devrt_status Finish(Comm* comm);
  void Abort(Comm* comm, const std::string& why);
  void Revoke(Comm* comm);
  void Destroy(Comm* comm);

  // ---- operations ----

  CollectivePart* NewPart();
  // Takes back a part that no operation has.
  void RecyclePart(CollectivePart* part);
  // Adds an operation of the rank to a part, and numbers it.
  void AddMember(CollectivePart* part, const Comm& comm,
                 const devrt_collective_v0& call, Site site);
  // Called when `op` begins.  Returns true if it has met the others; else it
  // is parked until Driver::Unpark.
  bool Begin(Op* op);
  // Called when `op`, which is parked, is being discarded.
  void StopWaiting(Op* op);
  // Called when the timeout of `op` has passed, which is parked.  Returns true
  // if `op` waits on, with a new timeout.
  bool Expire(Op* op);
  // Called at the end of `op`, however it ended.
  void Retire(Op* op);

 private:
  // ---- communicators.cc ----
  std::shared_ptr<Communicator> NewGroup(uint32_t ranks,
                                         const std::string& name);
  void Enter(Communicator* group, Place* place, uint32_t device,
             const CommOptions& options);
  Comm* NewChild();
  // Fails the children that the ranks have asked for in `calls`.
  void FailChildren(const ChildCalls& calls, devrt_code code,
                    const std::string& text);
  // Fails the children that wait for a rank which cannot call any more.
  void FailLackingChildren(Communicator* group);
  void MakeSplit(const Communicator& parent, const ChildCalls& calls);
  void MakeChild(const Communicator& parent, const ChildCalls& calls,
                 const std::vector<uint32_t>& ranks);

  // ---- collectives.cc ----
  void Arrive(Member* m);
  void ArriveInMeeting(Member* m);
  void ArriveInPair(Member* m);
  void Meet(const std::vector<Member*>& members);
  // True if the members may meet; else they are dealt with.
  bool AreAlike(const std::vector<Member*>& members);
  void Settle(Member* m, MemberState state);
  void Leave(Member* m);
  void EndRank(Communicator* group, uint32_t rank);
  void FailAll(Communicator* group, devrt_code code, const std::string& text);
  void TakeWaiting(Communicator* group, std::vector<Member*>* waiting);

  const Config* const config_;
  History* const history_;
  const LazyMemory* const memory_;
  Tokens* const tokens_;
  FaultRules* const rules_;
  Driver* driver_ = nullptr;
  HandleTable<Comm, HandleKind::kComm> handles_;
  std::map<std::string, std::shared_ptr<Communicator>> by_id_;
  std::deque<CollectivePart> parts_;
  std::vector<CollectivePart*> free_parts_;
  uint64_t last_number_ = 0;
  uint64_t ids_ = 0;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_COLLECTIVES_H_
