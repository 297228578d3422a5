// SPDX-License-Identifier: Apache-2.0
//
// The consumer's stream, which a number names on the data's device, and the
// order that an export gives it (E49, E4, E5, E8).

#ifndef DEVRT_ARRAYS_EXCHANGE_CONSUMER_STREAM_H_
#define DEVRT_ARRAYS_EXCHANGE_CONSUMER_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/dlpack_abi.h"
#include "devrt/arrays/place.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

struct Consumer {
  enum class Order { kNone, kStream, kHostWait };
  Order order = Order::kNone;
  std::optional<StreamRef> stream;
  // Set if devrt knows `stream` from this call only.  Then `stream` may be
  // destroyed after the call.
  std::optional<Stream> adopted;
};

// Returns the stream that the consumer's number `stream` names, and the order
// that the consumer gets, by the table of E49.  The memory is in `place`;
// `pair` is the DLPack device that the export names, which selects the row of
// the table.  nullopt means `home` while `home` captures (E4).  `owner` keeps
// the native stream alive.  Without an owner the stream may be destroyed after
// the call.  Returns INVALID_ARGUMENT for a number that the table forbids.
absl::StatusOr<Consumer> ResolveConsumer(const Place& place, DLDevice pair,
                                         std::optional<int64_t> stream,
                                         std::optional<StreamRef> home,
                                         std::shared_ptr<void> owner = {});

// Makes the consumer wait for pending uses (E5).  Returns kBuffer if a capture
// forbids the wait (E45).
absl::Status OrderConsumer(const Array& array, const Consumer& consumer,
                           CallSite site);
absl::Status OrderConsumer(const Array& array, StreamRef stream, CallSite site);

// Waits on the host for pending uses (E43).  Returns kBuffer while the stream
// of such a use is captured (E44).
absl::Status WaitForHost(const Array& array, CallSite site);

// Returns the stream of `device` that has the native handle `handle`, which
// names no default stream.  Adopts a stream that devrt does not know into
// `*adopted`.  With `only_known` returns INVALID_ARGUMENT for such a stream.
absl::StatusOr<StreamRef> StreamOfHandle(Device device, int64_t handle,
                                         bool only_known,
                                         std::shared_ptr<void> owner,
                                         std::optional<Stream>* adopted);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_EXCHANGE_CONSUMER_STREAM_H_
