// SPDX-License-Identifier: Apache-2.0
//
// MemoryResource: where device memory comes from, in stream order.
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
// Stream order: what Allocate(stream) returns may be used at once by work that
// is submitted to that stream, and by others after an event or a wait of the
// host.  Deallocate(stream) says that all uses are submitted already and are
// ordered before what is submitted to `stream` later, but for those that were
// told by RecordUse.  Neither call waits for the device on its normal path.
//
// What it is not: an owner's handle (buffer.h has one), nor a way to look at
// memory.
//
// Each device has one resource at a time, at first the caching allocator.
// SetMemoryResource replaces it at any moment: a block goes back to the
// resource that it came from, which is kept alive until its last block is back
// (F9, F26).
//
// Ownership: shared.  A resource outlives its blocks, and what it stands upon
// (`upstream`) outlives it.
// Threads: every resource may be called from any thread, unless it says so
// (properties().thread_safe); ThreadSafeResource makes one that may.
// Exceptions: one that leaves a Do function becomes INTERNAL, std::bad_alloc
// RESOURCE_EXHAUSTED; nothing is thrown at callers.
// Errors: FAILED_PRECONDITION inside host functions (C42), after Shutdown and
// in a forked child, where no lock is taken (C105); INVALID_ARGUMENT for a
// stream of another device, and for
// pointers that are no live block of this resource; RESOURCE_EXHAUSTED with an
// OutOfMemoryInfo (docs/semantics.md 2.6).

#ifndef DEVRT_MEMORY_RESOURCE_MEMORY_RESOURCE_H_
#define DEVRT_MEMORY_RESOURCE_MEMORY_RESOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

struct MemoryProperties {
  std::string name;         // "caching", "limit(caching)"; for messages
  bool thread_safe = true;  // may be called from several threads at once
  bool device_readable = true;
  bool host_readable = false;
  bool stream_ordered = true;  // false: Deallocate waits, or the caller must
  bool tracks_uses = false;    // RecordUse holds a block back
  bool has_statistics = false;
  uint64_t alignment = 256;  // of every pointer, at least; a power of two
};

struct MemoryRequest {
  StreamRef stream;
  uint64_t bytes;      // > 0, < 2^60
  uint64_t alignment;  // 0: the resource's own; else a power of two
  CallSite site;
};

struct MemoryReturn {
  void* pointer;     // what Allocate gave; never null
  uint64_t bytes;    // as asked for
  StreamRef stream;  // of the resource's device
  CallSite site;
};

class DEVRT_EXPORT MemoryResource
    : public std::enable_shared_from_this<MemoryResource> {
 public:
  explicit MemoryResource(Device device) : device_(device) {}
  MemoryResource(const MemoryResource&) = delete;
  MemoryResource& operator=(const MemoryResource&) = delete;
  virtual ~MemoryResource();

  Device device() const { return device_; }
  virtual MemoryProperties properties() const = 0;

  // Zero bytes are a null pointer and reach no Do function, as do requests of
  // 2^60 bytes and more, which are RESOURCE_EXHAUSTED (C102).  A null
  // pointer from DoAllocate is RESOURCE_EXHAUSTED; one that overlaps a live
  // block of a resource, or is not aligned, is INTERNAL, names the resource,
  // and is not given back to it.  A resource may cut up what it allocates from
  // another one, if it does so in its own Do functions and on their thread.
  absl::StatusOr<void*> Allocate(StreamRef stream, uint64_t bytes,
                                 uint64_t alignment = 0,
                                 CallSite site = CallSite::Here());
  // `bytes` as asked for.  Null is allowed.  `stream` may have been destroyed
  // meanwhile: its end is then the order that counts.  INVALID_ARGUMENT when no
  // block of this resource, or of one that is equal to it, begins there.
  absl::Status Deallocate(StreamRef stream, void* pointer, uint64_t bytes,
                          CallSite site = CallSite::Here());
  // The block that `pointer` lies in is used by work on `stream`, up to its
  // Deallocate.  UNIMPLEMENTED where !properties().tracks_uses.
  absl::Status RecordUse(const void* pointer, StreamRef stream,
                         CallSite site = CallSite::Here());
  // Gives what is cached back to where it came from.
  absl::Status Trim();

  // Whether a block from one may be given back to the other.  Reflexive,
  // symmetric; identity unless a class says more.
  friend bool operator==(const MemoryResource& a, const MemoryResource& b) {
    return &a == &b || (a.IsEqual(b) && b.IsEqual(a));
  }
  friend bool operator!=(const MemoryResource& a, const MemoryResource& b) {
    return !(a == b);
  }

 protected:
  virtual absl::StatusOr<void*> DoAllocate(const MemoryRequest& request) = 0;
  // An error is logged once by callers that cannot report it; the block is
  // then gone all the same.
  virtual absl::Status DoDeallocate(const MemoryReturn& block) = 0;
  virtual absl::Status DoRecordUse(const void* pointer, StreamRef stream,
                                   CallSite site);
  virtual absl::Status DoTrim() { return absl::OkStatus(); }
  virtual bool IsEqual(const MemoryResource& other) const {
    return this == &other;
  }

 private:
  const Device device_;
};

// The device's resource from now on, for all threads; nullptr: the caching
// allocator again.  INVALID_ARGUMENT for a resource of another device.
DEVRT_EXPORT absl::Status SetMemoryResource(
    Device device, std::shared_ptr<MemoryResource> resource);
// Never null; in a forked child one that refuses every call.
DEVRT_EXPORT std::shared_ptr<MemoryResource> GetMemoryResource(Device device);

}  // namespace devrt

#endif  // DEVRT_MEMORY_RESOURCE_MEMORY_RESOURCE_H_
