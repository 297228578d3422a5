// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/failure_place.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace devrt::collectives::internal {
namespace {

std::string TimeSince(uint64_t begin_ns) {
  const uint64_t now = NowNs();
  const uint64_t ms = (now - std::min(now, begin_ns)) / 1'000'000;
  if (ms < 1000) return absl::StrCat(ms, " ms");
  return absl::StrCat(ms / 1000, ".", ms / 100 % 10, " s");
}

// "118 all_reduce(float32 x 4096, sum) on stream 4, submitted at train.cc:41
// 12.3 s before".
std::string Described(const Ring& ring, const CallRecord& call) {
  std::string text =
      absl::StrCat(call.sequence != 0 ? absl::StrCat(call.sequence, " ") : "",
                   CallText(call.op, call.dtype, call.count, call.reduction,
                            call.root_or_peer),
                   " on stream ", call.stream, ", submitted");
  if (call.file != 0) {
    absl::StrAppend(&text, " at ", ring.Name(call.file), ":", call.line);
  }
  return absl::StrCat(text, " ", TimeSince(call.submit_ns), " before");
}

// Returns true if `text` ends with the name of an operation, which is a send or
// a receive if `is_transfer`.
bool EndsWithKind(absl::string_view text, bool is_transfer) {
  for (uint32_t i = 0; i < DEVRT_COLLECTIVE_COUNT; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const bool matches =
        is_transfer == (kind == OpKind::kSend || kind == OpKind::kRecv);
    if (matches && absl::EndsWith(text, ToString(kind))) return true;
  }
  return false;
}

const CallRecord* FindSequence(const Ring& ring, uint64_t sequence) {
  const uint64_t last = ring.written();
  for (uint64_t n = last; n > 0 && last - n < kRecords; --n) {
    const CallRecord* const call = ring.Find(n);
    if (call != nullptr && call->sequence == sequence) return call;
  }
  return nullptr;
}

// A send or a receive, as an engine that counts them for each pair of ranks
// names it: "recv #2 (float32 x 4, from rank 1)".
struct NamedTransfer {
  OpKind kind = OpKind::kSend;
  uint64_t number = 0;  // among those of the kind and the peer
  std::string text;     // "(float32 x 4, from rank 1)"
};

// The rank that the text names last before `at`; -1: none.  The name of a
// communicator, in quotes, may have the number of another one: "3 without rank
// 2".
int RankBefore(absl::string_view why, size_t at) {
  const absl::string_view before = why.substr(0, at);
  size_t word = before.rfind("rank ");
  while (word != absl::string_view::npos &&
         std::count(before.begin() + word, before.end(), '"') % 2 != 0) {
    word =
        word == 0 ? absl::string_view::npos : before.rfind("rank ", word - 1);
  }
  if (word == absl::string_view::npos) return -1;
  const absl::string_view rest = why.substr(word + 5);
  int rank = -1;
  const bool is_number = absl::SimpleAtoi(
      rest.substr(0, rest.find_first_not_of("0123456789")), &rank);
  return is_number ? rank : -1;
}

// The first transfer of the rank in "rank 0: recv #2 (float32 x 4, from rank 1)
// at train.cc:41; rank 1: ...".
std::optional<NamedTransfer> TransferIn(absl::string_view why, int rank) {
  for (const OpKind kind : {OpKind::kSend, OpKind::kRecv}) {
    const std::string begin = absl::StrCat(" ", ToString(kind), " #");
    for (size_t at = why.find(begin); at != absl::string_view::npos;
         at = why.find(begin, at + 1)) {
      if (RankBefore(why, at) != rank) continue;
      const absl::string_view rest = why.substr(at + begin.size());
      const size_t digits = rest.find_first_not_of("0123456789");
      const size_t end = rest.find(')');
      NamedTransfer transfer{kind, 0, ""};
      if (end == absl::string_view::npos || digits + 1 > end ||
          !absl::SimpleAtoi(rest.substr(0, digits), &transfer.number)) {
        continue;
      }
      transfer.text = std::string(rest.substr(digits + 1, end - digits));
      return transfer;
    }
  }
  return std::nullopt;
}

bool IsOf(const CallRecord& call, const NamedTransfer& transfer) {
  if (call.op != static_cast<uint32_t>(transfer.kind)) return false;
  const bool sends = transfer.kind == OpKind::kSend;
  // The engine writes "to rank 1" where CallText writes "to 1".
  const std::string peer =
      absl::StrCat(sends ? ", to rank " : ", from rank ", call.root_or_peer);
  return absl::EndsWith(transfer.text, absl::StrCat(peer, ")"));
}

// This rank's record of the transfer; nullptr if the ring has lost it.
const CallRecord* FindTransfer(const Ring& ring,
                               const NamedTransfer& transfer) {
  const uint64_t last = ring.written();
  if (last > kRecords) return nullptr;  // the first ones are not counted
  uint64_t seen = 0;
  for (uint64_t n = 1; n <= last; ++n) {
    const CallRecord* const call = ring.Find(n);
    if (call == nullptr || !IsOf(*call, transfer)) continue;
    if (++seen == transfer.number) return call;
  }
  return nullptr;
}

// The oldest transfer of the kind and the peer that is not known to have ended
// before the failure.
const CallRecord* OldestPending(const Comm& comm, const NamedTransfer& transfer)
    DEVRT_REQUIRES(comm.mutex) {
  for (const Comm::Pending& calls : comm.pending) {
    for (uint64_t n = calls.FirstIn(*comm.ring); n <= calls.last; ++n) {
      const CallRecord* const call = comm.ring->Find(n);
      if (call != nullptr && IsOf(*call, transfer)) return call;
    }
  }
  return nullptr;
}

// The call that the engine names; nullptr: none.
const CallRecord* NamedCall(const Comm& comm, absl::string_view why)
    DEVRT_REQUIRES(comm.mutex) {
  const uint64_t sequence = SequenceIn(why);
  if (sequence != 0) return FindSequence(*comm.ring, sequence);
  const std::optional<NamedTransfer> transfer = TransferIn(why, comm.rank);
  if (!transfer.has_value()) return nullptr;
  const CallRecord* const call = FindTransfer(*comm.ring, *transfer);
  return call != nullptr ? call : OldestPending(comm, *transfer);
}

}  // namespace

uint64_t SequenceIn(absl::string_view why) {
  for (size_t at = why.find(" #"); at != absl::string_view::npos;
       at = why.find(" #", at + 1)) {
    const absl::string_view before = why.substr(0, at);
    // These are counted for each pair of ranks.
    if (EndsWithKind(before, /*is_transfer=*/true)) return 0;
    if (!EndsWithKind(before, /*is_transfer=*/false)) continue;
    const absl::string_view rest = why.substr(at + 2);
    uint64_t sequence = 0;
    const bool is_number = absl::SimpleAtoi(
        rest.substr(0, rest.find_first_not_of("0123456789")), &sequence);
    return is_number ? sequence : 0;
  }
  return 0;
}

std::string PlaceOf(Comm* comm, absl::string_view why, bool asks) {
  // After the failure the streams go on, so that no call looks open any more
  // where the engine has ended it: what the engine names counts.
  const CallRecord* last = nullptr;
  const std::vector<uint64_t> open =
      SequenceIn(why) == 0 ? OpenCalls(*comm, asks) : std::vector<uint64_t>();
  const MutexLock lock(&comm->mutex);
  const Ring& ring = *comm->ring;
  const CallRecord* first = NamedCall(*comm, why);
  if (first == nullptr && !open.empty()) {
    first = ring.Find(open.front());
    last = open.size() < 2 ? nullptr : ring.Find(open.back());
  }
  if (first == nullptr) return std::string();
  comm->oldest_open = first->number;
  if (last == nullptr) return absl::StrCat(" at ", Described(ring, *first));
  return absl::StrCat(" between ", Described(ring, *first), " and ",
                      Described(ring, *last));
}

}  // namespace devrt::collectives::internal
