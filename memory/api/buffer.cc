// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/buffer.h"

#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/memory/device_memory.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/registry/process_state.h"
#include "streams/common/deferred_deletion.h"
#include "streams/objects/stream_record.h"

namespace devrt {
namespace {

std::string Text(StreamRef stream) {
  std::ostringstream text;
  text << stream;
  return text.str();
}

absl::Status EmptyError(const char* call) {
  return absl::InvalidArgumentError(absl::StrCat(
      call, ": the buffer is empty, it has no block and no stream"));
}

}  // namespace

absl::StatusOr<Buffer> Buffer::Allocate(StreamRef stream, uint64_t bytes,
                                        CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(void* data, AllocateMemory(stream, bytes, site));
  Buffer buffer;
  buffer.data_ = data;
  buffer.size_ = bytes;
  buffer.stream_ = stream;
  return buffer;
}

absl::StatusOr<Buffer> Buffer::Allocate(
    std::shared_ptr<MemoryResource> resource, StreamRef stream, uint64_t bytes,
    CallSite site) {
  if (resource == nullptr) return Allocate(stream, bytes, site);
  DEVRT_ASSIGN_OR_RETURN(void* data,
                         resource->Allocate(stream, bytes, 0, site));
  Buffer buffer;
  buffer.data_ = data;
  buffer.size_ = bytes;
  buffer.stream_ = stream;
  buffer.resource_ = std::move(resource);
  return buffer;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(stream_, other.stream_);
  std::swap(resource_, other.resource_);
  other.Reset();
  return *this;
}

absl::Status Buffer::SetStream(StreamRef stream) {
  if (!stream_.has_value()) return EmptyError("Buffer::SetStream");
  DEVRT_RETURN_IF_ERROR(internal::CheckStream(stream, "Buffer::SetStream"));
  if (stream.device() != stream_->device()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Buffer::SetStream: a block of ", stream_->device().name(),
                     " cannot be freed in the order of the ", Text(stream),
                     ": pass a stream of ", stream_->device().name()));
  }
  stream_ = stream;
  return absl::OkStatus();
}

absl::Status Buffer::RecordUse(StreamRef stream, CallSite site) {
  if (!stream_.has_value()) return EmptyError("Buffer::RecordUse");
  if (data_ == nullptr) return absl::OkStatus();
  return resource_ != nullptr ? resource_->RecordUse(data_, stream, site)
                              : RecordStream(data_, stream, site);
}

void Buffer::Reset() {
  const std::optional<StreamRef> stream = std::exchange(stream_, std::nullopt);
  const std::shared_ptr<MemoryResource> resource = std::move(resource_);
  resource_ = nullptr;
  const uint64_t size = std::exchange(size_, 0);
  void* const data = std::exchange(data_, nullptr);
  // In a forked child, and at the end of the process, nothing is freed.
  if (data == nullptr || !internal::IsProcessOpen()) return;
  // Frees are refused inside host functions (C42).
  internal::RunOutsideHostFunction([stream = *stream, resource, size, data] {
    const absl::Status status = resource != nullptr
                                    ? resource->Deallocate(stream, data, size)
                                    : FreeMemory(data, stream);
    if (status.ok()) return;
    DEVRT_LOG(
        kWarning,
        absl::StrCat("a buffer of ", size, " bytes at ", internal::Hex(data),
                     " was not given back: ", status.message()));
  });
}

void* Buffer::Release() {
  size_ = 0;
  stream_.reset();
  resource_.reset();
  return std::exchange(data_, nullptr);
}

}  // namespace devrt
