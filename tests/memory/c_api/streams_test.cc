// SPDX-License-Identifier: Apache-2.0
//
// Native streams that the functions in C adopted: devrt's own objects, not the
// program's, so that nothing is left for it to end.

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "devrt/devrt.h"
#include "devrt/memory/devrt_memory.h"
#include "runtime/registry/records.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

// A stream that its program destroys before it shuts down.
void UseInC(void* stream) {
  void* block = nullptr;
  ASSERT_EQ(devrt_memory_alloc_v0("mtia:0", 100, stream, &block), 0);
  ASSERT_EQ(devrt_memory_free_v0(block), 0);
}

TEST(CStreams, DoNotStandInTheWayOfShutdown) {
  for (const bool said : {false, true}) {
    InChild([said] {
      std::optional<Stream> owner = MtiaTest::NewStream();
      void* const stream = Must(owner->Native());
      const internal::DeviceRecord& device = *MtiaTest::dev().record();
      UseInC(stream);
      EXPECT_EQ(device.live_streams.load(), 1) << "the program's own";
      if (said) {
        EXPECT_EQ(devrt_memory_stream_ends_v0("mtia:0", stream), 0);
      }
      EXPECT_EQ(device.live_streams.load(), 1);
      owner.reset();
      EXPECT_OK(Shutdown());
      EXPECT_EQ(device.live_streams.load(), 0);
    });
  }
}

// The handles of before a reset are dead: none is found again.
TEST(CStreams, ResetForgetsStreams) {
  InChild([] {
    for (int i = 0; i < 3; ++i) {
      {
        Stream owner = MtiaTest::NewStream();
        UseInC(Must(owner.Native()));
      }
      EXPECT_OK(MtiaTest::sim().Reset());
      EXPECT_EQ(MtiaTest::dev().record()->live_streams.load(), 0);
    }
  });
}

TEST(CErrors, NameTheFunctionsOfC) {
  InChild([] {
    char mine[8];
    EXPECT_NE(devrt_memory_free_v0(mine), 0);
    const std::string text = devrt_memory_last_error_v0();
    EXPECT_EQ(text.rfind("devrt_memory_free needs memory from "
                         "devrt_memory_alloc, but ",
                         0),
              0u)
        << text;
  });
}

}  // namespace
}  // namespace devrt::testing
