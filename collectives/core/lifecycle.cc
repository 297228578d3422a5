// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/lifecycle.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "arrays/storage/joint_step.h"
#include "collectives/bootstrap/rank_lists.h"
#include "collectives/core/create.h"
#include "collectives/core/failure.h"
#include "collectives/core/record_exchange.h"
#include "collectives/core/submit.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

constexpr absl::Duration kEndLimit = absl::Seconds(5);

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

absl::Status CheckFlag(const Comm& comm, uint32_t flag, const char* call) {
  if (comm.provider.Has(flag)) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(comm.info.name, " ", comm.info.version, " has no ", call));
}

// A place beside `parent`, which the engine is about to fill.
std::shared_ptr<Comm> Child(const Comm& parent, int rank, int size,
                            const std::string& suffix, uint64_t salt) {
  auto child = std::make_shared<Comm>(parent.device, parent.provider);
  child->options = parent.options;
  child->info = parent.info;
  child->rank = rank;
  child->size = size;
  child->label = absl::StrCat(parent.label, "/", suffix);
  // All ranks compute the same, as they make the same calls.
  child->key =
      (parent.key ^ (salt + 1) * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  child->id = child->key >> 32;
  return child;
}

// Fails parents whose children were not made, and aborts them whatever their
// options say: an engine that is busy with a parent may write into its child.
absl::Status GiveUp(CommSpan parents, const absl::Status& why) {
  for (const std::shared_ptr<Comm>& parent : parents) {
    Fail(parent.get(),
         absl::Status(why.code(), absl::StrCat("no communicator was made "
                                               "from it: ",
                                               why.message())));
  }
  AbortFailed(parents).IgnoreError();  // the devices' errors say it
  return why;
}

// Waits for the children, and for parents that the engine may be busy with.
absl::Status AwaitChildren(CommSpan parents, CommSpan children, CallSite site) {
  CommVector made;
  for (const std::shared_ptr<Comm>& child : children) {
    if (child != nullptr) made.push_back(child);
  }
  CommVector all = made;
  for (const std::shared_ptr<Comm>& parent : parents) {
    if (parent->state.load() == State::kReady) all.push_back(parent);
  }
  const absl::Status ready =
      AwaitReady(all, absl::Now() + parents[0]->options.init_timeout);
  if (!ready.ok()) return GiveUp(parents, ready);
  for (const std::shared_ptr<Comm>& child : made) {
    DEVRT_RETURN_IF_ERROR(Complete(child, site));
  }
  return absl::OkStatus();
}

// Waits for the current streams of all ranks.  If the device of a rank has
// failed, the others only miss the rank, and that device knows why.
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

// The color and the key of every rank: each rank's own are gathered by the
// communicator itself.  Waits for the current streams.
absl::StatusOr<std::vector<std::vector<int32_t>>> GatherColors(
    CommSpan comms, absl::Span<const int> colors, absl::Span<const int> keys,
    CallSite site) {
  std::vector<GroupedOperation> operations;
  std::vector<Array> gathered;
  for (size_t i = 0; i < comms.size(); ++i) {
    const std::vector<int32_t> mine = {colors[i], keys[i]};
    DEVRT_ASSIGN_OR_RETURN(const Array in,
                           Array::FromVector(mine, comms[i]->device, site));
    DEVRT_ASSIGN_OR_RETURN(Array out, Array::Empty({2 * comms[i]->size}, kInt32,
                                                   comms[i]->device, site));
    operations.push_back({comms[i], AllGather(out, in, site), std::nullopt});
    gathered.push_back(std::move(out));
  }
  DEVRT_RETURN_IF_ERROR(SubmitTogether(operations, site));
  const absl::Status waited =
      WaitForAll(comms, absl::Now() + comms[0]->options.init_timeout, site);
  if (absl::IsDeadlineExceeded(waited)) return GiveUp(comms, waited);
  DEVRT_RETURN_IF_ERROR(waited);
  std::vector<std::vector<int32_t>> all;
  for (const Array& one : gathered) {
    DEVRT_ASSIGN_OR_RETURN(const Array host,
                           one.To(Place::Host(), /*non_blocking=*/false, site));
    const int32_t* const data = host.data_as<int32_t>();
    all.emplace_back(data, data + host.size());
  }
  return all;
}

// The ranks with the color of `rank`, in their new order.
std::vector<int> NewOrder(const std::vector<int32_t>& gathered, int rank) {
  std::vector<int> ranks;
  const int size = static_cast<int>(gathered.size() / 2);
  for (int i = 0; i < size; ++i) {
    if (gathered[2 * i] == gathered[2 * rank]) ranks.push_back(i);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&gathered](int a, int b) {
    return gathered[2 * a + 1] < gathered[2 * b + 1];
  });
  return ranks;
}

}  // namespace

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
      DEVRT_RETURN_IF_ERROR(PollForFailure(comm));
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
        DEVRT_RETURN_IF_ERROR(PollForFailure(comm));
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

// ---- Split and Shrink -------------------------------------------------------

absl::StatusOr<CommVector> SplitRanks(CommSpan comms,
                                      absl::Span<const int> colors,
                                      absl::Span<const int> keys,
                                      CallSite site) {
  DEVRT_RETURN_IF_ERROR(CheckRanks("Split", comms));
  if (colors.size() != comms.size() || keys.size() != comms.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Split of ", comms.size(), " ranks has ", colors.size(), " colors and ",
        keys.size(), " keys: give one of each rank"));
  }
  for (size_t i = 0; i < comms.size(); ++i) {
    DEVRT_RETURN_IF_ERROR(CheckReady(*comms[i]));
    DEVRT_RETURN_IF_ERROR(
        CheckFlag(*comms[i], DEVRT_COLLECTIVES_SPLIT, "Split"));
    if (colors[i] < -1) {
      return absl::InvalidArgumentError(
          absl::StrCat(comms[i]->Text(), ": Split with color ", colors[i],
                       ": colors count from 0, and -1 is for none"));
    }
  }
  DEVRT_ASSIGN_OR_RETURN(const auto gathered,
                         GatherColors(comms, colors, keys, site));
  const std::vector<Comm*> used = PointersOf(comms);
  DEVRT_ASSIGN_OR_RETURN(const Use use, Use::Begin(used));
  CommVector children(comms.size());
  for (size_t i = 0; i < comms.size(); ++i) {
    Comm* const comm = comms[i].get();
    const uint64_t split = comm->splits++;
    std::shared_ptr<Comm> child;
    if (colors[i] >= 0) {
      const std::vector<int> order = NewOrder(gathered[i], comm->rank);
      const auto at = std::find(order.begin(), order.end(), comm->rank);
      child = Child(*comm, static_cast<int>(at - order.begin()),
                    static_cast<int>(order.size()),
                    absl::StrCat(split, ".", colors[i]),
                    split << 32 | static_cast<uint32_t>(colors[i]));
    }
    if (child != nullptr) {
      const absl::Status recorder = MakeRecorder(child.get());
      if (!recorder.ok()) return GiveUp(comms, recorder);
    }
    const std::string name = child == nullptr ? comm->Label() : child->Label();
    const devrt_comm_options_v0 options =
        EngineOptions(comm->options, name.c_str());
    devrt_comm handle = nullptr;
    const absl::Status begun = comm->Take(
        comm->provider.table->comm_split(comm->provider.self, comm->handle,
                                         colors[i], keys[i], &options, &handle),
        "comm_split");
    if (!begun.ok()) return i == 0 ? begun : GiveUp(comms, begun);
    if (child == nullptr) continue;
    child->handle = handle;
    children[i] = std::move(child);
  }
  DEVRT_RETURN_IF_ERROR(AwaitChildren(comms, children, site));
  return children;
}

absl::StatusOr<CommVector> ShrinkRanks(CommSpan comms,
                                       absl::Span<const int> gone,
                                       CallSite site) {
  DEVRT_RETURN_IF_ERROR(CheckRanks("Shrink", comms));
  std::vector<uint32_t> sorted;
  for (const int rank : gone) {
    DEVRT_RETURN_IF_ERROR(CheckRank("Shrink", rank, comms[0]->size));
    sorted.push_back(static_cast<uint32_t>(rank));
  }
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  const std::vector<Comm*> used = PointersOf(comms);
  DEVRT_ASSIGN_OR_RETURN(const Use use, Use::Begin(used));
  for (const std::shared_ptr<Comm>& comm : comms) {
    if (comm->state.load() != State::kFailed) {
      DEVRT_RETURN_IF_ERROR(CheckReady(*comm));
    }
    DEVRT_RETURN_IF_ERROR(CheckFlag(*comm, DEVRT_COLLECTIVES_SHRINK, "Shrink"));
    // Where it has only just failed, the abort is about to begin.
    const bool is_aborted =
        comm->ended.load() || (comm->state.load() == State::kFailed &&
                               comm->options.on_failure != OnFailure::kReport);
    if (is_aborted && !comm->provider.Has(DEVRT_COLLECTIVES_REVOKE)) {
      return absl::FailedPreconditionError(absl::StrCat(
          comm->Text(), ": ", comm->info.name, " ", comm->info.version,
          " cannot shrink what was aborted: take Options::on_failure = "
          "kReport, or Create anew"));
    }
    if (std::binary_search(sorted.begin(), sorted.end(),
                           static_cast<uint32_t>(comm->rank))) {
      return absl::InvalidArgumentError(
          absl::StrCat(comm->Text(),
                       ": Shrink without this rank itself: only "
                       "the ranks that stay call it"));
    }
  }
  DEVRT_RETURN_IF_ERROR(EndWaits(comms));
  CommVector children;
  for (const std::shared_ptr<Comm>& comm : comms) {
    const auto before = std::lower_bound(sorted.begin(), sorted.end(),
                                         static_cast<uint32_t>(comm->rank));
    const uint64_t split = comm->splits++;
    std::shared_ptr<Comm> child =
        Child(*comm, comm->rank - static_cast<int>(before - sorted.begin()),
              comm->size - static_cast<int>(sorted.size()),
              absl::StrCat(split, ".shrunk"), split << 32 | 0xffffffff);
    const absl::Status recorder = MakeRecorder(child.get());
    if (!recorder.ok()) return GiveUp(comms, recorder);
    const bool has_failed = comm->state.load() == State::kFailed;
    const absl::Status begun =
        comm->Take(comm->provider.table->comm_shrink(
                       comm->provider.self, comm->handle, sorted.data(),
                       static_cast<uint32_t>(sorted.size()), has_failed ? 1 : 0,
                       &child->handle),
                   "comm_shrink");
    if (!begun.ok()) return children.empty() ? begun : GiveUp(comms, begun);
    children.push_back(std::move(child));
  }
  DEVRT_RETURN_IF_ERROR(AwaitChildren(comms, children, site));
  return children;
}

// ---- The end ----------------------------------------------------------------

namespace {

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
