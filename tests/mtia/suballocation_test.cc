// SPDX-License-Identifier: Apache-2.0
//
// devrt.suballocation/0 of the simulator: parts of a segment have lives and
// ends of their own.
#include <cstdlib>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_suballocation.h"
#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kSegment = 1 << 20;
constexpr uint64_t kPart = 512;

class SuballocationTest : public EngineTest {
 protected:
  void SetUp() override { Start(""); }
  void TearDown() override {
    Reset("suballocation=off");
    EngineTest::TearDown();
  }
  // With a segment of which nobody has anything.
  void Start(const std::string& more) {
    Reset("suballocation=check" + more);
    void* ptr = nullptr;
    OK(ops().alloc(self(), 0, kSegment, 0, &ptr));
    base_ = static_cast<char*>(ptr);
    OK(parts().carve(self(), 0, base_, kSegment));
    stream_ = NewStream();
  }
  static const devrt_suballocation_v0& parts() {
    return Extension<devrt_suballocation_v0>(DEVRT_SUBALLOCATION_EXTENSION);
  }
  char* HandOut(uint64_t offset, uint64_t size) const {
    OK(parts().hand_out(self(), stream_, base_ + offset, size));
    return base_ + offset;
  }
  void TakeBack(void* ptr) const {
    OK(parts().take_back(self(), stream_, ptr));
  }
  static Result Fill(devrt_stream s, void* ptr, uint64_t size) {
    return Take(ops().fill_async(self(), s, ptr, 1, size));
  }
  // A kernel that writes [ptr, ptr + size).
  void Write(void* ptr, uint64_t size, bool declared) const {
    std::vector<devrt_access_v0> accesses;
    if (declared) accesses.push_back({ptr, size, DEVRT_ACCESS_WRITE, 0});
    Launch(
        stream_,
        [ptr, size](const devrt_kernel_context_v0* context) {
          context->local(context, ptr, size, DEVRT_ACCESS_WRITE);
        },
        accesses);
  }
  Result Synced() const { return Take(ops().stream_sync(self(), stream_)); }

  char* base_ = nullptr;
  devrt_stream stream_ = nullptr;
};

TEST_F(SuballocationTest, HandedOutPartsAreUsable) {
  char* const a = HandOut(0, 100);
  char* const b = HandOut(kPart, kPart);
  char* const c = HandOut(2 * kPart, kSegment - 2 * kPart);
  EXPECT_EQ(Fill(stream_, a, 100).code, DEVRT_OK);
  EXPECT_EQ(Fill(stream_, b + 10, kPart - 10).code, DEVRT_OK);
  EXPECT_EQ(Fill(stream_, c, kSegment - 2 * kPart).code, DEVRT_OK);
  for (const bool declared : {false, true}) {
    Write(a, 100, declared);
    Write(b + 1, kPart - 1, declared);
  }
  // Neighbours that one kernel declares are two parts still.
  Launch(
      stream_,
      [b, c](const devrt_kernel_context_v0* context) {
        context->local(context, b, kPart, DEVRT_ACCESS_WRITE);
        context->local(context, c, kPart, DEVRT_ACCESS_WRITE);
      },
      {{b, kPart, DEVRT_ACCESS_WRITE, 0}, {c, kPart, DEVRT_ACCESS_WRITE, 0}});
  EXPECT_EQ(Synced().code, DEVRT_OK);
}

TEST_F(SuballocationTest, AccessBehindAPartIsAFault) {
  for (const bool declared : {false, true}) {
    Start("");
    char* const a = HandOut(0, 100);
    HandOut(kPart, kPart);
    EXPECT_THAT(Fill(stream_, a, 101).text,
                HasSubstr("the last 1 byte lie behind a part of 100 bytes"));
    Write(a, kPart + 1, declared);
    const Result result = Synced();
    EXPECT_EQ(result.native_code, 700);
    EXPECT_THAT(result.text, AllOf(HasSubstr("the last 413 bytes lie behind"),
                                   HasSubstr("handed out at")));
  }
}

TEST_F(SuballocationTest, UseAfterFreeIsFound) {
  for (const bool declared : {false, true}) {
    Start("");
    char* const a = HandOut(0, 100);
    TakeBack(a);
    const Result refused = Fill(stream_, a, 1);
    EXPECT_EQ(refused.code, DEVRT_INVALID_ARGUMENT);
    EXPECT_THAT(refused.text, HasSubstr("use after free of a part of 100"));
    Write(a, 1, declared);
    const Result result = Synced();
    EXPECT_EQ(result.native_code, 700);
    EXPECT_THAT(result.text,
                AllOf(HasSubstr("use after free"), HasSubstr("taken back at")));
  }
}

TEST_F(SuballocationTest, AccessToFreeMemoryIsAFault) {
  HandOut(kPart, 100);
  EXPECT_THAT(Fill(stream_, base_, 1).text,
              HasSubstr("free memory of an allocator"));
  EXPECT_THAT(Fill(stream_, base_ + kPart + 110, 1).text,
              HasSubstr("10 bytes behind a part of 100 bytes"));
}

// Work of the former holder runs behind take_back, and behind the next
// holder's hand-out.
TEST_F(SuballocationTest, UsesAreJudgedByTheirSubmission) {
  for (const char* strategy : kStrategies) {
    Start(std::string(",strategy=") + strategy);
    const devrt_flag gate = NewFlag();
    Hold(stream_, gate);
    char* const a = HandOut(0, 2 * kPart);
    EXPECT_EQ(Fill(stream_, a, 2 * kPart).code, DEVRT_OK);
    Write(a, 2 * kPart, false);
    Write(a, 2 * kPart, true);
    TakeBack(a);
    char* const b = HandOut(0, kPart);
    char* const c = HandOut(kPart, kPart);
    Write(b, kPart, false);
    Write(c, kPart, true);
    TakeBack(b);
    Set(gate);
    EXPECT_EQ(Synced().code, DEVRT_OK);
    EXPECT_EQ(Fill(stream_, b, 1).code, DEVRT_INVALID_ARGUMENT);
    EXPECT_EQ(Fill(stream_, c, kPart).code, DEVRT_OK);
  }
}

TEST_F(SuballocationTest, OtherMemoryIsNotJudged) {
  void* ptr = nullptr;
  OK(ops().alloc(self(), 0, kSegment, 0, &ptr));
  EXPECT_EQ(Fill(stream_, ptr, kSegment).code, DEVRT_OK);
  OK(parts().uncarve(self(), 0, base_, kSegment));
  EXPECT_EQ(Fill(stream_, base_, kSegment).code, DEVRT_OK);
  EXPECT_EQ(Synced().code, DEVRT_OK);
}

TEST_F(SuballocationTest, AllocatorMistakesAreRefused) {
  const auto said = [](devrt_status status, devrt_code code, const char* part) {
    const Result result = Take(status);
    EXPECT_EQ(result.code, code);
    EXPECT_THAT(result.text, HasSubstr(part));
  };
  char* const a = HandOut(0, 2 * kPart);
  said(parts().hand_out(self(), stream_, a + kPart, kPart),
       DEVRT_FAILED_PRECONDITION, "is handed out already");
  said(parts().take_back(self(), stream_, a), DEVRT_NOT_FOUND,
       "is not handed out");
  TakeBack(a + kPart);
  said(parts().take_back(self(), stream_, a + kPart), DEVRT_NOT_FOUND,
       "is not handed out: a part of 512 bytes");
  said(parts().hand_out(self(), stream_, base_ + kSegment - 1, 2),
       DEVRT_NOT_FOUND, "in no carved segment");
  said(parts().carve(self(), 0, base_ + kPart, kPart), DEVRT_ALREADY_EXISTS,
       "uncarve it first");
  said(parts().uncarve(self(), 0, base_ + kSegment - kPart, 2 * kPart),
       DEVRT_NOT_FOUND, "is in no carved segment");
  char* const held = HandOut(8 * kPart, 2 * kPart);
  said(parts().uncarve(self(), 0, held + kPart, kPart),
       DEVRT_FAILED_PRECONDITION, "is still handed out: a part of");
  int local = 0;
  said(parts().carve(self(), 0, &local, 4), DEVRT_INVALID_ARGUMENT,
       "not device memory");
}

// As segments that grow and shrink have it: parts lie over the seams of ranges,
// and any of it may go.
TEST_F(SuballocationTest, RangesJoinAndAreCut) {
  constexpr uint64_t kThird = 64 * kPart;
  OK(parts().uncarve(self(), 0, base_, kSegment));
  OK(parts().carve(self(), 0, base_ + kThird, kThird));
  OK(parts().carve(self(), 0, base_, kThird));
  OK(parts().carve(self(), 0, base_ + 2 * kThird, kThird));
  char* const a = HandOut(kThird / 2, 2 * kThird);
  Write(a, 2 * kThird, true);
  EXPECT_EQ(Synced().code, DEVRT_OK);
  TakeBack(a);
  OK(parts().uncarve(self(), 0, base_ + kThird, kThird));
  HandOut(0, kThird);
  HandOut(2 * kThird, kThird);
  const Result none =
      Take(parts().hand_out(self(), stream_, base_ + kThird - 1, 2));
  EXPECT_EQ(none.code, DEVRT_NOT_FOUND);
  EXPECT_EQ(Fill(stream_, base_ + kThird, kThird).code, DEVRT_OK)
      << "the hole is nobody's to judge";
  EXPECT_EQ(Fill(stream_, base_, kThird).code, DEVRT_OK);
  EXPECT_EQ(Fill(stream_, base_, kThird + 1).code, DEVRT_INVALID_ARGUMENT);
  EXPECT_EQ(Synced().code, DEVRT_OK);
}

// Programs without the setting do not pay for the extension.
TEST_F(SuballocationTest, ExtensionIsOfferedOnlyIfConfigured) {
  const auto offered = [] {
    return ops().get_extension(self(), DEVRT_SUBALLOCATION_EXTENSION) !=
           nullptr;
  };
  EXPECT_TRUE(offered());
  Reset("seed=3");
  EXPECT_TRUE(offered()) << "a reset that does not name it keeps it";
  Reset("suballocation=off");
  EXPECT_FALSE(offered());
  Reset("seed=3");
  EXPECT_FALSE(offered());
}

}  // namespace
}  // namespace devrt::test
