// SPDX-License-Identifier: Apache-2.0
//
// Starting afresh: what a reset that is refused leaves (R2), and what one that
// works forgets.
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::HasSubstr;

// The machine of the process is opened again with many devices, so that large
// memories need more addresses than there are.
class Restart : public EngineTest {
 protected:
  static constexpr const char* kTooMuch = "memory=1TiB";

  static devrt_status Open(const std::string& text) {
    setenv("DEVRT_MTIA", text.c_str(), 1);
    devrt_backend_v0 again = {};
    again.struct_size = sizeof again;
    devrt_status error = devrt_plugin_open_v0(host().table(), &again);
    unsetenv("DEVRT_MTIA");
    return error;
  }
  void SetUp() override {
    EngineTest::SetUp();
    OK(Open("devices=64"));
  }
  void TearDown() override {
    OK(Open("devices=2"));
    EngineTest::TearDown();
  }
  static devrt_status TryReset(const std::string& text) {
    return sim().reset(self(), text.data(), text.size());
  }
  static void ExpectConfig(const std::string& part) {
    EXPECT_THAT(Text(sim().config), HasSubstr(part));
  }
};

TEST_F(Restart, ARefusedResetChangesNothing) {
  for (const std::string from : {"virtual", "threaded"}) {
    for (const std::string to : {"virtual", "threaded"}) {
      SCOPED_TRACE(from + " to " + to);
      Reset("seed=3,mode=" + from);
      devrt_stream s = NewStream();
      devrt_flag flag = NewFlag();
      int64_t* const x = NewCell(0, 1);
      Hold(s, flag);
      MulAdd(s, x, 5, 2);
      ExpectCode(TryReset(std::string(kTooMuch) + ",mode=" + to),
                 DEVRT_RESOURCE_EXHAUSTED);
      ExpectConfig("mode=" + from);
      ExpectConfig("memory=256MiB");
      ExpectConfig("seed=3");
      EXPECT_EQ(Stats().live_blocks, 1u);
      EXPECT_EQ(Stats().pending_ops, 2u);
      // Every thread can still use the objects inside.
      std::thread([s, flag] {
        Set(flag);
        Sync(s);
      }).join();
      EXPECT_EQ(Peek(x), 7);
      Reset("mode=" + to);
      EXPECT_EQ(Stats().live_blocks, 0u);
      std::thread([] { Sync(NewStream()); }).join();
    }
  }
}

TEST_F(Restart, FailedOpenKeepsTheOldMachine) {
  NewCell();
  ExpectCode(Open("devices=60,memory=1TiB"), DEVRT_RESOURCE_EXHAUSTED);
  ExpectConfig("devices=64");
  uint32_t count = 0;
  OK(ops().device_count(self(), &count));
  EXPECT_EQ(count, 64u);
  EXPECT_EQ(Stats().live_blocks, 1u);
  const std::string more = "devices=60";
  ExpectCode(TryReset(more), DEVRT_FAILED_PRECONDITION);
}

}  // namespace
}  // namespace devrt::test
