// SPDX-License-Identifier: Apache-2.0
//
// The memory resources of devrt, and adaptors that stand in front of a
// resource.
//
//   auto caching = devrt::CachingResource(gpu);
//   auto limited = devrt::LimitResource(caching, 1 << 30);
//   auto counted = devrt::StatisticsResource::Make(limited);
//   DEVRT_RETURN_IF_ERROR(devrt::SetMemoryResource(gpu, counted));
//
// An adaptor passes requests on to its upstream, and belongs to the device of
// its upstream.  Adaptors compose in any order; properties().name shows the
// whole chain.  A request that an adaptor refuses does not reach the upstream.
// An adaptor of a null upstream is null.

#ifndef DEVRT_MEMORY_RESOURCE_RESOURCES_H_
#define DEVRT_MEMORY_RESOURCE_RESOURCES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/memory/memory_resource.h"
#include "devrt/memory/memory_statistics.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

// ---- Sources ----------------------------------------------------------------

// Passes every request to the backend's alloc.  Deallocate waits for the stream
// and for recorded uses, and then frees: slow, but correct without a cache;
// tests of other resources build on it.  On devices with `raw_free_syncs` the
// free waits for the whole device (C64).  Each call for a device returns one
// object.
DEVRT_EXPORT std::shared_ptr<MemoryResource> RawResource(Device device);

// The driver's stream-ordered allocator.  UNIMPLEMENTED without ASYNC_ALLOC.
// After RecordUse the freeing stream waits on the device, by events, for the
// recorded streams.  The host waits only if one of the streams was destroyed
// before the block was freed.
DEVRT_EXPORT absl::StatusOr<std::shared_ptr<MemoryResource>> DriverResource(
    Device device);

// The caching allocator of device_memory.h.  Each call for a device returns one
// object.
DEVRT_EXPORT std::shared_ptr<MemoryResource> CachingResource(Device device);

// A new caching allocator beside the device's.  It shares no segment with other
// allocators, and gives its memory back to the driver when the resource and its
// last block are gone.  All caching allocators of a device share one fraction:
// a request that finds no room gives back what any of them caches
// (docs/reference/semantics.md 2.6).  The device's statistics do not include
// this one.
DEVRT_EXPORT std::shared_ptr<MemoryResource> PrivateCachingResource(
    Device device);

// Functions of a program in C or in another language.  `stream` is the native
// handle, which devrt has not adopted.  devrt calls the functions from any
// thread; they must not call devrt.  `deallocate` cannot report an error.
struct MemoryCallbacks {
  void* context = nullptr;  // first argument of the functions
  // Returns null if there is no memory.
  void* (*allocate)(void* context, uint64_t bytes, int32_t device,
                    void* stream) = nullptr;
  void (*deallocate)(void* context, void* pointer, uint64_t bytes,
                     int32_t device, void* stream) = nullptr;
  // Optional.  Called once, when the resource and all its blocks are gone.
  void (*destroy)(void* context) = nullptr;
};
// INVALID_ARGUMENT: `allocate` or `deallocate` is null.
DEVRT_EXPORT absl::StatusOr<std::shared_ptr<MemoryResource>> CallbackResource(
    Device device, const MemoryCallbacks& callbacks);

// ---- Adaptors ---------------------------------------------------------------

// Receives a line of a LoggingResource, on the caller's thread.  devrt holds no
// lock meanwhile, except that of a ThreadSafeResource in front of the resource.
using MemorySink = std::function<void(std::string_view line)>;
// Logs one line for each call, or passes it to `sink`: the kind of call, bytes,
// pointer, stream and result.
DEVRT_EXPORT std::shared_ptr<MemoryResource> LoggingResource(
    std::shared_ptr<MemoryResource> upstream, MemorySink sink = nullptr);

// Counts allocations, bytes and failures.
class DEVRT_EXPORT StatisticsResource : public MemoryResource {
 public:
  ~StatisticsResource() override;
  // A resource that counts what passes to `upstream`.
  static std::shared_ptr<StatisticsResource> Make(
      std::shared_ptr<MemoryResource> upstream);
  // How many blocks and bytes are and were alive, and how many allocations
  // failed.  `peak` is the true maximum of `current`.  In a forked child the
  // figures are 0:
  virtual Stat allocations() const = 0;
  virtual Stat bytes() const = 0;
  virtual uint64_t failures() const = 0;

 protected:
  // A resource of memory of a device.
  using MemoryResource::MemoryResource;
};

// Allows `bytes` of live blocks, counted as they were asked for, from the
// moment of the request.  A request for more is RESOURCE_EXHAUSTED.
DEVRT_EXPORT std::shared_ptr<MemoryResource> LimitResource(
    std::shared_ptr<MemoryResource> upstream, uint64_t bytes);

// Which allocations of a FailureResource fail, and with which code.
struct FailureInjection {
  uint64_t fail_at = 0;     // number of the one that fails, from 1; 0: none
  uint64_t fail_every = 0;  // each n-th allocation fails; 0: none
  uint64_t fail_above = 0;  // requests of more bytes fail; 0: none
  double probability = 0;   // that an allocation fails
  uint64_t seed = 1;        // of the random numbers for `probability`
  // The code of these failures.
  absl::StatusCode code = absl::StatusCode::kResourceExhausted;
};
// Fails allocations as `when` says, without asking the upstream.  Frees do not
// fail.
DEVRT_EXPORT std::shared_ptr<MemoryResource> FailureResource(
    std::shared_ptr<MemoryResource> upstream, const FailureInjection& when);

// Makes one call at a time to an upstream that is not safe for threads; passes
// calls on at once to one that is.  While the upstream waits, or runs a sink or
// an out-of-memory callback, the calls of other threads wait.  The thread
// inside may call again, so that a callback may free a block of this resource:
// the upstream has to allow that.
DEVRT_EXPORT std::shared_ptr<MemoryResource> ThreadSafeResource(
    std::shared_ptr<MemoryResource> upstream);

}  // namespace devrt

#endif  // DEVRT_MEMORY_RESOURCE_RESOURCES_H_
