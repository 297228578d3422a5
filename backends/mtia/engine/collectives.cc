// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/collectives.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "backends/mtia/engine/collective_data.h"
#include "backends/mtia/engine/collective_text.h"

namespace devrt::mtia {
namespace {

using internal::FaultClass;

PairKey KeyOf(const Member& m) {
  const auto peer = static_cast<uint32_t>(m.call.root_or_peer);
  return m.call.op == DEVRT_COLLECTIVE_SEND ? PairKey(m.rank, peer, m.sequence)
                                            : PairKey(peer, m.rank, m.sequence);
}

bool HasEqualKind(const Member& a, const Member& b) {
  if (IsPointToPoint(a.call.op)) return a.call.dtype == b.call.dtype;
  return a.call.op == b.call.op && a.call.dtype == b.call.dtype &&
         a.call.reduction == b.call.reduction &&
         a.call.root_or_peer == b.call.root_or_peer;
}

uint64_t TimeoutOf(const Member& m) {
  return m.comm->places[m.rank].options.timeout;
}

// The shortest timeout of the members that wait; 0: none.
uint64_t ShortestTimeout(const CollectivePart& part) {
  uint64_t shortest = 0;
  for (const Member& m : part.members) {
    const uint64_t timeout = TimeoutOf(m);
    if (m.state != MemberState::kWaiting || timeout == 0) continue;
    shortest = shortest == 0 ? timeout : std::min(shortest, timeout);
  }
  return shortest;
}

}  // namespace

// ---- parts ----

CollectivePart* Collectives::NewPart() {
  if (free_parts_.empty()) free_parts_.push_back(&parts_.emplace_back());
  CollectivePart* const part = free_parts_.back();
  free_parts_.pop_back();
  part->op = nullptr;
  part->waiting = 0;
  part->parked = false;
  part->late = 0;
  return part;
}

void Collectives::RecyclePart(CollectivePart* part) {
  part->members.clear();
  free_parts_.push_back(part);
}

void Collectives::AddMember(CollectivePart* part, const Comm& comm,
                            const devrt_collective_v0& call, Site site) {
  Place* const place = comm.place();
  Member m;
  m.part = part;
  m.comm = comm.group;
  m.rank = comm.rank;
  m.call = call;
  m.site = site;
  const auto peer = static_cast<uint32_t>(call.root_or_peer);
  if (call.op == DEVRT_COLLECTIVE_SEND) {
    m.sequence = place->sends[peer]++;
  } else if (call.op == DEVRT_COLLECTIVE_RECV) {
    m.sequence = place->receives[peer]++;
  } else {
    m.sequence = place->submitted++;
  }
  ++place->open;
  part->members.push_back(std::move(m));
}

void Collectives::Retire(Op* op) {
  CollectivePart* const part = op->part;
  if (part == nullptr) return;
  for (const Member& m : part->members) --m.comm->places[m.rank].open;
  op->part = nullptr;
  RecyclePart(part);
}

// ---- the meeting ----

bool Collectives::Begin(Op* op) {
  CollectivePart* const part = op->part;
  part->waiting = static_cast<uint32_t>(part->members.size());
  for (Member& m : part->members) {
    m.begun = true;
    if (!IsPointToPoint(m.call.op)) ++m.comm->places[m.rank].entered;
  }
  for (Member& m : part->members) {
    if (m.state == MemberState::kWaiting) Arrive(&m);
  }
  if (part->waiting == 0) return true;
  op->timeout = ShortestTimeout(*part);
  part->parked = true;
  op->stream->head_state = HeadState::kParked;
  return false;
}

void Collectives::Arrive(Member* m) {
  Communicator* const group = m->comm.get();
  Place* const place = &group->places[m->rank];
  if (!place->is_over() && !rules_->empty()) {
    if (rules_->HitsRank(FaultClass::kRankDies, m->rank)) {
      place->failure = {DEVRT_UNAVAILABLE,
                        "injected: rank " + std::to_string(m->rank) + " of " +
                            CommText(*group) + " died in " + CallText(*m) +
                            SiteText(m->site)};
      place->died = true;
      EndRank(group, m->rank);
    } else if (rules_->HitsRank(FaultClass::kRemoteError, m->rank)) {
      FailAll(group, DEVRT_UNAVAILABLE,
              "injected: the connection to rank " + std::to_string(m->rank) +
                  " of " + CommText(*group) + " broke in " + CallText(*m) +
                  SiteText(m->site));
    }
  }
  if (place->is_over()) {
    Settle(m, MemberState::kOver);
  } else if (IsPointToPoint(m->call.op)) {
    ArriveInPair(m);
  } else {
    ArriveInMeeting(m);
  }
}

void Collectives::ArriveInMeeting(Member* m) {
  Communicator* const group = m->comm.get();
  const auto found = group->meetings.try_emplace(m->sequence).first;
  Meeting& meeting = found->second;
  if (meeting.members.empty()) meeting.members.resize(group->places.size());
  meeting.members[m->rank] = m;
  if (++meeting.begun < group->places.size()) return;
  if (!AreAlike(meeting.members)) return;
  const std::vector<Member*> members = std::move(meeting.members);
  group->meetings.erase(found);
  Meet(members);
}

void Collectives::ArriveInPair(Member* m) {
  Communicator* const group = m->comm.get();
  const auto found = group->pairs.try_emplace(KeyOf(*m)).first;
  Pair& pair = found->second;
  (m->call.op == DEVRT_COLLECTIVE_SEND ? pair.send : pair.receive) = m;
  if (pair.send == nullptr || pair.receive == nullptr) return;
  const std::vector<Member*> members = {pair.send, pair.receive};
  if (!AreAlike(members)) return;
  group->pairs.erase(found);
  Meet(members);
}

bool Collectives::AreAlike(const std::vector<Member*>& members) {
  const Member& first = *members[0];
  bool kinds = true;
  bool counts = true;
  for (const Member* const m : members) {
    kinds = kinds && HasEqualKind(first, *m);
    counts = counts && m->call.count == first.call.count;
  }
  if (kinds && counts) return true;
  switch (config_->collective_mismatch) {
    case Mismatch::kTruncate:
      if (kinds) return true;
      break;
    case Mismatch::kHang:
      return false;
    case Mismatch::kReport:
      break;
  }
  FailAll(first.comm.get(), DEVRT_INVALID_ARGUMENT,
          CommText(*first.comm) + ": the ranks' calls differ: " +
              CallsText({members.begin(), members.end()}));
  return false;
}

void Collectives::Meet(const std::vector<Member*>& members) {
  Communicator* const group = members[0]->comm.get();
  const Member* faulty = nullptr;
  std::string why;
  try {
    faulty = Exchange(memory_->IfMade(), members);
    if (faulty != nullptr) {
      why = "rank " + std::to_string(faulty->rank) + " of " + CommText(*group) +
            " faulted in " + CallText(*faulty) + SiteText(faulty->site) + ": " +
            faulty->part->op->fault_text;
    }
  } catch (const std::exception& e) {
    faulty = members[0];
    why = CommText(*group) + ": " + CallText(*members[0]) +
          SiteText(members[0]->site) + ": " + e.what();
  }
  history_->trace.Add(11, group->number, members[0]->sequence);
  ++history_->progress;
  for (Member* const m : members) {
    Settle(m, faulty == nullptr ? MemberState::kMet : MemberState::kOver);
  }
  if (faulty != nullptr) FailAll(group, DEVRT_UNAVAILABLE, why);
}

void Collectives::Settle(Member* m, MemberState state) {
  CollectivePart* const part = m->part;
  m->state = state;
  if (--part->waiting != 0 || !part->parked) return;
  part->parked = false;
  StreamCore* const s = part->op->stream;
  s->head_state = HeadState::kReady;
  driver_->Unpark(s);
}

// ---- ends without a meeting ----

void Collectives::Leave(Member* m) {
  Communicator* const group = m->comm.get();
  if (IsPointToPoint(m->call.op)) {
    const auto found = group->pairs.find(KeyOf(*m));
    if (found == group->pairs.end()) return;
    Pair& pair = found->second;
    if (pair.send == m) pair.send = nullptr;
    if (pair.receive == m) pair.receive = nullptr;
    if (pair.send == nullptr && pair.receive == nullptr) {
      group->pairs.erase(found);
    }
    return;
  }
  const auto found = group->meetings.find(m->sequence);
  if (found == group->meetings.end() || found->second.members[m->rank] != m) {
    return;
  }
  found->second.members[m->rank] = nullptr;
  if (--found->second.begun == 0) group->meetings.erase(found);
}

void Collectives::StopWaiting(Op* op) {
  op->part->parked = false;
  for (Member& m : op->part->members) {
    if (m.state != MemberState::kWaiting) continue;
    Leave(&m);
    m.state = MemberState::kOver;
  }
}

void Collectives::TakeWaiting(Communicator* group,
                              std::vector<Member*>* waiting) {
  for (auto& [number, meeting] : group->meetings) {
    for (Member* const m : meeting.members) {
      if (m != nullptr) waiting->push_back(m);
    }
  }
  for (auto& [key, pair] : group->pairs) {
    if (pair.send != nullptr) waiting->push_back(pair.send);
    if (pair.receive != nullptr) waiting->push_back(pair.receive);
  }
}

void Collectives::EndRank(Communicator* group, uint32_t rank) {
  ++history_->progress;
  history_->trace.Add(12, group->number, rank);
  std::vector<Member*> waiting;
  TakeWaiting(group, &waiting);
  for (Member* const m : waiting) {
    if (m->rank != rank) continue;
    Leave(m);
    Settle(m, MemberState::kOver);
  }
  FailLackingChildren(group);
}

void Collectives::FailAll(Communicator* group, devrt_code code,
                          const std::string& text) {
  ++history_->progress;
  history_->trace.Add(13, group->number, static_cast<uint64_t>(code));
  for (Place& place : group->places) {
    if (!place.is_over()) place.failure = {code, text};
  }
  for (const auto& [number, calls] : group->splits) {
    FailChildren(calls, code, text);
  }
  group->splits.clear();
  std::vector<Member*> waiting;
  TakeWaiting(group, &waiting);
  group->meetings.clear();
  group->pairs.clear();
  for (Member* const m : waiting) Settle(m, MemberState::kOver);
}

bool Collectives::Expire(Op* op) {
  CollectivePart* const part = op->part;
  const uint64_t passed = op->timeout;
  for (Member& m : part->members) {
    const uint64_t timeout = TimeoutOf(m);
    if (m.state != MemberState::kWaiting || timeout == 0 || timeout > passed) {
      continue;
    }
    const std::string text = CommText(*m.comm) + ": " + CallText(m) +
                             " did not meet within " + TimeText(timeout) +
                             ": " + MissingText(m) +
                             "; waiting: " + CallsText(PresentWith(m));
    FailAll(m.comm.get(), DEVRT_DEADLINE_EXCEEDED, text);
  }
  if (!part->parked) return false;
  op->timeout = ShortestTimeout(*part);
  return true;
}

}  // namespace devrt::mtia
