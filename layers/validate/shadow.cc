// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/shadow.h"

#include <algorithm>
#include <iterator>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"

namespace devrt::race {
namespace {

constexpr uint64_t kReads = 0;
// Operators of reductions follow, so that operator 0 is not taken for a read.
constexpr uint64_t OperatorOf(Mode mode, uint32_t reduction) {
  return mode == Mode::kReduce ? uint64_t{reduction} + 1 : kReads;
}

Mode ModeOf(uint64_t op) { return op == kReads ? Mode::kRead : Mode::kReduce; }

// One conflict stands for all bytes of neighbouring cells.
ABSL_ATTRIBUTE_NOINLINE void Append(Range range, const Operation& earlier,
                                    Mode mode,
                                    std::vector<Conflict>* conflicts) {
  for (Conflict& known : *conflicts) {
    if (known.earlier.epoch == earlier.epoch && known.earlier_mode == mode &&
        known.range.end == range.begin) {
      known.range.end = range.end;
      return;
    }
  }
  conflicts->push_back({range, earlier, mode});
}

}  // namespace

void Shadow::Split(uint64_t at) {
  auto next = cells_.upper_bound(at);
  if (next == cells_.begin()) return;
  auto& [begin, cell] = *std::prev(next);
  if (begin == at || cell.end <= at) return;
  Cell rest = cell;
  cell.end = at;
  cells_.emplace_hint(next, at, std::move(rest));
}

Shadow::Cells::const_iterator Shadow::FirstIn(Range range) const {
  auto at = cells_.upper_bound(range.begin);
  if (at != cells_.begin() && std::prev(at)->second.end > range.begin) --at;
  return at;
}

void Shadow::Fill(Range range) {
  uint64_t at = range.begin;
  auto cell = cells_.lower_bound(at);
  while (at < range.end) {
    const uint64_t next =
        cell == cells_.end() ? range.end : std::min(cell->first, range.end);
    if (at < next) {
      Cell empty;
      empty.end = next;
      cells_.emplace_hint(cell, at, std::move(empty));
    }
    if (cell == cells_.end()) return;
    at = cell->second.end;
    ++cell;
  }
}

inline void Shadow::Write(Cell* cell, const Operation& by, bool also_read) {
  cell->write = by;
  cell->also_read = also_read;
  cell->shared.clear();
}

inline void Shadow::AddShared(Range bytes, Cell* cell, const Operation& by,
                              const VectorClock& clock, uint64_t op,
                              std::vector<Conflict>* conflicts) {
  auto& shared = cell->shared;
  if (shared.empty()) {
    shared.push_back({by, op});
    return;
  }
  // A use of another operator stays: a later use may conflict with that one
  // alone.
  auto kept = shared.begin();
  for (const Shared& earlier : shared) {
    const bool is_known = clock.Knows(earlier.by.epoch);
    if (earlier.op == op) {
      if (is_known) continue;
    } else if (!is_known) {
      Append(bytes, earlier.by, ModeOf(earlier.op), conflicts);
    }
    *kept++ = earlier;
  }
  shared.erase(kept, shared.end());
  shared.push_back({by, op});
}

inline void Shadow::AddUnknownWrite(Range bytes, const Cell& cell,
                                    const VectorClock& clock,
                                    std::vector<Conflict>* conflicts) {
  if (ABSL_PREDICT_TRUE(clock.Knows(cell.write.epoch))) return;
  Append(bytes, cell.write, cell.also_read ? Mode::kReadWrite : Mode::kWrite,
         conflicts);
}

inline void Shadow::AddUnknown(Range bytes, const Cell& cell,
                               const VectorClock& clock,
                               std::vector<Conflict>* conflicts) {
  AddUnknownWrite(bytes, cell, clock, conflicts);
  for (const Shared& shared : cell.shared) {
    if (!clock.Knows(shared.by.epoch)) {
      Append(bytes, shared.by, ModeOf(shared.op), conflicts);
    }
  }
}

void Shadow::Access(Range range, Mode mode, const Operation& by,
                    const VectorClock& clock, std::vector<Conflict>* conflicts,
                    uint32_t reduction) {
  if (range.begin >= range.end) return;
  const bool writes = mode == Mode::kWrite || mode == Mode::kReadWrite;
  const uint64_t op = OperatorOf(mode, reduction);
  const auto use = [&](Range bytes, Cell* cell) ABSL_ATTRIBUTE_ALWAYS_INLINE {
    if (writes) return AddUnknown(bytes, *cell, clock, conflicts);
    AddUnknownWrite(bytes, *cell, clock, conflicts);
    AddShared(bytes, cell, by, clock, op, conflicts);
  };
  auto first = cells_.lower_bound(range.begin);
  if (first != cells_.end() && first->first == range.begin &&
      first->second.end == range.end) {
    use(range, &first->second);
    if (writes) Write(&first->second, by, mode == Mode::kReadWrite);
    return;
  }
  Split(range.begin);
  Split(range.end);
  if (!writes) Fill(range);
  first = cells_.lower_bound(range.begin);
  auto last = first;
  for (; last != cells_.end() && last->first < range.end; ++last) {
    use({last->first, last->second.end}, &last->second);
  }
  if (!writes) return;
  // One cell with this write takes the place of all.
  if (first != last && first->first == range.begin) {
    first->second.end = range.end;
    Write(&first->second, by, mode == Mode::kReadWrite);
    cells_.erase(std::next(first), last);
    return;
  }
  first = cells_.erase(first, last);
  Cell cell;
  cell.end = range.end;
  Write(&cell, by, mode == Mode::kReadWrite);
  cells_.emplace_hint(first, range.begin, std::move(cell));
}

void Shadow::FindUnknown(Range range, const VectorClock& clock,
                         std::vector<Conflict>* conflicts) const {
  for (auto at = FirstIn(range); at != cells_.end() && at->first < range.end;
       ++at) {
    const Cell& cell = at->second;
    AddUnknown(
        {std::max(at->first, range.begin), std::min(cell.end, range.end)}, cell,
        clock, conflicts);
  }
}

void Shadow::Erase(Range range) {
  Split(range.begin);
  Split(range.end);
  cells_.erase(cells_.lower_bound(range.begin), cells_.lower_bound(range.end));
}

void Shadow::CopyTo(Range range, uint64_t offset, Shadow* to) const {
  for (auto at = FirstIn(range); at != cells_.end() && at->first < range.end;
       ++at) {
    const Range common = {std::max(at->first, range.begin),
                          std::min(at->second.end, range.end)};
    Cell cell = at->second;
    cell.end = common.end - range.begin + offset;
    to->cells_.emplace(common.begin - range.begin + offset, std::move(cell));
  }
}

void Shadow::Forget(const VectorClock& clock) {
  for (auto at = cells_.begin(); at != cells_.end();) {
    Cell& cell = at->second;
    auto& shared = cell.shared;
    shared.erase(std::remove_if(shared.begin(), shared.end(),
                                [&](const Shared& earlier) {
                                  return clock.Knows(earlier.by.epoch);
                                }),
                 shared.end());
    if (clock.Knows(cell.write.epoch)) cell.write = Operation();
    if (cell.write.epoch.actor == kNoActor && shared.empty()) {
      at = cells_.erase(at);
    } else {
      ++at;
    }
  }
}

}  // namespace devrt::race
