// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/collective_text.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "backends/tensor/tensor.h"

namespace devrt::mtia {
namespace {

constexpr const char* kNames[] = {
    "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter",
    "all_to_all", "gather", "scatter",   "send",       "recv"};
static_assert(std::size(kNames) == DEVRT_COLLECTIVE_COUNT);
constexpr const char* kReductions[] = {"sum", "prod", "min", "max", "avg"};
constexpr size_t kMostMissing = 8;

bool IsPair(const Member& member) {
  return member.call.op == DEVRT_COLLECTIVE_SEND ||
         member.call.op == DEVRT_COLLECTIVE_RECV;
}

std::string Count(uint64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// "; rank 1 waits in recv #1 (...) at FILE:LINE": the send or the receive that
// the rank has begun, and that another rank does not meet; empty if there is
// none.
std::string TransferText(const Communicator& comm, uint32_t rank) {
  for (const auto& [key, pair] : comm.pairs) {
    for (const Member* const m : {pair.send, pair.receive}) {
      if (m == nullptr || m->rank != rank) continue;
      return "; rank " + std::to_string(rank) + " waits in " + CallText(*m) +
             SiteText(m->site);
    }
  }
  return "";
}

// What `rank`, which `member` waits for, did last.
std::string StateText(const Member& member, uint32_t rank) {
  const Place& place = member.comm->places[rank];
  if (place.destroyed) return "has destroyed its communicator";
  if (place.failure) return "has failed: " + place.failure.text;
  if (place.revoked) return "has revoked its communicator";
  const auto me = static_cast<uint32_t>(member.rank);
  if (IsPair(member)) {
    const bool sends = member.call.op == DEVRT_COLLECTIVE_RECV;
    const auto& counts = sends ? place.sends : place.receives;
    const auto found = counts.find(me);
    return "has submitted " +
           Count(found == counts.end() ? 0 : found->second,
                 sends ? "send" : "receive") +
           (sends ? " to rank " : " from rank ") + std::to_string(me) +
           TransferText(*member.comm, rank);
  }
  std::string text = "has submitted " + Count(place.submitted, "collective");
  if (place.submitted != 0) {
    text += " and begun " + std::to_string(place.entered);
  }
  return text + TransferText(*member.comm, rank);
}

}  // namespace

const char* CollectiveName(uint32_t op) { return kNames[op]; }

std::string CommText(const Communicator& comm) {
  // A name has the host's number in it, and two numbers would confuse.
  return "communicator " + (comm.name.empty() ? std::to_string(comm.number)
                                              : "\"" + comm.name + "\"");
}

std::string RanksText(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (end - i > 1) {
      text += (end - i > 2 ? "-" : ", ") + std::to_string(ranks[end - 1]);
    }
    i = end;
  }
  return text;
}

std::string TimeText(uint64_t nanoseconds) {
  struct Unit {
    uint64_t size;
    const char* name;
  };
  static constexpr Unit kUnits[] = {
      {1'000'000'000, " s"}, {1'000'000, " ms"}, {1'000, " us"}, {1, " ns"}};
  const Unit* unit = kUnits;
  while (nanoseconds % unit->size != 0) ++unit;
  return std::to_string(nanoseconds / unit->size) + unit->name;
}

std::string CallText(const Member& member) {
  const devrt_collective_v0& call = member.call;
  std::string text = std::string(kNames[call.op]) + " #" +
                     std::to_string(member.sequence + 1) + " (" +
                     tensor::DtypeName(call.dtype) + " x " +
                     std::to_string(call.count);
  switch (call.op) {
    case DEVRT_COLLECTIVE_ALL_REDUCE:
    case DEVRT_COLLECTIVE_REDUCE:
    case DEVRT_COLLECTIVE_REDUCE_SCATTER:
      text += std::string(", ") + kReductions[call.reduction];
      break;
    case DEVRT_COLLECTIVE_SEND:
      text += ", to rank " + std::to_string(call.root_or_peer);
      break;
    case DEVRT_COLLECTIVE_RECV:
      text += ", from rank " + std::to_string(call.root_or_peer);
      break;
    default:
      break;
  }
  const bool has_root = call.op == DEVRT_COLLECTIVE_REDUCE ||
                        call.op == DEVRT_COLLECTIVE_BROADCAST ||
                        call.op == DEVRT_COLLECTIVE_GATHER ||
                        call.op == DEVRT_COLLECTIVE_SCATTER;
  if (has_root) text += ", root " + std::to_string(call.root_or_peer);
  return text + ")";
}

std::string SiteText(const Site& site) {
  if (site.file == nullptr) return "";
  return std::string(" at ") + site.file + ":" + std::to_string(site.line);
}

std::string CallsText(const std::vector<const Member*>& members) {
  // Equal calls are listed once, in the order of their first ranks.
  std::vector<std::pair<std::string, std::vector<uint32_t>>> groups;
  std::map<std::string, size_t> known;
  for (const Member* const m : members) {
    const std::string text = CallText(*m) + SiteText(m->site);
    const auto [found, is_new] = known.emplace(text, groups.size());
    if (is_new) groups.push_back({text, {}});
    groups[found->second].second.push_back(m->rank);
  }
  std::string text;
  for (const auto& [call, ranks] : groups) {
    text += (text.empty() ? "" : "; ") + RanksText(ranks) + ": " + call;
  }
  return text;
}

std::vector<const Member*> PresentWith(const Member& member) {
  std::vector<const Member*> present;
  const Communicator& comm = *member.comm;
  if (IsPair(member)) {
    const auto peer = static_cast<uint32_t>(member.call.root_or_peer);
    const bool sends = member.call.op == DEVRT_COLLECTIVE_SEND;
    const auto found =
        comm.pairs.find({sends ? member.rank : peer, sends ? peer : member.rank,
                         member.sequence});
    if (found == comm.pairs.end()) return present;
    for (const Member* const m : {found->second.send, found->second.receive}) {
      if (m != nullptr) present.push_back(m);
    }
    return present;
  }
  const auto found = comm.meetings.find(member.sequence);
  if (found == comm.meetings.end()) return present;
  for (const Member* const m : found->second.members) {
    if (m != nullptr) present.push_back(m);
  }
  return present;
}

std::vector<uint32_t> MissingRanks(const Member& member) {
  std::vector<uint32_t> missing;
  if (IsPair(member)) {
    if (PresentWith(member).size() < 2) {
      missing.push_back(static_cast<uint32_t>(member.call.root_or_peer));
    }
    return missing;
  }
  const auto found = member.comm->meetings.find(member.sequence);
  if (found == member.comm->meetings.end()) return missing;
  const std::vector<Member*>& members = found->second.members;
  for (uint32_t r = 0; r < members.size(); ++r) {
    if (members[r] == nullptr) missing.push_back(r);
  }
  return missing;
}

std::string MissingText(const Member& member) {
  const std::vector<uint32_t> missing = MissingRanks(member);
  if (missing.empty()) return "no rank is missing, but the calls differ";
  std::string text = "missing " + RanksText(missing);
  for (size_t i = 0; i < std::min(missing.size(), kMostMissing); ++i) {
    text += "; rank " + std::to_string(missing[i]) + " " +
            StateText(member, missing[i]);
  }
  return text;
}

std::string WaitText(const Member& member) {
  return "rank " + std::to_string(member.rank) + " of " +
         CommText(*member.comm) + " in " + CallText(member) +
         SiteText(member.site) + ", " + MissingText(member);
}

}  // namespace devrt::mtia
