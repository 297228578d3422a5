// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/submit.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "arrays/storage/joint_step.h"
#include "collectives/core/comm.h"
#include "collectives/core/create.h"
#include "collectives/core/device_order.h"
#include "collectives/core/failure.h"
#include "collectives/core/operation_checks.h"
#include "collectives/core/signatures.h"
#include "collectives/core/submit_steps.h"
#include "collectives/room.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

using devrt::internal::JointPart;
using devrt::internal::Touched;
using devrt::internal::UsedRange;

using Orders = Room<DeviceOrder*>;

// The operations of one communicator on one stream.
struct Part {
  Comm* comm;
  StreamRef stream;
  // Of the submitted operations: the first, and the newest one, to link the
  // next.
  size_t first;
  size_t newest;
  // Where its operations begin in the list of all.  The lists of memory have
  // room for two places of each operation.
  size_t at;
  size_t count = 1;
  // How many are in the lists: those that were checked.
  size_t ops = 0;
  size_t touched = 0;
  size_t ranges = 0;
  size_t after_end = 0;  // of the points that all parts come after
  std::optional<CaptureNumber> capture = std::nullopt;  // if it is known
  Comm::Pending* recorded = nullptr;
};

class Submission {
 public:
  explicit Submission(absl::Span<SubmittedOperation> operations)
      : operations_(operations),
        comms_(operations.size()),
        parts_(operations.size()),
        ops_(operations.size()),
        touched_(2 * operations.size()),
        ranges_(2 * operations.size()) {}
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;
  ~Submission();

  absl::Status Run(CallSite site);

 private:
  absl::Status Hold(Comm* comm);
  absl::Status FindParts();
  absl::Status Check();
  absl::StatusOr<std::vector<Comm*>> Comparing() const;
  Signature SignatureOf(const Comm* comm) const;
  absl::Status Compare(const absl::Status& checked);
  absl::Status CheckOne(const SubmittedOperation& submitted);
  void FindOrders(Orders* orders) const;
  std::vector<devrt_call_site_v0> Sites() const;
  absl::Status Enqueue(CallSite site);
  void Record();
  void Withdraw();
  void Note(absl::Span<DeviceOrder* const> orders,
            absl::Span<const JointPart> joint, bool kept_lock);
  absl::Span<const devrt_collective_v0> OpsOf(const Part& part) const {
    return {ops_.data() + part.at, part.ops};
  }

  const absl::Span<SubmittedOperation> operations_;
  Room<Comm*> comms_;  // each once; their `in_use` is this thread's
  bool are_ready_ = true;
  bool shares_device_ = false;  // one of them does, perhaps
  bool compares_ = false;       // one of them does: check_signatures
  Room<Part> parts_;
  // Of all parts, one part behind another:
  Room<devrt_collective_v0> ops_;
  Room<Touched, 2 * kFewDevices> touched_;
  Room<UsedRange, 2 * kFewDevices> ranges_;
};

void LockAll(absl::Span<DeviceOrder* const> orders) {
  for (DeviceOrder* const order : orders) order->Lock();
}
void UnlockAll(absl::Span<DeviceOrder* const> orders) {
  for (DeviceOrder* const order : orders) order->Unlock();
}

[[gnu::cold]] absl::Status MovedFromError(const Operation& operation) {
  return absl::InvalidArgumentError(absl::StrCat(
      ToString(operation.kind()),
      ": the communicator was moved from: use the one it was moved to"));
}

[[gnu::cold]] absl::Status EnginesError(const Comm& first, const Comm& other) {
  return absl::InvalidArgumentError(absl::StrCat(
      "a group has ", first.Text(), " of ", first.info.name, " and ",
      other.Text(), " of ", other.info.name, ": use a group for each engine"));
}

// Holds the communicator for this thread.  All are of one engine.
absl::Status Submission::Hold(Comm* comm) {
  if (ABSL_PREDICT_FALSE(comm->in_use.exchange(true))) return InUseError(*comm);
  comm->submission.store(this, std::memory_order_relaxed);
  comm->newest_part = SIZE_MAX;
  comms_.Add(comm);
  are_ready_ = are_ready_ && IsReady(*comm);
  shares_device_ = shares_device_ || comm->options.shared_device;
  compares_ = compares_ || comm->bootstrap != nullptr;
  const Provider& first = comms_[0]->provider;
  return ABSL_PREDICT_TRUE(comm->provider.table == first.table &&
                           comm->provider.self == first.self)
             ? absl::OkStatus()
             : EnginesError(*comms_[0], *comm);
}

Submission::~Submission() {
  for (Comm* const comm : comms_) {
    comm->submission.store(nullptr, std::memory_order_relaxed);
    comm->in_use.store(false, std::memory_order_release);
  }
}

absl::Status Submission::FindParts() {
  bool is_mixed = false;  // a part has operations behind those of others
  for (size_t i = 0; i < operations_.size(); ++i) {
    SubmittedOperation& submitted = operations_[i];
    Comm* const comm = submitted.comm;
    if (comm == nullptr) return MovedFromError(*submitted.operation);
    if (comm->submission.load(std::memory_order_relaxed) != this) {
      DEVRT_RETURN_IF_ERROR(Hold(comm));
    }
    const StreamRef stream = StreamOf(submitted);
    submitted.part = comm->newest_part;
    if (submitted.part != SIZE_MAX && parts_[submitted.part].stream == stream) {
      Part& part = parts_[submitted.part];
      ++part.count;
      is_mixed = is_mixed || part.newest + 1 != i;
      operations_[part.newest].next = i;
      part.newest = i;
      continue;
    }
    submitted.part = comm->newest_part = parts_.size();
    parts_.Add(comm, stream, i, i, i);
  }
  size_t at = 0;
  for (size_t p = 0; is_mixed && p < parts_.size(); ++p) {
    parts_[p].at = at;
    at += parts_[p].count;
  }
  return absl::OkStatus();
}

absl::Status Submission::CheckOne(const SubmittedOperation& submitted) {
  Part& part = parts_[submitted.part];
  if (part.ops == 0) {
    DEVRT_RETURN_IF_ERROR(CheckStream(submitted, part.stream, &part.capture));
  }
  CheckedOperation checked;
  DEVRT_RETURN_IF_ERROR(
      CheckOperation(submitted.comm, *submitted.operation, &checked));
  ops_.Put(part.at + part.ops++, checked.op);
  ForEachMemory(
      *submitted.operation, checked,
      [&](devrt::internal::Storage* storage, bool writes) {
        touched_.Put(2 * part.at + part.touched++, {storage, writes});
      },
      [&](const void* pointer, uint64_t bytes) {
        ranges_.Put(2 * part.at + part.ranges++, {pointer, bytes});
      });
  return absl::OkStatus();
}

[[gnu::cold]] absl::Status OperationError(size_t index,
                                          const absl::Status& error) {
  absl::Status named(
      error.code(),
      absl::StrCat("operation ", index, " of a group: ", error.message()));
  // By a payload IsCaptureError knows its error.
  error.ForEachPayload([&named](absl::string_view url, const absl::Cord& c) {
    named.SetPayload(url, c);
  });
  return named;
}

absl::Status Submission::Check() {
  for (size_t i = 0; !are_ready_ && i < comms_.size(); ++i) {
    DEVRT_RETURN_IF_ERROR(CheckReady(*comms_[i]));
  }
  for (size_t i = 0; i < operations_.size(); ++i) {
    absl::Status status = CheckOne(operations_[i]);
    if (ABSL_PREDICT_TRUE(status.ok())) continue;
    return operations_.size() == 1 ? status : OperationError(i, status);
  }
  return absl::OkStatus();
}

// The communicators whose ranks compare the collectives of this submission, in
// one order on all ranks.  Only the ranks of a send or a receive submit it.
absl::StatusOr<std::vector<Comm*>> Submission::Comparing() const {
  std::vector<Comm*> comparing;
  for (Comm* const comm : comms_) {
    if (comm->bootstrap == nullptr || !CheckReady(*comm).ok()) continue;
    const bool has_any = std::any_of(
        operations_.begin(), operations_.end(), [comm](const auto& submitted) {
          return submitted.comm == comm && MeetsAll(*submitted.operation);
        });
    if (has_any) comparing.push_back(comm);
  }
  std::sort(comparing.begin(), comparing.end(),
            [](const Comm* a, const Comm* b) { return a->key < b->key; });
  for (size_t i = 1; i < comparing.size(); ++i) {
    if (comparing[i]->key != comparing[i - 1]->key) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a group has ", comparing[i - 1]->Text(), " and ", comparing[i]->Text(),
        ": with check_signatures each rank needs a thread of its own"));
  }
  return comparing;
}

Signature Submission::SignatureOf(const Comm* comm) const {
  Signature signature;
  for (const Part& part : parts_) {
    size_t at = part.first;
    if (part.comm != comm) continue;
    for (const devrt_collective_v0& op : OpsOf(part)) {
      const CallSite site = operations_[at].operation->site();
      at = operations_[at].next;
      if (!MeetsAll(op)) continue;
      signature.collectives.push_back(
          {CallText(op.op, op.dtype, op.count, op.reduction, op.root_or_peer),
           site.file == nullptr ? std::string()
                                : absl::StrCat(site.file, ":", site.line)});
    }
  }
  return signature;
}

// check_signatures.  `checked`: why this rank submits nothing, which it tells
// the others, since they wait for it.
absl::Status Submission::Compare(const absl::Status& checked) {
  DEVRT_ASSIGN_OR_RETURN(const std::vector<Comm*> comparing, Comparing());
  absl::Status result = checked;
  for (Comm* const comm : comparing) {
    Signature mine = SignatureOf(comm);
    if (!result.ok()) mine.refusal = StatusText(result);
    const absl::Status status = CompareSignatures(*comm, mine);
    if (!status.ok() && !absl::IsInvalidArgument(status)) {
      Fail(comm, absl::Status(
                     status.code(),
                     absl::StrCat("the ranks could not compare their calls at ",
                                  comm->sequence + 1, ": ", status.message())));
      if (result.ok()) result = CheckReady(*comm);
    }
    if (result.ok()) result = status;
  }
  return result;
}

// The orders of the devices, each once, in one order for all threads.
void Submission::FindOrders(Orders* orders) const {
  bool is_sorted = true;
  for (Comm* const comm : comms_) {
    if (!comm->takes_part) continue;
    is_sorted = is_sorted &&
                (orders->size() == 0 ||
                 std::less<>()((*orders)[orders->size() - 1], comm->order));
    orders->Add(comm->order);
  }
  if (is_sorted) return;
  if (orders->size() == 2 && (*orders)[0] != (*orders)[1]) {
    std::swap((*orders)[0], (*orders)[1]);
    return;
  }
  std::sort(orders->begin(), orders->end(), std::less<>());
  DeviceOrder** const end = std::unique(orders->begin(), orders->end());
  orders->Truncate(static_cast<size_t>(end - orders->begin()));
}

// Before the engine's submit, which may hang.
void Submission::Record() {
  const uint64_t now_ns = NowNs();
  for (Part& part : parts_) {
    size_t next = part.first;
    part.recorded =
        RecordCalls(part.comm, OpsOf(part), part.stream, now_ns, [&] {
          const SubmittedOperation& submitted = operations_[next];
          next = submitted.next;
          return submitted.operation->site();
        });
  }
}

// The calls were refused.  A communicator that has failed in the call keeps
// them, for reports; the others are as before.
void Submission::Withdraw() {
  const auto is_ready = [](const Comm* comm) {
    return comm->state.load() == State::kReady;
  };
  // One of them explains the error.  The engine may have failed others too.
  const bool has_failed = !std::all_of(comms_.begin(), comms_.end(), is_ready);
  for (Comm* const comm : comms_) {
    if (has_failed && HasFailed(comm)) continue;
    for (const Part& part : parts_) {
      if (part.comm == comm) WithdrawCalls(comm, OpsOf(part));
    }
  }
}

void Submission::Note(absl::Span<DeviceOrder* const> orders,
                      absl::Span<const JointPart> joint, bool kept_lock) {
  const size_t count = comms_.size();
  if (kept_lock && parts_.size() == count && orders.size() == count) {
    // One part of each communicator, and one communicator of each device.
    for (size_t i = 0; i < count; ++i) {
      Comm* const comm = parts_[i].comm;
      NoteLast(comm, joint[i].end);
      NoteEnd(parts_[i].recorded, joint[i].end);
      comm->order->NoteOne(comm, joint[i].end);
    }
    return;
  }
  for (Comm* const comm : comms_) comm->last.clear();
  const Submitting submitting(comms_);
  for (DeviceOrder* const order : orders) order->Begin(submitting, kept_lock);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    Comm* const comm = part.comm;
    const OrderPoint end = joint[i].end;
    comm->last.push_back(end);
    if (comm->takes_part) {
      comm->order->Add(*comm, end);
      NoteEnd(part.recorded, end);
    } else {
      NoteEndOrReturn(comm, part.recorded, end);
    }
  }
}

// The places of the operations in the order of the parts, for an engine that
// tells them in its reports.
ABSL_ATTRIBUTE_NOINLINE std::vector<devrt_call_site_v0> Submission::Sites()
    const {
  std::vector<devrt_call_site_v0> sites;
  sites.reserve(operations_.size());
  for (const Part& part : parts_) {
    size_t at = part.first;
    for (size_t k = 0; k < part.ops; ++k) {
      const CallSite site = operations_[at].operation->site();
      sites.push_back({site.file, site.line, 0, nullptr});
      at = operations_[at].next;
    }
  }
  return sites;
}

absl::Status Submission::Enqueue(CallSite site) {
  Orders orders(comms_.size());
  FindOrders(&orders);
  // Ranks that share a device may wait for each other (device_order.h).
  const bool keeps_lock = !shares_device_;
  bool is_locked = true;
  bool is_recorded = false;
  LockAll(orders);
  Room<JointPart> joint(parts_.size());
  Room<devrt_submission_v0> submissions(parts_.size());
  OrderPoints after;
  for (Part& part : parts_) {
    AddBefore(*part.comm, part.stream, &after);
    part.after_end = after.size();
  }
  size_t after_at = 0;
  for (const Part& part : parts_) {
    const size_t count = part.after_end - after_at;
    joint.Add(
        part.stream,
        absl::Span<const Touched>(touched_.data() + 2 * part.at, part.touched),
        absl::Span<const UsedRange>(ranges_.data() + 2 * part.at, part.ranges),
        absl::Span<const OrderPoint>(after.data() + after_at, count),
        part.capture);
    after_at = part.after_end;
    submissions.Add(uint32_t{sizeof(devrt_submission_v0)},
                    static_cast<uint32_t>(part.ops), part.comm->handle, nullptr,
                    ops_.data() + part.at, nullptr);
  }
  const Provider& provider = comms_[0]->provider;
  std::vector<devrt_call_site_v0> sites;
  if (provider.is_of_backend) {
    sites = Sites();
    const devrt_call_site_v0* next = sites.data();
    for (devrt_submission_v0& submission : submissions) {
      submission.sites = next;
      next += submission.op_count;
    }
  }
  absl::Status enqueued;
  absl::Status status = devrt::internal::RunJointly(
      absl::MakeSpan(joint), ToString(operations_[0].operation->kind()), site,
      [&](absl::Span<const JointPart> ordered) {
        for (size_t i = 0; i < ordered.size(); ++i) {
          submissions[i].stream = ordered[i].handle;
        }
        Record();
        is_recorded = true;
        const devrt_status error =
            provider.table->submit(provider.self, submissions.data(),
                                   static_cast<uint32_t>(submissions.size()));
        if (error != nullptr) return error;
        if (!keeps_lock) {
          UnlockAll(orders);
          is_locked = false;
        }
        if (!std::all_of(comms_.begin(), comms_.end(),
                         [](const Comm* comm) { return IsEnqueued(*comm); })) {
          enqueued = AwaitEnqueued(comms_);
        }
        return error;
      });
  // Not inside: the order's lock is taken before those of storages.
  if (!is_locked) LockAll(orders);
  if (status.ok()) Note(orders, joint, keeps_lock);
  UnlockAll(orders);
  if (!status.ok()) {
    status = Explain(comms_, status);
    if (is_recorded) Withdraw();
    return status;
  }
  return enqueued.ok() ? enqueued : Explain(comms_, enqueued);
}

absl::Status Submission::Run(CallSite site) {
  if (operations_.empty()) return absl::OkStatus();
  DEVRT_RETURN_IF_ERROR(FindParts());
  absl::Status checked = Check();
  if (compares_) checked = Compare(checked);
  DEVRT_RETURN_IF_ERROR(checked);
  return Enqueue(site);
}

// Not inline: one operation needs none of the lists.
ABSL_ATTRIBUTE_NOINLINE absl::Status SubmitSeveral(
    absl::Span<SubmittedOperation> operations, CallSite site) {
  return Submission(operations).Run(site);
}

}  // namespace

absl::Status SubmitTogether(absl::Span<SubmittedOperation> operations,
                            CallSite site) {
  if (operations.size() == 1) {
    const Comm* const comm = operations[0].comm;
    if (comm != nullptr && MaySubmitOne(*comm)) {
      return SubmitOne(operations[0]);
    }
  }
  return SubmitSeveral(operations, site);
}

}  // namespace devrt::collectives::internal
