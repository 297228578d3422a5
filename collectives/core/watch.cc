// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/watch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/core/failure.h"

namespace devrt::collectives::internal {
namespace {

constexpr std::chrono::milliseconds kPeriod(100);

struct Watch {
  std::mutex mutex;
  std::vector<std::weak_ptr<Comm>> comms;
  bool runs = false;
  int following = 0;  // threads of Follow
};

Watch& TheWatch() {
  static Watch* const watch = new Watch;
  return *watch;
}

// Follows a failure on a thread of its own: an engine that does not end a
// communicator keeps nobody from looking at the others.
void Follow(std::shared_ptr<Comm> comm, const absl::Status& failure) {
  {
    Watch& watch = TheWatch();
    const std::lock_guard<std::mutex> lock(watch.mutex);
    ++watch.following;
  }
  std::thread([comm = std::move(comm), failure]() mutable {
    FollowFailure(comm.get(), failure);
    comm.reset();  // the last reference may end the communicator
    Watch& watch = TheWatch();
    const std::lock_guard<std::mutex> lock(watch.mutex);
    --watch.following;
  }).detach();
}

// Returns false if the communicator needs no other look.
bool Look(const std::shared_ptr<Comm>& comm) {
  // If the device was lost, the other ranks learn it by the end of this one.
  if (comm->state.load() != State::kReady ||
      (!IsOpen(comm->device) && !IsLost(comm->device))) {
    return false;
  }
  const absl::Status failure = NoteFailure(comm.get());
  if (!failure.ok()) Follow(comm, failure);
  return comm->state.load() == State::kReady;
}

void Run() {
  Watch& watch = TheWatch();
  for (;;) {
    std::this_thread::sleep_for(kPeriod);
    std::vector<std::weak_ptr<Comm>> comms;
    {
      const std::lock_guard<std::mutex> lock(watch.mutex);
      comms = watch.comms;
    }
    // With no lock held: the last reference may end a communicator here.
    for (std::weak_ptr<Comm>& weak : comms) {
      const std::shared_ptr<Comm> comm = weak.lock();
      if (comm != nullptr && Look(comm)) weak.reset();
    }
    // What is left in the list needs no other look.
    const std::lock_guard<std::mutex> lock(watch.mutex);
    const auto is_over = [&comms](const std::weak_ptr<Comm>& weak) {
      return weak.expired() ||
             std::any_of(comms.begin(), comms.end(), [&](const auto& other) {
               return !other.owner_before(weak) && !weak.owner_before(other);
             });
    };
    watch.comms.erase(
        std::remove_if(watch.comms.begin(), watch.comms.end(), is_over),
        watch.comms.end());
    if (!watch.comms.empty()) continue;
    watch.runs = false;
    return;
  }
}

}  // namespace

void WatchComm(const std::shared_ptr<Comm>& comm) {
  if (comm->provider.Has(DEVRT_COLLECTIVES_OWN_DEADLINES)) return;
  Watch& watch = TheWatch();
  const std::lock_guard<std::mutex> lock(watch.mutex);
  watch.comms.push_back(comm);
  if (watch.runs) return;
  watch.runs = true;
  std::thread(&Run).detach();
}

bool IsWatching() {
  Watch& watch = TheWatch();
  const std::lock_guard<std::mutex> lock(watch.mutex);
  return watch.runs || watch.following != 0;
}

}  // namespace devrt::collectives::internal
