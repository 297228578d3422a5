// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/children.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "collectives/bootstrap/rank_lists.h"
#include "collectives/core/create.h"
#include "collectives/core/failure.h"
#include "collectives/core/submit.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

absl::Status CheckFlag(const Comm& comm, uint32_t flag, const char* call) {
  if (comm.provider.Has(flag)) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(comm.info.name, " ", comm.info.version, " has no ", call));
}

// A place beside `parent`, which the engine is about to fill.
std::shared_ptr<Comm> Child(const Comm& parent, int rank, int size,
                            uint64_t salt) {
  auto child = std::make_shared<Comm>(parent.device, parent.provider);
  child->options = parent.options;
  child->info = parent.info;
  child->record_folder = parent.record_folder;
  child->some_rank_records = parent.some_rank_records;
  child->rank = rank;
  child->size = size;
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

// Submits one operation of each rank, and waits for the current streams.
absl::Status RunTogether(CommSpan comms,
                         const std::vector<GroupedOperation>& operations,
                         CallSite site) {
  DEVRT_RETURN_IF_ERROR(SubmitTogether(operations, site));
  const absl::Status waited =
      WaitForAll(comms, absl::Now() + comms[0]->options.init_timeout, site);
  return absl::IsDeadlineExceeded(waited) ? GiveUp(comms, waited) : waited;
}

template <typename T>
absl::StatusOr<std::vector<T>> OnHost(const Array& array, CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(const Array host,
                         array.To(Place::Host(), /*non_blocking=*/false, site));
  const T* const data = host.data_as<T>();
  return std::vector<T>(data, data + host.size());
}

// The numbers of every rank, one rank behind the other: each rank's own are
// gathered by the communicator itself.  All ranks give equally many.
absl::StatusOr<std::vector<std::vector<int32_t>>> GatherNumbers(
    CommSpan comms, absl::Span<const std::vector<int32_t>> mine,
    CallSite site) {
  std::vector<GroupedOperation> operations;
  std::vector<Array> gathered;
  for (size_t i = 0; i < comms.size(); ++i) {
    const int64_t all = static_cast<int64_t>(mine[i].size()) * comms[i]->size;
    DEVRT_ASSIGN_OR_RETURN(const Array in,
                           Array::FromVector(mine[i], comms[i]->device, site));
    DEVRT_ASSIGN_OR_RETURN(Array out,
                           Array::Empty({all}, kInt32, comms[i]->device, site));
    operations.push_back({comms[i], AllGather(out, in, site), std::nullopt});
    gathered.push_back(std::move(out));
  }
  DEVRT_RETURN_IF_ERROR(RunTogether(comms, operations, site));
  std::vector<std::vector<int32_t>> all;
  for (const Array& one : gathered) {
    DEVRT_ASSIGN_OR_RETURN(all.emplace_back(), OnHost<int32_t>(one, site));
  }
  return all;
}

// Gives all ranks the text of the root, shortened.  `mine`: of each rank.
absl::StatusOr<std::string> BroadcastText(CommSpan comms,
                                          absl::Span<const absl::Status> mine,
                                          int root, CallSite site) {
  constexpr size_t kBytes = 1024;
  std::vector<GroupedOperation> operations;
  std::vector<Array> arrays;
  for (size_t i = 0; i < comms.size(); ++i) {
    const std::string text = StatusText(mine[i]);
    std::vector<uint8_t> bytes(text.begin(), text.end());
    bytes.resize(kBytes);
    DEVRT_ASSIGN_OR_RETURN(Array x,
                           Array::FromVector(bytes, comms[i]->device, site));
    operations.push_back({comms[i], Broadcast(x, root, site), std::nullopt});
    arrays.push_back(std::move(x));
  }
  DEVRT_RETURN_IF_ERROR(RunTogether(comms, operations, site));
  DEVRT_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                         OnHost<uint8_t>(arrays[0], site));
  return std::string(bytes.begin(), std::find(bytes.begin(), bytes.end(), 0));
}

// OK if no rank has an error.  `own`: of each rank of this thread, which this
// returns first; else an error with the rank and its reason.  The communicators
// carry it, so that no rank waits in the engine for one that cannot go on.
absl::Status AgreeOver(CommSpan comms, absl::Span<const absl::Status> own,
                       const char* call, CallSite site) {
  std::vector<std::vector<int32_t>> codes;
  for (const absl::Status& status : own) {
    codes.push_back({static_cast<int32_t>(status.code())});
  }
  DEVRT_ASSIGN_OR_RETURN(const auto gathered,
                         GatherNumbers(comms, codes, site));
  const std::vector<int32_t>& all = gathered[0];
  const auto first = std::find_if(all.begin(), all.end(),
                                  [](int32_t code) { return code != 0; });
  if (first == all.end()) return absl::OkStatus();
  const int guilty = static_cast<int>(first - all.begin());
  const absl::StatusOr<std::string> reason =
      BroadcastText(comms, own, guilty, site);
  for (const absl::Status& status : own) DEVRT_RETURN_IF_ERROR(status);
  return absl::FailedPreconditionError(absl::StrCat(
      comms[0]->Text(), ": rank ", guilty, " cannot take part in ", call, ": ",
      reason.ok()
          ? *reason
          : absl::StatusCodeToString(static_cast<absl::StatusCode>(*first))));
}

// The ranks with the color of `rank`, in their new order.  `gathered`: a color
// and a key of each rank.
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

// The places in the parts of a split, before the engine begins them; nullptr
// for color -1.  `recorders`: the error of each, which the other ranks have to
// know before they call the engine.
absl::StatusOr<CommVector> PlacesOfSplit(
    CommSpan comms, absl::Span<const int> colors,
    const std::vector<std::vector<int32_t>>& gathered,
    std::vector<absl::Status>* recorders) {
  const std::vector<Comm*> used = PointersOf(comms);
  DEVRT_ASSIGN_OR_RETURN(const Use use, Use::Begin(used));
  CommVector children(comms.size());
  recorders->resize(comms.size());
  for (size_t i = 0; i < comms.size(); ++i) {
    if (colors[i] < 0) continue;
    const Comm& comm = *comms[i];
    const std::vector<int> order = NewOrder(gathered[i], comm.rank);
    const auto at = std::find(order.begin(), order.end(), comm.rank);
    children[i] = Child(comm, static_cast<int>(at - order.begin()),
                        static_cast<int>(order.size()),
                        comm.splits << 32 | static_cast<uint32_t>(colors[i]));
    children[i]->label = absl::StrCat(comm.label, comm.without, "/",
                                      comm.splits, ".", colors[i]);
    (*recorders)[i] = MakeRecorder(children[i].get());
  }
  return children;
}

// Makes the recorder of a child that has to come to be: the ranks of a shrink
// can only tell each other an error over the child.  Where the recorder cannot
// be made, returns why, and the child has one in memory.
absl::Status MakeRecorderOrSpare(Comm* child) {
  const absl::Status made = MakeRecorder(child);
  if (made.ok() || !child->some_rank_records) return made;
  const std::string folder = std::exchange(child->record_folder, "");
  const absl::Status spare = MakeRecorder(child);
  child->record_folder = folder;
  return spare.ok() ? made : spare;
}

// Ends the children of a shrink, on every rank, if one of them has no recorder.
absl::Status AgreeOnRecorders(CommSpan children,
                              absl::Span<const absl::Status> recorders,
                              CallSite site) {
  if (!children[0]->some_rank_records) return absl::OkStatus();
  const absl::Status agreed = AgreeOver(children, recorders, "Shrink", site);
  if (agreed.ok()) return agreed;
  const absl::Time deadline = absl::Now() + children[0]->options.init_timeout;
  FinishRanks(children, deadline).IgnoreError();  // or their end aborts them
  // Nobody gets these communicators, and so nobody reads their records.
  for (const std::shared_ptr<Comm>& child : children) child->ring->Discard();
  return agreed;
}

}  // namespace

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
  std::vector<std::vector<int32_t>> wishes;
  for (size_t i = 0; i < comms.size(); ++i) {
    wishes.push_back({colors[i], keys[i]});
  }
  DEVRT_ASSIGN_OR_RETURN(const auto gathered,
                         GatherNumbers(comms, wishes, site));
  std::vector<absl::Status> recorders;
  DEVRT_ASSIGN_OR_RETURN(CommVector children,
                         PlacesOfSplit(comms, colors, gathered, &recorders));
  if (comms[0]->some_rank_records) {
    DEVRT_RETURN_IF_ERROR(AgreeOver(comms, recorders, "Split", site));
  }
  for (const absl::Status& recorder : recorders) {
    if (!recorder.ok()) return GiveUp(comms, recorder);
  }
  const std::vector<Comm*> used = PointersOf(comms);
  DEVRT_ASSIGN_OR_RETURN(const Use use, Use::Begin(used));
  for (size_t i = 0; i < comms.size(); ++i) {
    Comm* const comm = comms[i].get();
    Comm* const child = children[i].get();
    ++comm->splits;
    const std::string name = child == nullptr ? comm->Label() : child->Label();
    const devrt_comm_options_v0 options =
        EngineOptions(comm->options, name.c_str());
    devrt_comm handle = nullptr;
    const absl::Status begun = comm->Take(
        comm->provider.table->comm_split(comm->provider.self, comm->handle,
                                         colors[i], keys[i], &options, &handle),
        "comm_split");
    if (!begun.ok()) return i == 0 ? begun : GiveUp(comms, begun);
    if (child != nullptr) child->handle = handle;
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
  if (sorted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(comms[0]->Text(),
                     ": Shrink without any rank that is gone: name one at "
                     "least; Create makes a communicator of all ranks"));
  }
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  const std::vector<int> ranks_gone(sorted.begin(), sorted.end());
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
  std::vector<absl::Status> recorders;
  for (const std::shared_ptr<Comm>& comm : comms) {
    const auto before = std::lower_bound(sorted.begin(), sorted.end(),
                                         static_cast<uint32_t>(comm->rank));
    const uint64_t split = comm->splits++;
    std::shared_ptr<Comm> child = Child(
        *comm, comm->rank - static_cast<int>(before - sorted.begin()),
        comm->size - static_cast<int>(sorted.size()), split << 32 | 0xffffffff);
    // As the engine names it, by its parent's name.
    child->label = comm->label;
    child->without =
        absl::StrCat(comm->without, " without ", RanksText(ranks_gone));
    recorders.push_back(MakeRecorderOrSpare(child.get()));
    if (child->ring == nullptr) return GiveUp(comms, recorders.back());
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
  DEVRT_RETURN_IF_ERROR(AgreeOnRecorders(children, recorders, site));
  return children;
}

}  // namespace devrt::collectives::internal
