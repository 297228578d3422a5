// SPDX-License-Identifier: Apache-2.0
//
// A block of raw memory that is freed with its owner.  Whoever destroys it has
// waited for the work that uses it.

#ifndef DEVRT_TOOLS_DEMO_BLOCK_H_
#define DEVRT_TOOLS_DEMO_BLOCK_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"

namespace devrt::tools {

class Block {
 public:
  // Memory of `device`.
  static absl::StatusOr<Block> OnDevice(Device device, uint64_t bytes) {
    DEVRT_ASSIGN_OR_RETURN(void* data, Allocate(device, bytes));
    return Block(device, data);
  }
  // Pinned host memory for copies from and to `device`.
  static absl::StatusOr<Block> Pinned(Device device, uint64_t bytes) {
    DEVRT_ASSIGN_OR_RETURN(void* data, AllocateHost(device, bytes));
    return Block(std::nullopt, data);
  }

  Block(Block&& other) noexcept
      : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  Block& operator=(Block&&) = delete;
  ~Block() {
    // A failure leaves the memory where it is; there is nobody to tell.
    if (device_) {
      Free(*device_, data_).IgnoreError();
    } else {
      FreeHost(data_).IgnoreError();
    }
  }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Block(std::optional<Device> device, void* data)
      : device_(device), data_(data) {}

  std::optional<Device> device_;  // nullopt: pinned host memory
  void* data_;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_DEMO_BLOCK_H_
