// SPDX-License-Identifier: Apache-2.0
//
// What happens when the host dereferences device memory: a report on stderr
// names the block, and the program ends by its SIGSEGV.  With
// host_access=continue the page is opened until the next call of devrt.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_HOST_ACCESS_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_HOST_ACCESS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/memory/address_window.h"
#include "backends/mtia/memory/block_table.h"
#include "backends/mtia/memory/segv_handler.h"

namespace devrt::mtia {

class HostAccessMonitor final : public SegvListener {
 public:
  struct Memory {
    AddressWindow* window = nullptr;
    const BlockTable* blocks = nullptr;
  };

  // `memories`, by device, outlive the monitor.
  explicit HostAccessMonitor(std::vector<Memory> memories);
  ~HostAccessMonitor();
  HostAccessMonitor(const HostAccessMonitor&) = delete;
  HostAccessMonitor& operator=(const HostAccessMonitor&) = delete;

  // Takes the mode of a new machine, sets the count to 0 and closes all pages.
  void Reset(HostAccess mode);
  // Starts to watch, at the first allocation.
  void Watch() {
    if (!watching_.load(std::memory_order_acquire)) StartWatching();
  }

  bool OnSegv(const AccessFault& fault) noexcept override;

  void CloseOpenedPages() {
    if (opened_.load(std::memory_order_relaxed)) ClosePages();
  }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  void StartWatching();
  void ClosePages();
  void Report(const AccessFault& fault, size_t device,
              uint64_t offset) const noexcept;

  const std::vector<Memory> memories_;
  std::atomic<HostAccess> mode_{HostAccess::kOff};
  std::atomic<bool> watching_{false};
  std::atomic<bool> opened_{false};
  std::atomic<uint64_t> count_{0};
  std::atomic<const void*> last_instruction_{nullptr};
  std::atomic<const std::byte*> last_address_{nullptr};
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_HOST_ACCESS_H_
