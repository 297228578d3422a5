// SPDX-License-Identifier: Apache-2.0
//
// DEVRT_ALLOC_CONF.  What is read keeps to the bounds of settings.h, and can be
// written and read again; what is refused is refused in one printable line.

#include <string>
#include <string_view>

#include "devrt/memory/settings.h"
#include "runtime/common/text.h"
#include "tests/fuzz/entry.h"

namespace devrt {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

bool IsPrintable(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

bool IsPowerOfTwo(uint64_t x) { return x != 0 && (x & (x - 1)) == 0; }

void CheckBounds(const AllocatorSettings& s) {
  FUZZ_EXPECT(s.max_split_size > 20 * kMiB);
  FUZZ_EXPECT(s.garbage_collection_threshold >= 0 &&
              s.garbage_collection_threshold < 1);
  FUZZ_EXPECT(s.roundup_power2_divisions.empty() ||
              s.roundup_power2_divisions.size() == 17);
  for (const uint32_t d : s.roundup_power2_divisions) {
    FUZZ_EXPECT(d == 0 || (d <= 64 && IsPowerOfTwo(d)));
  }
  FUZZ_EXPECT(s.per_process_memory_fraction >= 0 &&
              s.per_process_memory_fraction <= 1);
  FUZZ_EXPECT(s.pinned_register_threads <= 128 &&
              IsPowerOfTwo(s.pinned_register_threads));
  FUZZ_EXPECT(s.pinned_class_limit >= kMiB &&
              IsPowerOfTwo(s.pinned_class_limit));
}

void Try(std::string_view text) {
  const absl::StatusOr<AllocatorSettings> read = ParseAllocatorSettings(text);
  if (!read.ok()) {
    const std::string_view message = internal::ToStd(read.status().message());
    FUZZ_EXPECT(IsPrintable(message));
    FUZZ_EXPECT(message.size() < 1000);
    return;
  }
  CheckBounds(*read);
  const std::string written = ToString(*read);
  const absl::StatusOr<AllocatorSettings> again =
      ParseAllocatorSettings(written);
  FUZZ_EXPECT(again.ok());
  FUZZ_EXPECT(ToString(*again) == written);
}

}  // namespace
}  // namespace devrt

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  devrt::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
