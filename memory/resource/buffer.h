// SPDX-License-Identifier: Apache-2.0
//
// Buffer: a block of device memory with an owner.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Buffer x, devrt::Buffer::Allocate(s, 4096));
//   DEVRT_RETURN_IF_ERROR(devrt::FillAsync(s, x.data(), 0, x.size()));
//   // goes back at the end of scope, in the order of s
//
// A Buffer knows what it takes to free its block: resource, device, stream and
// what they depend on; nothing that is current at its end matters (E21).
// The stream may be destroyed before the Buffer.
//
// What it is not: shared, typed, or a view.
// Ownership: unique; movable.  A moved-from Buffer is empty.  The destructor
// never waits, fails or throws; what goes wrong is logged once.
// Threads: as unique_ptr.

#ifndef DEVRT_MEMORY_RESOURCE_BUFFER_H_
#define DEVRT_MEMORY_RESOURCE_BUFFER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/memory/memory_resource.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

class DEVRT_EXPORT Buffer {
 public:
  // From the resource of the stream's device; errors as of AllocateMemory.
  static absl::StatusOr<Buffer> Allocate(StreamRef stream, uint64_t bytes,
                                         CallSite site = CallSite::Here());
  // From `resource`, which is kept.
  static absl::StatusOr<Buffer> Allocate(
      std::shared_ptr<MemoryResource> resource, StreamRef stream,
      uint64_t bytes, CallSite site = CallSite::Here());

  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { Reset(); }

  void* data() const { return data_; }
  uint64_t size() const { return size_; }  // as asked for
  // Where it will be freed; nullopt if empty.
  std::optional<StreamRef> stream() const { return stream_; }
  // The caller has ordered all uses before what comes next on `stream`.
  // INVALID_ARGUMENT for a stream of another device.
  absl::Status SetStream(StreamRef stream);
  // See RecordStream.
  absl::Status RecordUse(StreamRef stream, CallSite site = CallSite::Here());

  // Frees now; inside a host function, where that is refused (C42), at the next
  // call of devrt's outside.
  void Reset();
  // Gives the block away: FreeMemory is the caller's.
  void* Release();

 private:
  void* data_ = nullptr;
  uint64_t size_ = 0;
  std::optional<StreamRef> stream_;
  std::shared_ptr<MemoryResource> resource_;  // null: whoever the block knows
};

}  // namespace devrt

#endif  // DEVRT_MEMORY_RESOURCE_BUFFER_H_
