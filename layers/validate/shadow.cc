// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/shadow.h"

#include <algorithm>
#include <iterator>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"

namespace devrt::race {
namespace {

// The mode of a use with the operator `op`; 0 is that of reads.
Mode ModeOfShared(uint64_t op) { return op == 0 ? Mode::kRead : Mode::kReduce; }

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

void Shadow::AddToShared(Range bytes, Cell* cell, const Operation& by,
                         const VectorClock& clock, uint64_t op,
                         std::vector<Conflict>* conflicts) {
  auto& shared = cell->shared;
  // A use of another operator stays: a later use may conflict with that one
  // alone.
  auto kept = shared.begin();
  for (const Shared& earlier : shared) {
    const bool is_known = clock.Knows(earlier.by.epoch);
    if (earlier.op == op) {
      if (is_known) continue;
    } else if (!is_known) {
      Append(bytes, earlier.by, ModeOfShared(earlier.op), conflicts);
    }
    *kept++ = earlier;
  }
  shared.erase(kept, shared.end());
  shared.push_back({by, op});
}

template <typename Known>
inline void Shadow::AddUnknownWrite(Range bytes, const Cell& cell,
                                    const Known& known,
                                    std::vector<Conflict>* conflicts) {
  if (ABSL_PREDICT_TRUE(known.Knows(cell.write.epoch))) return;
  Append(bytes, cell.write, cell.also_read ? Mode::kReadWrite : Mode::kWrite,
         conflicts);
}

template <typename Known>
inline void Shadow::AddUnknown(Range bytes, const Cell& cell,
                               const Known& known,
                               std::vector<Conflict>* conflicts) {
  AddUnknownWrite(bytes, cell, known, conflicts);
  for (const Shared& shared : cell.shared) {
    if (ABSL_PREDICT_FALSE(!known.Knows(shared.by.epoch))) {
      Append(bytes, shared.by, ModeOfShared(shared.op), conflicts);
    }
  }
}

void Shadow::AccessCells(Range range, Mode mode, const Operation& by,
                         const VectorClock& clock,
                         std::vector<Conflict>* conflicts, uint32_t reduction) {
  if (range.begin >= range.end) return;
  const bool writes = mode == Mode::kWrite || mode == Mode::kReadWrite;
  // Operators of reductions follow, so that operator 0 is not taken for a read.
  const uint64_t op = mode == Mode::kReduce ? uint64_t{reduction} + 1 : kReads;
  Split(range.begin);
  Split(range.end);
  if (!writes) Fill(range);
  auto first = cells_.lower_bound(range.begin);
  auto last = first;
  for (; last != cells_.end() && last->first < range.end; ++last) {
    const Range bytes = {last->first, last->second.end};
    FindUnknown(bytes, last->second, mode, clock, conflicts);
    if (!writes) AddShared(bytes, &last->second, by, clock, op, conflicts);
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

void Shadow::FindUnknown(Range bytes, const Cell& cell, Mode mode,
                         const VectorClock& clock,
                         std::vector<Conflict>* conflicts) {
  if (mode == Mode::kWrite || mode == Mode::kReadWrite) {
    AddUnknown(bytes, cell, clock, conflicts);
  } else {
    AddUnknownWrite(bytes, cell, clock, conflicts);
  }
}

void Shadow::FindUnknown(const Knowledge& known,
                         std::vector<Conflict>* conflicts) const {
  for (const auto& [begin, cell] : cells_) {
    AddUnknown({begin, cell.end}, cell, known, conflicts);
  }
}

void Shadow::FindUnknown(Range range, const Knowledge& known,
                         std::vector<Conflict>* conflicts) const {
  for (auto at = FirstIn(range); at != cells_.end() && at->first < range.end;
       ++at) {
    const Cell& cell = at->second;
    AddUnknown(
        {std::max(at->first, range.begin), std::min(cell.end, range.end)}, cell,
        known, conflicts);
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
    size_t kept = 0;
    for (const Shared& earlier : shared) {
      if (clock.Knows(earlier.by.epoch)) continue;
      if (&shared[kept] != &earlier) shared[kept] = earlier;
      ++kept;
    }
    if (kept != shared.size()) {
      shared.erase(shared.begin() + static_cast<ptrdiff_t>(kept), shared.end());
    }
    if (clock.Knows(cell.write.epoch)) cell.write = Operation();
    if (cell.write.epoch.actor == kNoActor && shared.empty()) {
      at = cells_.erase(at);
    } else {
      ++at;
    }
  }
}

}  // namespace devrt::race
