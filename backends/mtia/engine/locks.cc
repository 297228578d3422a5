// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/locks.h"

namespace devrt::mtia {

void Locks::Reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  holders_.clear();
  awaited_.clear();
}

void Locks::Take(const uint32_t* word, const User& user) {
  const std::lock_guard<std::mutex> lock(mutex_);
  holders_[word] = user;
  if (user.op != nullptr) awaited_.erase(user.op);
}

void Locks::GiveBack(const uint32_t* word) {
  const std::lock_guard<std::mutex> lock(mutex_);
  holders_.erase(word);
}

void Locks::Await(const uint32_t* word, const User& user) {
  if (user.op == nullptr) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  awaited_[user.op] = word;
}

std::optional<Locks::User> Locks::HolderOf(const uint32_t* word) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = holders_.find(word);
  if (found == holders_.end()) return std::nullopt;
  return found->second;
}

const uint32_t* Locks::AwaitedBy(const Op* op) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = awaited_.find(op);
  return found == awaited_.end() ? nullptr : found->second;
}

}  // namespace devrt::mtia
