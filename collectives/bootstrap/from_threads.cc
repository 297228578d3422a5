// SPDX-License-Identifier: Apache-2.0
//
// FromThreads and FromCallbacks of bootstrap.h.

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "collectives/bootstrap/rank_lists.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/sync.h"

namespace devrt::collectives {
namespace {

// How long a rank that cannot go on waits until the others know, where only
// AllGather tells them.
constexpr absl::Duration kTelling = absl::Seconds(1);

// What the ranks of one FromThreads share.  The mutex is that of sync.h, so
// that a race detector sees which thread comes after which.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size) {}

  absl::StatusOr<std::vector<std::string>> AllGather(int rank, uint64_t round,
                                                     std::string mine,
                                                     absl::Time deadline) {
    const absl::Time begin = absl::Now();
    std::unique_lock<sync::Mutex> lock(mutex_);
    Round& present = rounds_[round];
    present.parts.resize(size_);
    present.parts[rank] = std::move(mine);
    if (++present.came == size_) came_.notify_all();
    while (present.came < size_ && !present.gave_up) {
      if (deadline == absl::InfiniteFuture()) {
        came_.wait(lock);
      } else if (came_.wait_until(lock, absl::ToChronoTime(deadline)) ==
                     std::cv_status::timeout &&
                 present.came < size_ && !present.gave_up) {
        return Missing(present, absl::Now() - begin);
      }
    }
    std::vector<std::string> all;
    all.reserve(size_);
    for (const auto& part : present.parts) all.push_back(part.value_or(""));
    if (++present.left == size_) rounds_.erase(round);
    return all;
  }

  void GiveUp(int rank, uint64_t round, std::string mine) {
    const std::lock_guard<sync::Mutex> lock(mutex_);
    Round& present = rounds_[round];
    present.parts.resize(size_);
    present.parts[rank] = std::move(mine);
    present.gave_up = true;
    ++present.came;
    came_.notify_all();
    if (++present.left == size_) rounds_.erase(round);
  }

  void Put(int rank, std::string_view name, std::string bytes) {
    const std::lock_guard<sync::Mutex> lock(mutex_);
    kept_[{std::string(name), rank}] = std::move(bytes);
    came_.notify_all();
  }
  std::optional<std::string> Get(int rank, std::string_view name,
                                 absl::Time deadline) {
    std::unique_lock<sync::Mutex> lock(mutex_);
    const std::pair<std::string, int> key(name, rank);
    for (;;) {
      const auto found = kept_.find(key);
      if (found != kept_.end()) return found->second;
      if (absl::Now() >= deadline) return std::nullopt;
      if (deadline == absl::InfiniteFuture()) {
        came_.wait(lock);
      } else {
        came_.wait_until(lock, absl::ToChronoTime(deadline));
      }
    }
  }

  int size() const { return size_; }

 private:
  struct Round {
    std::vector<std::optional<std::string>> parts;
    int came = 0;
    int left = 0;
    bool gave_up = false;  // a rank did: nobody waits for those that miss
  };

  absl::Status Missing(const Round& round, absl::Duration waited) const {
    std::vector<int> missing;
    for (int i = 0; i < size_; ++i) {
      if (!round.parts[i].has_value()) missing.push_back(i);
    }
    return internal::MissingRanksError(size_, missing, waited);
  }

  const int size_;
  sync::Mutex mutex_;
  sync::ConditionVariable came_;
  std::map<uint64_t, Round> rounds_;
  std::map<std::pair<std::string, int>, std::string> kept_;  // of Put
};

class ThreadBootstrap final : public Bootstrap {
 public:
  ThreadBootstrap(std::shared_ptr<Meeting> meeting, int rank)
      : meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }
  absl::StatusOr<std::vector<std::string>> AllGather(
      std::string mine, absl::Time deadline) override {
    return meeting_->AllGather(rank_, round_++, std::move(mine), deadline);
  }
  void GiveUp(std::string mine, absl::Time) override {
    meeting_->GiveUp(rank_, round_++, std::move(mine));
  }
  absl::Status Put(std::string_view name, std::string bytes) override {
    meeting_->Put(rank_, name, std::move(bytes));
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<std::string>> Get(std::string_view name,
                                                 int rank,
                                                 absl::Time deadline) override {
    return meeting_->Get(rank, name, deadline);
  }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
  uint64_t round_ = 0;
};

absl::Status NoStore() {
  return absl::UnimplementedError(
      "this bootstrap keeps no bytes: use FromFile, FromPmix, FromThreads, or "
      "callbacks with put and get");
}

class CallbackBootstrap final : public Bootstrap {
 public:
  explicit CallbackBootstrap(BootstrapCallbacks callbacks)
      : callbacks_(std::move(callbacks)) {}
  int rank() const override { return callbacks_.rank; }
  int size() const override { return callbacks_.size; }
  absl::StatusOr<std::vector<std::string>> AllGather(
      std::string mine, absl::Time deadline) override {
    return callbacks_.all_gather(std::move(mine), deadline);
  }
  void GiveUp(std::string mine, absl::Time deadline) override {
    if (callbacks_.give_up == nullptr) {
      Bootstrap::GiveUp(std::move(mine), deadline);
    } else {
      callbacks_.give_up(std::move(mine), deadline);
    }
  }
  absl::Status Put(std::string_view name, std::string bytes) override {
    if (callbacks_.put == nullptr) return NoStore();
    return callbacks_.put(name, std::move(bytes));
  }
  absl::StatusOr<std::optional<std::string>> Get(std::string_view name,
                                                 int rank,
                                                 absl::Time deadline) override {
    if (callbacks_.get == nullptr) return NoStore();
    return callbacks_.get(name, rank, deadline);
  }

 private:
  const BootstrapCallbacks callbacks_;
};

}  // namespace

absl::Status Bootstrap::Broadcast(std::string* bytes, int root,
                                  absl::Time deadline) {
  DEVRT_RETURN_IF_ERROR(internal::CheckRank("Broadcast", root, size()));
  DEVRT_ASSIGN_OR_RETURN(
      std::vector<std::string> parts,
      AllGather(rank() == root ? std::move(*bytes) : std::string(), deadline));
  DEVRT_RETURN_IF_ERROR(internal::CheckParts(parts.size(), size()));
  *bytes = std::move(parts[root]);
  return absl::OkStatus();
}

void Bootstrap::GiveUp(std::string mine, absl::Time deadline) {
  deadline = std::min(deadline, absl::Now() + kTelling);
  AllGather(std::move(mine), deadline).IgnoreError();
}

absl::Status Bootstrap::Put(std::string_view, std::string) { return NoStore(); }
absl::StatusOr<std::optional<std::string>> Bootstrap::Get(std::string_view, int,
                                                          absl::Time) {
  return NoStore();
}

absl::StatusOr<std::vector<std::unique_ptr<Bootstrap>>> FromThreads(int size) {
  DEVRT_RETURN_IF_ERROR(internal::CheckRank("FromThreads", 0, size));
  const auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::unique_ptr<Bootstrap>> ranks;
  ranks.reserve(size);
  for (int i = 0; i < size; ++i) {
    ranks.push_back(std::make_unique<ThreadBootstrap>(meeting, i));
  }
  return ranks;
}

absl::StatusOr<std::unique_ptr<Bootstrap>> FromCallbacks(
    BootstrapCallbacks callbacks) {
  DEVRT_RETURN_IF_ERROR(
      internal::CheckRank("FromCallbacks", callbacks.rank, callbacks.size));
  if (callbacks.all_gather == nullptr) {
    return absl::InvalidArgumentError(
        "FromCallbacks: all_gather is empty: give a function");
  }
  if ((callbacks.put == nullptr) != (callbacks.get == nullptr)) {
    return absl::InvalidArgumentError(
        "FromCallbacks: put and get belong together: give both or neither");
  }
  return std::make_unique<CallbackBootstrap>(std::move(callbacks));
}

}  // namespace devrt::collectives
