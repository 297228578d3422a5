// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/failure.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "arrays/storage/joint_step.h"
#include "collectives/core/failure_place.h"
#include "collectives/core/record_exchange.h"
#include "collectives/recorder/report.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

std::atomic<int64_t> abort_limit_ms{30'000};

constexpr int kTerminated = 134;

// One call of the engine for each communicator, each on a thread, because some
// return only when others were called too, and some never return.
class Helpers {
 public:
  // A revoked communicator can still be the parent of others.
  struct End {
    bool revoke, abort;
  };

  Helpers() : shared_(std::make_shared<Shared>()) {}

  void Start(std::shared_ptr<Comm> comm, End end) {
    const Comm* const key = comm.get();
    {
      const std::lock_guard<std::mutex> lock(shared_->mutex);
      shared_->open.push_back(key);
    }
    std::thread([shared = shared_, comm = std::move(comm), key, end]() mutable {
      const devrt_collectives_v0& table = *comm->provider.table;
      void* const self = comm->provider.self;
      if (end.revoke) {
        comm->Take(table.comm_revoke(self, comm->handle), "comm_revoke")
            .IgnoreError();
      }
      if (end.abort) {
        comm->Take(table.comm_abort(self, comm->handle), "comm_abort")
            .IgnoreError();
      }
      // The last reference may end the communicator, which calls the
      // engine: who waits has that reference, unless it gave up.
      comm.reset();
      {
        const std::lock_guard<std::mutex> lock(shared->mutex);
        auto& open = shared->open;
        open.erase(std::find(open.begin(), open.end(), key));
      }
      shared->changed.notify_all();
    }).detach();
  }

  // Returns those whose call has not returned in time.
  std::vector<const Comm*> Wait() {
    std::unique_lock<std::mutex> lock(shared_->mutex);
    shared_->changed.wait_for(lock,
                              std::chrono::milliseconds(abort_limit_ms.load()),
                              [this] { return shared_->open.empty(); });
    return shared_->open;
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<const Comm*> open;
  };
  const std::shared_ptr<Shared> shared_;
};

// Waits for the calls of the communicators.  Quarantine for the devices of
// those that the engine does not end.
absl::Status AwaitEnds(absl::Span<const std::shared_ptr<Comm>> comms,
                       Helpers* helpers) {
  absl::Status status;
  const std::vector<const Comm*> open = helpers->Wait();
  for (const std::shared_ptr<Comm>& comm : comms) {
    if (std::find(open.begin(), open.end(), comm.get()) == open.end()) continue;
    comm->abandoned.store(true);
    const std::string text = absl::StrCat(
        "abort of ", comm->Text(), " did not return within ",
        absl::FormatDuration(absl::Milliseconds(abort_limit_ms.load())),
        ": the engine is stuck, and the device's work cannot be ended");
    devrt::internal::LoseDevice(comm->device, text).IgnoreError();
    status = absl::InternalError(text);
  }
  return status;
}

// Ends what runs on the communicators.  `for_good`: aborts also what was ended
// before.
absl::Status EndAll(absl::Span<const std::shared_ptr<Comm>> comms,
                    bool for_good = false) {
  Helpers helpers;
  for (const std::shared_ptr<Comm>& comm : comms) {
    if (comm->ended.exchange(true) && !for_good) continue;
    if (comm->abandoned.load()) continue;
    const bool can_revoke =
        !for_good && comm->provider.Has(DEVRT_COLLECTIVES_REVOKE);
    const bool is_parent = can_revoke && !IsLost(comm->device) &&
                           comm->state.load() == State::kFailed;
    // Of several all are revoked at once: an abort may wait for all work of the
    // device.
    helpers.Start(comm, {is_parent || (can_revoke && comms.size() > 1),
                         /*abort=*/!is_parent});
  }
  return AwaitEnds(comms, &helpers);
}

// Returns false if it has another state than kReady.
bool Leave(Comm* comm, State state, absl::Status why) {
  // The last marks.  The simulator ends by itself what has failed, so that an
  // end on its streams says nothing before the engine was asked
  // (PollForFailure).
  if (!comm->provider.Has(DEVRT_COLLECTIVES_OWN_DEADLINES)) NoteEnds(comm);
  {
    const MutexLock lock(&comm->mutex);
    if (comm->state.load() != State::kReady) return false;
    comm->failure = why;
    comm->state.store(state);
  }
  comm->ring->Fail(StatusText(why));
  return true;
}

// Ends what the options say.
void FollowPolicy(Comm* comm, const absl::Status& why) {
  if (comm->options.on_failure == OnFailure::kReport) return;
  if (comm->options.on_failure == OnFailure::kTerminate) {
    DEVRT_LOG(kError, absl::StrCat("the process ends, as its options say: ",
                                   StatusText(why)));
    _exit(kTerminated);
  }
  std::vector<std::shared_ptr<Comm>> ended;
  for (std::shared_ptr<Comm>& other : CommsOf(comm->device)) {
    if (other.get() == comm ||
        Leave(other.get(), State::kAborted,
              absl::AbortedError(absl::StrCat(
                  other->Text(), " was aborted, because another one of ",
                  comm->device.name(), " failed: ", why.message())))) {
      ended.push_back(std::move(other));
    }
  }
  EndAll(ended).IgnoreError();  // the device's error says it
}

// What the records of all ranks say, if they are files.
std::string OthersText(const Comm& comm) {
  // Each rank reads the files of all.
  constexpr int kMostRanks = 64;
  const std::string_view folder = comm.ring->folder();
  if (folder.empty()) return std::string();
  const std::string command =
      absl::StrCat("devrt collectives report ",
                   absl::string_view(folder.data(), folder.size()));
  if (comm.size > kMostRanks) {
    return absl::StrCat("; ", command, " compares the ranks");
  }
  const absl::StatusOr<std::string> text =
      CompareRanks(folder, comm.id, comm.key);
  return text.ok() ? absl::StrCat("; by their records: ", *text)
                   : std::string();
}

// Notes a failure.  Returns it; OK if the communicator had another state than
// kReady.
absl::Status Note(Comm* comm, const absl::Status& why) {
  if (comm->state.load() != State::kReady) return absl::OkStatus();
  // A query of the simulator would be a step of its schedule.
  const bool asks = !comm->provider.Has(DEVRT_COLLECTIVES_OWN_DEADLINES) &&
                    IsOpen(comm->device);
  absl::Status failure(
      why.code(),
      absl::StrCat(comm->Text(), " failed", PlaceOf(comm, why.message(), asks),
                   ": ", why.message()));
  NoteEndsBefore(comm, SequenceIn(why.message()));
  if (!Leave(comm, State::kFailed, failure)) return absl::OkStatus();
  return failure;
}

// An engine may not learn that its device was lost.
absl::Status AskEngine(Comm* comm) {
  if (IsLost(comm->device)) return comm->device.Health();
  uint32_t state = DEVRT_COMM_PENDING;
  return comm->Take(comm->provider.table->comm_poll(comm->provider.self,
                                                    comm->handle, &state),
                    "comm_poll");
}

// An error if the oldest call is older than Options::timeout.
absl::Status CheckAge(Comm* comm) {
  if (comm->provider.Has(DEVRT_COLLECTIVES_OWN_DEADLINES)) {
    return absl::OkStatus();
  }
  std::optional<Comm::Pending> oldest;
  {
    const MutexLock lock(&comm->mutex);
    if (comm->pending.empty()) return absl::OkStatus();
    oldest.emplace(comm->pending.front());
  }
  if (oldest->is_submitted && devrt::internal::IsOver(oldest->end)) {
    NoteEnds(comm);
    return absl::OkStatus();
  }
  if (comm->options.timeout == absl::InfiniteDuration()) {
    return absl::OkStatus();
  }
  {
    const MutexLock lock(&comm->mutex);
    const CallRecord* const call =
        comm->ring->Find(oldest->FirstIn(*comm->ring));
    if (call == nullptr) return absl::OkStatus();
    const absl::Duration age =
        absl::Nanoseconds(static_cast<int64_t>(NowNs() - call->submit_ns));
    if (age < comm->options.timeout) return absl::OkStatus();
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "it is not complete after ", absl::FormatDuration(comm->options.timeout),
      ", the timeout of an operation: a rank is missing, or has come to "
      "another operation"));
}

}  // namespace

void SetAbortLimit(absl::Duration limit) {
  abort_limit_ms.store(absl::ToInt64Milliseconds(limit));
}

void Fail(Comm* comm, const absl::Status& why) {
  const absl::Status failure = Note(comm, why);
  if (!failure.ok()) FollowFailure(comm, failure);
}

absl::Status NoteFailure(Comm* comm) {
  if (comm->state.load() != State::kReady) return absl::OkStatus();
  absl::Status why = AskEngine(comm);
  if (why.ok()) why = CheckAge(comm);
  return why.ok() ? why : Note(comm, why);
}

void FollowFailure(Comm* comm, const absl::Status& failure) {
  DEVRT_LOG(kError, StatusText(failure));
  FollowPolicy(comm, failure);
  // Last, since the files may be of a file system that does not answer.
  const std::string others = OthersText(*comm);
  if (!others.empty()) {
    DEVRT_LOG(kError, absl::StrCat(comm->Text(), others));
    const MutexLock lock(&comm->mutex);
    comm->failure =
        absl::Status(failure.code(), absl::StrCat(failure.message(), others));
  }
  comm->followed.store(true);
  ExchangeRecords(comm, failure);
}

absl::Status PollForFailure(Comm* comm) {
  DEVRT_RETURN_IF_ERROR(CheckNotForked(*comm));
  if (comm->state.load() == State::kReady) {
    // Known before the engine says that nothing has failed.
    const uint64_t last_over = LastKnownOver(*comm);
    const absl::Status status = AskEngine(comm);
    if (status.ok()) {
      if (last_over != 0) NoteEnds(comm, last_over);
      return status;
    }
    Fail(comm, status);
  }
  const MutexLock lock(&comm->mutex);
  return comm->failure;
}

absl::Status PollForWholeFailure(Comm* comm, absl::Time deadline) {
  DEVRT_RETURN_IF_ERROR(CheckNotForked(*comm));
  const absl::Status status = PollForFailure(comm);
  // The simulator has no watch, and follows a failure on the thread that finds
  // it.
  if (comm->state.load() != State::kFailed || comm->ring->folder().empty() ||
      comm->provider.Has(DEVRT_COLLECTIVES_OWN_DEADLINES)) {
    return status;
  }
  // The watch finds a failure within 100 ms, and the call returns within a
  // second.
  const absl::Time end =
      std::min(absl::Now() + absl::Milliseconds(800), deadline);
  for (uint32_t turn = 0; !comm->followed.load() && absl::Now() < end; ++turn) {
    PauseBetweenPolls(comm->provider, turn);
  }
  const MutexLock lock(&comm->mutex);
  return comm->failure;
}

bool HasFailed(Comm* comm) {
  return comm->state.load() != State::kReady || !AskEngine(comm).ok();
}

void FailIfLate(Comm* comm) {
  const absl::Status late = CheckAge(comm);
  if (!late.ok()) Fail(comm, late);
}

absl::Status AbortComm(Comm* comm, std::string_view why) {
  DEVRT_RETURN_IF_ERROR(CheckNotForked(*comm));
  // Asks nobody: a backend with a full queue may not answer before the abort.
  const absl::Status status = absl::AbortedError(absl::StrCat(
      comm->Text(), " was aborted", PlaceOf(comm, "", /*asks=*/false), ": ",
      absl::string_view(why.data(), why.size())));
  // After a failure that was only reported, its work may still run.
  if (!Leave(comm, State::kAborted, status) &&
      comm->state.load() != State::kFailed) {
    return absl::OkStatus();
  }
  std::shared_ptr<Comm> self = comm->shared_from_this();
  return EndAll({std::move(self)});
}

absl::Status AbortFailed(absl::Span<const std::shared_ptr<Comm>> comms) {
  return EndAll(comms, /*for_good=*/true);
}

absl::Status EndWaits(absl::Span<const std::shared_ptr<Comm>> comms) {
  Helpers helpers;
  for (const std::shared_ptr<Comm>& comm : comms) {
    if (comm->state.load() != State::kFailed || comm->abandoned.load() ||
        comm->options.on_failure == OnFailure::kReport ||
        comm->provider.let_wait == nullptr) {
      continue;
    }
    comm->ended.store(true);
    // Another thread may be in this call: the second one ends behind the first.
    helpers.Start(comm, {/*revoke=*/true, /*abort=*/false});
  }
  return AwaitEnds(comms, &helpers);
}

void DestroyPlace(Device device, const Provider& provider, devrt_comm handle,
                  const std::string& text) {
  const auto destroy = [device, provider, handle] {
    devrt::internal::TakeOutsideError(
        device, provider.table->comm_destroy(provider.self, handle),
        "comm_destroy")
        .IgnoreError();
  };
  // The engines that keep deadlines return, and a thread would change the
  // simulator's schedule.
  if (provider.Has(DEVRT_COLLECTIVES_OWN_DEADLINES)) {
    destroy();
    return;
  }
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
  };
  const auto shared = std::make_shared<Shared>();
  std::thread([shared, destroy] {
    destroy();
    const std::lock_guard<std::mutex> lock(shared->mutex);
    shared->is_done = true;
    shared->changed.notify_all();
  }).detach();
  const auto limit = std::chrono::milliseconds(abort_limit_ms.load());
  std::unique_lock<std::mutex> lock(shared->mutex);
  if (shared->changed.wait_for(lock, limit, [&] { return shared->is_done; })) {
    return;
  }
  devrt::internal::LoseDevice(
      device, absl::StrCat("the end of ", text, " did not return within ",
                           absl::FormatDuration(absl::FromChrono(limit)),
                           ": the engine is stuck, and the device's work "
                           "cannot be ended"))
      .IgnoreError();
}

}  // namespace devrt::collectives::internal
