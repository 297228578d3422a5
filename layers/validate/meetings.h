// SPDX-License-Identifier: Apache-2.0
//
// Which operations of communicators meet, as the calls to the table
// devrt.collectives/0 show it.
//
//   Meetings meetings;
//   meetings.Begin(comm, "0 id", 8, rank);
//   const Meetings::Step step = meetings.Arrive(comm, call);
//   ... the backend accepts the submission ...
//   const Meetings::News news = meetings.Accept(step);
//
// Each meeting has a flag (flag_waits.h) of its own.  A rank whose work comes
// before that of others adds to the flag what its stream has done, and a rank
// whose work comes after waits for it.  So the order is known once the calls of
// all ranks are, in whatever order they are made.
//
// A meeting counts what the backend has accepted.  A refused submission is made
// again, perhaps behind other work, and that work may order what the others do.
//
// All ranks of a communicator call in this process.  If some of those of Begin
// do not, the flags of its meetings stay open: then what they may order is no
// finding.  A child has the ranks that have called in this process.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_MEETINGS_H_
#define DEVRT_LAYERS_VALIDATE_MEETINGS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "devrt/backends/abi/devrt_collectives.h"

namespace devrt::race {

class Meetings {
  struct Place;

 public:
  // Sender, receiver and number; of collectives kAll, kAll and number.
  using Key = std::tuple<uint32_t, uint32_t, uint64_t>;

  // What one operation of one rank does to the flag of its meeting.
  struct Step {
    uint64_t flag = 0;   // 0: the communicator is unknown
    bool adds = false;   // what the stream has done comes before others
    bool waits = false;  // what the stream does next comes after others
    // For Accept and Retract.
    devrt_comm comm = nullptr;
    uint32_t op = 0;
    uint32_t peer = 0;
    Key key;
  };
  // What the acceptance of an operation tells of the flag.
  struct News {
    bool is_set = false;  // all that comes before others is known
    bool ends = false;    // no rank will name the flag again
  };

  // The rank has begun.  `key` names the communicator in this process.
  void Begin(devrt_comm comm, const std::string& key, uint32_t ranks,
             uint32_t rank);
  // The place of a rank whose comm_destroy the backend gets next: right after
  // that call the handle may be another communicator's.  nullptr: unknown.
  using Taken = std::shared_ptr<Place>;
  Taken Take(devrt_comm comm);
  // The backend refused the call.
  void PutBack(devrt_comm comm, Taken taken) {
    if (taken != nullptr) places_[comm] = std::move(taken);
  }
  // The rank's place has ended.  Calls remove(flag) for flags that nobody will
  // name again.
  template <typename Remove>
  void Destroy(const Taken& taken, Remove remove) {
    for (const uint64_t flag : End(taken)) remove(flag);
  }

  // A call of comm_split or comm_shrink that the backend gets next.
  struct Child {
    devrt_comm parent = nullptr;  // nullptr: unknown
    std::string gone;             // of a shrink: the ranks; else empty
    std::string key;              // empty: there is no child
    uint32_t rank = 0;
    int32_t order = 0;
  };
  Child Split(devrt_comm comm, int32_t color, int32_t order);
  Child Shrink(devrt_comm comm, const uint32_t* gone, uint32_t count);
  // The backend has accepted the call and made `comm`, nullptr for no child; or
  // it refused the call, which does not count then.
  void AddChild(const Child& child, devrt_comm comm);
  void Refused(const Child& child);

  // Sets the number of ranks and that of `comm`.  Returns false if it is
  // unknown.
  bool Find(devrt_comm comm, uint32_t* ranks, uint32_t* rank) const;
  // The rank submits `call` next.  Accept or Retract gets the step.
  Step Arrive(devrt_comm comm, const devrt_collective_v0& call);
  // The backend has accepted the submission.
  News Accept(const Step& step);
  // The backend refused the submission.  The rank's next one takes its place,
  // with the same flag.
  void Retract(const Step& step);

 private:
  // Counts of what was accepted.
  struct Meeting {
    uint64_t flag = 0;
    uint32_t arrived = 0;
    uint32_t added = 0;
  };
  struct Group {
    std::string key;
    uint32_t alive = 0;
    // The ranks in their order.  Those of a child are known when it is ready.
    std::vector<std::pair<int32_t, uint32_t>> ranks;
    bool is_sorted = false;
    std::map<Key, Meeting> meetings;
  };
  struct Place {
    std::shared_ptr<Group> group;
    uint32_t rank = 0;  // of a child: that of the parent
    int32_t order = 0;
    uint64_t count = 0;                               // collectives
    std::unordered_map<uint32_t, uint64_t> sends;     // by peer
    std::unordered_map<uint32_t, uint64_t> receives;  // by peer
    uint64_t splits = 0;
    std::map<std::string, uint64_t> shrinks;
  };

  Place* PlaceOf(devrt_comm comm) const {
    const auto found = places_.find(comm);
    return found == places_.end() ? nullptr : found->second.get();
  }
  std::vector<uint64_t> End(const Taken& taken);
  void Enter(devrt_comm comm, Place place) {
    ++place.group->alive;
    places_[comm] = std::make_shared<Place>(std::move(place));
  }
  void AddRank(const Child& child);
  std::shared_ptr<Group> GroupOf(const std::string& key);
  static uint32_t RankOf(const Place& place);

  std::unordered_map<devrt_comm, std::shared_ptr<Place>> places_;
  std::map<std::string, std::shared_ptr<Group>> groups_;
  uint64_t last_flag_ = 0;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_MEETINGS_H_
