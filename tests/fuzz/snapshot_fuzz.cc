// SPDX-License-Identifier: Apache-2.0
//
// Memory snapshots.  A snapshot that was read can be written, and reading that
// gives an equal one.  A refusal is one printable line.

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "devrt/memory/history.h"
#include "runtime/common/text.h"
#include "tests/fuzz/entry.h"
#include "tools/memory/snapshot_reader.h"
#include "tools/memory/torch_pickle.h"

namespace devrt {
namespace {

bool IsPrintable(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

void Try(const std::string& text) {
  const absl::StatusOr<tools::SnapshotFile> file =
      tools::ParseMemorySnapshot(text);
  if (!file.ok()) {
    const std::string_view message = internal::ToStd(file.status().message());
    FUZZ_EXPECT(IsPrintable(message));
    FUZZ_EXPECT(message.size() < 500);
    return;
  }
  const std::string json = ToJson(file->snapshot);
  const absl::StatusOr<tools::SnapshotFile> again =
      tools::ParseMemorySnapshot(json);
  FUZZ_EXPECT(again.ok());
  FUZZ_EXPECT(ToJson(again->snapshot) == json);
  FUZZ_EXPECT(!tools::ToTorchPickle(file->snapshot).empty());
}

}  // namespace
}  // namespace devrt

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  devrt::Try(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
