// SPDX-License-Identifier: Apache-2.0
//
// How communicators begin and end.
#include <algorithm>
#include <iterator>
#include <utility>

#include "backends/mtia/engine/collective_text.h"
#include "backends/mtia/engine/collectives.h"

namespace devrt::mtia {
namespace {

using internal::FaultClass;

constexpr uint32_t kMostRanks = 1u << 16;

std::string RankText(uint32_t rank) { return "rank " + std::to_string(rank); }

}  // namespace

void Collectives::Reset() {
  handles_.ForEachLive([this](Comm* comm) {
    comm->group.reset();
    handles_.Release(comm);
  });
  by_id_.clear();
  last_number_ = ids_ = 0;
}

Comm* Collectives::Find(devrt_comm handle, devrt_status* error) const {
  const auto value = reinterpret_cast<uint64_t>(handle);
  Comm* const comm = handles_.Find(value);
  if (comm == nullptr) {
    *error = BadHandle("communicator", value, handles_.WasOurs(value));
  }
  return comm;
}

std::shared_ptr<Communicator> Collectives::NewGroup(uint32_t ranks,
                                                    const std::string& name) {
  auto group = std::make_shared<Communicator>();
  group->number = ++last_number_;
  group->name = name;
  group->places.resize(ranks);
  return group;
}

// Lets the rank begin.  The device gets a slot for each rank that has it.
void Collectives::Enter(Communicator* group, Place* place, uint32_t device,
                        const CommOptions& options) {
  place->begun = true;
  place->device = device;
  place->options = options;
  ++group->begun;
  ++group->alive;
  ++history_->progress;
  if (config_->collective_slots != kSlotPerRank) return;
  uint32_t sharing = 0;
  for (const Place& p : group->places) {
    sharing += p.begun && p.device == device ? 1 : 0;
  }
  if (tokens_->RaiseSlots(device, sharing)) driver_->SlotsAdded(device);
}

devrt_status Collectives::BeginComm(uint32_t device, uint32_t ranks,
                                    uint32_t rank, const std::string& id,
                                    const CommOptions& options, Comm** out) {
  if (ranks == 0 || ranks > kMostRanks || rank >= ranks) {
    return InvalidArgument(RankText(rank) + " of " + std::to_string(ranks) +
                           " ranks does not exist; expected 1 to " +
                           std::to_string(kMostRanks) +
                           " ranks, counted from 0");
  }
  std::shared_ptr<Communicator> group;
  const auto known = by_id_.find(id);
  if (known != by_id_.end()) {
    group = known->second;
    if (group->places.size() != ranks) {
      return InvalidArgument("the ranks differ: " + RankText(rank) + " wants " +
                             std::to_string(ranks) + " ranks, and " +
                             CommText(*group) + " has " +
                             std::to_string(group->places.size()));
    }
    if (group->places[rank].begun) {
      return InvalidArgument(RankText(rank) + " of " + CommText(*group) +
                             " is taken");
    }
    for (uint32_t r = 0; r < ranks; ++r) {
      const Place& p = group->places[r];
      if (!p.begun || p.device != device ||
          (options.shared_device && p.options.shared_device)) {
        continue;
      }
      return MakeError(DEVRT_FAILED_PRECONDITION, 0,
                       "ranks " + std::to_string(std::min(r, rank)) + " and " +
                           std::to_string(std::max(r, rank)) + " of " +
                           CommText(*group) +
                           " both have mtia:" + std::to_string(device) +
                           ": give each rank a device, or set shared_device "
                           "for both");
    }
  } else {
    group = NewGroup(ranks, options.name);
    group->id = id;
    by_id_[id] = group;
  }
  Comm* const comm = handles_.New();
  comm->group = group;
  comm->rank = rank;
  comm->failure = {};
  comm->never =
      !rules_->empty() && rules_->HitsRank(FaultClass::kInitNever, rank);
  Place* const place = &group->places[rank];
  history_->trace.Add(14, group->number, rank);
  if (comm->never) {
    place->begun = true;  // it is taken, and never counted
    place->device = device;
    place->options = options;
    ++group->alive;
  } else {
    Enter(group.get(), place, device, options);
  }
  *out = comm;
  return nullptr;
}

devrt_status Collectives::Poll(const Comm& comm, bool* pending) const {
  *pending = false;
  const Place* const place = comm.place();
  const CommFailure& failure =
      place != nullptr && place->failure ? place->failure : comm.failure;
  if (failure) return MakeError(failure.code, 0, failure.text);
  if (place == nullptr || comm.never || !comm.group->is_ready()) {
    *pending = true;
    return nullptr;
  }
  if (!place->finishes) return nullptr;
  for (const Place& p : comm.group->places) {
    if (p.open != 0 || (!p.finishes && !p.destroyed)) *pending = true;
  }
  return nullptr;
}

devrt_status Collectives::CheckReady(const Comm& comm) const {
  const Place* const place = comm.place();
  const CommFailure& failure =
      place != nullptr && place->failure ? place->failure : comm.failure;
  const std::string name =
      comm.group == nullptr ? "the communicator" : CommText(*comm.group);
  if (failure) {
    return MakeError(DEVRT_ABORTED, 0, name + " has failed: " + failure.text);
  }
  if (place == nullptr || comm.never || !comm.group->is_ready()) {
    std::vector<uint32_t> missing;
    for (uint32_t r = 0; place != nullptr && r < comm.group->places.size();
         ++r) {
      if (!comm.group->places[r].begun) missing.push_back(r);
    }
    return MakeError(
        DEVRT_FAILED_PRECONDITION, 0,
        name + " is not ready: poll until it is" +
            (missing.empty() ? ""
                             : "; " + RanksText(missing) + " did not begin"));
  }
  if (place->finishes) {
    return MakeError(DEVRT_FAILED_PRECONDITION, 0,
                     name + " was finished: it can only be destroyed");
  }
  return nullptr;
}

// ---- ends ----

void Collectives::Abort(Comm* comm, const std::string& why) {
  Place* const place = comm->place();
  if (place == nullptr) {
    if (!comm->failure) comm->failure = {DEVRT_ABORTED, why};
    return;
  }
  if (place->failure) return;
  std::vector<Member*> waiting;
  TakeWaiting(comm->group.get(), &waiting);
  const auto mine =
      std::find_if(waiting.begin(), waiting.end(),
                   [comm](const Member* m) { return m->rank == comm->rank; });
  place->failure = {
      DEVRT_ABORTED,
      RankText(comm->rank) + " of " + CommText(*comm->group) + " " + why +
          (mine == waiting.end()
               ? ""
               : " in " + CallText(**mine) + SiteText((*mine)->site))};
  EndRank(comm->group.get(), comm->rank);
}

void Collectives::Revoke(Comm* comm) {
  Place* const place = comm->place();
  if (place == nullptr || place->revoked) return;
  place->revoked = true;
  EndRank(comm->group.get(), comm->rank);
}

void Collectives::Destroy(Comm* comm) {
  const std::shared_ptr<Communicator> group = std::move(comm->group);
  comm->group.reset();
  if (group != nullptr) {
    Place* const place = &group->places[comm->rank];
    place->destroyed = true;
    EndRank(group.get(), comm->rank);
    if (--group->alive == 0) by_id_.erase(group->id);
  }
  handles_.Release(comm);
}

devrt_status Collectives::Finish(Comm* comm) {
  if (devrt_status error = CheckReady(*comm)) return error;
  Place* const place = comm->place();
  if (place->revoked) {
    return MakeError(
        DEVRT_FAILED_PRECONDITION, 0,
        CommText(*comm->group) + " was revoked: destroy it without finish");
  }
  place->finishes = true;
  if (!rules_->empty() &&
      rules_->HitsRank(FaultClass::kFinishNever, comm->rank)) {
    comm->never = true;
  }
  ++history_->progress;
  history_->trace.Add(15, comm->group->number, comm->rank);
  return nullptr;
}

// ---- children ----

devrt_status Collectives::Split(Comm* comm, int32_t color, int32_t key,
                                const CommOptions* options, Comm** out) {
  Place* const place = comm->place();
  const bool is_parent = place != nullptr && place->revoked;
  if (devrt_status error = is_parent ? nullptr : CheckReady(*comm)) {
    return error;
  }
  const std::shared_ptr<Communicator> parent = comm->group;
  const uint64_t number = place->splits++;
  ChildCalls& calls = parent->splits[number];
  calls.calls.resize(parent->places.size());
  ChildCall& call = calls.calls[comm->rank];
  call.called = true;
  call.color = color;
  call.key = key;
  call.options = options != nullptr ? *options : place->options;
  *out = nullptr;
  if (color != -1) {
    *out = NewChild();
    call.child = HandleOf(**out);
  }
  ++history_->progress;
  history_->trace.Add(16, parent->number, comm->rank);
  if (++calls.called < parent->places.size()) {
    FailLackingChildren(parent.get());
    return nullptr;
  }
  const ChildCalls complete = std::move(calls);
  parent->splits.erase(number);
  MakeSplit(*parent, complete);
  return nullptr;
}

Comm* Collectives::NewChild() {
  Comm* const child = handles_.New();
  child->group.reset();
  child->failure = {};
  child->never = false;
  return child;
}

void Collectives::MakeSplit(const Communicator& parent,
                            const ChildCalls& calls) {
  std::map<int32_t, std::vector<uint32_t>> colors;
  for (uint32_t r = 0; r < calls.calls.size(); ++r) {
    if (calls.calls[r].color != -1) colors[calls.calls[r].color].push_back(r);
  }
  for (auto& [color, ranks] : colors) {
    std::stable_sort(ranks.begin(), ranks.end(),
                     [&calls](uint32_t a, uint32_t b) {
                       return calls.calls[a].key < calls.calls[b].key;
                     });
    MakeChild(parent, calls, ranks);
  }
}

void Collectives::FailChildren(const ChildCalls& calls, devrt_code code,
                               const std::string& text) {
  for (const ChildCall& call : calls.calls) {
    Comm* const child = handles_.Find(call.child);
    if (child != nullptr && !child->failure) child->failure = {code, text};
  }
}

void Collectives::FailLackingChildren(Communicator* group) {
  const std::vector<Place>& places = group->places;
  // Returns true if a rank that `is_gone` has not called, nor is in `without`.
  const auto lacks = [&](const ChildCalls& calls, const auto& is_gone,
                         const std::vector<uint32_t>& without) {
    for (uint32_t r = 0; r < places.size(); ++r) {
      if (calls.calls[r].called || !is_gone(places[r]) ||
          std::binary_search(without.begin(), without.end(), r)) {
        continue;
      }
      FailChildren(
          calls, DEVRT_UNAVAILABLE,
          RankText(r) + (places[r].destroyed
                             ? " has destroyed its communicator"
                             : " has failed: " + places[r].failure.text));
      return true;
    }
    return false;
  };
  const auto cannot_split = [](const Place& p) {
    return p.destroyed || p.failure;
  };
  for (auto i = group->splits.begin(); i != group->splits.end();) {
    i = lacks(i->second, cannot_split, {}) ? group->splits.erase(i)
                                           : std::next(i);
  }
  const auto cannot_shrink = [](const Place& p) {
    return p.destroyed || p.died;
  };
  for (auto i = group->shrinks.begin(); i != group->shrinks.end();) {
    i = lacks(i->second, cannot_shrink, i->first) ? group->shrinks.erase(i)
                                                  : std::next(i);
  }
}

// Makes the communicator of `ranks`, which are ranks of the parent.
void Collectives::MakeChild(const Communicator& parent, const ChildCalls& calls,
                            const std::vector<uint32_t>& ranks) {
  const std::shared_ptr<Communicator> group = NewGroup(
      static_cast<uint32_t>(ranks.size()), calls.calls[ranks[0]].options.name);
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const ChildCall& call = calls.calls[ranks[r]];
    Place* const place = &group->places[r];
    Enter(group.get(), place, parent.places[ranks[r]].device, call.options);
    Comm* const child = handles_.Find(call.child);
    if (child == nullptr) {
      place->destroyed = true;
      --group->alive;
      continue;
    }
    child->group = group;
    child->rank = r;
    place->failure = child->failure;
  }
}

devrt_status Collectives::Shrink(Comm* comm, const std::vector<uint32_t>& gone,
                                 bool abort_first, Comm** out) {
  Place* const place = comm->place();
  const bool aborts =
      place != nullptr && abort_first && comm->group->is_ready();
  const bool is_parent = aborts || (place != nullptr && place->revoked);
  if (devrt_status error = is_parent ? nullptr : CheckReady(*comm)) {
    return error;
  }
  const std::shared_ptr<Communicator> parent = comm->group;
  const auto ranks = static_cast<uint32_t>(parent->places.size());
  if (gone.empty() || gone.back() >= ranks ||
      std::binary_search(gone.begin(), gone.end(), comm->rank)) {
    return InvalidArgument("the ranks that are gone, " + RanksText(gone) +
                           ", must be at least one, below " +
                           std::to_string(ranks) + ", and not " +
                           RankText(comm->rank) + ", which calls");
  }
  const auto known = parent->shrinks.find(gone);
  if (known != parent->shrinks.end() &&
      known->second.calls[comm->rank].called) {
    return MakeError(DEVRT_FAILED_PRECONDITION, 0,
                     RankText(comm->rank) + " of " + CommText(*parent) +
                         " has called comm_shrink, and waits for the others");
  }
  if (aborts) Abort(comm, "was aborted by comm_shrink");
  ChildCalls& calls = parent->shrinks[gone];
  calls.calls.resize(ranks);
  ChildCall& call = calls.calls[comm->rank];
  call.called = true;
  call.options = place->options;
  if (!call.options.name.empty()) {
    call.options.name += " without " + RanksText(gone);
  }
  *out = NewChild();
  call.child = HandleOf(**out);
  ++history_->progress;
  history_->trace.Add(17, parent->number, comm->rank);
  if (++calls.called < ranks - gone.size()) {
    FailLackingChildren(parent.get());
    return nullptr;
  }
  const ChildCalls complete = std::move(calls);
  parent->shrinks.erase(gone);
  std::vector<uint32_t> stay;
  for (uint32_t r = 0; r < ranks; ++r) {
    if (complete.calls[r].called) stay.push_back(r);
  }
  MakeChild(*parent, complete, stay);
  return nullptr;
}

}  // namespace devrt::mtia
