// SPDX-License-Identifier: Apache-2.0
//
// Which operations last used each byte of one block of memory, and which of
// them an access conflicts with.
//
//   Shadow shadow;
//   std::vector<Conflict> conflicts;
//   shadow.Access({0, 4096}, Mode::kWrite, write, clock_of_a, &conflicts);
//   shadow.Access({0, 64}, Mode::kRead, read, clock_of_b, &conflicts);
//   // One conflict, [0, 64) with `write`, unless clock_of_b knows write.epoch.
//
// Two accesses conflict if neither comes before the other and one of them
// writes.  Reductions with one operator do not conflict with each other.
//
// For each byte there is at least one conflict if the accesses so far have one,
// and not every pair: a write replaces all earlier uses, and a read replaces
// the reads that come before it.
//
// The cost grows with the intervals that were used differently, not with bytes.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_SHADOW_H_
#define DEVRT_LAYERS_VALIDATE_SHADOW_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/container/inlined_vector.h"
#include "layers/validate/vector_clock.h"

namespace devrt::race {

enum class Mode : uint8_t { kRead, kWrite, kReadWrite, kReduce };

// Bytes [begin, end), counted from the start of the block.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// An operation, as reports name it.
struct Operation {
  Epoch epoch;          // of the stream or host thread that performs it
  uint64_t number = 0;  // in the order of the calls, from 1
  uint32_t name = 0;    // numbers of Texts
  uint32_t site = 0;
};

// An earlier use that does not come before the access.
struct Conflict {
  Range range;  // the bytes that both use
  Operation earlier;
  Mode earlier_mode = Mode::kRead;
};

class Shadow {
 public:
  // Notes the access, and appends what it conflicts with.  `clock` is what the
  // accessing operation comes after.  `reduction` is the operator of kReduce.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Access(Range range, Mode mode,
                                           const Operation& by,
                                           const VectorClock& clock,
                                           std::vector<Conflict>* conflicts,
                                           uint32_t reduction = 0) {
    Cell* const cell = CellOf(range);
    if (ABSL_PREDICT_FALSE(cell == nullptr || mode == Mode::kReduce)) {
      return AccessCells(range, mode, by, clock, conflicts, reduction);
    }
    const bool reads_only = mode == Mode::kRead;
    if (ABSL_PREDICT_FALSE(!clock.Knows(cell->write.epoch) ||
                           !(reads_only || KnowsShared(clock, *cell)))) {
      FindUnknown(range, *cell, mode, clock, conflicts);
    }
    if (reads_only) {
      AddShared(range, cell, by, clock, kReads, conflicts);
    } else {
      Write(cell, by, mode == Mode::kReadWrite);
    }
  }

  // Appends the uses that are not `known`, as a write to the range would, and
  // notes nothing.  Without a range: as a write to all bytes would.
  void FindUnknown(Range range, const Knowledge& known,
                   std::vector<Conflict>* conflicts) const;
  void FindUnknown(const Knowledge& known,
                   std::vector<Conflict>* conflicts) const;

  // Forgets all uses of the bytes.
  void Erase(Range range);

  // Copies the uses of the bytes `range` to `to`, at `offset` there, where no
  // byte was used yet.
  void CopyTo(Range range, uint64_t offset, Shadow* to) const;

  // Forgets uses that `clock` knows.  `clock` is known to every actor that can
  // submit: no later access conflicts with what is forgotten.
  void Forget(const VectorClock& clock);

  // Calls visit(operation) for each use that is known, maybe repeatedly.
  template <typename Visit>
  void ForEachOperation(Visit visit) const {
    for (const auto& [begin, cell] : cells_) {
      if (cell.write.number != 0) visit(cell.write);
      for (const Shared& shared : cell.shared) visit(shared.by);
    }
  }

  size_t intervals() const { return cells_.size(); }

 private:
  // Reads have operator kRead; reductions have the caller's operator.
  struct Shared {
    Operation by;
    uint64_t op = 0;
  };
  // Bytes that were used alike.
  struct Cell {
    uint64_t end = 0;
    Operation write;  // the last write; time 0: none
    bool also_read = false;
    absl::InlinedVector<Shared, 1> shared;  // later uses that are no writes
  };
  using Cells = std::map<uint64_t, Cell>;  // by begin
  static constexpr uint64_t kReads = 0;    // Shared::op of a read

  // The cell of just these bytes, which most accesses find; or nullptr.
  Cell* CellOf(Range range) {
    auto at = cells_.begin();  // most blocks have one
    if (at == cells_.end()) return nullptr;
    if (at->first != range.begin) {
      at = cells_.lower_bound(range.begin);
      if (at == cells_.end() || at->first != range.begin) return nullptr;
    }
    return at->second.end == range.end ? &at->second : nullptr;
  }
  static bool KnowsShared(const VectorClock& clock, const Cell& cell) {
    for (const Shared& shared : cell.shared) {
      if (!clock.Knows(shared.by.epoch)) return false;
    }
    return true;
  }
  // Access for any cells.
  void AccessCells(Range range, Mode mode, const Operation& by,
                   const VectorClock& clock, std::vector<Conflict>* conflicts,
                   uint32_t reduction);
  // Appends the uses of the cell that an access with `mode` conflicts with.
  static void FindUnknown(Range bytes, const Cell& cell, Mode mode,
                          const VectorClock& clock,
                          std::vector<Conflict>* conflicts);

  // The first cell with bytes of `range`, or a later one.
  Cells::const_iterator FirstIn(Range range) const;
  // Splits the cell around `at`, so that none has bytes on both sides.
  void Split(uint64_t at);
  // Adds cells for the bytes of `range` that have none.
  void Fill(Range range);
  static void Write(Cell* cell, const Operation& by, bool also_read) {
    cell->write = by;
    cell->also_read = also_read;
    cell->shared.clear();
  }
  // Append the uses of the bytes that are not `known`, to a VectorClock or a
  // Knowledge: the write, or all.
  template <typename Known>
  static void AddUnknownWrite(Range bytes, const Cell& cell, const Known& known,
                              std::vector<Conflict>* conflicts);
  template <typename Known>
  static void AddUnknown(Range bytes, const Cell& cell, const Known& known,
                         std::vector<Conflict>* conflicts);
  // Notes a use that is no write, and appends what it conflicts with.
  static void AddShared(Range bytes, Cell* cell, const Operation& by,
                        const VectorClock& clock, uint64_t op,
                        std::vector<Conflict>* conflicts) {
    auto& shared = cell->shared;
    if (shared.empty()) {
      shared.push_back({by, op});
    } else if (shared.size() == 1 && shared[0].op == op &&
               clock.Knows(shared[0].by.epoch)) {
      shared[0].by = by;
    } else {
      AddToShared(bytes, cell, by, clock, op, conflicts);
    }
  }
  static void AddToShared(Range bytes, Cell* cell, const Operation& by,
                          const VectorClock& clock, uint64_t op,
                          std::vector<Conflict>* conflicts);

  Cells cells_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_SHADOW_H_
