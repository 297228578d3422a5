// SPDX-License-Identifier: Apache-2.0

#include "devrt/arrays/copy.h"

#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/copy/copy_routes.h"
#include "arrays/copy/copy_steps.h"
#include "arrays/core/array_checks.h"
#include "arrays/core/geometry.h"
#include "devrt/runtime/status.h"
#include "streams/objects/stream_target.h"

namespace devrt {

using internal::CheckNotMovedFrom;
using internal::CopyJob;
using internal::IsOnDevice;

namespace {

// Routes ask for captures, allocate, and may enqueue on another stream before a
// step checks its own, so the stream is checked here as well.
absl::Status CheckStreamOption(const Array& target, const Array& source,
                               StreamRef stream) {
  DEVRT_RETURN_IF_ERROR(internal::CheckStream(stream, "CopyArray"));
  for (const Array* side : {&target, &source}) {
    const Place place = side->place();
    if (IsOnDevice(*side) && stream.device() == *place.device()) {
      return absl::OkStatus();
    }
  }
  std::ostringstream text;
  text << stream;
  return absl::InvalidArgumentError(
      absl::StrCat("CopyArray: the ", text.str(), " cannot copy from ",
                   source.place().name(), " to ", target.place().name(),
                   ": pass a stream of a device that has one side, or none"));
}

// Copies by the route that the two places need.
absl::Status CopyAlong(const Array& target, const Array& source,
                       const CopyOptions& options, CallSite site) {
  const bool to_device = IsOnDevice(target);
  const bool from_device = IsOnDevice(source);
  if (!to_device && !from_device) {
    return internal::CopyHostToHost(target, source, site);
  }
  const CopyJob job(target, source, options.stream, options.non_blocking, site);
  if (!to_device) return internal::CopyDeviceToHost(job);
  if (!from_device) return internal::CopyHostToDevice(job);
  return *target.place().device() == *source.place().device()
             ? internal::CopyWithinDevice(job)
             : internal::CopyBetweenPeers(job);
}

}  // namespace

absl::Status CopyArray(const Array& target, const Array& source,
                       const CopyOptions& options, CallSite site) {
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("CopyArray");
  }
  DEVRT_RETURN_IF_ERROR(internal::CheckTarget("CopyArray", target));
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(source.storage(), "CopyArray"));
  if (options.stream.has_value()) {
    DEVRT_RETURN_IF_ERROR(CheckStreamOption(target, source, *options.stream));
  }
  if (target.size() == 0 && target.shape() == source.shape()) {
    return absl::OkStatus();
  }
  std::optional<Array> broadcast;
  if (target.shape() != source.shape()) {
    absl::StatusOr<Array> wide = source.BroadcastTo(target.shape());
    if (!wide.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("CopyArray: the source's ", wide.status().message(),
                       "; reshape it, or copy to a slice of the target"));
    }
    if (target.size() == 0) return absl::OkStatus();
    broadcast.emplace(*std::move(wide));
  }
  const Array& from = broadcast.has_value() ? *broadcast : source;
  if (target.dtype() == from.dtype() && internal::IsSameView(target, from)) {
    return absl::OkStatus();
  }
  return CopyAlong(target, from, options, site);
}

}  // namespace devrt
