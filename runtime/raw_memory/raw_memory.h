// SPDX-License-Identifier: Apache-2.0
//
// Raw memory: device memory and pinned host memory, straight from the backend.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Device gpu, devrt::GetDevice("mtia:0"));
//   DEVRT_ASSIGN_OR_RETURN(void* block, devrt::Allocate(gpu, 1 << 20));
//   ... enqueue work that uses `block`, wait for that work ...
//   DEVRT_RETURN_IF_ERROR(devrt::Free(gpu, block));
//
// What it is not: the allocator for normal use.  Every call goes to the driver,
// and on some devices Free waits for all work of the device
// (DeviceProperties::raw_free_syncs, C64).  These functions know no streams:
// before Free, the caller waits for all work that uses the block.
//
// Memory is not cleared; a simulator fills it with 0xFF (C61).  Sizes are
// bytes.  The host can access pinned memory, but not device memory.  devrt
// records every block, so a wrong free returns an error and changes nothing.
//
// Ownership: the caller owns a block until Free or FreeHost, and a registration
// until UnregisterHost.  While any is alive, Shutdown() fails.
// Threads: any.  The functions fail with FAILED_PRECONDITION, and change
// nothing, inside host functions (C42), after Shutdown() and in a forked child.
// Blocks of a lost device can be freed: the call succeeds without calling the
// driver, and the memory stays lost (docs/reference/semantics.md 2.5).

#ifndef DEVRT_RUNTIME_RAW_MEMORY_RAW_MEMORY_H_
#define DEVRT_RUNTIME_RAW_MEMORY_RAW_MEMORY_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

// ---- Device memory --------------------------------------------------------

// Allocates `bytes` of memory of `device`.  `alignment` is a power of two; 0 is
// the device's own alignment.  For 0 bytes the result is a null pointer (C102).
//   RESOURCE_EXHAUSTED  not enough memory; carries an OutOfMemoryInfo.  A
//                       smaller request may succeed (C62)
//   INVALID_ARGUMENT    the alignment is not a power of two
//   UNIMPLEMENTED       the device cannot align so far
DEVRT_EXPORT absl::StatusOr<void*> Allocate(Device device, uint64_t bytes,
                                            uint64_t alignment = 0,
                                            CallSite site = CallSite::Here());

// Frees a block.  A null pointer is allowed.
//   INVALID_ARGUMENT  `pointer` is not the beginning of a live block of
//                     `device`: it was freed before (the message says where),
//                     points into a block, or belongs to another device, to
//                     pinned memory or to nothing that devrt knows
DEVRT_EXPORT absl::Status Free(Device device, void* pointer,
                               CallSite site = CallSite::Here());

// ---- Pinned host memory ---------------------------------------------------

// Allocates page-locked host memory.  Copies of `device`'s backend use it
// without a staging buffer, and GetPointerInfo reports `device` for it.  Errors
// of Allocate; UNIMPLEMENTED if the backend lacks PINNED_HOST.
DEVRT_EXPORT absl::StatusOr<void*> AllocateHost(
    Device device, uint64_t bytes, uint64_t alignment = 0,
    CallSite site = CallSite::Here());

// Frees a block of AllocateHost.  A null pointer is allowed.  INVALID_ARGUMENT
// for the reasons of Free.
DEVRT_EXPORT absl::Status FreeHost(void* pointer,
                                   CallSite site = CallSite::Here());

// Page-locks `bytes` of existing host memory for `device`'s backend.  The
// caller keeps the memory allocated until UnregisterHost.  One range may be
// registered with several backends.
//   ALREADY_EXISTS    overlaps a range registered with this backend (C70)
//   INVALID_ARGUMENT  null, empty, device memory or pinned memory
//   UNIMPLEMENTED     the backend lacks HOST_REGISTER
DEVRT_EXPORT absl::Status RegisterHost(Device device, void* pointer,
                                       uint64_t bytes,
                                       CallSite site = CallSite::Here());

// Ends a registration with `device`'s backend.
//   NOT_FOUND         the range is not registered with this backend
//   INVALID_ARGUMENT  points into a registered range, not to its beginning
DEVRT_EXPORT absl::Status UnregisterHost(Device device, void* pointer,
                                         CallSite site = CallSite::Here());

// ---- Properties of a pointer ----------------------------------------------

// What kind of memory a pointer leads to.
enum class PointerKind : uint32_t {
  kUnregistered = 0,  // plain host memory, null, or freed
  kDevice = 1,
  kPinned = 2,  // allocated by AllocateHost, or registered
  kManaged = 3,
};

// "unregistered", "device", "pinned", "managed".
DEVRT_EXPORT const char* ToString(PointerKind kind);

// What devrt and the backends know of a pointer.
struct PointerInfo {
  PointerKind kind = PointerKind::kUnregistered;
  std::optional<Device> device;  // nullopt if unregistered
  const void* base = nullptr;    // of the block
  uint64_t size = 0;             // of the block, in bytes as requested
  uint64_t id = 0;  // of the block, never reused; 0 if devrt did not make it
  bool host_readable = true;  // the host may use the pointer
};

// The block that contains `pointer`.  devrt knows its own blocks, and asks
// every open backend about other pointers, so the function also finds memory of
// other libraries.  A host pointer is never an error (C71): the only failure is
// FAILED_PRECONDITION after Shutdown() and in a forked child.  Host functions
// may call it.
DEVRT_EXPORT absl::StatusOr<PointerInfo> GetPointerInfo(const void* pointer);

}  // namespace devrt

#endif  // DEVRT_RUNTIME_RAW_MEMORY_RAW_MEMORY_H_
