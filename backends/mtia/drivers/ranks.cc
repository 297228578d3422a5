// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/drivers/ranks.h"

#include <algorithm>

#include "backends/mtia/engine/decisions.h"

namespace devrt::mtia {
namespace {

// Ranks that are drawn have this bit.  Those that fell have not.
constexpr uint64_t kDrawn = uint64_t{1} << 63;
// The length of a run is not known when it begins, so each run assumes one of
// these numbers of moves.
constexpr uint64_t kLengths[] = {20, 60, 180, 540};

struct Access {
  const std::byte* begin;
  uint64_t size;
  bool writes;
};

bool Overlap(const Access& a, const Access& b) {
  return (a.writes || b.writes) && a.begin < b.begin + b.size &&
         b.begin < a.begin + a.size;
}

// True if `op` may touch memory that it does not declare.
bool IsUnknown(const Op& op) {
  return op.kind == OpKind::kHostFunc ||
         (op.kind == OpKind::kKernel && op.action == Action::kBody &&
          !op.declared);
}

// Calls `visit` for what `op` declares, until it returns true.
template <typename Visit>
bool AnyAccess(const Op& op, Visit visit) {
  const auto bytes = [](const void* ptr) {
    return static_cast<const std::byte*>(ptr);
  };
  switch (op.kind) {
    case OpKind::kKernel:
    case OpKind::kCollective:
      return std::any_of(
          op.ranges.begin(), op.ranges.end(), [&](const Range& r) {
            return visit(
                Access{r.ptr, r.size, (r.mode & DEVRT_ACCESS_WRITE) != 0});
          });
    case OpKind::kCopy:
      return visit(Access{bytes(op.dst), op.size, true}) ||
             visit(Access{bytes(op.src), op.size, false});
    case OpKind::kFill:
    case OpKind::kAlloc:
    case OpKind::kFree:
      return visit(Access{bytes(op.dst), op.size, true});
    default:
      return false;
  }
}

bool Conflict(const Op& a, const Op& b) {
  if (IsUnknown(a) || IsUnknown(b)) return true;
  return AnyAccess(a, [&b](const Access& of_a) {
    return AnyAccess(
        b, [&of_a](const Access& of_b) { return Overlap(of_a, of_b); });
  });
}

}  // namespace

void Ranks::Start(const Config& config) {
  const bool ranked = config.strategy == StrategyKind::kPos ||
                      config.strategy == StrategyKind::kPct;
  strategy_ = ranked ? config.strategy : StrategyKind::kHardware;
  random_ = config.seed;
  moves_ = 0;
  lowest_ = kDrawn;
  changes_.clear();
  if (strategy_ != StrategyKind::kPct) return;
  const uint64_t length = kLengths[NextRandom(&random_) % std::size(kLengths)];
  for (uint32_t i = 0; i < config.changes; ++i) {
    changes_.push_back(NextRandom(&random_) % length);
  }
}

uint64_t Ranks::Drawn(uint64_t* rank) {
  if (*rank == 0) *rank = NextRandom(&random_) | kDrawn;
  return *rank;
}

uint32_t Ranks::Greatest(const std::vector<HostThread*>& hosts,
                         const std::vector<StreamCore*>& heads) {
  auto falls = std::count(changes_.begin(), changes_.end(), moves_++);
  for (;; --falls) {
    uint32_t best = 0;
    uint64_t greatest = 0;
    uint32_t index = 0;
    const auto consider = [&](uint64_t rank) {
      if (rank > greatest) {
        greatest = rank;
        best = index;
      }
      ++index;
    };
    for (HostThread* const host : hosts) consider(RankOf(host));
    for (StreamCore* const s : heads) consider(RankOf(s));
    if (falls == 0) return best;
    // The later it falls, the lower it is.
    const uint64_t lowest = --lowest_;
    if (best < hosts.size()) {
      hosts[best]->rank = lowest;
    } else {
      heads[best - hosts.size()]->rank = lowest;
    }
  }
}

void Ranks::NoteStep(Op* op, const std::vector<StreamCore*>& heads) {
  if (strategy_ != StrategyKind::kPos) return;
  op->rank = 0;
  for (StreamCore* const s : heads) {
    if (s->head->rank != 0 && Conflict(*op, *s->head)) s->head->rank = 0;
  }
}

void Ranks::NoteMoved(HostThread* host) {
  if (strategy_ == StrategyKind::kPos) host->rank = 0;
}

}  // namespace devrt::mtia
