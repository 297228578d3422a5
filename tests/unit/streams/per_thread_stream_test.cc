// SPDX-License-Identifier: Apache-2.0
//
// The default stream of one (thread, device) pair: its identity and its order
// (C12, F21).

#include <map>
#include <optional>
#include <thread>
#include <unordered_set>

#include "absl/container/flat_hash_set.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;

using PerThreadStreamTest = MtiaTest;

// C12
TEST_F(PerThreadStreamTest, EachThreadAndDeviceHasItsOwn) {
  StreamRef first = Must(PerThreadDefaultStream(dev(0)));
  StreamRef again = Must(PerThreadDefaultStream(dev(0)));
  StreamRef other = Must(PerThreadDefaultStream(dev(1)));
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  EXPECT_EQ(first.kind(), StreamKind::kPerThread);
  EXPECT_EQ(first.device(), dev(0));
  EXPECT_EQ(other.device(), dev(1));
  EXPECT_NE(first.id(), 0u);
  EXPECT_NE(first.id(), other.id());
  EXPECT_NE(first, DefaultStream(dev(0)));
}

// C12
TEST_F(PerThreadStreamTest, EqualNativeValueButDistinctIdentity) {
  StreamRef mine = Must(PerThreadDefaultStream(dev()));
  std::optional<StreamRef> theirs;
  void* native = nullptr;
  uint64_t id = 0;
  std::thread([&] {
    theirs = Must(PerThreadDefaultStream(dev()));
    native = Must(theirs->Native());
    id = theirs->id();
  }).join();
  EXPECT_EQ(Must(mine.Native()), native);
  EXPECT_NE(mine, *theirs);
  EXPECT_NE(mine.id(), id);
  EXPECT_NE(std::hash<StreamRef>()(mine), std::hash<StreamRef>()(*theirs));
}

// C12
TEST_F(PerThreadStreamTest, OrderedWithLegacyBothWays) {
  InEverySchedule([] {
    OpLog log;
    StreamRef own = Must(PerThreadDefaultStream(dev()));
    ASSERT_OK(Spin(own, kLong));
    ASSERT_OK(log.Mark(own, 'a'));
    ASSERT_OK(Spin(DefaultStream(dev()), kLong));
    ASSERT_OK(log.Mark(DefaultStream(dev()), 'b'));
    ASSERT_OK(log.Mark(own, 'c'));
    ASSERT_OK(dev().Synchronize());
    EXPECT_EQ(log.text(), "abc");
  });
}

// C12
TEST_F(PerThreadStreamTest, TwoThreadsAreUnordered) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Cell x(dev());
    StreamRef mine = Must(PerThreadDefaultStream(dev()));
    ASSERT_OK(gate.WaitOn(mine));
    std::thread([&] {
      StreamRef own = Must(PerThreadDefaultStream(dev()));
      Must(Put(own, x, 1));
      Must(own.Synchronize());  // not behind the gate
    }).join();
    EXPECT_EQ(x.Peek(), 1);
    EXPECT_THAT(mine.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(mine.Synchronize());
  });
}

// C12
TEST_F(PerThreadStreamTest, BothOrdersOfTwoThreads) {
  ExpectOutcomes({1, 2}, [] {
    Cell x(dev());
    Must(Put(Must(PerThreadDefaultStream(dev())), x, 1));
    std::thread([&] {
      Must(Put(Must(PerThreadDefaultStream(dev())), x, 2));
    }).join();
    Must(dev().Synchronize());
    return x.Peek();
  });
}

// C12
TEST_F(PerThreadStreamTest, WorkOutlivesItsThread) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Cell x(dev());
    Event e = NewEvent();
    std::optional<StreamRef> theirs;
    std::thread([&] {
      theirs = Must(PerThreadDefaultStream(dev()));
      Must(gate.WaitOn(*theirs));
      Must(Put(*theirs, x, 1));
      Must(e.Record(*theirs));
    }).join();
    EXPECT_THAT(e.Query(), IsOkAndHolds(false));
    // The reference does not.
    EXPECT_THAT(theirs->Query(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("was destroyed")));
    ASSERT_OK(gate.Set());
    ASSERT_OK(e.Synchronize());
    EXPECT_EQ(x.Peek(), 1);
  });
}

// C12
TEST_F(PerThreadStreamTest, CanBeTheCurrentStream) {
  StreamRef own = Must(PerThreadDefaultStream(dev()));
  {
    StreamGuard guard(own);
    EXPECT_EQ(CurrentStream(dev()), own);
  }
  EXPECT_EQ(CurrentStream(dev()), DefaultStream(dev()));
}

// A cache keyed on streams must keep two threads apart.
// F21
TEST_F(PerThreadStreamTest, CacheKeysKeepThreadsApart) {
  constexpr int kThreads = 8;
  std::vector<std::optional<StreamRef>> streams(kThreads);
  std::mutex mu;
  std::condition_variable all_here;
  int here = 0;
  std::map<uint64_t, int> by_id;
  std::unordered_set<StreamRef> by_hash;
  absl::flat_hash_set<StreamRef> by_absl_hash;
  InThreads(kThreads, [&](int i) {
    StreamRef own = Must(PerThreadDefaultStream(dev()));
    std::unique_lock<std::mutex> lock(mu);
    streams[static_cast<size_t>(i)] = own;
    by_id.emplace(own.id(), i);
    by_hash.insert(own);
    by_absl_hash.insert(own);
    if (++here == kThreads) all_here.notify_all();
    all_here.wait(lock, [&] { return here == kThreads; });  // all alive
  });
  EXPECT_EQ(by_id.size(), static_cast<size_t>(kThreads));
  EXPECT_EQ(by_hash.size(), static_cast<size_t>(kThreads));
  EXPECT_EQ(by_absl_hash.size(), static_cast<size_t>(kThreads));
}

// Asks for the thread's streams when the thread ends.
struct AsksAtTheEnd {
  ~AsksAtTheEnd() {
    if (seen == nullptr) return;
    for (int i = 0; i < 3; ++i) {
      absl::StatusOr<StreamRef> own = PerThreadDefaultStream(MtiaTest::dev(i));
      seen->push_back(own.status());
      if (!own.ok()) continue;
      seen->push_back(SetCurrentStream(*own));
      seen->push_back(Spin(*own, 1));
      seen->push_back(own->Synchronize());
    }
    StreamGuard guard(CurrentStream(MtiaTest::dev(1)));
    seen->push_back(guard.status());
  }
  std::vector<absl::Status>* seen = nullptr;
};
thread_local AsksAtTheEnd asks_at_the_end;

// Before devrt has seen the thread, so that it is destroyed after devrt has
// seen the end of it, and the other way round.
// F34
TEST_F(PerThreadStreamTest, PerThreadStreamsWhileTheThreadEnds) {
  for (const bool first : {true, false}) {
    for (const char* mode : {"mode=virtual", "mode=threaded"}) {
      Reset(mode);
      std::vector<absl::Status> seen;
      std::thread([&] {
        if (first) asks_at_the_end.seen = &seen;
        EXPECT_OK(PerThreadDefaultStream(dev(0)));
        EXPECT_OK(PerThreadDefaultStream(dev(1)));
        Must(SetCurrentStream(Must(PerThreadDefaultStream(dev(1)))));
        asks_at_the_end.seen = &seen;
      }).join();
      EXPECT_EQ(seen.size(), 13u);
      for (const absl::Status& status : seen) EXPECT_OK(status);
    }
  }
}

// A thread that follows another gets no stream of the former's.
// F21
TEST_F(PerThreadStreamTest, LaterThreadsGetIdsOfTheirOwn) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 100; ++i) {
    std::thread([&] {
      ids.insert(Must(PerThreadDefaultStream(dev())).id());
    }).join();
  }
  EXPECT_EQ(ids.size(), 100u);
}

}  // namespace
}  // namespace devrt::testing
