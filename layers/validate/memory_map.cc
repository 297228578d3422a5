// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/memory_map.h"

#include <algorithm>
#include <iterator>

namespace devrt::race {
namespace {

// More freed blocks than this stay known only as long as their addresses are
// not given out again and no newer block was freed.
constexpr size_t kFreedBlocks = 4096;

// The bytes [begin, end) of a part, counted from its start.
Block Piece(const Block& part, uint64_t begin, uint64_t end) {
  Block piece;
  static_cast<BlockInfo&>(piece) = part;
  piece.begin = part.begin + begin;
  piece.end = part.begin + end;
  part.shadow.CopyTo({begin, end}, 0, &piece.shadow);
  return piece;
}

}  // namespace

MemoryMap::MemoryMap() {
  host_.kind = MemoryKind::kHost;
  host_.end = UINT64_MAX;
}

Block* MemoryMap::Containing(Blocks* blocks, uint64_t address) {
  const auto next = blocks->upper_bound(address);
  if (next == blocks->begin()) return nullptr;
  Block& block = std::prev(next)->second;
  return address < block.end ? &block : nullptr;
}

void MemoryMap::EraseReleased(Blocks* blocks, uint64_t begin, uint64_t end) {
  auto at = blocks->upper_bound(begin);
  if (at != blocks->begin() && std::prev(at)->second.end > begin) --at;
  while (at != blocks->end() && at->first < end) {
    at = at->second.live() ? std::next(at) : blocks->erase(at);
  }
}

Block* MemoryMap::Add(uint64_t begin, uint64_t size, MemoryKind kind,
                      uint32_t device, const Operation& made) {
  ForgetRecent();
  EraseReleased(&blocks_, begin, begin + size);
  Block& block = blocks_[begin];
  block = Block();
  block.id = ++made_;
  block.begin = begin;
  block.end = begin + size;
  block.kind = kind;
  block.device = device;
  block.made = made;
  return &block;
}

Block* MemoryMap::Find(uint64_t begin) {
  Block* const found = At(begin);
  if (found->begin == begin && found->live() && found != &host_) return found;
  for (Blocks* const blocks : {&parts_, &blocks_}) {
    const auto at = blocks->find(begin);
    if (at != blocks->end() && at->second.live()) return &at->second;
  }
  return nullptr;
}

Block* MemoryMap::FindOfBackend(uint64_t begin) {
  const auto at = blocks_.find(begin);
  return at != blocks_.end() && at->second.live() ? &at->second : nullptr;
}

uint64_t MemoryMap::Release(Block* block, const Operation& by) {
  block->released = by;
  const uint64_t released = block->id;
  if (block->is_part) return released;
  freed_.push_back({block->begin, released});
  if (freed_.size() <= kFreedBlocks) return released;
  const auto [begin, id] = freed_.front();
  freed_.pop_front();
  const auto at = blocks_.find(begin);
  if (at != blocks_.end() && at->second.id == id) {
    ForgetRecent();
    blocks_.erase(at);
  }
  return released;
}

void MemoryMap::Erase(uint64_t begin) {
  ForgetRecent();
  blocks_.erase(begin);
}

void MemoryMap::EraseReleased(const BlockInfo& block) {
  const auto at = blocks_.find(block.begin);
  if (at == blocks_.end() || at->second.id != block.id || at->second.live()) {
    return;
  }
  ForgetRecent();
  blocks_.erase(at);
}

void MemoryMap::Revive(uint64_t begin, uint64_t id) {
  const auto at = blocks_.find(begin);
  if (at == blocks_.end() || at->second.id != id) return;
  at->second.released.reset();
  // The free is one of the last, so a search from the end is short.
  const auto freed =
      std::find(freed_.rbegin(), freed_.rend(), std::pair(begin, id));
  if (freed != freed_.rend()) freed_.erase(std::next(freed).base());
}

void MemoryMap::EraseParts(uint64_t begin, uint64_t size) {
  ForgetRecent();
  parts_.erase(parts_.lower_bound(begin), parts_.lower_bound(begin + size));
}

Block* MemoryMap::HandOut(
    uint64_t begin, uint64_t size, MemoryKind kind, uint32_t device,
    const Operation& made, const Knowledge& known,
    std::vector<std::pair<BlockInfo, Conflict>>* unknown) {
  BlockInfo info;
  info.id = ++made_;
  info.begin = begin;
  info.end = begin + size;
  info.kind = kind;
  info.device = device;
  info.is_part = true;
  info.made = made;
  std::vector<Conflict> conflicts;
  ForgetRecent();
  Block block;
  static_cast<BlockInfo&>(block) = info;
  std::vector<Block> rest;  // of earlier parts, beside the new one
  auto at = parts_.upper_bound(begin);
  if (at != parts_.begin() && std::prev(at)->second.end > begin) --at;
  while (at != parts_.end() && at->first < block.end) {
    Block& earlier = at->second;
    const Range common = {std::max(begin, earlier.begin) - earlier.begin,
                          std::min(block.end, earlier.end) - earlier.begin};
    conflicts.clear();
    earlier.shadow.FindUnknown(common, known, &conflicts);
    for (const Conflict& conflict : conflicts) {
      unknown->push_back({earlier, conflict});
    }
    if (earlier.begin < begin) rest.push_back(Piece(earlier, 0, common.begin));
    if (earlier.end > block.end) {
      rest.push_back(Piece(earlier, common.end, earlier.end - earlier.begin));
    }
    earlier.shadow.CopyTo(common, earlier.begin + common.begin - begin,
                          &block.shadow);
    at = parts_.erase(at);
  }
  for (Block& piece : rest) {
    const uint64_t first = piece.begin;
    parts_.emplace(first, std::move(piece));
  }
  return &(parts_[begin] = std::move(block));
}

Block* MemoryMap::Search(uint64_t address) {
  Recent& recent = recent_[HashOf(address)];
  if (Block* const part = Containing(&parts_, address)) {
    recent = {part, generation_};
    return part;
  }
  Block* const block = Containing(&blocks_, address);
  if (block == nullptr) return &host_;
  const auto part = parts_.lower_bound(block->begin);
  const bool has_parts = (part != parts_.end() && part->first < block->end) ||
                         Containing(&parts_, block->begin) != nullptr;
  if (!has_parts) recent = {block, generation_};
  return block;
}

bool MemoryMap::IsWhole(const BlockInfo& part) const {
  const auto block = blocks_.find(part.begin);
  if (block == blocks_.end() || !block->second.live()) return false;
  const auto next = parts_.upper_bound(part.begin);
  return next == parts_.end() || next->first >= block->second.end;
}

void MemoryMap::RemoveDevices(uint32_t begin, uint32_t end) {
  ForgetRecent();
  for (Blocks* const blocks : {&parts_, &blocks_}) {
    for (auto at = blocks->begin(); at != blocks->end();) {
      const Block& block = at->second;
      if (block.device < begin || block.device >= end) {
        ++at;
        continue;
      }
      if (!block.is_part) EraseParts(block.begin, block.end - block.begin);
      at = blocks->erase(at);
    }
  }
}

std::vector<const Block*> MemoryMap::Live() const {
  std::vector<const Block*> live;
  for (const Blocks* const blocks : {&blocks_, &parts_}) {
    for (const auto& [begin, block] : *blocks) {
      if (block.live()) live.push_back(&block);
    }
  }
  return live;
}

std::vector<const Block*> MemoryMap::LiveOfProgram() const {
  std::vector<const Block*> live = Live();
  live.erase(
      std::remove_if(live.begin(), live.end(),
                     [](const Block* block) { return block->is_carved; }),
      live.end());
  return live;
}

void MemoryMap::Carve(uint64_t address) {
  if (Block* const block = Containing(&blocks_, address)) {
    block->is_carved = true;
  }
}

void MemoryMap::Forget(const VectorClock& known_to_all) {
  host_.shadow.Forget(known_to_all);
  for (Blocks* const blocks : {&blocks_, &parts_}) {
    for (auto& [begin, block] : *blocks) block.shadow.Forget(known_to_all);
  }
}

}  // namespace devrt::race
