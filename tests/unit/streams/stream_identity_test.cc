// SPDX-License-Identifier: Apache-2.0
//
// Ids, uniqueness, pools and priorities (C22, C23, C100, C101, F10, F19).

#include <algorithm>
#include <climits>
#include <map>
#include <sstream>

#include "runtime/registry/records.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;

using StreamId = MtiaTest;
using StreamPriority = MtiaTest;
using Pool = MtiaTest;
using Moved = MtiaTest;

// C4
TEST_F(StreamId, ObjectsBelongToTheDeviceTheyWereMadeOn) {
  Stream s = NewStream(dev(1));
  Event e = NewEvent(dev(1));
  void* block = Must(Allocate(dev(1), 64));
  StreamRef own = Must(PerThreadDefaultStream(dev(1)));
  EXPECT_EQ(s.device(), dev(1));
  EXPECT_EQ(e.device(), dev(1));
  EXPECT_EQ(own.device(), dev(1));
  EXPECT_EQ(DefaultStream(dev(1)).device(), dev(1));
  EXPECT_EQ(Must(GetPointerInfo(block)).device, dev(1));
  EXPECT_EQ(Must(CurrentDevice("mtia")), dev(0));
  EXPECT_OK(Free(dev(1), block));
}

// C22
TEST_F(StreamPriority, PrioritiesAreClamped) {
  const DeviceProperties p = Must(dev().Properties());
  ASSERT_LT(p.priority_greatest, p.priority_least);
  StreamOptions options;
  for (int wanted : {p.priority_greatest - 5, p.priority_greatest,
                     p.priority_least, p.priority_least + 5}) {
    options.priority = wanted;
    const int clamped =
        std::clamp(wanted, p.priority_greatest, p.priority_least);
    EXPECT_EQ(NewStream(dev(), options).priority(), clamped) << wanted;
  }
  for (int wanted : {INT_MIN, INT_MAX}) {
    options.priority = wanted;
    EXPECT_EQ(NewStream(dev(), options).priority(),
              wanted < 0 ? p.priority_greatest : p.priority_least);
  }
}

// C22
TEST_F(StreamPriority, RangeWithoutZeroClampsTheDefaultToo) {
  Reset("priorities=2..7");
  EXPECT_EQ(Must(dev().Properties()).priority_greatest, 2);
  EXPECT_EQ(NewStream().priority(), 2);
}

// C23
TEST_F(StreamPriority, PriorityOrdersNothing) {
  StreamOptions urgent;
  urgent.priority = -5;
  ExpectOutcomes({1, 2}, [&] {
    Stream s1 = NewStream(), s2 = NewStream(dev(), urgent);
    Cell x(dev());
    Must(Put(s1, x, 1));
    Must(Put(s2, x, 2));
    Must(dev().Synchronize());
    return x.Peek();
  });
}

// C23
TEST_F(StreamPriority, CorrectProgramPassesUnderInvertedPriorities) {
  StreamOptions urgent;
  urgent.priority = -5;
  const auto program = [&] {
    Stream low = NewStream(), high = NewStream(dev(), urgent);
    Cell x(dev());
    for (int i = 0; i < 10; ++i) {
      ASSERT_OK(Add(low, x, x, 1));
      ASSERT_OK(high.Wait(low.ref()));
      ASSERT_OK(Add(high, x, x, 10));
      ASSERT_OK(low.Wait(high.ref()));
    }
    ASSERT_OK(low.Synchronize());
    EXPECT_EQ(x.Peek(), 110);
  };
  InEverySchedule(program, "slots=1");
  InEverySchedule(program, "slots=1,invert_priorities=yes");
}

// C100
TEST_F(StreamId, TenThousandStreamsHaveDistinctIds) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 10'000; ++i) {
    Stream s = NewStream(dev(i % kDevices));
    EXPECT_NE(s.id(), 0u);
    ids.insert(s.id());
  }
  EXPECT_EQ(ids.size(), 10'000u);
}

// C100
TEST_F(StreamId, DefaultStreamIsZeroOnEveryDevice) {
  for (int i = 0; i < kDevices; ++i) {
    EXPECT_EQ(DefaultStream(dev(i)).id(), 0u);
    EXPECT_EQ(DefaultStream(dev(i)).kind(), StreamKind::kDefault);
  }
  EXPECT_NE(DefaultStream(dev(0)), DefaultStream(dev(1)));
  EXPECT_EQ(DefaultStream(dev(0)), DefaultStream(dev(0)));
}

// C100
TEST_F(StreamId, IdsAreNotReusedAfterAReset) {
  const uint64_t before = NewStream().id();
  Reset("");
  EXPECT_GT(NewStream().id(), before);
}

// C100
TEST_F(StreamId, IdsAreDistinctAcrossThreads) {
  std::mutex mu;
  std::set<uint64_t> ids;
  Reset("mode=threaded");
  InThreads(8, [&](int) {
    std::vector<uint64_t> own;
    for (int i = 0; i < 200; ++i) own.push_back(NewStream().id());
    std::lock_guard<std::mutex> lock(mu);
    ids.insert(own.begin(), own.end());
  });
  EXPECT_EQ(ids.size(), 1'600u);
}

// C101
TEST_F(StreamId, ThousandLiveStreamsHaveDistinctHandles) {
  std::vector<Stream> streams;
  std::set<void*> natives;
  for (int i = 0; i < 1'000; ++i) {
    streams.push_back(NewStream());
    natives.insert(Must(streams.back().Native()));
  }
  EXPECT_EQ(natives.size(), 1'000u);
  EXPECT_EQ(natives.count(nullptr), 0u);
}

// Handles stay distinct if streams were used, destroyed and made anew.
// C101
TEST_F(StreamId, LiveHandlesAreDistinctAfterUseAndDestruction) {
  InEverySchedule([] {
    std::vector<Stream> streams;
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < 60; ++i) {
        streams.push_back(NewStream());
        if (i % 2 == 0) {
          ASSERT_OK(Spin(streams.back(), kShort));
        }
        if (i % 5 == 0) {
          ASSERT_OK(streams.back().Synchronize());
        }
      }
      if (round < 4) {
        streams.erase(streams.begin() + 10 * round, streams.end() - 20);
      }
    }
    std::set<void*> natives;
    for (const Stream& s : streams) natives.insert(Must(s.Native()));
    EXPECT_EQ(natives.size(), streams.size());
    ASSERT_OK(dev().Synchronize());
  });
}

// An adopted stream of devrt or another library may still hold a native handle
// that the program got.
// C101
TEST_F(StreamId, HandlesThatWereGivenAwayAreNotHandedOutAgain) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    std::set<void*> given;
    std::vector<Stream> adopted;
    for (const bool used : {false, true}) {
      Stream s = NewStream();
      void* const native = Must(s.Native());
      given.insert(native);
      adopted.push_back(Must(Stream::FromNative(dev(), native)));
      if (used) {
        ASSERT_OK(Spin(s, 1));
        ASSERT_OK(s.Synchronize());
      }
    }
    std::vector<Stream> fresh;
    for (int i = 0; i < 20; ++i) {
      fresh.push_back(NewStream());
      EXPECT_EQ(given.count(Must(fresh.back().Native())), 0u);
      EXPECT_THAT(fresh.back().Query(), IsOkAndHolds(true));
    }
    ASSERT_OK(dev().Synchronize());
  });
}

// F19
TEST_F(Pool, CreationNeverShares) {
  std::vector<Stream> streams;
  std::set<void*> natives;
  for (int i = 0; i < 200; ++i) {
    streams.push_back(NewStream());
    natives.insert(Must(streams.back().Native()));
  }
  EXPECT_EQ(natives.size(), 200u);
}

// F19
TEST_F(Pool, RepeatsItsStreams) {
  StreamPool pool = Must(StreamPool::Create(dev(), 32));
  std::set<uint64_t> ids;
  for (int i = 0; i < 200; ++i) ids.insert(pool.Next().id());
  EXPECT_EQ(ids.size(), 32u);
}

TEST_F(Pool, RoundRobin) {
  StreamOptions options;
  options.priority = -3;
  StreamPool pool = Must(StreamPool::Create(dev(1), 3, options));
  EXPECT_EQ(pool.size(), 3u);
  std::vector<StreamRef> first;
  for (int i = 0; i < 3; ++i) first.push_back(pool.Next());
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(pool.Next(), first[static_cast<size_t>(i % 3)]);
  }
  EXPECT_EQ(first[0].device(), dev(1));
  EXPECT_EQ(first[0].priority(), -3);
}

TEST_F(Pool, SizeZeroIsRefused) {
  EXPECT_THAT(StreamPool::Create(dev(1), 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::AllOf(HasSubstr("mtia:1"), HasSubstr("0"))));
}

TEST_F(Pool, AbsurdSizesAreRefused) {
  for (const size_t size :
       {SIZE_MAX, SIZE_MAX / sizeof(Stream), size_t{65'537}}) {
    EXPECT_THAT(
        StreamPool::Create(dev(1), size),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 ::testing::AllOf(HasSubstr("mtia:1"), HasSubstr("65536"),
                                  HasSubstr(std::to_string(size)))));
  }
  EXPECT_EQ(Must(sim().Stats()).created_streams, 0u);
}

TEST_F(Pool, ThreadsShareStreamsEvenly) {
  StreamPool pool = Must(StreamPool::Create(dev(), 4));
  std::mutex mu;
  std::map<uint64_t, int> uses;
  InThreads(8, [&](int) {
    for (int i = 0; i < 100; ++i) {
      const uint64_t id = pool.Next().id();
      std::lock_guard<std::mutex> lock(mu);
      ++uses[id];
    }
  });
  ASSERT_EQ(uses.size(), 4u);
  for (const auto& [id, count] : uses) EXPECT_EQ(count, 200) << id;
}

TEST_F(Pool, FailureHalfWayKeepsNothing) {
  SimulatedFault fault;
  fault.kind = SimulatedFault::Kind::kApi;
  fault.nth = 3;
  fault.native_code = 2;
  fault.where = "stream_create";
  Must(sim().InjectFault(fault));
  EXPECT_THAT(StreamPool::Create(dev(), 5),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("stream_create")));
  EXPECT_EQ(dev().record()->live_streams.load(), 0);
}

// Observation (the timeline takes the place of tracing) changes no sequence.
// F10
TEST_F(Pool, ObservationDoesNotChangeThePool) {
  const auto sequence = [](bool observed) {
    Reset("");
    Must(sim().EnableTimeline(observed));
    StreamPool pool = Must(StreamPool::Create(dev(), 3));
    const uint64_t first = pool.Next().id();
    std::vector<uint64_t> ids = {0};
    for (int i = 0; i < 8; ++i) {
      if (observed && i == 4) Must(sim().EnableTimeline(false));
      StreamRef s = pool.Next();
      Must(Spin(s, 1));
      ids.push_back(s.id() - first);
    }
    Must(dev().Synchronize());
    return ids;
  };
  EXPECT_EQ(sequence(false), sequence(true));
}

TEST_F(Moved, StreamKeepsIdentityAndOptions) {
  StreamOptions options;
  options.priority = -2;
  Stream a = NewStream(dev(1), options);
  StreamRef ref = a;
  Stream b = std::move(a);
  EXPECT_EQ(b.ref(), ref);
  EXPECT_EQ(b.priority(), -2);
  Stream c = NewStream();
  StreamRef gone = c;
  c = std::move(b);  // destroys what c held
  EXPECT_EQ(c.ref(), ref);
  EXPECT_THAT(gone.Query(), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("destroyed")));
  EXPECT_OK(Spin(c, 1));
  EXPECT_OK(c.Synchronize());
}

TEST_F(Moved, CallsOnAMovedFromStreamAreRefused) {
  Stream a = NewStream();
  Stream b = std::move(a);
  const auto refused =
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("moved from"));
  EXPECT_THAT(a.Query(), refused);
  EXPECT_THAT(a.Synchronize(), refused);
  EXPECT_THAT(a.Native(), refused);
  EXPECT_THAT(a.Wait(b.ref()), refused);
  EXPECT_THAT(b.Wait(a.ref()), refused);
  EXPECT_THAT(Spin(a, 1), refused);
  EXPECT_THAT(SetCurrentStream(a), refused);
  EXPECT_THAT(NewEvent().Record(a), refused);
  EXPECT_THAT(a.ref().Query(), refused);
  EXPECT_THAT(a.Wait(NewEvent()), refused);
  EXPECT_THAT(LaunchHostFunc(a, [](absl::Status) {}), refused);
  EXPECT_THAT(Launch(a, {}, [](const LaunchContext&) {}), refused);
  EXPECT_THAT(FillAsync(a, nullptr, 0, 0), refused);
  EXPECT_THAT(CopyAsync(a, nullptr, nullptr, 0), refused);
  EXPECT_THAT(Copy(a, nullptr, nullptr, 0), refused);
  EXPECT_THAT(AllocateMemory(a, 8), refused);
  EXPECT_THAT(Buffer::Allocate(a, 8), refused);
  EXPECT_THAT(GetMemoryResource(dev())->Allocate(a, 8), refused);
  void* block = Must(AllocateMemory(b, 8));
  EXPECT_THAT(FreeMemory(block, a), refused);
  EXPECT_THAT(RecordStream(block, a), refused);
  EXPECT_OK(FreeMemory(block));
  EXPECT_OK(EmptyCache(dev()));
  EXPECT_THAT(StreamGuard(a).status(), refused);
  EXPECT_THAT(MultiStreamGuard({b, a}).status(), refused);
  EXPECT_EQ(a.device(), dev());
  EXPECT_EQ(a.id(), 0u);
  EXPECT_EQ(a.priority(), b.priority());
  EXPECT_EQ(a.ref().kind(), StreamKind::kCreated);
  EXPECT_NE(a.ref(), b.ref());
  EXPECT_EQ(std::hash<StreamRef>()(a), std::hash<StreamRef>()(a.ref()));
  Stream c = std::move(a);
  EXPECT_THAT(c.Query(), refused);
  c = NewStream();
  EXPECT_OK(c.Synchronize());
  std::ostringstream text;
  text << a.ref() << "; " << b.ref() << "; " << DefaultStream(dev());
  EXPECT_EQ(text.str(), "moved-from stream; stream " + std::to_string(b.id()) +
                            " of mtia:0; default stream of mtia:0");
}

}  // namespace
}  // namespace devrt::testing
