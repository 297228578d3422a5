// SPDX-License-Identifier: Apache-2.0
//
// Inside: a thread is in a call that submits to communicators.

#ifndef DEVRT_TESTS_FAKES_NCCL_INSIDE_H_
#define DEVRT_TESTS_FAKES_NCCL_INSIDE_H_

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "tests/fakes/nccl/world.h"

namespace devrt::fake::nccl {

// The operations of a group, by communicator.
using Parts = std::vector<std::pair<CommunicatorPtr, std::vector<Op>>>;

class Inside {
 public:
  // Counts the group.  `lock` is of the world's mutex, and held.
  Inside(const Parts& parts, std::unique_lock<std::mutex>* lock) : lock_(lock) {
    for (const auto& [comm, ops] : parts) comms_.insert(comm);
    for (const CommunicatorPtr& comm : comms_) {
      ++comm->inside;
      comm->clique->groups[comm->rank] = ++comm->groups;
    }
    TheWorld().changed.notify_all();
  }
  // Takes the lock again, if the call has given it back.
  ~Inside() {
    if (!lock_->owns_lock()) lock_->lock();
    for (const CommunicatorPtr& comm : comms_) --comm->inside;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  // False if only some of the communicators block.
  bool AreAlike() const {
    return std::all_of(comms_.begin(), comms_.end(), [this](const auto& comm) {
      return comm->blocks == (*comms_.begin())->blocks;
    });
  }

  // Calls that block wait until the library has connected the ranks.  If one of
  // a group ends, all do.
  Result AwaitRanks() {
    if (!TheWorld().knobs.calls_wait) return collectives::nccl::kSuccess;
    bool is_ended = false;
    TheWorld().changed.wait(*lock_, [this, &is_ended] {
      bool have_come = true;
      for (const CommunicatorPtr& comm : comms_) {
        is_ended = is_ended || (comm->blocks && comm->shared->ended);
        have_come = have_come && (!comm->blocks || HaveCome(*comm));
      }
      return is_ended || have_come;
    });
    if (!is_ended) return collectives::nccl::kSuccess;
    for (const CommunicatorPtr& comm : comms_) comm->shared->ended = true;
    return collectives::nccl::kInternalError;
  }

 private:
  // True if every rank has submitted as many groups.
  static bool HaveCome(const Communicator& comm) {
    const auto& groups = comm.clique->groups;
    return static_cast<int>(groups.size()) == comm.clique->ranks &&
           std::all_of(groups.begin(), groups.end(), [&comm](const auto& of) {
             return of.second >= comm.groups;
           });
  }

  std::set<CommunicatorPtr> comms_;
  std::unique_lock<std::mutex>* const lock_;
};

}  // namespace devrt::fake::nccl

#endif  // DEVRT_TESTS_FAKES_NCCL_INSIDE_H_
