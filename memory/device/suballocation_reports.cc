// SPDX-License-Identifier: Apache-2.0

#include "memory/device/suballocation_reports.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "memory/device/block_pool.h"
#include "runtime/common/text.h"
#include "runtime/registry/race_detector.h"
#include "streams/objects/stream_record.h"

namespace devrt::internal {

SuballocationReports::SuballocationReports(DeviceRecord* device)
    : device_(device),
      extension_(FindExtension<devrt_suballocation_v0>(
          device, DEVRT_SUBALLOCATION_EXTENSION)),
      race_(ToExtensionOf<devrt_race_v0>(FindRaceDetector(device->backend))) {}

void SuballocationReports::Carve(void* pointer, uint64_t bytes) const {
  if (!wanted()) return;
  LogError(extension_.table->carve(extension_.self, device_->ordinal, pointer,
                                   bytes),
           "carve");
}

void SuballocationReports::Uncarve(void* pointer, uint64_t bytes) const {
  if (!wanted()) return;
  LogError(extension_.table->uncarve(extension_.self, device_->ordinal, pointer,
                                     bytes),
           "uncarve");
}

void SuballocationReports::ReportHandOut(const MemoryRequest& request,
                                         void* pointer) const {
  const CallSiteScope site(request.site);
  const devrt_stream handle =
      request.stream.record()->handle.load(std::memory_order_acquire);
  LogError(extension_.table->hand_out(extension_.self, handle, pointer,
                                      request.bytes),
           "hand_out");
}

void SuballocationReports::ReportTakeBack(BlockPool* pool,
                                          const Block* block) const {
  if (!IsOpen(device_)) return;
  // Also for a block that had to wait for other streams: work on its own stream
  // may still be pending.
  const std::optional<StreamRef> home = pool->stream();
  const devrt_stream handle =
      home.has_value() ? home->record()->handle.load(std::memory_order_acquire)
                       : nullptr;
  LogError(
      extension_.table->take_back(extension_.self, handle, block->address()),
      "take_back");
}

void SuballocationReports::ReportFreed(BlockPool* pool, const Block* block,
                                       const StreamUses& uses) const {
  if (!DEVRT_HAS_FIELD(race_.table, devrt_race_v0, block_freed)) return;
  const std::optional<StreamRef> home = pool->stream();
  if (!home.has_value() || !IsOpen(device_)) return;
  std::vector<NativeHandle*> borrowed;
  const absl::Cleanup give_back = [&borrowed] {
    for (NativeHandle* const native : borrowed) native->Return();
  };
  std::vector<devrt_stream> users;
  for (const StreamUse& use : uses) {
    NativeHandle* const native = &use.timeline->native();
    // The use of a stream that cannot be named here is judged by take_back.
    if (!native->IsValidOnThisThread()) return;
    const devrt_stream handle = native->Borrow();
    if (handle == nullptr) return;
    borrowed.push_back(native);
    users.push_back(handle);
  }
  race_.table->block_freed(
      race_.self, home->record()->handle.load(std::memory_order_acquire),
      block->address(), users.data(), static_cast<uint32_t>(users.size()));
}

void SuballocationReports::LogError(devrt_status error,
                                    const char* call) const {
  if (ABSL_PREDICT_TRUE(error == nullptr)) return;
  const absl::Status status = TakeError(device_, error, call);
  DEVRT_LOG(kWarning, std::string(ToStd(status.message())));
}

}  // namespace devrt::internal
