// SPDX-License-Identifier: Apache-2.0
//
// ToDLPack of dlpack.h, by the tables of E49 to E51.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/core/array_checks.h"
#include "arrays/exchange/consumer_stream.h"
#include "arrays/exchange/dlpack_block.h"
#include "arrays/exchange/dlpack_devices.h"
#include "arrays/exchange/exchange_error.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/copy.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/runtime/status.h"
#include "streams/common/deferred_deletion.h"

namespace devrt {

namespace {

using internal::BufferError;
using internal::Consumer;
using internal::DLPackBlock;
using internal::PairText;
using internal::SameDevice;

constexpr DLDevice kHostDevice = {kDLCPU, 0};

// What the export gives, and to which consumer.
struct Plan {
  DLDevice device;
  Consumer consumer;
  // Given in the place of the array.  A pointer, because it is mostly null and
  // an optional would cost the clearing of its memory.
  std::unique_ptr<const Array> copy;

  const Array& ArrayOr(const Array& own) const {
    return copy != nullptr ? *copy : own;
  }
};

absl::Status CopyRequired(const Place& place, DLDevice wanted) {
  return internal::CopyRequiredError(absl::StrCat(
      "memory of ", place.name(), " can be given to DLPack device ",
      PairText(wanted), " only as a copy, and copy is false"));
}

// Turns an error of a capture into kBuffer: the memory can be shared, but not
// now (E44, E45).
absl::Status OfCapture(absl::Status status, const Array& array,
                       const Place& place, const Consumer& consumer) {
  if (!absl::IsFailedPrecondition(status)) return status;
  const auto captures = [](const Place& at) {
    return at.device().has_value() &&
           internal::RecordsGraph(internal::CurrentStreamOf(at));
  };
  if (captures(array.place()) || captures(place) ||
      (consumer.stream.has_value() &&
       internal::RecordsGraph(*consumer.stream)) ||
      !array.storage()->CheckMayWait().ok()) {
    return BufferError(std::string(status.message()));
  }
  return status;
}

// Gives a copy, made on the consumer's stream or on the current one.
absl::StatusOr<Plan> Copied(const Array& array, const Place& target,
                            Consumer consumer, CallSite site) {
  // devrt allocates no managed memory.
  const Place place =
      target.kind() == MemoryKind::kManaged ? Place(*target.device()) : target;
  absl::StatusOr<Array> copy =
      Array::Empty(array.shape(), array.dtype(), place, site);
  if (!copy.ok()) return OfCapture(copy.status(), array, place, consumer);
  CopyOptions options;
  options.non_blocking = consumer.order != Consumer::Order::kHostWait;
  // The host makes copies outside device memory, without a stream.
  if (place.kind() == MemoryKind::kDevice) options.stream = consumer.stream;
  if (absl::Status copied = CopyArray(*copy, array, options, site);
      !copied.ok()) {
    return OfCapture(std::move(copied), array, place, consumer);
  }
  return Plan{DLPackDevice(place), std::move(consumer),
              std::make_unique<const Array>(*std::move(copy))};
}

// For (1, 0): no copy if the host can read the memory.
absl::StatusOr<Plan> ToHost(const Array& array, std::optional<bool> copy,
                            CallSite site) {
  Consumer host;
  host.order = Consumer::Order::kHostWait;
  if (!copy.value_or(false) && internal::IsHostReadable(array)) {
    return Plan{kHostDevice, std::move(host), nullptr};
  }
  if (copy.has_value() && !*copy) {
    return CopyRequired(array.place(), kHostDevice);
  }
  // Fails before anything is enqueued (E44).
  DEVRT_RETURN_IF_ERROR(internal::WaitForHost(array, site));
  return Copied(array, Place::Host(), std::move(host), site);
}

// For another device of the backend, on a stream of that device.
absl::StatusOr<Plan> ToPeer(const Array& array, const DLPackExport& options,
                            DLDevice wanted, CallSite site) {
  const Device own = *array.place().device();
  const absl::StatusOr<Device> peer =
      GetDevice(own.backend().name(), wanted.device_id);
  if (!peer.ok()) {
    return BufferError(absl::StrCat("DLPack device ", PairText(wanted), ": ",
                                    peer.status().message()));
  }
  if (options.copy.has_value() && !*options.copy) {
    return CopyRequired(array.place(), wanted);
  }
  DEVRT_ASSIGN_OR_RETURN(
      Consumer consumer,
      internal::ResolveConsumer(Place(*peer), wanted, options.stream,
                                array.home_stream()));
  return Copied(array, Place(*peer), std::move(consumer), site);
}

absl::StatusOr<Plan> MakePlan(const Array& array, const DLPackExport& options,
                              CallSite site) {
  const Place place = array.place();
  const DLDevice own = DLPackDevice(place);
  const DLDevice wanted = options.dl_device.value_or(own);
  const bool is_own = SameDevice(wanted, own);
  if (!is_own && !SameDevice(wanted, kHostDevice)) {
    if (place.kind() == MemoryKind::kDevice &&
        wanted.device_type == own.device_type) {
      return ToPeer(array, options, wanted, site);
    }
    return BufferError(absl::StrCat(
        "memory of ", place.name(), ", DLPack device ", PairText(own),
        ", cannot be given to ", PairText(wanted),
        ": possible are its own, (1, 0), and devices of its own type"));
  }
  DEVRT_ASSIGN_OR_RETURN(Consumer consumer,
                         internal::ResolveConsumer(place, own, options.stream,
                                                   array.home_stream()));
  if (!is_own) return ToHost(array, options.copy, site);
  if (options.copy.value_or(false)) {
    return Copied(array, place, std::move(consumer), site);
  }
  return Plan{own, std::move(consumer), nullptr};
}

absl::StatusOr<DLPackBlock*> Export(const Array& array,
                                    const DLPackExport& options, bool versioned,
                                    CallSite site) {
  DEVRT_RETURN_IF_ERROR(
      internal::CheckNotMovedFrom(array.storage(), "DLPack export"));
  if (internal::HasDeferredArrayReleases())
    internal::RunDeferredArrayReleases();
  DEVRT_ASSIGN_OR_RETURN(const Plan plan, MakePlan(array, options, site));
  const Array& given = plan.ArrayOr(array);
  const bool read_only = given.read_only();
  DEVRT_RETURN_IF_ERROR(DLPackBlock::CheckLayout(given));
  if (!versioned && read_only) {
    return BufferError(
        "a read-only array cannot be exported without a version, which cannot "
        "say so: ask for max_version (1, 0) or more, or for a copy");
  }
  DEVRT_RETURN_IF_ERROR(internal::OrderConsumer(given, plan.consumer, site));
  uint64_t flags = 0;
  if (plan.copy != nullptr) flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
  if (read_only) flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  DLPackBlock* const block = DLPackBlock::New(given, plan.device, flags);
  const Consumer& consumer = plan.consumer;
  if (consumer.order == Consumer::Order::kStream) {
    // A stream that may be destroyed later is not touched again (E8).
    const bool known = !consumer.adopted.has_value();
    block->SetUser(known ? consumer.stream : std::nullopt, !read_only);
  }
  return block;
}

}  // namespace

absl::StatusOr<DLManagedTensorVersioned*> ToDLPack(const Array& array,
                                                   const DLPackExport& options,
                                                   CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(DLPackBlock* const block,
                         Export(array, options, true, site));
  return block->versioned();
}

absl::StatusOr<DLManagedTensor*> ToDLPackLegacy(const Array& array,
                                                const DLPackExport& options,
                                                CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(DLPackBlock* const block,
                         Export(array, options, false, site));
  return block->legacy();
}

}  // namespace devrt
