// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/staging.h"

#include "absl/strings/str_cat.h"
#include "devrt/memory/pinned_memory.h"
#include "devrt/runtime/status.h"
#include "runtime/registry/outside_calls.h"
#include "runtime/registry/records.h"

namespace devrt::collectives::internal {
namespace {

using devrt::internal::TakeOutsideError;

uint64_t ElementSize(uint32_t dtype) { return (dtype & 0xff) / 8; }

}  // namespace

absl::StatusOr<OperandBytes> BytesOf(const devrt_collective_v0& op,
                                     uint32_t ranks, uint32_t rank) {
  const bool is_root = op.root_or_peer == static_cast<int32_t>(rank);
  uint64_t one = 0;
  uint64_t all = 0;
  if (__builtin_mul_overflow(op.count, ElementSize(op.dtype), &one) ||
      __builtin_mul_overflow(one, static_cast<uint64_t>(ranks), &all)) {
    return absl::InvalidArgumentError(
        absl::StrCat("count is ", op.count, ": ", ranks,
                     " parts of so many elements have more than 2^64 bytes"));
  }
  switch (op.op) {
    case DEVRT_COLLECTIVE_ALL_REDUCE:
      return OperandBytes{one, one};
    case DEVRT_COLLECTIVE_REDUCE:
      return OperandBytes{one, is_root ? one : 0};
    case DEVRT_COLLECTIVE_BROADCAST:
      return OperandBytes{is_root ? one : 0, one};
    case DEVRT_COLLECTIVE_ALL_GATHER:
      return OperandBytes{one, all};
    case DEVRT_COLLECTIVE_REDUCE_SCATTER:
      return OperandBytes{all, one};
    case DEVRT_COLLECTIVE_ALL_TO_ALL:
      return OperandBytes{all, all};
    case DEVRT_COLLECTIVE_GATHER:
      return OperandBytes{one, is_root ? all : 0};
    case DEVRT_COLLECTIVE_SCATTER:
      return OperandBytes{is_root ? all : 0, one};
    case DEVRT_COLLECTIVE_SEND:
      return OperandBytes{one, 0};
    case DEVRT_COLLECTIVE_RECV:
      return OperandBytes{0, one};
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "op is ", op.op, ", expected less than ", DEVRT_COLLECTIVE_COUNT));
  }
}

Staging::~Staging() {
  if (event_ != nullptr) {
    const auto* const record = device_.record();
    TakeOutsideError(device_, record->ops->event_destroy(record->self, event_),
                     "event_destroy")
        .IgnoreError();
  }
  for (void* const block : blocks_) FreePinned(block).IgnoreError();
}

absl::StatusOr<void*> Staging::NewBlock(uint64_t bytes) {
  DEVRT_ASSIGN_OR_RETURN(void* const block, AllocatePinned(device_, bytes));
  blocks_.push_back(block);
  return block;
}

absl::StatusOr<devrt_collective_v0> Staging::Add(devrt_stream stream,
                                                 const devrt_collective_v0& op,
                                                 uint32_t ranks,
                                                 uint32_t rank) {
  DEVRT_ASSIGN_OR_RETURN(const OperandBytes bytes, BytesOf(op, ranks, rank));
  devrt_collective_v0 on_host = op;
  on_host.src = nullptr;
  on_host.dst = nullptr;
  stream_ = stream;
  if (bytes.src != 0) {
    DEVRT_ASSIGN_OR_RETURN(void* const block, NewBlock(bytes.src));
    on_host.src = block;
    inputs_.push_back({block, const_cast<void*>(op.src), bytes.src});
  }
  if (bytes.dst != 0) {
    DEVRT_ASSIGN_OR_RETURN(on_host.dst, NewBlock(bytes.dst));
    outputs_.push_back({on_host.dst, op.dst, bytes.dst});
  }
  return on_host;
}

absl::Status Staging::Enqueue(const std::vector<Copy>& copies, bool to_host) {
  if (stream_ == nullptr) return absl::OkStatus();  // no operations
  const auto* const record = device_.record();
  if (event_ == nullptr) {
    DEVRT_RETURN_IF_ERROR(TakeOutsideError(
        device_,
        record->ops->event_create(record->self, record->ordinal, 0, &event_),
        "event_create"));
  }
  absl::Status status;
  for (const Copy& copy : copies) {
    if (!status.ok()) break;
    status = TakeOutsideError(
        device_,
        record->ops->copy_async(
            record->self, stream_, to_host ? copy.host : copy.device,
            to_host ? copy.device : copy.host, copy.bytes, DEVRT_COPY_INFER),
        "copy_async");
  }
  if (status.ok()) {
    status = TakeOutsideError(
        device_, record->ops->event_record(record->self, event_, stream_),
        "event_record");
  }
  if (status.ok()) return status;
  // The blocks must not be freed before the copies end.
  status.Update(TakeOutsideError(
      device_, record->ops->stream_sync(record->self, stream_), "stream_sync"));
  return status;
}

absl::Status Staging::Load() { return Enqueue(inputs_, /*to_host=*/true); }

absl::StatusOr<bool> Staging::IsLoaded() const {
  if (event_ == nullptr) return true;
  const auto* const record = device_.record();
  uint32_t done = 0;
  DEVRT_RETURN_IF_ERROR(TakeOutsideError(
      device_, record->ops->event_query(record->self, event_, &done),
      "event_query"));
  return done != 0;
}

absl::Status Staging::Store() {
  DEVRT_RETURN_IF_ERROR(Enqueue(outputs_, /*to_host=*/false));
  if (event_ == nullptr) return absl::OkStatus();
  const auto* const record = device_.record();
  return TakeOutsideError(
      device_, record->ops->event_sync(record->self, event_), "event_sync");
}

}  // namespace devrt::collectives::internal
