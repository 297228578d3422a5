// SPDX-License-Identifier: Apache-2.0
//
// Raw memory: device memory and pinned host memory, straight from the backend.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Device gpu, devrt::GetDevice("mtia:0"));
//   DEVRT_ASSIGN_OR_RETURN(void* block, devrt::Allocate(gpu, 1 << 20));
//   ... enqueue work that uses `block`, wait for that work ...
//   DEVRT_RETURN_IF_ERROR(devrt::Free(gpu, block));
//
// What it is not: an allocator for the normal path of a program.  Every call
// goes to the driver, and on some devices a free waits for all work of the
// device (DeviceProperties::raw_free_syncs, C64).  It knows no streams: the
// caller has ordered all uses of a block before its free.
//
// Memory is not cleared; a simulator fills it with 0xFF (C61).  Sizes are
// bytes.  Device memory cannot be read or written by the host; pinned memory
// can.  devrt remembers every block, so that a wrong free is an error and
// nothing else.
//
// Ownership: the caller's, until Free, FreeHost or UnregisterHost.  Blocks
// that are alive keep Shutdown() from happening.
// Threads: any.  Refused with FAILED_PRECONDITION inside host functions (C42),
// after Shutdown() and in a forked child; nothing is touched there.
// A lost device's blocks can be freed: the call succeeds without asking the
// driver, and the memory stays lost (docs/semantics.md 2.5).

#ifndef DEVRT_RUNTIME_RAW_MEMORY_H_
#define DEVRT_RUNTIME_RAW_MEMORY_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

// ---- Device memory --------------------------------------------------------

// `bytes` of memory of `device`.  `alignment` is a power of two, 0: the
// device's own.  Zero bytes are a null pointer and success (C102).
//   RESOURCE_EXHAUSTED  no room, with an OutOfMemoryInfo; nothing changed, and
//                       a smaller request may succeed (C62)
//   INVALID_ARGUMENT    the alignment is not a power of two
//   UNIMPLEMENTED       the device cannot align that far
DEVRT_EXPORT absl::StatusOr<void*> Allocate(Device device, uint64_t bytes,
                                            uint64_t alignment = 0,
                                            CallSite site = CallSite::Here());

// Null is allowed.
//   INVALID_ARGUMENT  not the beginning of a live block of `device`: freed
//                     before (and where), interior, of another device, pinned,
//                     or unknown
DEVRT_EXPORT absl::Status Free(Device device, void* pointer,
                               CallSite site = CallSite::Here());

// ---- Pinned host memory ---------------------------------------------------

// Page-locked host memory, which copies of `device`'s backend reach without a
// detour; reported as belonging to `device`.  Errors as of Allocate;
// UNIMPLEMENTED where the backend lacks PINNED_HOST.
DEVRT_EXPORT absl::StatusOr<void*> AllocateHost(
    Device device, uint64_t bytes, uint64_t alignment = 0,
    CallSite site = CallSite::Here());

// Null is allowed.  INVALID_ARGUMENT as of Free.
DEVRT_EXPORT absl::Status FreeHost(void* pointer,
                                   CallSite site = CallSite::Here());

// Page-locks `bytes` of existing host memory for `device`'s backend.  The
// caller keeps it allocated until UnregisterHost.  One range may be
// registered with several backends.
//   ALREADY_EXISTS    overlaps a range registered with that backend (C70)
//   INVALID_ARGUMENT  null, empty, device memory or already pinned memory
//   UNIMPLEMENTED     the backend lacks HOST_REGISTER
DEVRT_EXPORT absl::Status RegisterHost(Device device, void* pointer,
                                       uint64_t bytes,
                                       CallSite site = CallSite::Here());

// Ends a registration with `device`'s backend.
//   NOT_FOUND         not registered with it, or not any more
//   INVALID_ARGUMENT  points into a registered range, not to its beginning
DEVRT_EXPORT absl::Status UnregisterHost(Device device, void* pointer,
                                         CallSite site = CallSite::Here());

// ---- What a pointer is ----------------------------------------------------

enum class PointerKind : uint32_t {
  kUnregistered = 0,  // plain host memory, null, freed: no backend's business
  kDevice = 1,
  kPinned = 2,  // allocated by AllocateHost, or registered
  kManaged = 3,
};

// "unregistered", "device", "pinned", "managed".
DEVRT_EXPORT const char* ToString(PointerKind kind);

struct PointerInfo {
  PointerKind kind = PointerKind::kUnregistered;
  std::optional<Device> device;  // nullopt if unregistered
  const void* base = nullptr;    // of the block
  uint64_t size = 0;             // of the block, as asked for
  uint64_t id = 0;  // of the block, never reused; 0: not made by devrt
  bool host_readable = true;
};

// The block that `pointer` lies in.  Knows devrt's own blocks, and asks every
// opened backend about others; so memory of other libraries is found too.
// Never an error for a host pointer (C71): the only failure is
// FAILED_PRECONDITION after Shutdown() and in a forked child.  Also answered
// inside host functions.
DEVRT_EXPORT absl::StatusOr<PointerInfo> GetPointerInfo(const void* pointer);

}  // namespace devrt

#endif  // DEVRT_RUNTIME_RAW_MEMORY_H_
