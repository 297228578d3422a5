// SPDX-License-Identifier: Apache-2.0

#include "memory/resource/block_owners.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/common/text.h"

namespace devrt::internal {
namespace {

uintptr_t AddressOf(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

uintptr_t EndOf(const OwnedBlock& block) {
  return AddressOf(block.base) + block.bytes;
}

bool Contains(const OwnedBlock& outer, const OwnedBlock& inner) {
  return AddressOf(outer.base) <= AddressOf(inner.base) &&
         EndOf(inner) <= EndOf(outer);
}

// The block of a level that holds `address`, or ends there.
template <typename Level>
const OwnedBlock* FindIn(const Level& level, uintptr_t address) {
  auto after = level.upper_bound(address);
  if (after == level.begin()) return nullptr;
  const OwnedBlock& block = std::prev(after)->second;
  return address <= EndOf(block) ? &block : nullptr;
}

// The first block of a level that overlaps `block`.
template <typename Level>
const OwnedBlock* Overlapped(const Level& level, const OwnedBlock& block) {
  auto next = level.lower_bound(AddressOf(block.base));
  if (next != level.begin() &&
      EndOf(std::prev(next)->second) > AddressOf(block.base)) {
    --next;
  }
  return next != level.end() && next->first < EndOf(block) ? &next->second
                                                           : nullptr;
}

const OwnedBlock* OfProgram(const std::vector<OwnedBlock>& blocks) {
  const auto found =
      std::find_if(blocks.begin(), blocks.end(),
                   [](const OwnedBlock& b) { return b.holder == nullptr; });
  return found == blocks.end() ? nullptr : &*found;
}

absl::Status HeldError(const char* call, const void* pointer,
                       const OwnedBlock& block) {
  return absl::InvalidArgumentError(absl::StrCat(
      call, ": ", Hex(pointer), " is a block of resource \"",
      block.resource->properties().name,
      "\" that another resource holds: only that one may give it back"));
}

}  // namespace

BlockOwners& BlockOwners::Get() {
  static BlockOwners* const owners = new BlockOwners;
  return *owners;
}

std::optional<OwnedBlock> BlockOwners::Add(OwnedBlock block) {
  MutexLock lock(&mutex_);
  size_t depth = 0;
  for (size_t i = 0; i < levels_.size(); ++i) {
    const OwnedBlock* other = Overlapped(levels_[i], block);
    if (other == nullptr) continue;
    if (!Contains(*other, block)) return *other;
    depth = i + 1;
  }
  // The block that it lies in; its holder may cut it up.
  if (depth > 0) {
    const OwnedBlock* under = Overlapped(levels_[depth - 1], block);
    if (under->holder != block.resource) return *under;
  }
  if (depth == levels_.size()) levels_.emplace_back();
  block.id = ++last_id_;
  if (block.cached) cached_.fetch_add(1);
  const uintptr_t base = AddressOf(block.base);
  levels_[depth].emplace(base, std::move(block));
  return std::nullopt;
}

bool BlockOwners::Remove(const OwnedBlock& block) {
  std::optional<OwnedBlock> taken;  // released after the lock
  MutexLock lock(&mutex_);
  for (Level& level : levels_) {
    const auto found = level.find(AddressOf(block.base));
    if (found == level.end() || found->second.id != block.id) continue;
    taken = std::move(found->second);
    level.erase(found);
    if (taken->cached) cached_.fetch_sub(1);
    return true;
  }
  return false;
}

std::vector<OwnedBlock> BlockOwners::FindAt(const void* pointer) const {
  std::vector<OwnedBlock> found;
  MutexLock lock(&mutex_);
  for (const Level& level : levels_) {
    const auto at = level.find(AddressOf(pointer));
    if (at != level.end()) found.push_back(at->second);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

std::vector<OwnedBlock> BlockOwners::FindAround(const void* pointer) const {
  std::vector<OwnedBlock> found;
  std::vector<OwnedBlock> ending;
  const uintptr_t address = AddressOf(pointer);
  MutexLock lock(&mutex_);
  for (const Level& level : levels_) {
    const OwnedBlock* block = FindIn(level, address);
    if (block == nullptr) continue;
    (address == EndOf(*block) ? ending : found).push_back(*block);
  }
  if (found.empty()) found = std::move(ending);
  std::reverse(found.begin(), found.end());
  return found;
}

std::optional<absl::Status> FreeOwned(void* pointer, const StreamRef* stream,
                                      CallSite site) {
  const std::vector<OwnedBlock> blocks = BlockOwners::Get().FindAt(pointer);
  if (blocks.empty()) return std::nullopt;
  const OwnedBlock* block = OfProgram(blocks);
  if (block == nullptr) return HeldError("FreeMemory", pointer, blocks.front());
  return const_cast<MemoryResource*>(block->resource)
      ->Deallocate(stream != nullptr ? *stream : block->stream, pointer,
                   block->bytes, site);
}

std::optional<absl::Status> RecordOwnedUse(const void* pointer,
                                           StreamRef stream, CallSite site) {
  const std::vector<OwnedBlock> blocks = BlockOwners::Get().FindAround(pointer);
  if (blocks.empty()) return std::nullopt;
  const OwnedBlock* block = OfProgram(blocks);
  if (block == nullptr) {
    return HeldError("RecordStream", pointer, blocks.front());
  }
  return const_cast<MemoryResource*>(block->resource)
      ->RecordUse(pointer, stream, site);
}

}  // namespace devrt::internal
