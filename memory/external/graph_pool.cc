// SPDX-License-Identifier: Apache-2.0

#include "memory/external/graph_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "memory/api/captured_blocks.h"
#include "memory/common/settings_state.h"
#include "memory/device/device_allocator.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/registry/process_state.h"
#include "streams/common/deferred_deletion.h"
#include "streams/objects/stream_record.h"

namespace devrt::internal {

namespace {

// A pool that a capture keeps: the graph may write to all of its memory, live
// blocks or not.
struct HeldPool final : DeferredObject {
  HeldPool(std::shared_ptr<GraphPool> p, DeviceRecord* device)
      : pool(std::move(p)), live(device) {}
  const std::shared_ptr<GraphPool> pool;
  const LiveCount live;
};

}  // namespace

absl::StatusOr<std::shared_ptr<GraphPool>> GraphPool::Make(Device device) {
  DeviceRecord* const record = device.record();
  if (InHostFunction()) return HostFunctionError("devrt_memory_pool_create");
  if (!IsOpen(record)) return ClosedError(record);
  DEVRT_RETURN_IF_ERROR(SettingsMistake());
  FixSettings(SettingsUse::kDeviceMemory);
  RunDeferredCaptureEnds();
  return std::shared_ptr<GraphPool>(
      new GraphPool(DeviceAllocator::Of(record)->family().MakeForGraphs()));
}

GraphPool::~GraphPool() { allocator_->graphs().End(); }

Device GraphPool::device() const { return Device(allocator_->device()); }

absl::StatusOr<void*> GraphPool::Allocate(StreamRef stream, uint64_t bytes,
                                          CallSite site) {
  DEVRT_RETURN_IF_ERROR(CheckStream(stream, "devrt_memory_pool_alloc"));
  if (stream.device() != device()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a pool of ", device().name(), " has no memory for a stream of ",
        stream.device().name(), ": make a pool for that device"));
  }
  DEVRT_RETURN_IF_ERROR(
      CheckRequest(allocator_->device(), bytes, 0, "devrt_memory_pool_alloc"));
  if (bytes == 0) return nullptr;
  RunDeferredCaptureEnds();
  DEVRT_ASSIGN_OR_RETURN(const CaptureNumber capture, CaptureOf(stream));
  if (capture != CaptureNumber::kNone) HoldBy(capture);
  return allocator_->Allocate({stream, bytes, 0, site});
}

void GraphPool::HoldBy(CaptureNumber capture) {
  if (!allocator_->graphs().AddCapture(capture)) return;
  (void)KeepUntilOver(capture, std::make_unique<HeldPool>(
                                   shared_from_this(), allocator_->device()));
}

}  // namespace devrt::internal
