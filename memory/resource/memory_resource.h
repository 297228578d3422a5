// SPDX-License-Identifier: Apache-2.0
//
// MemoryResource: a source of device memory, in stream order.
//
//   class Arena final : public devrt::MemoryResource {
//    public:
//     explicit Arena(devrt::Device d) : MemoryResource(d) {}
//     devrt::MemoryProperties properties() const override;
//
//    private:
//     absl::StatusOr<void*> DoAllocate(const devrt::MemoryRequest& r) override;
//     absl::Status DoDeallocate(const devrt::MemoryReturn& r) override;
//   };
//
//   absl::Status UseArena(devrt::Device gpu) {
//     return devrt::SetMemoryResource(gpu, std::make_shared<Arena>(gpu));
//   }
//
// Stream order: work that is submitted to `stream` may use the memory as soon
// as Allocate(stream) has returned; other work may use it behind an event or a
// wait of the host.  Deallocate(stream) says that all uses are submitted, and
// are ordered before what is submitted to `stream` later.  Uses that RecordUse
// was told of are the exception.  Neither call waits for the device on its
// normal path.
//
// What it is not: an owner of a block (buffer.h is one), nor a way to inspect
// memory.
//
// Each device has one resource at a time, by default the caching allocator.
// SetMemoryResource replaces it at any moment.  A block goes back to the
// resource that it came from, which stays alive until its last block is back
// (F9, F26).
//
// Ownership: shared.  A resource outlives its blocks, and the upstream of a
// resource outlives the resource.
//
// Threads: any, unless a resource says otherwise (properties().thread_safe);
// ThreadSafeResource makes a resource that any thread may call.
//
// Exceptions: an exception that leaves a Do function becomes INTERNAL, and
// std::bad_alloc becomes RESOURCE_EXHAUSTED.  No caller sees an exception.
//
// Errors: FAILED_PRECONDITION inside host functions (C42), after Shutdown and
// in a forked child, where no lock is taken (C105).  INVALID_ARGUMENT for a
// stream of another device, and for a pointer that is not a live block of this
// resource.  RESOURCE_EXHAUSTED with an OutOfMemoryInfo
// (docs/reference/semantics.md 2.6).

#ifndef DEVRT_MEMORY_RESOURCE_MEMORY_RESOURCE_H_
#define DEVRT_MEMORY_RESOURCE_MEMORY_RESOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/memory/memory_request.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

// What a resource can do.
struct MemoryProperties {
  std::string name;             // "caching", "limit(caching)"; for messages
  bool thread_safe = true;      // may be called from several threads at once
  bool device_readable = true;  // kernels can use the memory
  bool host_readable = false;   // the host can use the memory
  bool stream_ordered = true;   // false: Deallocate or its caller waits
  bool tracks_uses = false;     // RecordUse works
  bool has_statistics = false;
  uint64_t alignment = 256;  // least alignment of a pointer; a power of two
};

// A source of memory of one device.
class DEVRT_EXPORT MemoryResource
    : public std::enable_shared_from_this<MemoryResource> {
 public:
  // A resource of memory of `device`.
  explicit MemoryResource(Device device) : device_(device) {}
  MemoryResource(const MemoryResource&) = delete;
  MemoryResource& operator=(const MemoryResource&) = delete;
  virtual ~MemoryResource();

  // The device that the memory belongs to.
  Device device() const { return device_; }
  // What the resource can do.
  virtual MemoryProperties properties() const = 0;

  // Returns null for zero bytes, and RESOURCE_EXHAUSTED for 2^60 bytes and more
  // (C102), without calling DoAllocate.  If DoAllocate returns null, the error
  // is RESOURCE_EXHAUSTED.  If it returns memory that overlaps a live block of
  // a resource, or is not aligned, the error is INTERNAL and names the
  // resource, and the memory is not given back.  A resource may cut up memory
  // that it allocates from another resource, if it allocates in its own Do
  // functions and on their thread.
  absl::StatusOr<void*> Allocate(StreamRef stream, uint64_t bytes,
                                 uint64_t alignment = 0,
                                 CallSite site = CallSite::Here());
  // `bytes` is the size that the caller asked for.  Null is allowed.  If
  // `stream` was destroyed meanwhile, the free is ordered behind its end.
  // INVALID_ARGUMENT: no block of this resource, or of an equal one, begins at
  // `pointer`.
  absl::Status Deallocate(StreamRef stream, void* pointer, uint64_t bytes,
                          CallSite site = CallSite::Here());
  // Notes that `stream` uses the block that `pointer` lies in, until its
  // Deallocate.  UNIMPLEMENTED if !properties().tracks_uses.
  absl::Status RecordUse(const void* pointer, StreamRef stream,
                         CallSite site = CallSite::Here());
  // Gives cached memory back to where it came from.
  absl::Status Trim();

  // True if a block of one may be given back to the other.  The relation is
  // reflexive and symmetric.  By default a resource equals only itself.
  friend bool operator==(const MemoryResource& a, const MemoryResource& b) {
    return &a == &b || (a.IsEqual(b) && b.IsEqual(a));
  }
  friend bool operator!=(const MemoryResource& a, const MemoryResource& b) {
    return !(a == b);
  }

 protected:
  // The work of Allocate, whose arguments were checked.
  virtual absl::StatusOr<void*> DoAllocate(const MemoryRequest& request) = 0;
  // The work of Deallocate.  A caller that cannot report an error logs it once.
  // The block counts as freed in either case.
  virtual absl::Status DoDeallocate(const MemoryReturn& block) = 0;
  // The work of RecordUse and of Trim:
  virtual absl::Status DoRecordUse(const void* pointer, StreamRef stream,
                                   CallSite site);
  virtual absl::Status DoTrim() { return absl::OkStatus(); }
  // Returns true if `other` may take blocks of this resource back.
  virtual bool IsEqual(const MemoryResource& other) const {
    return this == &other;
  }

 private:
  const Device device_;
};

// Sets the device's resource for all threads; nullptr means the caching
// allocator.  INVALID_ARGUMENT: the resource belongs to another device.
DEVRT_EXPORT absl::Status SetMemoryResource(
    Device device, std::shared_ptr<MemoryResource> resource);
// Never returns null.  In a forked child the resource refuses every call.
DEVRT_EXPORT std::shared_ptr<MemoryResource> GetMemoryResource(Device device);

}  // namespace devrt

#endif  // DEVRT_MEMORY_RESOURCE_MEMORY_RESOURCE_H_
