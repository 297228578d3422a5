// SPDX-License-Identifier: Apache-2.0
//
// Block: memory that its destructor frees.  Wait for the work that uses the
// memory before you destroy the block.

#ifndef DEVRT_TOOLS_DEMO_BLOCK_H_
#define DEVRT_TOOLS_DEMO_BLOCK_H_

#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"

namespace devrt::tools {

class Block {
 public:
  // Memory of `device`.
  static absl::StatusOr<Block> OnDevice(Device device, uint64_t bytes) {
    DEVRT_ASSIGN_OR_RETURN(void* data, Allocate(device, bytes));
    return Block(Kind::kDevice, device, data);
  }
  // Pinned host memory for copies from and to `device`.
  static absl::StatusOr<Block> Pinned(Device device, uint64_t bytes) {
    DEVRT_ASSIGN_OR_RETURN(void* data, AllocateHost(device, bytes));
    return Block(Kind::kPinned, std::nullopt, data);
  }
  // Pageable host memory.
  static absl::StatusOr<Block> Pageable(uint64_t bytes) {
    void* const data = ::operator new(bytes, std::nothrow);
    if (data == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrFormat("the host has no %d bytes", bytes));
    }
    return Block(Kind::kPageable, std::nullopt, data);
  }

  Block(Block&& other) noexcept
      : kind_(other.kind_),
        device_(other.device_),
        data_(std::exchange(other.data_, nullptr)) {}
  Block& operator=(Block&&) = delete;
  ~Block() {
    // A destructor cannot report an error.  If a free fails, the memory leaks.
    switch (kind_) {
      case Kind::kDevice:
        Free(*device_, data_).IgnoreError();
        break;
      case Kind::kPinned:
        FreeHost(data_).IgnoreError();
        break;
      case Kind::kPageable:
        ::operator delete(data_);
    }
  }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  enum class Kind { kDevice, kPinned, kPageable };

  Block(Kind kind, std::optional<Device> device, void* data)
      : kind_(kind), device_(device), data_(data) {}

  Kind kind_;
  std::optional<Device> device_;  // set for kDevice only
  void* data_;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_DEMO_BLOCK_H_
