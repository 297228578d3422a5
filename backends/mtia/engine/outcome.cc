// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/outcome.h"

#include <cstring>

namespace devrt::mtia {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9fb21c651e98df25u;
  return hash ^ (hash >> 32);
}

uint64_t HashBytes(uint64_t hash, const std::byte* bytes, uint64_t size) {
  hash = Mix(hash, size);
  while (size > 0) {
    uint64_t word = 0;
    const uint64_t n = size < sizeof word ? size : sizeof word;
    std::memcpy(&word, bytes, n);
    hash = Mix(hash, word);
    bytes += n;
    size -= n;
  }
  return hash;
}

bool IsHost(const Resolved& r) {
  return r.space != Space::kDevice && r.local != nullptr;
}

}  // namespace

// A kernel's ranges have the numbers from kRange on.
enum Outcome::Part : uint64_t { kCopy, kHostCopy, kFault, kBlock, kRange };

void Outcome::Start(bool on) {
  const std::lock_guard<std::mutex> lock(mutex_);
  on_ = on;
  sum_ = 0;
  blocks_.clear();
}

uint64_t Outcome::HashOf(Part part, OpId id, const void* bytes, uint64_t size) {
  const uint64_t hash = Mix(Mix(Mix(0, part), id.thread), id.index);
  return HashBytes(hash, static_cast<const std::byte*>(bytes), size);
}

void Outcome::Add(Part part, OpId id, const void* bytes, uint64_t size) {
  const uint64_t hash = HashOf(part, id, bytes, size);
  const std::lock_guard<std::mutex> lock(mutex_);
  sum_ += hash;
}

void Outcome::AddWrites(const Memory& memory, const Op& op) {
  const OpId id{op.thread, op.index};
  if (op.kind == OpKind::kCopy) {
    const Resolved to = memory.Find(op.dst);
    if (IsHost(to)) Add(kCopy, id, to.local, op.size);
    return;
  }
  if (op.kind != OpKind::kKernel && op.kind != OpKind::kCollective) return;
  uint64_t number = kRange;
  for (const Range& range : op.ranges) {
    const Resolved to = memory.Find(range.ptr);
    const auto part = static_cast<Part>(number++);
    if ((range.mode & DEVRT_ACCESS_WRITE) == 0 || !IsHost(to)) continue;
    if (to.space == Space::kHost || range.size > to.size - to.offset) continue;
    Add(part, id, to.local, range.size);
  }
}

void Outcome::AddHostCopy(uint32_t thread, uint64_t copy, const void* bytes,
                          uint64_t size) {
  Add(kHostCopy, {thread, copy}, bytes, size);
}

void Outcome::AddFault(const Op& op, int64_t code) {
  Add(kFault, {op.thread, op.index}, &code, sizeof code);
}

void Outcome::BeginBlock(const void* base, uint32_t thread, uint64_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_[base] = {thread, index};
}

void Outcome::EndBlock(const Memory& memory, const void* base) {
  const Resolved block = memory.Find(base);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = blocks_.find(base);
  if (known == blocks_.end()) return;
  if (block.local != nullptr) {
    sum_ += HashOf(kBlock, known->second, block.local, block.own);
  }
  blocks_.erase(known);
}

void Outcome::ForgetBlock(const void* base) {
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_.erase(base);
}

uint64_t Outcome::Hash(const Memory* memory) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t sum = sum_;
  if (memory == nullptr) return sum;
  for (const auto& [base, id] : blocks_) {
    const Resolved block = memory->Find(base);
    if (block.local == nullptr) continue;
    sum += HashOf(kBlock, id, block.local, block.own);
  }
  return sum;
}

}  // namespace devrt::mtia
