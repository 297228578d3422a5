// SPDX-License-Identifier: Apache-2.0
//
// The stream that a consumer names by a number, on the data's device, and what
// an export owes it (E49, E4, E5, E8).

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
  // Set where devrt knows `stream` by this call only: afterwards it may be
  // gone.
  std::optional<Stream> adopted;
};

// By the table's row of `pair`, which is what memory at `place` is exported as.
// `home`: which None means while that captures.  `owner` keeps a native stream
// alive; null: it may be gone after the call.  INVALID_ARGUMENT names the
// number and what is allowed.
absl::StatusOr<Consumer> ResolveConsumer(const Place& place, DLDevice pair,
                                         std::optional<int64_t> stream,
                                         std::optional<StreamRef> home,
                                         std::shared_ptr<void> owner = {});

// Orders the consumer behind pending uses (E5).  kBuffer where a capture
// forbids it (E45).
absl::Status OrderConsumer(const Array& array, const Consumer& consumer,
                           CallSite site);
absl::Status OrderConsumer(const Array& array, StreamRef stream, CallSite site);

// Waits on the host for pending uses (E43).  kBuffer while a stream that has
// such a use is captured (E44).
absl::Status WaitForHost(const Array& array, CallSite site);

// A native handle of `device`, other than those of default streams: a live
// Stream, or else one that is adopted into `*adopted`.  `only_known`:
// INVALID_ARGUMENT instead.
absl::StatusOr<StreamRef> StreamOfHandle(Device device, int64_t handle,
                                         bool only_known,
                                         std::shared_ptr<void> owner,
                                         std::optional<Stream>* adopted);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_EXCHANGE_CONSUMER_STREAM_H_
