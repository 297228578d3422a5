// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/buffer.h"

#include "devrt/memory/device_memory.h"
#include "devrt/memory/internal/unimplemented.h"

namespace devrt {

absl::StatusOr<Buffer> Buffer::Allocate(StreamRef, uint64_t, CallSite) {
  return internal::NotBuilt("Buffer::Allocate");
}

absl::StatusOr<Buffer> Buffer::Allocate(std::shared_ptr<MemoryResource>,
                                        StreamRef, uint64_t, CallSite) {
  return internal::NotBuilt("Buffer::Allocate");
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(stream_, other.stream_);
  std::swap(resource_, other.resource_);
  other.Reset();
  return *this;
}

absl::Status Buffer::SetStream(StreamRef) {
  return internal::NotBuilt("Buffer::SetStream");
}

absl::Status Buffer::RecordUse(StreamRef, CallSite) {
  return internal::NotBuilt("Buffer::RecordUse");
}

void Buffer::Reset() { Release(); }

void* Buffer::Release() {
  size_ = 0;
  stream_.reset();
  resource_.reset();
  return std::exchange(data_, nullptr);
}

}  // namespace devrt
