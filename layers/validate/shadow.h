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
  void Access(Range range, Mode mode, const Operation& by,
              const VectorClock& clock, std::vector<Conflict>* conflicts,
              uint32_t reduction = 0);

  // Appends the uses that `clock` does not know, as a write to the range would,
  // and notes nothing.  Without a range: as a write to all bytes would.
  void FindUnknown(Range range, const VectorClock& clock,
                   std::vector<Conflict>* conflicts) const;
  void FindUnknown(const VectorClock& clock,
                   std::vector<Conflict>* conflicts) const {
    FindUnknown({0, UINT64_MAX}, clock, conflicts);
  }

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

  // The first cell with bytes of `range`, or a later one.
  Cells::const_iterator FirstIn(Range range) const;
  // Splits the cell around `at`, so that none has bytes on both sides.
  void Split(uint64_t at);
  // Adds cells for the bytes of `range` that have none.
  void Fill(Range range);
  static void Write(Cell* cell, const Operation& by, bool also_read);
  // Append the uses of the bytes that `clock` does not know: the write, or all.
  static void AddUnknownWrite(Range bytes, const Cell& cell,
                              const VectorClock& clock,
                              std::vector<Conflict>* conflicts);
  static void AddUnknown(Range bytes, const Cell& cell,
                         const VectorClock& clock,
                         std::vector<Conflict>* conflicts);
  // Notes a use that is no write, and appends what it conflicts with.
  static void AddShared(Range bytes, Cell* cell, const Operation& by,
                        const VectorClock& clock, uint64_t op,
                        std::vector<Conflict>* conflicts);

  Cells cells_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_SHADOW_H_
