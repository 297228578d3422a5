// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/stream_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"

namespace devrt {

namespace {
// Far more than any device runs at a time.
constexpr size_t kMaxPoolSize = 65'536;
}  // namespace

absl::StatusOr<StreamPool> StreamPool::Create(Device device, size_t size,
                                              StreamOptions options,
                                              CallSite site) {
  if (size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a StreamPool of ", device.name(),
                     " needs at least one stream, but its size is 0"));
  }
  if (size > kMaxPoolSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("a StreamPool of ", device.name(), " has at most ",
                     kMaxPoolSize, " streams, but ", size, " were asked for"));
  }
  std::vector<Stream> streams;
  streams.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    DEVRT_ASSIGN_OR_RETURN(Stream stream,
                           Stream::Create(device, options, site));
    streams.push_back(std::move(stream));
  }
  return StreamPool(std::move(streams));
}

}  // namespace devrt
