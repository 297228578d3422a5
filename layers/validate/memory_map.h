// SPDX-License-Identifier: Apache-2.0
//
// The memory that a program has, as blocks with a life: made, handed out by an
// allocator, taken back, freed.  Finds the block of an address and says what is
// wrong with a use of it.
//
// An allocator hands out parts of a backend's block and takes them back.  Each
// part has a life of its own.
//
// A freed block stays known until its addresses are given out again, so that a
// report about a later use names both the free and the allocation.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_MEMORY_MAP_H_
#define DEVRT_LAYERS_VALIDATE_MEMORY_MAP_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "layers/validate/shadow.h"

namespace devrt::race {

enum class MemoryKind : uint8_t { kDevice, kPinned, kManaged, kHost };

// The facts about a block that reports have.
struct BlockInfo {
  uint64_t id = 0;  // counts blocks from 1; never used again
  uint64_t begin = 0;
  uint64_t end = 0;
  MemoryKind kind = MemoryKind::kDevice;
  uint32_t device = 0;
  bool is_part = false;               // handed out by an allocator
  bool is_carved = false;             // an allocator hands out parts of it
  Operation made;                     // the allocation or hand-out
  std::optional<Operation> released;  // the free or take-back

  bool live() const { return !released.has_value(); }
  uint64_t size() const { return end - begin; }
};

struct Block : BlockInfo {
  Shadow shadow;          // offsets from `begin`
  Actor home = kNoActor;  // of a part: the stream that it was handed out to
};

class MemoryMap {
 public:
  // Addresses of host memory that devrt did not allocate belong to one block
  // that begins at 0.
  MemoryMap();

  // A new block of a backend.  Freed blocks at its addresses are forgotten.
  Block* Add(uint64_t begin, uint64_t size, MemoryKind kind, uint32_t device,
             const Operation& made);
  // The live block that begins at `begin`, or nullptr.
  Block* Find(uint64_t begin);
  // The live block of a backend that begins at `begin`, or nullptr.  A part
  // that begins there does not hide it.
  Block* FindOfBackend(uint64_t begin);
  // Ends the life of a block.  It stays known for reports.  Returns its id.
  uint64_t Release(Block* block, const Operation& by);
  // Forgets the block of a backend that begins at `begin`, if there is one.
  void Erase(uint64_t begin);
  // Forgets a block of a backend that was released.
  void EraseReleased(const BlockInfo& block);
  // Takes the last Release of block `id`, which begins at `begin`, back.
  void Revive(uint64_t begin, uint64_t id);

  // The allocator gives [begin, begin + size) back: it has no parts any more.
  void EraseParts(uint64_t begin, uint64_t size);
  // The part of just these bytes, live or taken back; nullptr: there is none.
  // An allocator hands most parts out as they came back.
  Block* PartAt(uint64_t begin, uint64_t size) {
    Block* const found = At(begin);
    return found->is_part && found->begin == begin && found->size() == size
               ? found
               : nullptr;
  }
  // That part is in use again, with the uses of its bytes.
  void HandOutAgain(Block* part, MemoryKind kind, uint32_t device,
                    const Operation& made) {
    part->id = ++made_;
    part->kind = kind;
    part->device = device;
    part->made = made;
    part->released.reset();
  }
  // A part of a block is in use.  The uses of earlier parts at its
  // addresses pass to it: work that is still pending conflicts with new work.
  // The rest of an earlier part stays a part.
  // Appends those that are not `known`, each with its block.
  // PartAt is nullptr.
  Block* HandOut(uint64_t begin, uint64_t size, MemoryKind kind,
                 uint32_t device, const Operation& made, const Knowledge& known,
                 std::vector<std::pair<BlockInfo, Conflict>>* unknown);

  // The block that has the address: a part, live or taken back; otherwise a
  // block of a backend, live or freed; otherwise the host memory.
  Block* At(uint64_t address) {
    const Recent& recent = recent_[HashOf(address)];
    if (recent.generation == generation_ &&
        address - recent.block->begin < recent.block->size()) {
      return recent.block;
    }
    return Search(address);
  }

  // True if the part begins where a block of a backend does, of which no other
  // part is known.
  bool IsWhole(const BlockInfo& part) const;

  // The host memory that devrt did not allocate.
  Block* OfProgram() { return &host_; }

  // Forgets all memory of the devices [begin, end): a simulator was restarted.
  void RemoveDevices(uint32_t begin, uint32_t end);

  // Live blocks of the backends, and live parts, in the order of addresses.
  std::vector<const Block*> Live() const;
  // Those of them that are the program's: no memory that an allocator keeps.
  std::vector<const Block*> LiveOfProgram() const;
  // The block at `address` belongs to an allocator.
  void Carve(uint64_t address);
  // Forgets uses that every actor knows.
  void Forget(const VectorClock& known_to_all);
  // Calls visit(operation) for each operation that a finding may name.
  template <typename Visit>
  void ForEachOperation(Visit visit) const {
    const auto visit_block = [&](const Block& block) {
      visit(block.made);
      if (block.released.has_value()) visit(*block.released);
      block.shadow.ForEachOperation(visit);
    };
    visit_block(host_);
    for (const Blocks* const blocks : {&blocks_, &parts_}) {
      for (const auto& [begin, block] : *blocks) visit_block(block);
    }
  }

 private:
  using Blocks = std::map<uint64_t, Block>;  // by begin

  static Block* Containing(Blocks* blocks, uint64_t address);
  static size_t HashOf(uint64_t address) {
    // Blocks may lie in steps of any power of two.
    return (address * 0x9e3779b97f4a7c15) >> (64 - kRecentBits);
  }
  Block* Search(uint64_t address);
  // Called when a block was added or is about to go.
  void ForgetRecent() { ++generation_; }
  static void EraseReleased(Blocks* blocks, uint64_t begin, uint64_t end);

  Blocks blocks_;  // of backends
  Blocks parts_;   // handed out by allocators
  std::deque<std::pair<uint64_t, uint64_t>>
      freed_;  // begin and id, oldest first
  Block host_;
  uint64_t made_ = 0;  // blocks so far
  // Blocks that At has found, by a hash of the address, since the last
  // ForgetRecent.  No other block has a part in them.
  struct Recent {
    Block* block = nullptr;
    uint64_t generation = 0;
  };
  static constexpr size_t kRecentBits = 8;
  std::array<Recent, size_t{1} << kRecentBits> recent_;
  uint64_t generation_ = 1;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_MEMORY_MAP_H_
