// SPDX-License-Identifier: Apache-2.0

#include "memory/device/out_of_memory_callbacks.h"

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "runtime/common/thread_end.h"

namespace devrt::internal {

namespace {

// True while a callback runs.
__thread bool t_inside __attribute__((tls_model("initial-exec"))) = false;

absl::Status ThrewError(uint64_t id, Device device, uint64_t bytes,
                        const std::string& what) {
  return absl::InternalError(absl::StrCat(
      "out-of-memory callback ", id, " threw ", what, ": the request of ",
      bytes, " bytes on ", device.name(),
      " ends here; catch exceptions in the callback, and return false"));
}

}  // namespace

OutOfMemoryCallbacks& OutOfMemoryCallbacks::Get() {
  static OutOfMemoryCallbacks* const callbacks = new OutOfMemoryCallbacks;
  return *callbacks;
}

uint64_t OutOfMemoryCallbacks::Add(Callback callback) {
  auto shared = std::make_shared<const Callback>(std::move(callback));
  MutexLock lock(&mutex_);
  callbacks_.emplace(++last_id_, std::move(shared));
  return last_id_;
}

void OutOfMemoryCallbacks::Remove(uint64_t id) {
  std::shared_ptr<const Callback>
      removed;  // destroyed after the lock is released
  MutexLock lock(&mutex_);
  const auto found = callbacks_.find(id);
  if (found == callbacks_.end()) return;
  removed = std::move(found->second);
  callbacks_.erase(found);
}

absl::StatusOr<bool> OutOfMemoryCallbacks::Run(Device device, uint64_t bytes) {
  std::map<uint64_t, std::shared_ptr<const Callback>> callbacks;
  {
    MutexLock lock(&mutex_);
    callbacks = callbacks_;
  }
  t_inside = true;
  const absl::Cleanup leave = [] { t_inside = false; };
  bool again = false;
  for (const auto& [id, callback] : callbacks) {
    try {
      again = (*callback)(device, bytes) || again;
    } catch (const std::exception& e) {
      return ThrewError(id, device, bytes,
                        absl::StrCat("an exception (", e.what(), ")"));
    } catch (...) {
      PassThreadEnd();
      return ThrewError(id, device, bytes, "an exception");
    }
  }
  return again;
}

absl::Status OutOfMemoryCallbacks::CheckNotInside(Device device,
                                                  uint64_t bytes) {
  if (!t_inside) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "an out-of-memory callback asked for ", bytes, " bytes on ",
      device.name(),
      ", which the cache does not have: a callback may free memory and must "
      "not allocate any; allocate what it needs before "
      "AddOutOfMemoryCallback"));
}

}  // namespace devrt::internal
