// SPDX-License-Identifier: Apache-2.0
//
// mtia linked into this program.  The helper comes before devrt's headers and
// must not touch what they declare: it once left all of that hidden, and such a
// program did not link.

// clang-format off
#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "devrt/devrt.h"
// clang-format on

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "tests/support/status_matchers.h"

DEVRT_STATIC_PLUGIN(mtia);

namespace devrt {
namespace {

using testing::Must;

bool IsMapped(const std::string& file) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    if (line.find(file) != std::string::npos) return true;
  }
  return false;
}

TEST(LinkedIn, WorksWithoutItsFile) {
  // The file is there as well, in the folder beside the library; what is linked
  // in comes first.
  ASSERT_OK(RegisterBackend(&devrt_plugin_manifest_v0_mtia,
                            &devrt_plugin_open_v0_mtia));
  EXPECT_EQ(RegisterBackend(&devrt_plugin_manifest_v0_mtia,
                            &devrt_plugin_open_v0_mtia)
                .code(),
            absl::StatusCode::kAlreadyExists);
  const Device device = Must(GetDevice("mtia:1"));
  EXPECT_EQ(device.backend().path(), "");
  EXPECT_FALSE(IsMapped("libdevrt_mtia.so"));
  EXPECT_TRUE(IsMapped("libdevrt.so"));

  const Stream stream = Must(Stream::Create(device));
  void* memory = Must(Allocate(device, 64));
  uint8_t byte = 0;
  EXPECT_OK(FillAsync(stream, memory, 42, 64));
  EXPECT_OK(Copy(stream, &byte, memory, 1));
  EXPECT_EQ(byte, 42);
  EXPECT_OK(Free(device, memory));
}

}  // namespace
}  // namespace devrt
