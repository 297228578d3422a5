// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_LOCKS_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_LOCKS_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// Who has the locks of the program that devrt::sync tells of, for reports of
// deadlocks.  A lock is named by its word.
//
// Threads: any; it has a mutex of its own, so that a host function that was
// left behind tells of its locks without a turn.
class Locks {
 public:
  // A thread, or the host function that it runs.
  struct User {
    const Op* op = nullptr;         // the host function; only compared
    std::optional<uint32_t> index;  // of the thread, if it is scheduled
    Site site = {};                 // of its last call that has one
  };

  // Forgets all.
  void Reset();
  void Take(const uint32_t* word, const User& user);
  void GiveBack(const uint32_t* word);
  // The host function of `user` waits for the lock until it takes it.
  void Await(const uint32_t* word, const User& user);

  // Who has the lock, if anyone has.
  std::optional<User> HolderOf(const uint32_t* word) const;
  // The lock that the host function `op` waits for, or nullptr.
  const uint32_t* AwaitedBy(const Op* op) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const uint32_t*, User> holders_;
  std::unordered_map<const Op*, const uint32_t*> awaited_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_LOCKS_H_
