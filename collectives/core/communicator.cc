// SPDX-License-Identifier: Apache-2.0

#include "devrt/collectives/communicator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/core/children.h"
#include "collectives/core/comm.h"
#include "collectives/core/create.h"
#include "collectives/core/failure.h"
#include "collectives/core/lifecycle.h"
#include "collectives/core/operation_checks.h"
#include "collectives/core/submit.h"
#include "collectives/core/submit_steps.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives {
namespace {

using internal::Comm;
using internal::CommVector;

absl::Status MovedFromError(const char* call) {
  return absl::InvalidArgumentError(absl::StrCat(
      call,
      " of a Communicator that was moved from: use the one it was moved "
      "to"));
}

StreamRef StreamOf(const Comm& comm, const std::optional<StreamRef>& stream) {
  return stream.has_value() ? *stream : CurrentStream(comm.device);
}

CommVector CommsOf(absl::Span<const Communicator> ranks) {
  CommVector comms;
  for (const Communicator& rank : ranks) comms.push_back(rank.comm());
  return comms;
}
CommVector CommsOf(Communicator::RankPointers ranks) {
  CommVector comms;
  for (const Communicator* const rank : ranks) {
    comms.push_back(rank == nullptr ? nullptr : rank->comm());
  }
  return comms;
}

std::vector<std::optional<Communicator>> WrapChildren(CommVector comms) {
  std::vector<std::optional<Communicator>> made(comms.size());
  for (size_t i = 0; i < comms.size(); ++i) {
    if (comms[i] != nullptr) made[i].emplace(std::move(comms[i]));
  }
  return made;
}

std::vector<Communicator> Wrap(CommVector comms) {
  std::vector<Communicator> ranks;
  ranks.reserve(comms.size());
  for (std::shared_ptr<Comm>& comm : comms) {
    ranks.emplace_back(std::move(comm));
  }
  return ranks;
}

}  // namespace

const char* ToString(State state) {
  switch (state) {
    case State::kReady:
      return "ready";
    case State::kFailed:
      return "failed";
    case State::kAborted:
      return "aborted";
    case State::kFinished:
      return "finished";
  }
  return "unknown";
}

// ---- Registration -----------------------------------------------------------

Registration::Registration(std::shared_ptr<Comm> comm, void* handle,
                           const Array& array)
    : comm_(std::move(comm)), handle_(handle), array_(array) {}

Registration::Registration(Registration&& other) noexcept
    : comm_(std::move(other.comm_)),
      handle_(std::exchange(other.handle_, nullptr)),
      array_(std::move(other.array_)) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(handle_, other.handle_);
  std::swap(array_, other.array_);
  return *this;
}

// What is left registered ends with the native communicator, and until then its
// memory must stay.
Registration::~Registration() {
  if (comm_ == nullptr || handle_ == nullptr ||
      !internal::IsOpen(comm_->device)) {
    return;
  }
  Comm* const comm = comm_.get();
  const auto use = internal::Use::Begin({&comm, 1});
  if (use.ok()) internal::AwaitLast(comm);
  if (use.ok() && internal::CheckReady(*comm).ok()) {
    comm->Take(comm->provider.table->buffer_deregister(comm->provider.self,
                                                       comm->handle, handle_),
               "buffer_deregister")
        .IgnoreError();
    return;
  }
  const MutexLock lock(&comm->mutex);
  comm->registered.push_back(*std::move(array_));
}

// ---- Communicator -----------------------------------------------------------

absl::StatusOr<Communicator> Communicator::Create(Device device,
                                                  Bootstrap& bootstrap,
                                                  Options options,
                                                  CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(
      std::shared_ptr<Comm> comm,
      internal::CreateOne(device, &bootstrap, options, site));
  return Communicator(std::move(comm));
}

absl::StatusOr<std::vector<Communicator>> Communicator::CreateAll(
    absl::Span<const Device> devices, Options options, CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(CommVector comms,
                         internal::CreateAll(devices, options, site));
  return Wrap(std::move(comms));
}

Communicator::Communicator(std::shared_ptr<Comm> comm)
    : comm_(std::move(comm)) {
  internal::CountRank(*comm_);
}

Communicator::Communicator(Communicator&& other) noexcept
    : comm_(std::move(other.comm_)) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this == &other) return *this;
  if (comm_ != nullptr) internal::EndRank(std::move(comm_));
  comm_ = std::move(other.comm_);
  return *this;
}

Communicator::~Communicator() {
  if (comm_ != nullptr) internal::EndRank(std::move(comm_));
}

int Communicator::rank() const { return comm_ == nullptr ? -1 : comm_->rank; }
int Communicator::size() const { return comm_ == nullptr ? 0 : comm_->size; }
Device Communicator::device() const { return comm_->device; }
uint64_t Communicator::id() const { return comm_ == nullptr ? 0 : comm_->id; }
ProviderInfo Communicator::provider() const {
  return comm_ == nullptr ? ProviderInfo() : comm_->info;
}

absl::StatusOr<bool> Communicator::Supports(OpKind kind, DType dtype,
                                            Reduction reduction) const {
  if (comm_ == nullptr) return MovedFromError("Supports");
  Comm* const comm = comm_.get();
  DEVRT_RETURN_IF_ERROR(internal::CheckNotForked(*comm));
  DEVRT_ASSIGN_OR_RETURN(const internal::Use use,
                         internal::Use::Begin({&comm, 1}));
  return internal::Supports(comm, kind, dtype, reduction);
}

absl::Status Communicator::Submit(absl::Span<const Operation> operations,
                                  std::optional<StreamRef> stream,
                                  CallSite site) {
  if (comm_ == nullptr) return MovedFromError("Submit");
  if (operations.size() == 1) {
    internal::SubmittedOperation one = {comm_.get(), &operations[0], stream};
    return internal::MaySubmitOne(*comm_)
               ? internal::SubmitOne(one)
               : internal::SubmitTogether(absl::MakeSpan(&one, 1), site);
  }
  std::vector<internal::SubmittedOperation> submitted;
  submitted.reserve(operations.size());
  for (const Operation& operation : operations) {
    submitted.push_back({comm_.get(), &operation, stream});
  }
  return internal::SubmitTogether(absl::MakeSpan(submitted), site);
}

absl::Status Communicator::AllReduce(const Array& out, const Array& in,
                                     Reduction reduction,
                                     std::optional<StreamRef> stream,
                                     CallSite site) {
  return Submit({collectives::AllReduce(out, in, reduction, site)}, stream,
                site);
}
absl::Status Communicator::Reduce(const Array& out, const Array& in,
                                  Reduction reduction, int root,
                                  std::optional<StreamRef> stream,
                                  CallSite site) {
  return Submit({collectives::Reduce(out, in, reduction, root, site)}, stream,
                site);
}
absl::Status Communicator::Broadcast(const Array& x, int root,
                                     std::optional<StreamRef> stream,
                                     CallSite site) {
  return Submit({collectives::Broadcast(x, root, site)}, stream, site);
}
absl::Status Communicator::AllGather(const Array& out, const Array& in,
                                     std::optional<StreamRef> stream,
                                     CallSite site) {
  return Submit({collectives::AllGather(out, in, site)}, stream, site);
}
absl::Status Communicator::ReduceScatter(const Array& out, const Array& in,
                                         Reduction reduction,
                                         std::optional<StreamRef> stream,
                                         CallSite site) {
  return Submit({collectives::ReduceScatter(out, in, reduction, site)}, stream,
                site);
}
absl::Status Communicator::AllToAll(const Array& out, const Array& in,
                                    std::optional<StreamRef> stream,
                                    CallSite site) {
  return Submit({collectives::AllToAll(out, in, site)}, stream, site);
}
absl::Status Communicator::Gather(const Array& out, const Array& in, int root,
                                  std::optional<StreamRef> stream,
                                  CallSite site) {
  return Submit({collectives::Gather(out, in, root, site)}, stream, site);
}
absl::Status Communicator::Scatter(const Array& out, const Array& in, int root,
                                   std::optional<StreamRef> stream,
                                   CallSite site) {
  return Submit({collectives::Scatter(out, in, root, site)}, stream, site);
}
absl::Status Communicator::Send(const Array& x, int peer,
                                std::optional<StreamRef> stream,
                                CallSite site) {
  return Submit({collectives::Send(x, peer, site)}, stream, site);
}
absl::Status Communicator::Recv(const Array& x, int peer,
                                std::optional<StreamRef> stream,
                                CallSite site) {
  return Submit({collectives::Recv(x, peer, site)}, stream, site);
}

absl::Status Communicator::Wait(std::optional<StreamRef> stream,
                                absl::Time deadline, CallSite site) {
  if (comm_ == nullptr) return MovedFromError("Wait");
  return internal::WaitFor(comm_.get(), StreamOf(*comm_, stream), deadline,
                           site);
}

State Communicator::state() const {
  if (comm_ == nullptr) return State::kFinished;
  internal::PollForFailure(comm_.get()).IgnoreError();
  return comm_->state.load();
}

absl::Status Communicator::failure() const {
  if (comm_ == nullptr) return absl::OkStatus();
  return internal::PollForFailure(comm_.get());
}

absl::Status Communicator::Abort(std::string_view why, CallSite) {
  if (comm_ == nullptr) return MovedFromError("Abort");
  return internal::AbortComm(comm_.get(), why);
}

absl::Status Communicator::Barrier(absl::Time deadline, CallSite site) {
  return BarrierAll(absl::MakeConstSpan(this, 1), deadline, site);
}

absl::Status Communicator::BarrierAll(absl::Span<const Communicator> ranks,
                                      absl::Time deadline, CallSite site) {
  return internal::BarrierRanks(CommsOf(ranks), deadline, site);
}

absl::Status Communicator::BarrierAll(RankPointers ranks, absl::Time deadline,
                                      CallSite site) {
  return internal::BarrierRanks(CommsOf(ranks), deadline, site);
}

absl::StatusOr<std::optional<Communicator>> Communicator::Split(int color,
                                                                int key,
                                                                CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(
      std::vector<std::optional<Communicator>> made,
      SplitAll(absl::MakeConstSpan(this, 1), {color}, {key}, site));
  return std::move(made[0]);
}

absl::StatusOr<std::vector<std::optional<Communicator>>> Communicator::SplitAll(
    absl::Span<const Communicator> ranks, absl::Span<const int> colors,
    absl::Span<const int> keys, CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(
      CommVector comms,
      internal::SplitRanks(CommsOf(ranks), colors, keys, site));
  return WrapChildren(std::move(comms));
}

absl::StatusOr<std::vector<std::optional<Communicator>>> Communicator::SplitAll(
    RankPointers ranks, absl::Span<const int> colors,
    absl::Span<const int> keys, CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(
      CommVector comms,
      internal::SplitRanks(CommsOf(ranks), colors, keys, site));
  return WrapChildren(std::move(comms));
}

absl::StatusOr<Communicator> Communicator::Shrink(absl::Span<const int> gone,
                                                  CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(std::vector<Communicator> made,
                         ShrinkAll(absl::MakeConstSpan(this, 1), gone, site));
  return std::move(made[0]);
}

absl::StatusOr<std::vector<Communicator>> Communicator::ShrinkAll(
    absl::Span<const Communicator> ranks, absl::Span<const int> gone,
    CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(CommVector comms,
                         internal::ShrinkRanks(CommsOf(ranks), gone, site));
  return Wrap(std::move(comms));
}

absl::StatusOr<std::vector<Communicator>> Communicator::ShrinkAll(
    RankPointers ranks, absl::Span<const int> gone, CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(CommVector comms,
                         internal::ShrinkRanks(CommsOf(ranks), gone, site));
  return Wrap(std::move(comms));
}

absl::Status Communicator::Finish(absl::Time deadline, CallSite site) {
  return FinishAll(absl::MakeConstSpan(this, 1), deadline, site);
}

absl::Status Communicator::FinishAll(absl::Span<const Communicator> ranks,
                                     absl::Time deadline, CallSite) {
  return internal::FinishRanks(CommsOf(ranks), deadline);
}

absl::Status Communicator::FinishAll(RankPointers ranks, absl::Time deadline,
                                     CallSite) {
  return internal::FinishRanks(CommsOf(ranks), deadline);
}

absl::StatusOr<Registration> Communicator::Register(const Array& array) {
  if (comm_ == nullptr) return MovedFromError("Register");
  Comm* const comm = comm_.get();
  DEVRT_RETURN_IF_ERROR(internal::CheckNotForked(*comm));
  DEVRT_RETURN_IF_ERROR(internal::CheckRegistered(*comm, array));
  DEVRT_ASSIGN_OR_RETURN(const internal::Use use,
                         internal::Use::Begin({&comm, 1}));
  DEVRT_RETURN_IF_ERROR(internal::CheckReady(*comm));
  void* handle = nullptr;
  if (array.nbytes() > 0 && comm->provider.Has(DEVRT_COLLECTIVES_REGISTER)) {
    DEVRT_RETURN_IF_ERROR(comm->Take(comm->provider.table->buffer_register(
                                         comm->provider.self, comm->handle,
                                         array.data(), array.nbytes(), &handle),
                                     "buffer_register"));
  }
  return Registration(comm_, handle, array);
}

std::vector<RecordedCall> Communicator::Records() const {
  std::vector<RecordedCall> calls;
  if (comm_ == nullptr || !internal::CheckNotForked(*comm_).ok()) return calls;
  internal::PollForFailure(comm_.get()).IgnoreError();  // marks ends
  // A thread may submit, and the watch may mark ends.
  const MutexLock lock(&comm_->mutex);
  const internal::Ring& ring = *comm_->ring;
  const uint64_t last = ring.written();
  const uint64_t first =
      last > internal::kRecords ? last - internal::kRecords + 1 : 1;
  for (uint64_t number = first; number <= last; ++number) {
    const internal::CallRecord* const record = ring.Find(number);
    if (record == nullptr) continue;
    RecordedCall call;
    call.number = record->number;
    call.sequence = record->sequence;
    call.kind = static_cast<OpKind>(record->op);
    call.text = internal::CallText(record->op, record->dtype, record->count,
                                   record->reduction, record->root_or_peer);
    call.stream = record->stream;
    call.submit_ns = record->submit_ns;
    call.end_ns = record->end_ns;
    call.file = ring.Name(record->file);
    call.line = static_cast<int>(record->line);
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace devrt::collectives
