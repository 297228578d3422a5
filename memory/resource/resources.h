// SPDX-License-Identifier: Apache-2.0
//
// The resources that devrt has, and adaptors that stand in front of one.
//
//   auto caching = devrt::CachingResource(gpu);
//   auto limited = devrt::LimitResource(caching, 1 << 30);
//   auto counted = devrt::StatisticsResource::Make(limited);
//   DEVRT_RETURN_IF_ERROR(devrt::SetMemoryResource(gpu, counted));
//
// An adaptor hands requests on to its upstream and shares its device.  Adaptors
// compose in any order; properties().name shows the whole chain.  What an
// adaptor refuses itself leaves the upstream untouched.  Of a null upstream
// they make null.

#ifndef DEVRT_MEMORY_RESOURCE_RESOURCES_H_
#define DEVRT_MEMORY_RESOURCE_RESOURCES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/memory/memory_resource.h"
#include "devrt/memory/statistics.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

// ---- Sources ----------------------------------------------------------------

// One per device, the same each time; every request goes to the backend's
// alloc.  Deallocate waits for the stream and for uses that were recorded, then
// frees: slow, but right by itself, and what the tests of others stand upon. On
// `raw_free_syncs` devices the free waits for the whole device (C64).
DEVRT_EXPORT std::shared_ptr<MemoryResource> RawResource(Device device);

// The driver's own stream-ordered allocator.  UNIMPLEMENTED without
// ASYNC_ALLOC.  RecordUse makes the freeing stream wait for the recorded ones
// by events (a device-side wait); the host waits only where one of the streams
// was destroyed before the block was freed.
DEVRT_EXPORT absl::StatusOr<std::shared_ptr<MemoryResource>> DriverResource(
    Device device);

// The caching allocator of device_memory.h; one per device, the same each time.
DEVRT_EXPORT std::shared_ptr<MemoryResource> CachingResource(Device device);

// A caching allocator of its own, apart from the device's: its blocks are
// never mixed with others', and go back to the driver with the last of it.  It
// shares the device's fraction: a request that finds no room takes back what
// any of them caches (docs/semantics.md 2.6).  It is not in the device's
// statistics.
DEVRT_EXPORT std::shared_ptr<MemoryResource> PrivateCachingResource(
    Device device);

// Functions of a program in C, or of another language.  `stream` is the native
// handle, adopted by nobody.  They may be called from any thread and must not
// call devrt.  A `free` that fails cannot say so.
struct MemoryCallbacks {
  void* context = nullptr;
  // Null: out of memory.
  void* (*allocate)(void* context, uint64_t bytes, int32_t device,
                    void* stream) = nullptr;
  void (*deallocate)(void* context, void* pointer, uint64_t bytes,
                     int32_t device, void* stream) = nullptr;
  // Optional, called once, when nobody holds a block or the resource.
  void (*destroy)(void* context) = nullptr;
};
// INVALID_ARGUMENT without the two functions.
DEVRT_EXPORT absl::StatusOr<std::shared_ptr<MemoryResource>> CallbackResource(
    Device device, const MemoryCallbacks& callbacks);

// ---- Adaptors ---------------------------------------------------------------

// One line of the log, or one call of `sink`, for each call: what, bytes,
// pointer, stream, result.  `sink` is called from the caller's thread, under no
// lock of devrt's but that of a ThreadSafeResource which stands upon this one.
using MemorySink = std::function<void(std::string_view line)>;
DEVRT_EXPORT std::shared_ptr<MemoryResource> LoggingResource(
    std::shared_ptr<MemoryResource> upstream, MemorySink sink = nullptr);

// Counts what passes.
class DEVRT_EXPORT StatisticsResource : public MemoryResource {
 public:
  static std::shared_ptr<StatisticsResource> Make(
      std::shared_ptr<MemoryResource> upstream);
  // Exact; `peak` is the greatest `current` there was.  0 in a forked child.
  virtual Stat allocations() const = 0;
  virtual Stat bytes() const = 0;
  virtual uint64_t failures() const = 0;

 protected:
  using MemoryResource::MemoryResource;
};

// At most `bytes` alive at once, as asked for; more is RESOURCE_EXHAUSTED and
// does not reach the upstream.  The bytes count as used from the request on.
DEVRT_EXPORT std::shared_ptr<MemoryResource> LimitResource(
    std::shared_ptr<MemoryResource> upstream, uint64_t bytes);

struct FailureInjection {
  uint64_t fail_at = 0;     // that allocation, counted from 1; 0: none
  uint64_t fail_every = 0;  // each n-th; 0: none
  uint64_t fail_above = 0;  // larger requests; 0: none
  double probability = 0;   // of each one
  uint64_t seed = 1;        // of `probability`
  absl::StatusCode code = absl::StatusCode::kResourceExhausted;
};
// Fails as told, without asking the upstream; frees are never failed.
DEVRT_EXPORT std::shared_ptr<MemoryResource> FailureResource(
    std::shared_ptr<MemoryResource> upstream, const FailureInjection& when);

// One call at a time to an upstream that is not safe for threads; to one that
// is, calls go on as they come.  Waits of the upstream hold the others back,
// and so does what it calls: a sink, an out-of-memory callback.  The thread
// that is inside may come in again, so a callback may free what came from here;
// such an upstream must be able to take that.
DEVRT_EXPORT std::shared_ptr<MemoryResource> ThreadSafeResource(
    std::shared_ptr<MemoryResource> upstream);

}  // namespace devrt

#endif  // DEVRT_MEMORY_RESOURCE_RESOURCES_H_
