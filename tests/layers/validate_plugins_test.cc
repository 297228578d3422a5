// SPDX-License-Identifier: Apache-2.0
//
// The validate layer over plugins of older and newer minor versions, whose
// tables are shorter or longer than those of the layer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/layers/validate_streams.h"

namespace devrt::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ValidatePlugin : public ::testing::TestWithParam<const char*> {};

TEST_P(ValidatePlugin, ItsWorkIsOrderedAndJudged) {
  const char* const folder = std::getenv("DEVRT_TEST_PLUGIN_DIR");
  ASSERT_NE(folder, nullptr);
  const std::string path =
      std::string(folder) + "/libdevrt_" + GetParam() + ".so";
  InChild([&] {
    EXPECT_OK(EnableQuietly());
    const Backend backend = Must(LoadBackend(path));
    const Device device = backend.devices()[0];
    const Stream a = Must(Stream::Create(device));
    const Stream b = Must(Stream::Create(device));
    const Event event = Must(Event::Create(device));
    void* const from = Must(Allocate(device, kBytes));
    void* const to = Must(Allocate(device, kBytes));
    {
      const validate::Scope scope;
      EXPECT_OK(CopyAsync(a, to, from, kBytes));
      EXPECT_OK(event.Record(a));
      EXPECT_OK(b.Wait(event));
      EXPECT_OK(CopyAsync(b, to, from, kBytes));
      EXPECT_OK(b.Synchronize());
      EXPECT_THAT(KindsOf(scope), IsEmpty());
    }
    const validate::Scope scope;
    EXPECT_OK(CopyAsync(a, to, from, kBytes));
    EXPECT_OK(CopyAsync(b, to, from, kBytes));
    EXPECT_THAT(KindsOf(scope), ElementsAre("write-after-write"));
    EXPECT_OK(device.Synchronize());
    EXPECT_OK(Free(device, from));
    EXPECT_OK(CopyAsync(a, to, from, 0));
    EXPECT_THAT(KindsOf(scope), ElementsAre("write-after-write"));
    EXPECT_OK(Free(device, to));
  });
}

INSTANTIATE_TEST_SUITE_P(Minor, ValidatePlugin,
                         ::testing::Values("good", "older_minor", "cut_c",
                                           "cut_helper", "newer_minor",
                                           "appended_c", "appended_helper"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

}  // namespace
}  // namespace devrt::testing
