// SPDX-License-Identifier: Apache-2.0
//
// Buffer: a block of device memory with an owner.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Buffer x, devrt::Buffer::Allocate(s, 4096));
//   DEVRT_RETURN_IF_ERROR(devrt::FillAsync(s, x.data(), 0, x.size()));
//   // goes back at the end of scope, in the order of s
//
// A Buffer keeps what it needs to free its block: the resource, the device and
// the stream.  So the free does not depend on what is current at that time
// (E21).  The stream may be destroyed before the Buffer.
//
// What it is not: shared, typed, or a view.
// Ownership: unique; movable.  A moved-from Buffer is empty.  The destructor
// does not wait or throw, and logs an error once.
// Threads: one at a time, as for std::unique_ptr.

#ifndef DEVRT_MEMORY_API_BUFFER_H_
#define DEVRT_MEMORY_API_BUFFER_H_

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

// A block of device memory, which the Buffer frees at its end.
class DEVRT_EXPORT Buffer {
 public:
  // Allocates from the resource of the stream's device.  Errors: those of
  // AllocateMemory.
  static absl::StatusOr<Buffer> Allocate(StreamRef stream, uint64_t bytes,
                                         CallSite site = CallSite::Here());
  // From `resource`, which the Buffer keeps alive; null: as the form above.
  static absl::StatusOr<Buffer> Allocate(
      std::shared_ptr<MemoryResource> resource, StreamRef stream,
      uint64_t bytes, CallSite site = CallSite::Here());

  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { Reset(); }

  // The device's address of the block; null for zero bytes.
  void* data() const { return data_; }
  uint64_t size() const { return size_; }  // that was asked for
  // The stream in whose order the block will be freed; empty if there is none.
  std::optional<StreamRef> stream() const { return stream_; }
  // The block will be freed in the order of `stream`.  The caller has ordered
  // all uses before what is submitted to `stream` next.  INVALID_ARGUMENT: the
  // stream belongs to another device.
  absl::Status SetStream(StreamRef stream);
  // See RecordStream.
  absl::Status RecordUse(StreamRef stream, CallSite site = CallSite::Here());

  // Frees the block.  A host function may not free (C42): there the block is
  // freed at the next call of devrt outside.
  void Reset();
  // Gives the block to the caller, who frees it with FreeMemory.
  void* Release();

 private:
  void* data_ = nullptr;
  uint64_t size_ = 0;
  std::optional<StreamRef> stream_;
  std::shared_ptr<MemoryResource> resource_;  // null: found by address
};

}  // namespace devrt

#endif  // DEVRT_MEMORY_API_BUFFER_H_
