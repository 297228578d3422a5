// SPDX-License-Identifier: Apache-2.0

#include "arrays/exchange/consumer_stream.h"

#include <atomic>
#include <string>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "arrays/exchange/dlpack_devices.h"
#include "arrays/exchange/exchange_error.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/exchange.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "streams/objects/native_streams.h"

namespace devrt::internal {

namespace {

// A row of the table of E49.
enum class Row { kHost, kCuda, kHip, kOther };

Row RowOf(const Place& place, DLDevice pair) {
  if (pair.device_type == kDLCPU) return Row::kHost;
  switch (DLPackTypesOf(*place.device()).device_type) {
    case kDLCUDA:
      return Row::kCuda;
    case kDLROCM:
      return Row::kHip;
    default:
      return Row::kOther;
  }
}

absl::Status BadStream(int64_t stream, DLDevice pair, const char* allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("stream ", stream, " for memory of DLPack device ",
                   PairText(pair), ": ", allowed));
}

void WarnOfZero() {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  DEVRT_LOG(kWarning,
            "a consumer passed stream 0 for cuda memory, which DLPack and the "
            "CUDA Array Interface forbid: taken as the default stream; it "
            "should pass 1 (DEVRT_DLPACK_STRICT=1 makes this an error)");
}

// The stream that nullopt means.  No edge may leave a capture (E4).
StreamRef DefaultFor(Device device, std::optional<StreamRef> home) {
  const StreamRef usual = DefaultStream(device);
  const StreamRef current = CurrentStream(device);
  if (current != usual && RecordsGraph(current)) return current;
  if (home.has_value() && *home != usual && *home != current &&
      home->device() == device && RecordsGraph(*home)) {
    return *home;
  }
  return usual;
}

Consumer OnStream(StreamRef stream) {
  Consumer consumer;
  consumer.order = Consumer::Order::kStream;
  consumer.stream = stream;
  return consumer;
}

// The current stream, if `native` is its handle.  Other backends have no
// special numbers, so a program can only pass what Native() returned.
absl::StatusOr<StreamRef> CurrentIfNamed(Device device, const void* native) {
  const StreamRef current = CurrentStream(device);
  const absl::StatusOr<void*> own = current.Native();
  if (own.ok() && *own == native) return current;
  return absl::NotFoundError("");
}

absl::StatusOr<Consumer> ResolveZero(Row row, Device device, DLDevice pair) {
  if (row == Row::kCuda) {
    if (GetExchangeSettings().strict) {
      return BadStream(0, pair,
                       "0 is ambiguous; 1 is the default stream, 2 "
                       "the per-thread one (DEVRT_DLPACK_STRICT)");
    }
    WarnOfZero();
  }
  return OnStream(DefaultStream(device));
}

// The host waits for a consumer of host memory.
Consumer ConsumerWithoutNumber(const Place& place, DLDevice pair,
                               std::optional<StreamRef> home) {
  const bool is_device =
      place.kind() == MemoryKind::kDevice ||
      pair.device_type == (place.device().has_value()
                               ? DLPackTypesOf(*place.device()).device_type
                               : -1);
  if (is_device) return OnStream(DefaultFor(*place.device(), home));
  Consumer consumer;
  consumer.order = Consumer::Order::kHostWait;
  return consumer;
}

}  // namespace

absl::StatusOr<StreamRef> StreamOfHandle(Device device, int64_t handle,
                                         bool only_known,
                                         std::shared_ptr<void> owner,
                                         std::optional<Stream>* adopted) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is the protocol
  void* const native = reinterpret_cast<void*>(static_cast<uintptr_t>(handle));
  if (const auto known = NativeStreams::Get().Find(device, native)) {
    return *known;
  }
  const absl::StatusOr<StreamRef> current = CurrentIfNamed(device, native);
  if (current.ok()) return *current;
  if (only_known) {
    return absl::InvalidArgumentError(
        absl::StrCat("stream ", handle, ": no live stream of ", device.name(),
                     " has that native handle"));
  }
  DEVRT_ASSIGN_OR_RETURN(Stream stream,
                         Stream::FromNative(device, native, std::move(owner)));
  const StreamRef ref = stream.ref();
  *adopted = std::move(stream);
  return ref;
}

absl::StatusOr<Consumer> ResolveConsumer(const Place& place, DLDevice pair,
                                         std::optional<int64_t> stream,
                                         std::optional<StreamRef> home,
                                         std::shared_ptr<void> owner) {
  if (!stream.has_value()) return ConsumerWithoutNumber(place, pair, home);
  Consumer consumer;
  if (*stream == -1) return consumer;
  if (*stream < -1) {
    return BadStream(*stream, pair, "streams are -1 (no order) and up");
  }
  const Row row = RowOf(place, pair);
  if (row == Row::kHost) {
    return BadStream(*stream, pair, "host memory has no stream: none or -1");
  }
  const Device device = *place.device();
  if (*stream == 0) return ResolveZero(row, device, pair);
  if (*stream <= 2 && row == Row::kHip) {
    return BadStream(*stream, pair,
                     "on hip, 0 is the null stream, and others "
                     "are native handles");
  }
  if (*stream <= 2 && row == Row::kCuda) {
    if (*stream == 1) return OnStream(DefaultStream(device));
    DEVRT_ASSIGN_OR_RETURN(const StreamRef own, PerThreadDefaultStream(device));
    return OnStream(own);
  }
  DEVRT_ASSIGN_OR_RETURN(consumer.stream,
                         StreamOfHandle(device, *stream, row == Row::kOther,
                                        std::move(owner), &consumer.adopted));
  consumer.order = Consumer::Order::kStream;
  return consumer;
}

absl::Status WaitForHost(const Array& array, CallSite site) {
  const Place place = array.place();
  if (!place.device().has_value()) return absl::OkStatus();
  Storage& storage = *array.storage();
  if (const absl::Status may = storage.CheckMayWait(); !may.ok()) {
    if (!absl::IsFailedPrecondition(may)) return may;
    return BufferError(absl::StrCat("the host would have to wait for ",
                                    place.name(), ": ", may.message(),
                                    ", or export to a device"));
  }
  return storage.Ready(site);
}

absl::Status OrderConsumer(const Array& array, StreamRef stream,
                           CallSite site) {
  Storage& storage = *array.storage();
  absl::Status ordered = storage.OrderBefore(stream, !array.read_only(), site);
  if (ABSL_PREDICT_TRUE(ordered.ok())) return ordered;
  // The memory can be shared, but not while the stream captures (E45).
  if (absl::IsFailedPrecondition(ordered) &&
      (RecordsGraph(stream) || !storage.CheckMayWait().ok())) {
    return BufferError(std::string(ordered.message()));
  }
  return ordered;
}

absl::Status OrderConsumer(const Array& array, const Consumer& consumer,
                           CallSite site) {
  switch (consumer.order) {
    case Consumer::Order::kNone:
      return absl::OkStatus();
    case Consumer::Order::kHostWait:
      return WaitForHost(array, site);
    case Consumer::Order::kStream:
      break;
  }
  return OrderConsumer(array, *consumer.stream, site);
}

}  // namespace devrt::internal
