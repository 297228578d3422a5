// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/lifecycle.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "arrays/storage/joint_step.h"
#include "collectives/core/create.h"
#include "collectives/core/failure.h"
#include "collectives/core/record_exchange.h"
#include "collectives/core/submit.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
std::vector<Comm*> PointersOf(CommSpan comms) {
  std::vector<Comm*> all;
  for (const std::shared_ptr<Comm>& comm : comms) all.push_back(comm.get());
  return all;
}

absl::Status CheckRanks(const char* call, CommSpan comms) {
  if (comms.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(call, " needs one rank at least"));
  }
  std::vector<bool> seen;
  for (const std::shared_ptr<Comm>& comm : comms) {
    if (comm == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          call,
          " of a Communicator that was moved from: use the one it was "
          "moved to, and no null pointer"));
    }
    DEVRT_RETURN_IF_ERROR(CheckNotForked(*comm));
    if (comm->key != comms[0]->key) {
      return absl::InvalidArgumentError(
          absl::StrCat(call, " of ", comms[0]->Text(), " and ", comm->Text(),
                       ": give ranks of one communicator"));
    }
    seen.resize(comm->size);
    if (seen[comm->rank]) {
      return absl::InvalidArgumentError(absl::StrCat(
          call, " has ", comm->Text(), " twice: give each rank once"));
    }
    seen[comm->rank] = true;
  }
  return absl::OkStatus();
}

// ---- Waits ------------------------------------------------------------------

absl::Status WaitFor(Comm* comm, StreamRef stream, absl::Time deadline,
                     CallSite site) {
  if (stream.device() != comm->device) {
    return absl::InvalidArgumentError(absl::StrCat(
        comm->Text(), ": Wait for a stream of ", stream.device().name(),
        ": give one of ", comm->device.name()));
  }
  const bool ends_itself =
      comm->provider.Has(DEVRT_COLLECTIVES_OWN_DEADLINES) &&
      deadline == absl::InfiniteFuture();
  for (uint32_t turn = 0;; ++turn) {
    if (comm->state.load() != State::kFinished) {
      DEVRT_RETURN_IF_ERROR(PollForWholeFailure(comm, deadline));
      FailIfLate(comm);
    }
    bool is_done = true;
    absl::Status status;
    if (ends_itself) {
      status = stream.Synchronize(site);
    } else {
      const absl::StatusOr<bool> done = stream.Query(site);
      status = done.status();
      is_done = done.value_or(true);
    }
    if (is_done) {
      // The work may have ended because the communicator has failed.
      if (comm->state.load() != State::kFinished) {
        DEVRT_RETURN_IF_ERROR(PollForWholeFailure(comm, deadline));
      }
      return status;
    }
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          comm->Text(), ": the work of stream ", stream.id(), " of ",
          comm->device.name(), " is not complete at the deadline"));
    }
    PauseBetweenPolls(comm->provider, turn);
  }
}

void AwaitLast(Comm* comm) {
  for (uint32_t turn = 0; PollForFailure(comm).ok(); ++turn) {
    FailIfLate(comm);
    const auto is_over = [](const OrderPoint& end) {
      return devrt::internal::IsOver(end);
    };
    if (std::all_of(comm->last.begin(), comm->last.end(), is_over)) return;
    PauseBetweenPolls(comm->provider, turn);
  }
}

absl::Status WaitForAll(CommSpan comms, absl::Time deadline, CallSite site) {
  for (const std::shared_ptr<Comm>& comm : comms) {
    const absl::Status waited =
        WaitFor(comm.get(), CurrentStream(comm->device), deadline, site);
    if (waited.ok()) continue;
    for (const std::shared_ptr<Comm>& other : comms) {
      DEVRT_RETURN_IF_ERROR(CurrentStream(other->device).Query(site).status());
    }
    return waited;
  }
  return absl::OkStatus();
}

absl::Status BarrierRanks(CommSpan comms, absl::Time deadline, CallSite site) {
  DEVRT_RETURN_IF_ERROR(CheckRanks("Barrier", comms));
  std::vector<GroupedOperation> operations;
  for (const std::shared_ptr<Comm>& comm : comms) {
    // An element, because an engine may skip operations of none.
    DEVRT_ASSIGN_OR_RETURN(const Array x,
                           Array::Zeros({1}, kInt32, comm->device, site));
    operations.push_back(
        {comm, AllReduce(x, x, Reduction::kMax, site), std::nullopt});
  }
  DEVRT_RETURN_IF_ERROR(SubmitTogether(operations, site));
  return WaitForAll(comms, deadline, site);
}

// ---- The end ----------------------------------------------------------------

namespace {

constexpr absl::Duration kEndLimit = absl::Seconds(5);

// Begins the orderly end, unless it has begun.
absl::Status BeginFinish(Comm* comm) {
  if (comm->finishing.load()) return absl::OkStatus();
  DEVRT_RETURN_IF_ERROR(CheckReady(*comm));
  const absl::Status status = comm->Take(
      comm->provider.table->comm_finish(comm->provider.self, comm->handle),
      "comm_finish");
  if (!status.ok()) {
    const absl::Status failure = PollForFailure(comm);
    return failure.ok() ? status : CheckReady(*comm);
  }
  comm->finishing.store(true);
  return absl::OkStatus();
}

absl::Status AwaitFinish(CommSpan comms, absl::Time deadline) {
  const absl::Status ready = AwaitReady(comms, deadline);
  if (absl::IsDeadlineExceeded(ready) && absl::Now() >= deadline) return ready;
  for (const std::shared_ptr<Comm>& comm : comms) {
    if (!ready.ok()) {
      DEVRT_RETURN_IF_ERROR(PollForFailure(comm.get()));
      continue;
    }
    NoteEnds(comm.get());
    const MutexLock lock(&comm->mutex);
    if (comm->state.load() == State::kReady) {
      comm->state.store(State::kFinished);
      comm->ring->Leave();
    }
  }
  return ready;
}

// The ranks of this process, by the key of their communicator.
struct Endings {
  Mutex mutex;
  struct Ranks {
    size_t alive = 0;   // of which the Communicator has not ended
    CommVector ending;  // the others
  };
  std::map<uint64_t, Ranks> ranks DEVRT_GUARDED_BY(mutex);
};

Endings& TheEndings() {
  static Endings* const endings = new Endings;
  return *endings;
}

// Aborts what cannot end in good order.  `why` is logged unless it is OK: the
// program knows then.
void AbortUnfinished(Comm* comm, const absl::Status& why) {
  if (comm->state.load() != State::kReady) return;
  if (!why.ok()) {
    DEVRT_LOG(kWarning,
              absl::StrCat(comm->Text(), " ends unfinished and is aborted: ",
                           why.message(), ": call Finish on every rank"));
  }
  AbortComm(comm, "its Communicator has ended").IgnoreError();
}

// The watch may not have looked since the device was lost, and ~Comm gives
// nothing back then: the other ranks learn of it by an abort only.
void EndOnLostDevice(Comm* comm) {
  if (!IsLost(comm->device)) return;
  PollForFailure(comm).IgnoreError();
  AbortComm(comm, "its Communicator has ended").IgnoreError();
}

}  // namespace

absl::Status FinishRanks(CommSpan comms, absl::Time deadline) {
  DEVRT_RETURN_IF_ERROR(CheckRanks("Finish", comms));
  const std::vector<Comm*> used = PointersOf(comms);
  DEVRT_ASSIGN_OR_RETURN(const Use use, Use::Begin(used));
  for (const std::shared_ptr<Comm>& comm : comms) {
    if (comm->finishing.load()) continue;
    DEVRT_RETURN_IF_ERROR(CheckReady(*comm));
  }
  for (const std::shared_ptr<Comm>& comm : comms) {
    DEVRT_RETURN_IF_ERROR(BeginFinish(comm.get()));
  }
  return AwaitFinish(comms, deadline);
}

void CountRank(const Comm& comm) {
  Endings& endings = TheEndings();
  const MutexLock lock(&endings.mutex);
  ++endings.ranks[comm.key].alive;
}

void EndRank(std::shared_ptr<Comm> comm) {
  if (!CheckNotForked(*comm).ok()) {
    // The communicator stays, with this reference.  The child has none of its
    // threads, one of which may have held its lock.
    new std::shared_ptr<Comm>(std::move(comm));
    return;
  }
  const uint64_t key = comm->key;
  EndOnLostDevice(comm.get());
  EndExchange(comm.get());  // the bootstrap may end after this
  if (IsOpen(comm->device) && comm->state.load() == State::kReady) {
    const absl::Status status = BeginFinish(comm.get());
    if (!status.ok()) AbortUnfinished(comm.get(), status);
  }
  // A helper keeps it, perhaps for ever.
  if (comm->abandoned.load()) comm->life.reset();
  CommVector ending;
  {
    Endings& endings = TheEndings();
    const MutexLock lock(&endings.mutex);
    Endings::Ranks& ranks = endings.ranks[key];
    ranks.ending.push_back(std::move(comm));
    // The others may be the calling thread's own.
    if (--ranks.alive > 0) return;
    ending = std::move(ranks.ending);
    endings.ranks.erase(key);
  }
  CommVector unfinished;
  bool can_finish = true;  // none has failed, or has lost its device
  for (const std::shared_ptr<Comm>& rank : ending) {
    const State state = rank->state.load();
    const bool is_unfinished = state == State::kReady && IsOpen(rank->device);
    can_finish = can_finish && (is_unfinished || state == State::kFinished);
    if (is_unfinished) unfinished.push_back(rank);
  }
  absl::Status why;
  if (can_finish) why = AwaitFinish(unfinished, absl::Now() + kEndLimit);
  for (const std::shared_ptr<Comm>& rank : unfinished) {
    AbortUnfinished(rank.get(), why);
  }
}

}  // namespace devrt::collectives::internal
