// SPDX-License-Identifier: Apache-2.0
//
// A map from handles that finds the handles of recent calls without a search.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_HANDLE_MAP_H_
#define DEVRT_LAYERS_VALIDATE_HANDLE_MAP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace devrt::race {

// Handles are pointers or numbers.  Entries keep their addresses until they are
// erased.
template <typename Handle, typename Entry>
class HandleMap {
 public:
  // nullptr if the handle is unknown.
  Entry* Find(Handle handle) {
    Recent& recent = RecentOf(handle);
    if (recent.handle == handle && recent.entry != nullptr) return recent.entry;
    const auto found = entries_.find(handle);
    if (found == entries_.end()) return nullptr;
    recent = {handle, &found->second};
    return recent.entry;
  }
  // The entry of the handle, which is made if the handle is unknown.
  Entry* At(Handle handle) {
    Entry* const found = Find(handle);
    return found != nullptr ? found : &entries_[handle];
  }
  void Erase(Handle handle) {
    RecentOf(handle) = {};
    entries_.erase(handle);
  }
  const Entry* FindEntry(Handle handle) const {
    const auto found = entries_.find(handle);
    return found == entries_.end() ? nullptr : &found->second;
  }
  const std::unordered_map<Handle, Entry>& entries() const { return entries_; }

 private:
  static constexpr size_t kRecent = 256;
  struct Recent {
    Handle handle{};
    Entry* entry = nullptr;
  };
  static uintptr_t BitsOf(const void* handle) {
    return reinterpret_cast<uintptr_t>(handle);
  }
  static uintptr_t BitsOf(uint64_t handle) { return handle; }
  Recent& RecentOf(Handle handle) {
    // Handles are addresses of objects, or numbers that differ in any bits.
    const uintptr_t bits = BitsOf(handle);
    return recent_[(bits ^ bits >> 4 ^ bits >> 12) % kRecent];
  }

  std::unordered_map<Handle, Entry> entries_;
  std::array<Recent, kRecent> recent_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_HANDLE_MAP_H_
