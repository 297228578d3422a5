// SPDX-License-Identifier: Apache-2.0

#include "memory/pinned/pinned_source.h"

#include <time.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "memory/common/settings_state.h"
#include "memory/pinned/pinned_pages.h"
#include "runtime/common/text.h"
#include "runtime/raw_memory/blocks.h"
#include "streams/common/relaxed_captures.h"
#include "streams/objects/device_streams.h"

namespace devrt::internal {
namespace {

int64_t Microseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

// Adds the time since `begin`.
void NoteTime(DurationStat* stat, int64_t begin) {
  const int64_t microseconds = Microseconds() - begin;
  stat->total += microseconds;
  stat->max = std::max(stat->max, microseconds);
  stat->min =
      stat->count == 0 ? microseconds : std::min(stat->min, microseconds);
  ++stat->count;
  stat->avg = stat->total / stat->count;
}

absl::StatusOr<void*> Register(DeviceRecord* device, uint64_t size) {
  void* const base = MapPages(size);
  if (base == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("The system gives no ", size, " bytes of host pages."));
  }
  TouchPages(base, size, CurrentSettings().pinned_register_threads);
  const RelaxedCaptures relaxed(device, DeviceStreams::Of(device)->capture);
  const absl::Status status =
      FromPlugin(device,
                 device->ops->host_register(device->self, device->ordinal, base,
                                            RoundUp(size, PageSize())),
                 "host registration");
  if (status.ok()) return base;
  UnmapPages(base, size);
  return status;
}

absl::StatusOr<void*> HostAlloc(DeviceRecord* device, uint64_t size) {
  void* base = nullptr;
  const RelaxedCaptures relaxed(device, DeviceStreams::Of(device)->capture);
  DEVRT_RETURN_IF_ERROR(
      FromPlugin(device,
                 device->ops->host_alloc(device->self, device->ordinal, size,
                                         kGranule, &base),
                 "pinned allocation"));
  if (base != nullptr && reinterpret_cast<uintptr_t>(base) % kGranule == 0) {
    return base;
  }
  return absl::InternalError(
      absl::StrCat("host_alloc of backend \"", device->backend->name,
                   "\" gave a block at ", Hex(base), " where one aligned to ",
                   kGranule, " bytes was asked for (contract P10)"));
}

}  // namespace

absl::StatusOr<PinnedSource::Native> PinnedSource::Allocate(
    DeviceRecord* device, uint64_t size, CallSite site) {
  const PinnedOrigin origin = CurrentSettings().pinned_register
                                  ? PinnedOrigin::kRegistered
                                  : PinnedOrigin::kHostAlloc;
  const int64_t begin = Microseconds();
  void* base = nullptr;
  {
    const CallSiteScope noted(site);
    DEVRT_ASSIGN_OR_RETURN(base, origin == PinnedOrigin::kRegistered
                                     ? Register(device, size)
                                     : HostAlloc(device, size));
  }
  MutexLock lock(&mutex_);
  ++times_.num_host_alloc;
  NoteTime(&times_.host_alloc_time, begin);
  return Native{base, origin};
}

absl::Status PinnedSource::Free(DeviceRecord* device, uint64_t size,
                                const Native& native, CallSite freed) {
  const bool registered = native.origin == PinnedOrigin::kRegistered;
  const int64_t begin = Microseconds();
  absl::Status status;
  if (TakesHandlesBack(device)) {
    const RelaxedCaptures relaxed(device, DeviceStreams::Of(device)->capture);
    const CallSiteScope noted(freed);
    devrt_status error =
        registered ? device->ops->host_unregister(device->self, native.base)
                   : device->ops->host_dealloc(device->self, native.base, size);
    status = FromPlugin(device, error, "pinned free");
    if (IsOfEarlierWork(status)) status = absl::OkStatus();
    if (status.ok() && registered) UnmapPages(native.base, size);
  }
  if (!status.ok() && IsOpen(device)) return status;
  MutexLock lock(&mutex_);
  ++times_.num_host_free;
  NoteTime(&times_.host_free_time, begin);
  return absl::OkStatus();
}

PinnedStatistics PinnedSource::Times() const {
  MutexLock lock(&mutex_);
  return times_;
}

void PinnedSource::ResetTimes() {
  MutexLock lock(&mutex_);
  times_ = {};
}

}  // namespace devrt::internal
