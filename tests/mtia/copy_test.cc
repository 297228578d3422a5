// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills: docs/reference/simulator-rules.md 5, C47-C60 of
// semantics.md.
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

constexpr uint64_t kBig = 4u << 20;  // above split_limit

class Copies : public EngineTest {
 protected:
  static std::byte* Device(uint64_t size, uint32_t device = 0) {
    void* ptr = nullptr;
    OK(ops().alloc(self(), device, size, 0, &ptr));
    return static_cast<std::byte*>(ptr);
  }
  static std::byte* Pinned(uint64_t size) {
    void* ptr = nullptr;
    OK(ops().host_alloc(self(), 0, size, 0, &ptr));
    return static_cast<std::byte*>(ptr);
  }
  static devrt_status Copy(devrt_stream s, void* dst, const void* src,
                           uint64_t size, uint32_t kind = DEVRT_COPY_INFER) {
    return ops().copy_async(self(), s, dst, src, size, kind);
  }
  static std::vector<uint32_t> Pattern(uint64_t bytes) {
    std::vector<uint32_t> v(bytes / sizeof(uint32_t));
    std::iota(v.begin(), v.end(), 7u);
    return v;
  }
};

TEST_F(Copies, RoundTripInEveryModeAndSize) {
  for (const std::string mode : {"sync", "staged", "late", "explore"}) {
    for (const uint64_t size : {uint64_t{64}, kBig}) {
      Reset("pageable=" + mode);
      devrt_stream s = NewStream();
      const auto in = Pattern(size);
      std::vector<uint32_t> out(in.size());
      std::byte* const a = Device(size);
      std::byte* const b = Device(size);
      OK(Copy(s, a, in.data(), size, DEVRT_COPY_H2D));
      OK(Copy(s, b, a, size, DEVRT_COPY_D2D));
      OK(Copy(s, out.data(), b, size, DEVRT_COPY_D2H));
      Sync(s);
      EXPECT_EQ(in, out);
    }
  }
}

// C53: who reads the source, and when.
TEST_F(Copies, PageableModes) {
  for (const std::string mode : {"staged", "late"}) {
    Reset("pageable=" + mode);
    devrt_stream s = NewStream();
    devrt_flag flag = NewFlag();
    int64_t* const x = NewCell();
    Hold(s, flag);
    int64_t value = 1;
    OK(Copy(s, x, &value, sizeof value));
    value = 2;
    Set(flag);
    Sync(s);
    EXPECT_EQ(Peek(x), mode == "staged" ? 1 : 2);
  }
  Reset("pageable=sync");
  devrt_stream s = NewStream();
  int64_t* const x = NewCell();
  const int64_t value = 3;
  OK(probe().spin(self(), s, 1'000'000));
  OK(Copy(s, x, &value, sizeof value));
  EXPECT_TRUE(Done(s));
  EXPECT_EQ(Peek(x), 3);
}

// The host writes the source after the copy: the value tells late from the
// other modes.  The stream is still busy in all modes but sync.
TEST_F(Copies, ExploreReachesAllPageableModesUnderEachStrategy) {
  for (const std::string strategy : kStrategies) {
    std::set<std::pair<bool, int64_t>> seen;
    for (int seed = 0; seed < 50; ++seed) {
      Reset("pageable=explore,strategy=" + strategy +
            ",seed=" + std::to_string(seed));
      devrt_stream s = NewStream();
      int64_t* const x = NewCell();
      int64_t value = 1;
      OK(probe().spin(self(), s, 1'000'000));
      OK(Copy(s, x, &value, sizeof value));
      const bool pending = Stats().pending_ops != 0;
      value = 2;
      Sync(s);
      seen.insert({pending, Peek(x)});
    }
    const bool late = seen.count({true, 2}) != 0;
    const bool staged = seen.count({true, 1}) != 0;
    const bool sync = seen.count({false, 1}) != 0;
    if (strategy == "asap") {
      EXPECT_EQ(seen.size(), 1u);
    } else {
      EXPECT_TRUE(late && staged && sync) << strategy;
    }
  }
}

// C54: pinned memory is read late, even one byte.
TEST_F(Copies, PinnedIsAsynchronous) {
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  std::byte* const host = Pinned(8);
  int64_t* const x = NewCell();
  Hold(s, flag);
  std::memset(host, 0, 8);
  OK(Copy(s, x, host, 1));
  host[0] = std::byte{5};
  EXPECT_FALSE(Done(s));
  Set(flag);
  Sync(s);
  EXPECT_EQ(Peek(x), 5);
}

// C52: drains the stream; visible to both sides.
TEST_F(Copies, HostToHostDrainsTheStream) {
  devrt_stream s = NewStream();
  int64_t* const x = NewCell(0, 9);
  auto* const pinned = reinterpret_cast<int64_t*>(Pinned(8));
  int64_t out = 0;
  OK(probe().spin(self(), s, 1'000'000));
  OK(Copy(s, pinned, x, 8));
  OK(Copy(s, &out, pinned, 8));
  EXPECT_EQ(out, 9);
}

// C8, C52: on a blocking stream it comes after the default stream's work, too.
TEST_F(Copies, HostToHostFollowsTheDefaultStream) {
  devrt_stream s = NewStream(0, DEVRT_STREAM_BLOCKING);
  int64_t* const x = NewCell(0, 9);
  auto* const pinned = reinterpret_cast<int64_t*>(Pinned(8));
  int64_t out = 0;
  *pinned = 0;
  OK(probe().spin(self(), Legacy(), 1'000'000));
  OK(Copy(Legacy(), pinned, x, 8));
  OK(Copy(s, &out, pinned, 8));
  EXPECT_EQ(out, 9);
}

// C55, C56, C63.
TEST_F(Copies, WrongArguments) {
  devrt_stream s = NewStream();
  std::byte* const a = Device(4096);
  std::byte* const b = Device(4096);
  std::byte host[64] = {};
  ExpectCode(Copy(s, a, host, 64, DEVRT_COPY_D2H), DEVRT_INVALID_ARGUMENT);
  ExpectCode(Copy(s, a, b, 64, DEVRT_COPY_H2D), DEVRT_INVALID_ARGUMENT);
  ExpectCode(Copy(s, a, a + 1, 64), DEVRT_INVALID_ARGUMENT);
  ExpectCode(Copy(s, a + 1, a, 64), DEVRT_INVALID_ARGUMENT);
  ExpectCode(Copy(s, a, a, 64), DEVRT_INVALID_ARGUMENT);
  OK(Copy(s, a, a + 64, 64));
  ExpectCode(Copy(s, a + 4090, host, 64), DEVRT_INVALID_ARGUMENT);
  ExpectCode(ops().fill_async(self(), s, a, 0, 5000), DEVRT_INVALID_ARGUMENT);
  ExpectCode(ops().fill_async(self(), s, host, 0, 4), DEVRT_INVALID_ARGUMENT);
  ExpectCode(ops().fill_async(self(), s, Pinned(4), 0, 4),
             DEVRT_INVALID_ARGUMENT);
  OK(ops().dealloc(self(), 0, b, 4096));
  ExpectCode(Copy(s, a, b, 64), DEVRT_INVALID_ARGUMENT);
  Sync(s);
}

// C57, C58, C75: with and without access, ordered in its stream only.
TEST_F(Copies, PeerCopies) {
  for (const bool access : {false, true}) {
    Reset("");
    devrt_stream s = NewStream(0);
    int64_t* const x = NewCell(0, 5);
    int64_t* const y = NewCell(1);
    if (access) OK(ops().peer_enable(self(), 0, 1));
    const devrt_event before = Mark(s);
    OK(ops().copy_peer_async(self(), s, y, 1, x, 0, 8));
    const devrt_event after = Mark(s);
    ExpectCode(ops().copy_peer_async(self(), s, y, 0, x, 1, 8),
               DEVRT_INVALID_ARGUMENT);
    if (access) {
      OK(Copy(s, y, x, 8));
    } else {
      ExpectCode(Copy(s, y, x, 8), DEVRT_INVALID_ARGUMENT);
    }
    Sync(s);
    EXPECT_EQ(Peek(y), 5);
    int64_t ns = 0;
    OK(ops().event_elapsed_ns(self(), before, after, &ns));
    EXPECT_GT(ns, 0);
  }
}

TEST_F(Copies, FillIsStreamOrdered) {
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  int64_t* const x = NewCell(0, 1);
  Hold(s, flag);
  OK(ops().fill_async(self(), s, x, 0x1ff, 8));
  EXPECT_EQ(Peek(x), 1);
  Set(flag);
  Sync(s);
  EXPECT_EQ(Peek(x), -1);
}

// F30: a copy and a kernel on one block at once; copies of two devices.
TEST_F(Copies, EnginesOverlap) {
  devrt_stream s = NewStream(), t = NewStream(), other = NewStream(1);
  std::byte* const block = Device(kBig);
  std::byte* const far = Device(kBig, 1);
  std::byte* const host = Pinned(kBig);
  OK(sim().timeline_enable(self(), 1));
  OK(Copy(s, block, host, kBig / 2));
  OK(ops().fill_async(self(), t, block + kBig / 2, 1, kBig / 2));
  OK(Copy(other, far, host, kBig / 2));
  OK(ops().device_sync(self(), 0));
  OK(ops().device_sync(self(), 1));
  struct Span {
    uint64_t begin, end;
  };
  std::vector<Span> spans;
  OK(sim().timeline(
      self(),
      [](void* arg, const devrt_sim_op_v1* op) {
        EXPECT_EQ(op->state, DEVRT_SIM_DONE);
        static_cast<std::vector<Span>*>(arg)->push_back(
            {op->begin_ns, op->end_ns});
      },
      &spans));
  ASSERT_EQ(spans.size(), 3u);
  for (const Span& a : spans) {
    EXPECT_LT(a.begin, spans[0].end);
    EXPECT_LT(spans[0].begin, a.end);
  }
}

// An access that no declared range covers is a fault of its own.
TEST_F(Copies, UndeclaredAccess) {
  devrt_stream s = NewStream();
  int64_t* const x = NewCell();
  int64_t* const y = NewCell();
  Launch(s,
         [y](const devrt_kernel_context_v0* context) {
           EXPECT_EQ(context->local(context, y, 8, DEVRT_ACCESS_READ), nullptr);
         },
         {{x, 8, DEVRT_ACCESS_READ, 0}});
  const Result error = Take(ops().stream_sync(self(), s));
  EXPECT_EQ(error.native_code, 700);
  EXPECT_THAT(error.text, ::testing::HasSubstr("undeclared access"));
}

}  // namespace
}  // namespace devrt::test
