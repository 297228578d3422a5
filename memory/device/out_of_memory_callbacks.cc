// SPDX-License-Identifier: Apache-2.0

#include "memory/device/out_of_memory_callbacks.h"

#include <utility>

namespace devrt::internal {

OutOfMemoryCallbacks& OutOfMemoryCallbacks::Get() {
  static OutOfMemoryCallbacks* const callbacks = new OutOfMemoryCallbacks;
  return *callbacks;
}

uint64_t OutOfMemoryCallbacks::Add(OutOfMemoryCallback callback) {
  MutexLock lock(&mutex_);
  callbacks_.emplace(++last_id_, std::move(callback));
  return last_id_;
}

void OutOfMemoryCallbacks::Remove(uint64_t id) {
  OutOfMemoryCallback removed;  // destroyed after the lock is released
  MutexLock lock(&mutex_);
  const auto found = callbacks_.find(id);
  if (found == callbacks_.end()) return;
  removed = std::move(found->second);
  callbacks_.erase(found);
}

bool OutOfMemoryCallbacks::Run(Device device, uint64_t bytes) {
  std::map<uint64_t, OutOfMemoryCallback> callbacks;
  {
    MutexLock lock(&mutex_);
    callbacks = callbacks_;
  }
  bool again = false;
  for (const auto& [id, callback] : callbacks) {
    again = callback(device, bytes) || again;
  }
  return again;
}

}  // namespace devrt::internal
