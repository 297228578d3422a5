// SPDX-License-Identifier: Apache-2.0
//
// Memory snapshots.  What is read can be written, and is then read as the same;
// what is refused is refused in one printable line.

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "devrt/memory/history.h"
#include "runtime/internal/text.h"
#include "tests/fuzz/entry.h"

namespace devrt {
namespace {

bool IsPrintable(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

void Try(const std::string& text) {
  const absl::StatusOr<MemorySnapshot> snapshot = ParseMemorySnapshot(text);
  if (!snapshot.ok()) {
    const std::string_view message =
        internal::ToStd(snapshot.status().message());
    FUZZ_EXPECT(IsPrintable(message));
    FUZZ_EXPECT(message.size() < 500);
    return;
  }
  const std::string json = ToJson(*snapshot);
  const absl::StatusOr<MemorySnapshot> again = ParseMemorySnapshot(json);
  FUZZ_EXPECT(again.ok());
  FUZZ_EXPECT(ToJson(*again) == json);
  FUZZ_EXPECT(!ToTorchPickle(*snapshot).empty());
}

}  // namespace
}  // namespace devrt

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  devrt::Try(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
