// SPDX-License-Identifier: Apache-2.0
//
// Random programs on the caching allocator beside a model.
//
//   exact   no uses, no passing between streams: every address, and every
//           figure after every step, is the model's
//   uses    work on several streams: live blocks never overlap, none is handed
//           out before its last use is over or ordered before, and the figures
//           are those that a walk over the snapshot gives; in plain segments
//           and in expandable ones
//
// A program that fails is shrunk before it is reported.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "devrt/memory/settings.h"
#include "gtest/gtest.h"
#include "tests/memory/model/exact_run.h"
#include "tests/memory/model/program.h"
#include "tests/memory/model/uses_run.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using std::literals::operator""sv;

constexpr uint32_t kStreams = 3;
constexpr char kMachine[] = "memory=4GiB";

// Sanitizers take ten times as long, and have seen the code by then.
uint64_t Seeds() {
  const char* wanted = std::getenv("DEVRT_TEST_SEEDS");
  if (wanted != nullptr) return std::strtoull(wanted, nullptr, 10);
  const char* sanitizers = std::getenv("DEVRT_TEST_SANITIZE");
  const bool plain = sanitizers == nullptr || sanitizers == "none"sv;
  return plain ? 5000 : 500;
}

class PropertyTest : public MtiaTest {
 protected:
  void SetUp() override {
    MtiaTest::SetUp();
    Reset(kMachine);
  }

  // `run` gives what went wrong, or "".
  template <typename Run>
  void RunPrograms(size_t steps, Mix mix, Run run, uint64_t seeds = Seeds()) {
    std::vector<Stream> streams;
    for (uint32_t i = 0; i < kStreams; ++i) streams.push_back(NewStream());
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      const Program program = MakeProgram(seed, steps, kStreams, mix);
      const std::string first = run(&streams, program);
      if (first.empty()) continue;
      const Program shortest = Shrink(program, [&](const Program& less) {
        return !run(&streams, less).empty();
      });
      FAIL() << "seed " << seed << ":\n"
             << first << "and shrunk\n"
             << run(&streams, shortest) << "in\n"
             << ToString(shortest);
    }
  }
};

TEST_F(PropertyTest, AddressesAndFiguresAreTheModels) {
  ASSERT_TRUE(SetAllocatorSettings("cross_stream_reuse:never").ok());
  RunPrograms(60, Mix::kPlain,
              [](const std::vector<Stream>* streams, const Program& program) {
                return RunExactly(*streams, program);
              });
  ASSERT_TRUE(SetAllocatorSettings("cross_stream_reuse:ordered").ok());
}

TEST_F(PropertyTest, NoReuseBeforeTheLastUse) {
  RunPrograms(50, Mix::kUses, RunWithUses);
  EXPECT_TRUE(WasAnyBlockPending());
}

TEST_F(PropertyTest, ExpandableSegments) {
  ASSERT_TRUE(SetAllocatorSettings("expandable_segments:True").ok());
  RunPrograms(50, Mix::kUses, RunWithUses, Seeds() * 2 / 5);
  ASSERT_TRUE(SetAllocatorSettings("expandable_segments:False").ok());
}

// Streams that end, little memory, settings that change: requests recover, and
// are refused only where the blocks that are alive leave no room.
TEST_F(PropertyTest, LittleMemoryAndStreamsThatEnd) {
  Reset("memory=96MiB");
  RunPrograms(100, Mix::kHard, RunWithUses, Seeds() / 5);
  EXPECT_GT(CountRefused(), 0);
}

}  // namespace
}  // namespace devrt::testing
