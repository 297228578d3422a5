// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills of bytes, in stream order.
//
//   DEVRT_RETURN_IF_ERROR(devrt::CopyAsync(s, device_ptr, host_ptr, bytes));
//   DEVRT_RETURN_IF_ERROR(devrt::Copy(s, host_ptr, device_ptr, bytes));
//
// Sources and targets may be device memory, pinned or registered host memory,
// or pageable host memory.  The kind is inferred from the pointers; an explicit
// kind that contradicts them is INVALID_ARGUMENT (C55).  Memory of two devices
// of one backend is copied peer to peer, with or without peer access (C58).
// Memory of two backends is copied through the host, and the calling thread
// waits.
//
//   CopyAsync  returns without waiting, with two exceptions: pageable memory
//              may make the call wait (C53); a copy from host to host waits for
//              the stream and is complete on return (C52).  Until the copy is
//              complete the caller keeps both sides alive, does not write the
//              source and does not read the target (C54).
//   Copy       returns when the bytes have arrived if one side is host memory
//              (C48-C50); between devices it does what CopyAsync does (C51).
//   FillAsync  sets bytes of memory of the stream's device, or of a device to
//              which it has peer access (C47).
//
// Each function also takes a device, and then uses its current stream.
//
// Calls with zero bytes succeed; they look at no pointer and create no order
// (C59).
//
// INVALID_ARGUMENT: a wrong kind, ranges that leave an allocation or overlap,
// memory of a device that the stream cannot copy, null pointers.  A copy
// between two devices takes a stream of either device.
// Threads: any.

#ifndef DEVRT_STREAMS_OPERATIONS_COPY_H_
#define DEVRT_STREAMS_OPERATIONS_COPY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

// Which sides of a copy are host memory.
enum class CopyKind : uint32_t {
  kInfer = 0,
  kHostToDevice = 1,
  kDeviceToHost = 2,
  kDeviceToDevice = 3,  // one device or two
  kHostToHost = 4,
};

// Copies `bytes` bytes from `src` to `dst`, in the order of `stream`.
DEVRT_EXPORT absl::Status CopyAsync(StreamRef stream, void* dst,
                                    const void* src, uint64_t bytes,
                                    CopyKind kind = CopyKind::kInfer,
                                    CallSite site = CallSite::Here());

// As CopyAsync, and waits until the bytes have arrived if one side is host
// memory.
DEVRT_EXPORT absl::Status Copy(StreamRef stream, void* dst, const void* src,
                               uint64_t bytes, CopyKind kind = CopyKind::kInfer,
                               CallSite site = CallSite::Here());

// Sets `bytes` bytes from `dst` on to `value`, in the order of `stream`.
DEVRT_EXPORT absl::Status FillAsync(StreamRef stream, void* dst, uint8_t value,
                                    uint64_t bytes,
                                    CallSite site = CallSite::Here());

// On the current stream of `device`.
inline absl::Status CopyAsync(Device device, void* dst, const void* src,
                              uint64_t bytes, CopyKind kind = CopyKind::kInfer,
                              CallSite site = CallSite::Here()) {
  return CopyAsync(CurrentStream(device), dst, src, bytes, kind, site);
}

// On the current stream of `device`.
inline absl::Status Copy(Device device, void* dst, const void* src,
                         uint64_t bytes, CopyKind kind = CopyKind::kInfer,
                         CallSite site = CallSite::Here()) {
  return Copy(CurrentStream(device), dst, src, bytes, kind, site);
}

// On the current stream of `device`.
inline absl::Status FillAsync(Device device, void* dst, uint8_t value,
                              uint64_t bytes,
                              CallSite site = CallSite::Here()) {
  return FillAsync(CurrentStream(device), dst, value, bytes, site);
}

}  // namespace devrt

#endif  // DEVRT_STREAMS_OPERATIONS_COPY_H_
