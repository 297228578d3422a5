// SPDX-License-Identifier: Apache-2.0
//
// The objects of devrt.collectives/0: communicators, the places of their ranks,
// and the parts that ranks have in operations.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_COMMUNICATOR_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/mtia/engine/handles.h"
#include "backends/mtia/engine/op.h"
#include "devrt/backends/abi/devrt_collectives.h"

namespace devrt::mtia {

struct Communicator;
struct CollectivePart;

enum class MemberState : uint8_t {
  kWaiting,  // has not met the operations of the other ranks
  kMet,      // its result is known, and is written when the part ends
  kOver,     // it will not meet them: its output is undefined
};

// One operation of one rank.
struct Member {
  CollectivePart* part = nullptr;
  std::shared_ptr<Communicator> comm;
  uint32_t rank = 0;
  MemberState state = MemberState::kWaiting;
  bool begun = false;
  // Its number among the rank's collectives, or among what the rank sends to
  // the peer or receives from it; from 0.
  uint64_t sequence = 0;
  devrt_collective_v0 call = {};
  Site site;  // where the program made the call
  // kMet: what belongs at call.dst, in a buffer that members may share.
  std::shared_ptr<const std::byte[]> buffer;
  const std::byte* result = nullptr;
  uint64_t result_size = 0;
};

// What one group of submissions does on one stream: one operation of the
// stream, which ends when no member waits.
struct CollectivePart {
  Op* op = nullptr;
  std::vector<Member> members;
  uint32_t waiting = 0;  // members in state kWaiting
  bool parked = false;   // has begun, and waits
  uint64_t late = 0;     // nanoseconds by which a rule lets it begin late
};

// The operations of all ranks with one number.  A rank that has not begun its
// own has nullptr.
struct Meeting {
  std::vector<Member*> members;  // by rank
  uint32_t begun = 0;
};

// A send and the receive that it meets; nullptr: not begun.
struct Pair {
  Member* send = nullptr;
  Member* receive = nullptr;
};
// Sender, receiver, and the number among those of the two.
using PairKey = std::tuple<uint32_t, uint32_t, uint64_t>;

struct CommFailure {
  devrt_code code = DEVRT_OK;
  std::string text;
  explicit operator bool() const { return code != DEVRT_OK; }
};

// How comm_begin, comm_split and comm_shrink make a place.
struct CommOptions {
  bool shared_device = false;
  uint64_t timeout = 0;  // nanoseconds; 0: never
  std::string name;
};

// One rank of a communicator.
struct Place {
  bool begun = false;
  bool destroyed = false;
  bool revoked = false;
  bool finishes = false;
  bool died = false;  // by a rule: it takes no further part
  CommFailure failure;
  uint32_t device = 0;
  CommOptions options;
  uint64_t submitted = 0;  // collectives
  uint64_t entered = 0;    // collectives that have begun
  uint64_t open = 0;       // members that have not ended
  uint64_t splits = 0;     // calls of comm_split
  // The newest group: what comes on other streams waits for it.
  std::vector<Point> last;
  std::unordered_map<uint32_t, uint64_t> sends;     // by peer
  std::unordered_map<uint32_t, uint64_t> receives;  // by peer
  uint64_t registered = 0;                          // buffers, so far
  std::unordered_set<uint64_t> buffers;             // those that are registered

  // True if its operations end without meeting any.
  bool is_over() const { return failure || revoked || destroyed; }
};

// What the ranks have said in one call of comm_split or comm_shrink.
struct ChildCall {
  uint64_t child = 0;  // handle; 0: color -1
  bool called = false;
  int32_t color = 0;
  int32_t key = 0;
  CommOptions options;
};
struct ChildCalls {
  std::vector<ChildCall> calls;  // by rank of the parent
  uint32_t called = 0;
};

// A communicator, shared by its ranks.
struct Communicator {
  uint64_t number = 0;  // unique in the machine since reset
  std::string id;       // of comm_begin; empty for children
  std::string name;
  std::vector<Place> places;  // by rank
  uint32_t begun = 0;         // ranks that have begun
  uint32_t alive = 0;         // of these, ranks that are not destroyed
  uint64_t link_rate = 0;     // bytes per second of its links; 0: not known
  bool is_ready() const { return begun == places.size(); }
  std::map<uint64_t, Meeting> meetings;  // by number, those that wait
  std::map<PairKey, Pair> pairs;         // those that wait
  std::map<uint64_t, ChildCalls> splits;
  std::map<std::vector<uint32_t>, ChildCalls> shrinks;  // by the ranks gone
};

// The object of a devrt_comm: a rank's place.  Until all ranks have called
// comm_split or comm_shrink, a child has no communicator.
struct Comm : HandleSlot {
  std::shared_ptr<Communicator> group;
  uint32_t rank = 0;
  CommFailure failure;  // of a child that will not be made
  bool never = false;   // by a rule, stays PENDING

  Place* place() const {
    return group == nullptr ? nullptr : &group->places[rank];
  }
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_COMMUNICATOR_H_
