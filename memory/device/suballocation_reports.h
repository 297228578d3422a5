// SPDX-License-Identifier: Apache-2.0
//
// SuballocationReports: tells a backend that has the extension
// devrt.suballocation/0 which memory the allocator takes, hands out and gets
// back.  A backend without the extension costs one comparison.
//
// A block is reported when it was taken from its pool, and before the program
// has it; its return is reported while the block is kClosing.  So no lock is
// held for a report, and reports of one block are in order.
//
// Threads: any.  No lock.  An error of a report is logged.

#ifndef DEVRT_MEMORY_DEVICE_SUBALLOCATION_REPORTS_H_
#define DEVRT_MEMORY_DEVICE_SUBALLOCATION_REPORTS_H_

#include <cstdint>

#include "absl/base/optimization.h"
#include "devrt/backends/abi/devrt_race.h"
#include "devrt/backends/abi/devrt_suballocation.h"
#include "devrt/memory/memory_request.h"
#include "memory/device/block.h"
#include "memory/device/block_uses.h"
#include "runtime/registry/records.h"
#include "streams/common/extension.h"

namespace devrt::internal {

class BlockPool;

class SuballocationReports {
 public:
  explicit SuballocationReports(DeviceRecord* device);

  // True if the backend wants reports.
  bool wanted() const { return extension_.table != nullptr; }

  // Reports memory that came from the driver, or that is about to go back.
  void Carve(void* pointer, uint64_t bytes) const;
  void Uncarve(void* pointer, uint64_t bytes) const;
  // Reports that the block at `pointer` was taken for the request.
  void HandOut(const MemoryRequest& request, void* pointer) const {
    if (ABSL_PREDICT_FALSE(wanted())) ReportHandOut(request, pointer);
  }
  // Reports that the block is free again, behind the work of its pool's stream.
  void TakeBack(BlockPool* pool, const Block* block) const {
    if (ABSL_PREDICT_FALSE(wanted())) ReportTakeBack(pool, block);
  }

  // Reports that the program has freed the block, which is free again behind
  // these uses as well.
  void Freed(BlockPool* pool, const Block* block,
             const StreamUses& uses) const {
    if (ABSL_PREDICT_FALSE(race_.table != nullptr)) {
      ReportFreed(pool, block, uses);
    }
  }

 private:
  void ReportFreed(BlockPool* pool, const Block* block,
                   const StreamUses& uses) const;
  void ReportHandOut(const MemoryRequest& request, void* pointer) const;
  void ReportTakeBack(BlockPool* pool, const Block* block) const;
  void LogError(devrt_status error, const char* call) const;

  DeviceRecord* const device_;
  const ExtensionOf<devrt_suballocation_v0> extension_;
  const ExtensionOf<devrt_race_v0> race_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_SUBALLOCATION_REPORTS_H_
