// SPDX-License-Identifier: Apache-2.0
#include "tools/topo/bandwidth.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "devrt/runtime/peer.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/copy.h"
#include "devrt/streams/event.h"
#include "devrt/streams/stream.h"

namespace devrt::tools {
namespace {

constexpr uint64_t kMostBytes = 64 << 20;
constexpr uint64_t kSmallCopy = 4;
constexpr size_t kCopies = 5;

absl::StatusOr<uint64_t> BytesFor(Device device) {
  DEVRT_ASSIGN_OR_RETURN(const DeviceProperties properties,
                         device.Properties());
  return std::min(kMostBytes, properties.total_memory / 8);
}

// Milliseconds of a copy.
absl::StatusOr<double> TimeCopy(Device device, void* to, const void* from,
                                uint64_t bytes) {
  DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
  EventOptions options;
  options.timing = true;
  DEVRT_ASSIGN_OR_RETURN(const Event begin, Event::Create(device, options));
  DEVRT_ASSIGN_OR_RETURN(const Event end, Event::Create(device, options));
  DEVRT_RETURN_IF_ERROR(CopyAsync(stream, to, from, bytes));
  std::array<double, kCopies> milliseconds{};
  for (double& time : milliseconds) {
    DEVRT_RETURN_IF_ERROR(begin.Record(stream));
    DEVRT_RETURN_IF_ERROR(CopyAsync(stream, to, from, bytes));
    DEVRT_RETURN_IF_ERROR(end.Record(stream));
    DEVRT_RETURN_IF_ERROR(stream.Synchronize());
    DEVRT_ASSIGN_OR_RETURN(time, ElapsedMilliseconds(begin, end));
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return milliseconds[kCopies / 2];
}

absl::StatusOr<double> Measure(Device device, void* to, const void* from,
                               uint64_t bytes) {
  DEVRT_ASSIGN_OR_RETURN(const double median,
                         TimeCopy(device, to, from, bytes));
  if (median <= 0) {
    return absl::InternalError("the device's clock did not move in a copy");
  }
  return static_cast<double>(bytes) / median / 1e6;
}

// Between a block of the device and a pinned one.
absl::StatusOr<double> MeasureHost(Device device, bool to_host) {
  DEVRT_ASSIGN_OR_RETURN(const uint64_t bytes, BytesFor(device));
  DEVRT_ASSIGN_OR_RETURN(void* const block, Allocate(device, bytes));
  const absl::Cleanup free_block = [&] { Free(device, block).IgnoreError(); };
  DEVRT_ASSIGN_OR_RETURN(void* const host, AllocateHost(device, bytes));
  const absl::Cleanup free_host = [&] { FreeHost(host).IgnoreError(); };
  return to_host ? Measure(device, host, block, bytes)
                 : Measure(device, block, host, bytes);
}

}  // namespace

absl::StatusOr<PairFigures> MeasurePair(Device from, Device to) {
  DEVRT_ASSIGN_OR_RETURN(const uint64_t room, BytesFor(from));
  DEVRT_ASSIGN_OR_RETURN(const uint64_t other_room, BytesFor(to));
  const uint64_t bytes = std::min(room, other_room);
  DEVRT_ASSIGN_OR_RETURN(void* const source, Allocate(from, bytes));
  const absl::Cleanup free_source = [&] { Free(from, source).IgnoreError(); };
  DEVRT_ASSIGN_OR_RETURN(void* const target, Allocate(to, bytes));
  const absl::Cleanup free_target = [&] { Free(to, target).IgnoreError(); };
  const bool is_enabled = EnablePeerAccess(from, to).ok();
  const absl::Cleanup disable = [&] {
    if (is_enabled) DisablePeerAccess(from, to).IgnoreError();
  };
  PairFigures figures;
  DEVRT_ASSIGN_OR_RETURN(figures.gigabytes,
                         Measure(from, target, source, bytes));
  DEVRT_ASSIGN_OR_RETURN(const double small,
                         TimeCopy(from, target, source, kSmallCopy));
  figures.small_copy_us = small * 1e3;
  return figures;
}

absl::StatusOr<double> MeasureFromHost(Device device) {
  return MeasureHost(device, /*to_host=*/false);
}

absl::StatusOr<double> MeasureToHost(Device device) {
  return MeasureHost(device, /*to_host=*/true);
}

}  // namespace devrt::tools
