// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/submit.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/container/flat_hash_map.h"
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
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

using devrt::internal::JointPart;
using devrt::internal::Touched;
using devrt::internal::UsedRange;

// Most submissions are of one operation, and allocate nothing for it.
using Orders = absl::InlinedVector<DeviceOrder*, 1>;

// The operations of one communicator on one stream.
struct Part {
  Part(Comm* c, StreamRef s) : comm(c), stream(s) {}
  Comm* comm;
  StreamRef stream;
  absl::InlinedVector<devrt_collective_v0, 1> ops;
  // Of the submitted operations: the first, and the newest one, to link the
  // next.
  size_t first = 0;
  size_t newest = 0;
  absl::InlinedVector<Touched, 2> touched;
  absl::InlinedVector<UsedRange, 2> ranges;
  std::optional<CaptureNumber> capture;  // if it is known
  OrderPoints after;
  Comm::Pending* recorded = nullptr;
};

class Submission {
 public:
  explicit Submission(absl::Span<SubmittedOperation> operations)
      : operations_(operations) {}

  absl::Status Run(CallSite site);

 private:
  absl::Status FindComms();
  void AddComm(Comm* comm) {
    comms_.push_back(comm);
    shares_device_ = shares_device_ || comm->options.shared_device;
    compares_ = compares_ || comm->bootstrap != nullptr;
  }
  absl::Status Check();
  absl::StatusOr<std::vector<Comm*>> Comparing() const;
  Signature SignatureOf(const Comm* comm) const;
  absl::Status Compare(const absl::Status& checked);
  absl::Status CheckOne(size_t index);
  absl::Status PartOf(const SubmittedOperation& submitted, Part** part);
  Orders OrdersOf() const;
  std::vector<devrt_call_site_v0> Sites() const;
  absl::Status Enqueue(CallSite site);
  void Record();
  void Withdraw();
  void Note(absl::Span<DeviceOrder* const> orders,
            absl::Span<const JointPart> joint, bool kept_lock);

  const absl::Span<SubmittedOperation> operations_;
  absl::InlinedVector<Comm*, 1> comms_;  // each once
  bool shares_device_ = false;           // one of them does, perhaps
  bool compares_ = false;                // one of them does: check_signatures
  absl::InlinedVector<Part, 1> parts_;
  // The last part of each; without the first, and so empty for one alone.
  absl::flat_hash_map<const Comm*, size_t> newest_;
  size_t newest_of_first_ = SIZE_MAX;
  size_t newest_part_ = SIZE_MAX;  // the part of the operation before
};

void LockAll(absl::Span<DeviceOrder* const> orders) {
  for (DeviceOrder* const order : orders) order->Lock();
}
void UnlockAll(absl::Span<DeviceOrder* const> orders) {
  for (DeviceOrder* const order : orders) order->Unlock();
}

// The communicators, of one engine.
absl::Status Submission::FindComms() {
  for (const SubmittedOperation& submitted : operations_) {
    Comm* const comm = submitted.comm;
    if (comm == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          ToString(submitted.operation->kind()),
          ": the communicator was moved from: use the one it was moved to"));
    }
    if (comms_.empty()) AddComm(comm);
    if (comm == comms_[0]) continue;
    if (newest_.try_emplace(comm, SIZE_MAX).second) AddComm(comm);
    const Comm& first = *comms_[0];
    if (comm->provider.table == first.provider.table &&
        comm->provider.self == first.provider.self) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("a group has ", first.Text(), " of ", first.info.name,
                     " and ", comm->Text(), " of ", comm->info.name,
                     ": use a group for each engine"));
  }
  return absl::OkStatus();
}

absl::Status Submission::PartOf(const SubmittedOperation& submitted,
                                Part** part) {
  Comm* const comm = submitted.comm;
  const StreamRef stream = StreamOf(submitted);
  if (newest_part_ != SIZE_MAX && parts_[newest_part_].comm == comm &&
      parts_[newest_part_].stream == stream) {
    *part = &parts_[newest_part_];
    return absl::OkStatus();
  }
  size_t& newest = comm == comms_[0] ? newest_of_first_ : newest_[comm];
  newest_part_ = newest;
  if (newest != SIZE_MAX && parts_[newest].stream == stream) {
    *part = &parts_[newest];
    return absl::OkStatus();
  }
  std::optional<CaptureNumber> capture;
  DEVRT_RETURN_IF_ERROR(CheckStream(submitted, stream, &capture));
  newest_part_ = newest = parts_.size();
  *part = &parts_.emplace_back(comm, stream);
  (*part)->capture = capture;
  if (newest == 0) {  // most often the only part
    const size_t count = operations_.size();
    (*part)->ops.reserve(count);
    if (submitted.operation->has_arrays()) {
      (*part)->touched.reserve(2 * count);
    } else {
      (*part)->ranges.reserve(2 * count);
    }
  }
  return absl::OkStatus();
}

absl::Status Submission::CheckOne(size_t index) {
  const SubmittedOperation& submitted = operations_[index];
  Part* part = nullptr;
  DEVRT_RETURN_IF_ERROR(PartOf(submitted, &part));
  CheckedOperation checked;
  DEVRT_RETURN_IF_ERROR(
      CheckOperation(submitted.comm, *submitted.operation, &checked));
  part->ops.push_back(checked.op);
  if (part->ops.size() == 1) {
    part->first = index;
  } else {
    operations_[part->newest].next = index;
  }
  part->newest = index;
  ForEachMemory(
      *submitted.operation, checked,
      [part](devrt::internal::Storage* storage, bool writes) {
        part->touched.push_back({storage, writes});
      },
      [part](const void* pointer, uint64_t bytes) {
        part->ranges.push_back({pointer, bytes});
      });
  return absl::OkStatus();
}

absl::Status Submission::Check() {
  for (const Comm* const comm : comms_) {
    DEVRT_RETURN_IF_ERROR(CheckReady(*comm));
  }
  for (size_t i = 0; i < operations_.size(); ++i) {
    const absl::Status status = CheckOne(i);
    if (status.ok() || operations_.size() == 1) {
      DEVRT_RETURN_IF_ERROR(status);
      continue;
    }
    absl::Status named(
        status.code(),
        absl::StrCat("operation ", i, " of a group: ", status.message()));
    // By a payload IsCaptureError knows its error.
    status.ForEachPayload([&named](absl::string_view url, const absl::Cord& c) {
      named.SetPayload(url, c);
    });
    return named;
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
    for (size_t k = 0; part.comm == comm && k < part.ops.size(); ++k) {
      const devrt_collective_v0& op = part.ops[k];
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
                     absl::StrCat("the ranks could not compare their calls: ",
                                  status.message())));
      if (result.ok()) result = CheckReady(*comm);
    }
    if (result.ok()) result = status;
  }
  return result;
}

// The orders of the devices, in one order for all threads.
Orders Submission::OrdersOf() const {
  Orders orders;
  for (const Comm* const comm : comms_) {
    if (comm->takes_part) orders.push_back(comm->order);
  }
  if (orders.size() < 2) return orders;
  std::sort(orders.begin(), orders.end(), std::less<>());
  orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
  return orders;
}

// Before the engine's submit, which may hang.
void Submission::Record() {
  for (Part& part : parts_) {
    size_t next = part.first;
    part.recorded = RecordCalls(part.comm, part.ops, part.stream, [&] {
      const SubmittedOperation& submitted = operations_[next];
      next = submitted.next;
      return submitted.operation->site();
    });
  }
}

// The calls were refused, and their communicators are as before.
void Submission::Withdraw() {
  for (const Part& part : parts_) WithdrawCalls(part.comm, part.ops);
}

void Submission::Note(absl::Span<DeviceOrder* const> orders,
                      absl::Span<const JointPart> joint, bool kept_lock) {
  for (Comm* const comm : comms_) comm->last.clear();
  const Submitting submitting(comms_, &newest_);
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
    for (size_t k = 0; k < part.ops.size(); ++k) {
      const CallSite site = operations_[at].operation->site();
      sites.push_back({site.file, site.line, 0, nullptr});
      at = operations_[at].next;
    }
  }
  return sites;
}

absl::Status Submission::Enqueue(CallSite site) {
  const Orders orders = OrdersOf();
  // Ranks that share a device may wait for each other (device_order.h).
  const bool keeps_lock = !shares_device_;
  bool is_locked = true;
  bool is_recorded = false;
  LockAll(orders);
  absl::InlinedVector<JointPart, 1> joint;
  absl::InlinedVector<devrt_submission_v0, 1> submissions;
  for (Part& part : parts_) {
    AddBefore(*part.comm, part.stream, &part.after);
    joint.push_back(
        {part.stream, part.touched, part.ranges, part.after, part.capture});
    submissions.push_back(
        {sizeof(devrt_submission_v0), static_cast<uint32_t>(part.ops.size()),
         part.comm->handle, nullptr, part.ops.data(), nullptr});
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
        enqueued = AwaitEnqueued(comms_);
        return error;
      });
  // Not inside: the order's lock is taken before those of storages.
  if (!is_locked) LockAll(orders);
  if (status.ok()) Note(orders, joint, keeps_lock);
  UnlockAll(orders);
  if (!status.ok()) {
    status = Explain(comms_, status);
    // A refusal, unless a communicator has failed in the call.
    const bool is_clean = std::all_of(
        comms_.begin(), comms_.end(),
        [](const Comm* comm) { return comm->state.load() == State::kReady; });
    if (is_recorded && is_clean) Withdraw();
    return status;
  }
  return enqueued.ok() ? enqueued : Explain(comms_, enqueued);
}

absl::Status Submission::Run(CallSite site) {
  if (operations_.empty()) return absl::OkStatus();
  DEVRT_RETURN_IF_ERROR(FindComms());
  DEVRT_ASSIGN_OR_RETURN(const Use use, Use::Begin(comms_));
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
