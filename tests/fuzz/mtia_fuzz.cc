// SPDX-License-Identifier: Apache-2.0
//
// DEVRT_MTIA: what can be understood can be written down and understood again,
// and what cannot leaves the configuration alone.

#include <string>
#include <string_view>

#include "backends/mtia/config/config.h"
#include "tests/fuzz/entry.h"

namespace devrt::mtia {
namespace {

void Try(std::string_view text) {
  Config config;
  std::string error;
  if (!ParseConfig(text, &config, &error)) {
    FUZZ_EXPECT(!error.empty());
    FUZZ_EXPECT(ConfigText(config) == ConfigText(Config{}));
    return;
  }
  FUZZ_EXPECT(config.devices >= 1 && config.devices <= kMaxDevices);
  FUZZ_EXPECT(config.overhead < config.memory);
  const std::string written = ConfigText(config);
  Config again;
  FUZZ_EXPECT(ParseConfig(written, &again, &error));
  FUZZ_EXPECT(ConfigText(again) == written);
  FUZZ_EXPECT(ConfigHash(again) == ConfigHash(config));
}

}  // namespace
}  // namespace devrt::mtia

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  devrt::mtia::Try(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
