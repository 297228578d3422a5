// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/meetings.h"

#include <algorithm>
#include <set>

namespace devrt::race {
namespace {

// No handle of a backend's flag has the bit.  A flag of the simulator has kind
// 3 in the three highest bits, so bit 63 is 0; other handles are addresses.
constexpr uint64_t kOwnFlag = uint64_t{1} << 63;

constexpr uint32_t kAll = ~uint32_t{0};

bool IsPair(uint32_t op) {
  return op == DEVRT_COLLECTIVE_SEND || op == DEVRT_COLLECTIVE_RECV;
}

// The root's work comes before that of the others.
bool IsFromRoot(uint32_t op) {
  return op == DEVRT_COLLECTIVE_BROADCAST || op == DEVRT_COLLECTIVE_SCATTER;
}

// The others' work comes before that of the root.
bool IsToRoot(uint32_t op) {
  return op == DEVRT_COLLECTIVE_REDUCE || op == DEVRT_COLLECTIVE_GATHER;
}

}  // namespace

std::shared_ptr<Meetings::Group> Meetings::GroupOf(const std::string& key) {
  std::shared_ptr<Group>& group = groups_[key];
  if (group == nullptr) {
    group = std::make_shared<Group>();
    group->key = key;
  }
  return group;
}

void Meetings::Begin(devrt_comm comm, const std::string& key, uint32_t ranks,
                     uint32_t rank) {
  Place place;
  place.group = GroupOf(key);
  place.rank = rank;
  place.order = static_cast<int32_t>(rank);
  Group& group = *place.group;
  if (group.ranks.empty()) {
    for (uint32_t r = 0; r < ranks; ++r) {
      group.ranks.push_back({static_cast<int32_t>(r), r});
    }
    group.is_sorted = true;
  }
  Enter(comm, std::move(place));
}

Meetings::Taken Meetings::Take(devrt_comm comm) {
  const auto found = places_.find(comm);
  if (found == places_.end()) return nullptr;
  Taken taken = std::move(found->second);
  places_.erase(found);
  return taken;
}

std::vector<uint64_t> Meetings::End(const Taken& taken) {
  std::vector<uint64_t> flags;
  if (taken == nullptr) return flags;
  const std::shared_ptr<Group>& group = taken->group;
  if (--group->alive != 0) return flags;
  for (const auto& [key, meeting] : group->meetings) {
    flags.push_back(meeting.flag);
  }
  groups_.erase(group->key);
  return flags;
}

Meetings::Child Meetings::Split(devrt_comm comm, int32_t color, int32_t order) {
  Place* const place = PlaceOf(comm);
  if (place == nullptr) return {};
  const uint64_t number = place->splits++;
  Child child;
  child.parent = comm;
  if (color == -1) return child;
  child.key = place->group->key + " split " + std::to_string(number) + ":" +
              std::to_string(color);
  child.rank = RankOf(*place);
  child.order = order;
  AddRank(child);
  return child;
}

Meetings::Child Meetings::Shrink(devrt_comm comm, const uint32_t* gone,
                                 uint32_t count) {
  Place* const place = PlaceOf(comm);
  if (place == nullptr) return {};
  const std::set<uint32_t> ranks(gone, gone + count);
  Child child;
  child.parent = comm;
  child.gone = " shrink";
  for (const uint32_t rank : ranks) child.gone += " " + std::to_string(rank);
  child.key = place->group->key + child.gone + ":" +
              std::to_string(place->shrinks[child.gone]++);
  child.rank = RankOf(*place);
  child.order = static_cast<int32_t>(child.rank);
  AddRank(child);
  return child;
}

void Meetings::AddRank(const Child& child) {
  const std::shared_ptr<Group> group = GroupOf(child.key);
  group->ranks.push_back({child.order, child.rank});
  group->is_sorted = false;
}

void Meetings::AddChild(const Child& child, devrt_comm comm) {
  if (child.key.empty() || comm == nullptr) return;
  Place place;
  place.group = GroupOf(child.key);
  place.rank = child.rank;
  place.order = child.order;
  Enter(comm, std::move(place));
}

void Meetings::Refused(const Child& child) {
  if (Place* const parent = PlaceOf(child.parent)) {
    --(child.gone.empty() ? parent->splits : parent->shrinks[child.gone]);
  }
  if (child.key.empty()) return;
  const std::shared_ptr<Group> group = GroupOf(child.key);
  const auto at = std::find(group->ranks.begin(), group->ranks.end(),
                            std::make_pair(child.order, child.rank));
  if (at != group->ranks.end()) group->ranks.erase(at);
  if (group->ranks.empty()) groups_.erase(child.key);
}

uint32_t Meetings::RankOf(const Place& place) {
  Group& group = *place.group;
  if (!group.is_sorted) {
    // Once all ranks have called, the communicator is ready and this holds.
    std::sort(group.ranks.begin(), group.ranks.end());
    group.is_sorted = true;
  }
  const auto at = std::lower_bound(group.ranks.begin(), group.ranks.end(),
                                   std::make_pair(place.order, place.rank));
  return static_cast<uint32_t>(at - group.ranks.begin());
}

bool Meetings::Find(devrt_comm comm, uint32_t* ranks, uint32_t* rank) const {
  const Place* const place = PlaceOf(comm);
  if (place == nullptr) return false;
  *ranks = static_cast<uint32_t>(place->group->ranks.size());
  *rank = RankOf(*place);
  return true;
}

Meetings::Step Meetings::Arrive(devrt_comm comm,
                                const devrt_collective_v0& call) {
  Place* const place = PlaceOf(comm);
  if (place == nullptr) return {};
  const uint32_t rank = RankOf(*place);
  const auto peer = static_cast<uint32_t>(call.root_or_peer);
  Step step;
  step.comm = comm;
  step.op = call.op;
  step.peer = peer;
  if (IsPair(call.op)) {
    step.adds = call.op == DEVRT_COLLECTIVE_SEND;
    step.waits = !step.adds;
    step.key = step.adds ? Key(rank, peer, place->sends[peer]++)
                         : Key(peer, rank, place->receives[peer]++);
  } else {
    step.key = Key(kAll, kAll, place->count++);
    step.adds = !IsFromRoot(call.op) || peer == rank;
    step.waits =
        IsFromRoot(call.op) ? peer != rank : !IsToRoot(call.op) || peer == rank;
  }
  Meeting& meeting = place->group->meetings[step.key];
  if (meeting.flag == 0) meeting.flag = kOwnFlag | ++last_flag_;
  step.flag = meeting.flag;
  return step;
}

Meetings::News Meetings::Accept(const Step& step) {
  Place* const place = PlaceOf(step.comm);
  if (place == nullptr) return {};
  Group& group = *place->group;
  const auto at = group.meetings.find(step.key);
  if (at == group.meetings.end()) return {};
  Meeting& meeting = at->second;
  const bool is_pair = IsPair(step.op);
  const auto ranks = static_cast<uint32_t>(group.ranks.size());
  const uint32_t adding = is_pair || IsFromRoot(step.op) ? 1 : ranks;
  News news;
  if (step.adds) news.is_set = ++meeting.added == adding;
  news.ends = ++meeting.arrived == (is_pair ? 2 : ranks);
  if (news.ends) group.meetings.erase(at);
  return news;
}

void Meetings::Retract(const Step& step) {
  Place* const place = PlaceOf(step.comm);
  if (place == nullptr) return;
  if (!IsPair(step.op)) {
    --place->count;
  } else if (step.op == DEVRT_COLLECTIVE_SEND) {
    --place->sends[step.peer];
  } else {
    --place->receives[step.peer];
  }
}

}  // namespace devrt::race
