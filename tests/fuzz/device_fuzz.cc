// SPDX-License-Identifier: Apache-2.0
//
// Device strings: what names a device is that device's name, or its backend's.

#include <stdlib.h>

#include <string>
#include <string_view>

#include "devrt/runtime/device.h"
#include "runtime/common/text.h"
#include "tests/fuzz/entry.h"
#include "tests/unit/runtime/fake_backend.h"

namespace devrt {
namespace {

bool RegisterOnce() {
  setenv("DEVRT_PLUGINS", "/dev/null", 1);  // look nowhere else
  setenv("DEVRT_LOG", "off", 1);
  testing::FakeBackend::Register("fake", 3);
  return true;
}

void Try(std::string_view text) {
  static const bool registered = RegisterOnce();
  FUZZ_EXPECT(registered);
  const absl::StatusOr<Device> device = GetDevice(text);
  if (device.ok()) {
    FUZZ_EXPECT(device->name() == text || text == "fake");
    return;
  }
  for (const char c : device.status().message()) {
    FUZZ_EXPECT(static_cast<unsigned char>(c) >= 0x20);
  }
  FUZZ_EXPECT(device.status().message().size() < 1000);
}

}  // namespace
}  // namespace devrt

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  devrt::Try(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
