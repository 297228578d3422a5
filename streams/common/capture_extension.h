// SPDX-License-Identifier: Apache-2.0
//
// The extension devrt.capture/0 of one device: CUDA graph captures that other
// libraries begin.
//
// Threads: any.

#ifndef DEVRT_STREAMS_COMMON_CAPTURE_EXTENSION_H_
#define DEVRT_STREAMS_COMMON_CAPTURE_EXTENSION_H_

#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_capture.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "runtime/registry/records.h"
#include "streams/common/extension.h"

namespace devrt::internal {

// The device's extension.  The table is whole: functions that an older backend
// lacks are NULL.
ExtensionOf<devrt_capture_v0> FindCapture(DeviceRecord* device);

// A whole table for a shorter one of an older backend.  The table is made at
// the first call for `table` and never freed.
const devrt_capture_v0* WholeCapture(const devrt_capture_v0* table);

// Asks the driver whether another library captures `stream`, whose handle stays
// valid over the call.  `capture` is the extension of `device`: false without
// one.
absl::StatusOr<bool> IsStreamCapturing(
    DeviceRecord* device, const ExtensionOf<devrt_capture_v0>& capture,
    devrt_stream stream);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_COMMON_CAPTURE_EXTENSION_H_
