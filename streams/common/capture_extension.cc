// SPDX-License-Identifier: Apache-2.0

#include "streams/common/capture_extension.h"

#include <cstring>
#include <memory>

#include "absl/base/optimization.h"
#include "absl/container/flat_hash_map.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"

namespace devrt::internal {

const devrt_capture_v0* WholeCapture(const devrt_capture_v0* table) {
  static Mutex mutex;
  // Backends are never unloaded, so their tables are kept too.
  static auto* const made =
      new absl::flat_hash_map<const devrt_capture_v0*,
                              std::unique_ptr<devrt_capture_v0>>;
  MutexLock lock(&mutex);
  std::unique_ptr<devrt_capture_v0>& whole = (*made)[table];
  if (whole == nullptr) {
    whole = std::make_unique<devrt_capture_v0>();
    std::memcpy(whole.get(), table, table->struct_size);
  }
  return whole.get();
}

ExtensionOf<devrt_capture_v0> FindCapture(DeviceRecord* device) {
  auto found = FindExtension<devrt_capture_v0>(
      device, DEVRT_CAPTURE_EXTENSION,
      DEVRT_SIZE_THROUGH(devrt_capture_v0, stream_is_capturing));
  if (found.table != nullptr &&
      found.table->struct_size < sizeof *found.table) {
    found.table = WholeCapture(found.table);
  }
  return found;
}

absl::StatusOr<bool> IsStreamCapturing(
    DeviceRecord* device, const ExtensionOf<devrt_capture_v0>& capture,
    devrt_stream stream) {
  if (ABSL_PREDICT_TRUE(capture.table == nullptr)) return false;
  uint32_t yes = 0;
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      device, capture.table->stream_is_capturing(capture.self, stream, &yes),
      "capture query"));
  return yes != 0;
}

}  // namespace devrt::internal
