// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/device_memory.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/memory/settings.h"
#include "memory/api/captured_blocks.h"
#include "memory/common/settings_state.h"
#include "memory/device/address_map.h"
#include "memory/device/device_allocator.h"
#include "memory/device/out_of_memory_callbacks.h"
#include "memory/device/use_notes.h"
#include "memory/resource/block_owners.h"
#include "memory/resource/chosen_resource.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/raw_memory/out_of_memory.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"
#include "streams/objects/stream_record.h"

namespace devrt {
namespace {

using internal::AddressMap;
using internal::BlockOwners;
using internal::DeviceAllocator;
using internal::DeviceRecord;
using internal::Segment;
using internal::StreamRecord;

// Requests with errors, of zero or too many bytes, or for another resource.
ABSL_ATTRIBUTE_NOINLINE absl::StatusOr<void*> AllocateFromResource(
    StreamRef stream, uint64_t bytes, CallSite site) {
  DEVRT_RETURN_IF_ERROR(internal::CheckStream(stream, "AllocateMemory"));
  DeviceRecord* device = stream.record()->device;
  DEVRT_RETURN_IF_ERROR(
      internal::CheckRequest(device, bytes, 0, "AllocateMemory"));
  if (bytes == 0) return nullptr;
  return internal::ResourceForRequest(Device(device))
      ->Allocate(stream, bytes, 0, site);
}

ABSL_ATTRIBUTE_NOINLINE absl::Status UnknownPointerError(const void* pointer,
                                                         const char* call) {
  return absl::InvalidArgumentError(
      absl::StrCat(call, " needs memory from AllocateMemory, but ",
                   internal::DescribePointer(pointer)));
}

absl::Status FreeInOrder(void* pointer, const StreamRef* stream,
                         CallSite site) {
  if (ABSL_PREDICT_FALSE(!internal::IsProcessOpen())) {
    return internal::ProcessClosedError();
  }
  if (ABSL_PREDICT_FALSE(internal::InHostFunction())) {
    return internal::HostFunctionError("FreeMemory");
  }
  if (ABSL_PREDICT_FALSE(internal::HasCapturedBlocks())) {
    std::optional<absl::Status> freed =
        internal::FreeCapturedBlock(pointer, stream, site);
    if (freed.has_value()) return *std::move(freed);
  }
  Segment* segment = AddressMap::Get().Find(pointer);
  if (ABSL_PREDICT_TRUE(segment != nullptr && !BlockOwners::HasCached())) {
    return segment->allocator->Free(segment, pointer, stream, site);
  }
  if (pointer == nullptr) return absl::OkStatus();
  std::optional<absl::Status> freed =
      internal::FreeOwned(pointer, stream, site);
  if (freed.has_value()) return *std::move(freed);
  if (segment == nullptr) return UnknownPointerError(pointer, "FreeMemory");
  return segment->allocator->Free(segment, pointer, stream, site);
}

}  // namespace

absl::StatusOr<void*> AllocateMemory(StreamRef stream, uint64_t bytes,
                                     CallSite site) {
  StreamRecord* const record = stream.record();
  if (ABSL_PREDICT_FALSE(
          bytes - 1 >= internal::kTooManyBytes - 1 ||
          record->serial.load(std::memory_order_acquire) != stream.serial() ||
          internal::InHostFunction() ||
          record->device->allocator.load(std::memory_order_relaxed) ==
              nullptr ||
          record->device->has_resource.load(std::memory_order_relaxed) ||
          !internal::IsOpen(record->device))) {
    return AllocateFromResource(stream, bytes, site);
  }
  return DeviceAllocator::Of(record->device)
      ->Allocate({stream, bytes, 0, site});
}

absl::Status FreeMemory(void* pointer, CallSite site) {
  return FreeInOrder(pointer, nullptr, site);
}

absl::Status FreeMemory(void* pointer, StreamRef stream, CallSite site) {
  if (pointer == nullptr) return FreeInOrder(pointer, nullptr, site);
  if (stream.moved_from()) {
    return internal::UnusableStreamError(stream, "FreeMemory");
  }
  Segment* segment = AddressMap::Get().Find(pointer);
  if (segment != nullptr &&
      segment->allocator->device() != stream.record()->device) {
    return absl::InvalidArgumentError(absl::StrCat(
        "FreeMemory: a block of ",
        internal::DeviceName(segment->allocator->device()),
        " cannot be freed in the order of a stream of ",
        internal::DeviceName(stream.record()->device),
        ": leave the stream out, or order one of the block's device behind it "
        "by an event"));
  }
  return FreeInOrder(pointer, &stream, site);
}

absl::Status RecordStream(const void* pointer, StreamRef stream,
                          CallSite site) {
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("RecordStream");
  }
  DEVRT_RETURN_IF_ERROR(internal::CheckStream(stream, "RecordStream"));
  Segment* segment = AddressMap::Get().Find(pointer);
  if (segment == nullptr && pointer != nullptr) {
    // The end of a segment's last block (F17).
    segment = AddressMap::Get().Find(static_cast<const char*>(pointer) - 1);
  }
  if (segment == nullptr || BlockOwners::HasCached()) {
    std::optional<absl::Status> recorded =
        internal::RecordOwnedUse(pointer, stream, site);
    if (recorded.has_value()) return *std::move(recorded);
  }
  if (segment == nullptr) return UnknownPointerError(pointer, "RecordStream");
  return internal::RecordUse(segment, pointer, stream);
}

absl::Status EmptyCache(Device device) {
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("EmptyCache");
  }
  if (!internal::IsOpen(device.record())) {
    return internal::RefusedCallError(device.record(), "EmptyCache");
  }
  internal::RunDeferredCaptureEnds();
  absl::Status status = absl::OkStatus();
  for (DeviceAllocator* each :
       DeviceAllocator::Of(device.record())->family().Members()) {
    status.Update(each->EmptyCache());
  }
  return status;
}

absl::Status SetMemoryFraction(Device device, double fraction) {
  if (!internal::IsOpen(device.record())) {
    return internal::RefusedCallError(device.record(), "SetMemoryFraction");
  }
  return DeviceAllocator::Of(device.record())
      ->family()
      .budget()
      ->SetFraction(fraction);
}

double GetMemoryFraction(Device device) {
  DeviceAllocator* const allocator =
      device.record()->allocator.load(std::memory_order_acquire);
  return allocator != nullptr
             ? allocator->family().budget()->fraction()
             : GetAllocatorSettings().per_process_memory_fraction;
}

absl::StatusOr<uint64_t> AddOutOfMemoryCallback(OutOfMemoryCallback callback) {
  if (internal::IsForkedChild()) return 0;
  if (callback == nullptr) {
    return absl::InvalidArgumentError(
        "AddOutOfMemoryCallback: the callback is empty: pass a function that "
        "frees what the program can spare");
  }
  return internal::OutOfMemoryCallbacks::Get().Add(std::move(callback));
}

void RemoveOutOfMemoryCallback(uint64_t id) {
  if (internal::IsForkedChild()) return;
  internal::OutOfMemoryCallbacks::Get().Remove(id);
}

}  // namespace devrt
