// SPDX-License-Identifier: Apache-2.0
//
// Communicators over the fake NCCL: what the library does for an engine whose
// operations never end by themselves.
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "collectives/core/failure.h"
#include "collectives/core/watch.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/devrt.h"
#include "runtime/registry/outside_calls.h"
#include "tests/fakes/nccl/knobs.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using collectives::Communicator;
using collectives::Group;
using collectives::Options;
using collectives::Reduction;
using collectives::State;
namespace ops = collectives;

constexpr int kRanks = 3;
// Of the library, for each rank whose submissions may wait (blocking_comm.h).
constexpr int kNativeComms = 3;

class NcclCommunicators : public ::testing::Test {
 protected:
  NcclCommunicators() {
    const fake_nccl_knobs none = {};
    fake_nccl_set(&none);
    for (int i = 0; i < kRanks; ++i) {
      devices_.push_back(Must(GetDevice("cuda:" + std::to_string(i))));
      // Streams of their own, which other tests do not hold.
      streams_.push_back(Must(Stream::Create(devices_[i])));
      EXPECT_OK(SetCurrentStream(streams_[i]));
    }
  }
  ~NcclCommunicators() override {
    for (const Device device : devices_) {
      SetCurrentStream(DefaultStream(device)).IgnoreError();
    }
    const absl::Time end = absl::Now() + absl::Seconds(10);
    while (collectives::internal::IsWatching() && absl::Now() < end) {
      std::this_thread::yield();
    }
    EXPECT_FALSE(collectives::internal::IsWatching());
  }

  std::vector<Communicator> MakeRanks(const Options& options = {}) {
    return Must(Communicator::CreateAll(devices_, options));
  }
  Array Ints(int rank, const std::vector<int32_t>& values) const {
    return Must(Array::FromVector(values, devices_[rank]));
  }
  static std::vector<int32_t> Values(const Array& array) {
    const Array host = Must(array.To(Place::Host()));
    const int32_t* const data = host.data_as<int32_t>();
    return {data, data + host.size()};
  }
  // All but the last rank submit, which the stream waits for.
  std::vector<Array> SubmitWithoutLast(std::vector<Communicator>* ranks,
                                       StreamRef first) {
    std::vector<Array> arrays;
    Group group;
    for (int i = 0; i < kRanks - 1; ++i) {
      arrays.push_back(Ints(i, {1, 2}));
      group.Add((*ranks)[i], ops::AllReduce(arrays[i], arrays[i]),
                i == 0 ? first : streams_[i].ref());
    }
    EXPECT_OK(group.Submit());
    return arrays;
  }

  std::vector<Device> devices_;
  std::vector<Stream> streams_;
};

TEST_F(NcclCommunicators, Compute) {
  std::vector<Communicator> ranks = MakeRanks();
  EXPECT_EQ(ranks[0].provider().name, "nccl");
  EXPECT_TRUE(collectives::internal::IsWatching());
  for (int slow = 0; slow < 2; ++slow) {
    fake_nccl_knobs knobs = {};
    knobs.slow = slow;  // operations are PENDING at first
    fake_nccl_set(&knobs);
    Group group;
    std::vector<Array> arrays;
    for (int i = 0; i < kRanks; ++i) {
      arrays.push_back(Ints(i, {i, 10 * i}));
      group.Add(ranks[i], ops::AllReduce(arrays[i], arrays[i]));
    }
    ASSERT_OK(group.Submit());
    for (int i = 0; i < kRanks; ++i) {
      EXPECT_THAT(Values(arrays[i]), ElementsAre(3, 30));
      EXPECT_OK(ranks[i].Wait());
      EXPECT_NE(ranks[i].Records().back().end_ns, 0u);
    }
  }
  EXPECT_OK(Communicator::FinishAll(ranks, absl::Now() + absl::Seconds(20)));
}

TEST_F(NcclCommunicators, AreSplit) {
  std::vector<Communicator> ranks = MakeRanks();
  auto halves = Communicator::SplitAll(ranks, {0, 1, 0}, {1, 0, 0});
  ASSERT_OK(halves.status());
  EXPECT_EQ((*halves)[0]->rank(), 1);
  EXPECT_EQ((*halves)[2]->rank(), 0);
  const Array x = Ints(0, {1});
  const Array y = Ints(2, {2});
  Group group;
  group.Add(*(*halves)[0], ops::AllReduce(x, x));
  group.Add(*(*halves)[2], ops::AllReduce(y, y));
  ASSERT_OK(group.Submit());
  EXPECT_THAT(Values(x), ElementsAre(3));
}

// K-C10: the watch ends the operation, and with it the waits.
TEST_F(NcclCommunicators, TimeOut) {
  Options options;
  options.timeout = absl::Milliseconds(200);
  std::vector<Communicator> ranks = MakeRanks(options);
  Stream stream = Must(Stream::Create(devices_[0]));
  const absl::Time begin = absl::Now();
  const std::vector<Array> arrays = SubmitWithoutLast(&ranks, stream);
  EXPECT_THAT(ranks[0].Wait(stream),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr(" failed at 1 all_reduce(int32 x 2, "
                                       "sum) on stream "),
                             HasSubstr("it is not complete after 200ms"))));
  EXPECT_LT(absl::Now() - begin, options.timeout + absl::Seconds(5));
  EXPECT_EQ(ranks[0].state(), State::kFailed);
  EXPECT_OK(stream.Synchronize());                  // the operation was ended
  EXPECT_EQ(ranks[0].Records().back().end_ns, 0u);  // and is not complete
  const Array other = Ints(0, {7});
  EXPECT_THAT(Values(other), ElementsAre(7));
}

// Without the watch, Wait finds the timeout; with kReport nothing is ended
// until Abort does it.
TEST_F(NcclCommunicators, TimeOutWithoutAWatch) {
  Options options;
  options.timeout = absl::Milliseconds(50);
  options.watch = false;
  options.on_failure = collectives::OnFailure::kReport;
  std::vector<Communicator> ranks = MakeRanks(options);
  EXPECT_FALSE(collectives::internal::IsWatching());
  Stream stream = Must(Stream::Create(devices_[0]));
  const std::vector<Array> arrays = SubmitWithoutLast(&ranks, stream);
  EXPECT_THAT(ranks[0].Wait(stream),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("it is not complete after 50ms")));
  EXPECT_EQ(ranks[0].state(), State::kFailed);
  EXPECT_FALSE(Must(stream.Query()));
  EXPECT_OK(ranks[0].Abort("what still runs"));
  EXPECT_OK(stream.Synchronize());
}

// K-C10: a submission waits for a rank that never comes.
TEST_F(NcclCommunicators, EndSubmissionsThatWait) {
  fake_nccl_knobs knobs = {};
  knobs.calls_wait = 1;
  Options options;
  const absl::Span<const Device> last(&devices_[2], 1);
  for (const bool by_abort : {false, true}) {
    options.timeout = by_abort ? absl::Minutes(10) : absl::Milliseconds(200);
    fake_nccl_set(&knobs);
    std::vector<Communicator> ranks = MakeRanks(options);
    std::vector<Communicator> other = Must(Communicator::CreateAll(last));
    const Array x = Ints(0, {1, 2});
    const Array y = Ints(1, {1, 2});
    Group group;
    group.Add(ranks[0], ops::AllReduce(x, x));
    group.Add(ranks[1], ops::AllReduce(y, y));
    const absl::Time begin = absl::Now();
    absl::Status submitted;
    std::thread submitter([&] { submitted = group.Submit(); });
    // Not the last call, which may be one of the watch by now.
    while (fake_nccl_groups() == 0) std::this_thread::yield();
    // Neither another device waits, nor somebody who has a deadline.
    const Array z = Ints(2, {3});
    EXPECT_OK(other[0].AllReduce(z, z));
    EXPECT_OK(other[0].Wait(streams_[2], absl::Now() + absl::Seconds(20)));
    if (by_abort) {
      EXPECT_OK(ranks[0].Abort("over"));
      EXPECT_OK(ranks[1].Abort("over"));
    }
    submitter.join();
    EXPECT_LT(absl::Now() - begin, options.timeout + absl::Seconds(1));
    if (by_abort) {
      EXPECT_STATUS(submitted, kAborted, "over");
    } else {
      EXPECT_THAT(submitted,
                  StatusIs(absl::StatusCode::kDeadlineExceeded,
                           AllOf(HasSubstr(" failed at 1 all_reduce(int32 x 2"),
                                 HasSubstr("not complete after 200ms"))));
    }
    EXPECT_NE(ranks[1].comm()->state.load(), State::kReady);
    EXPECT_THAT(Values(Ints(0, {7})), ElementsAre(7));
  }
}

// Two calls have ended, and the library names the third.
TEST_F(NcclCommunicators, NameTheOpenCall) {
  Options options;
  options.timeout = absl::Milliseconds(200);
  std::vector<Communicator> ranks = MakeRanks(options);
  for (int call = 0; call < 2; ++call) {
    Group group;
    std::vector<Array> arrays;
    for (int i = 0; i < kRanks; ++i) {
      arrays.push_back(Ints(i, {i}));
      group.Add(ranks[i], ops::AllReduce(arrays[i], arrays[i]));
    }
    ASSERT_OK(group.Submit());
    EXPECT_THAT(Values(arrays[0]), ElementsAre(3));
  }
  const std::vector<Array> arrays = SubmitWithoutLast(&ranks, streams_[0]);
  EXPECT_THAT(ranks[0].Wait(streams_[0]),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr(" failed at 3 all_reduce(int32 x 2, ")));
}

TEST_F(NcclCommunicators, FailByTheEngine) {
  std::vector<Communicator> ranks = MakeRanks();
  fake_nccl_knobs knobs = {};
  knobs.async_code = 6;  // a remote error
  fake_nccl_set(&knobs);
  Group group;
  std::vector<Array> arrays;
  for (int i = 0; i < kRanks; ++i) {
    arrays.push_back(Ints(i, {1}));
    group.Add(ranks[i], ops::AllReduce(arrays[i], arrays[i]));
  }
  const absl::Status submitted = group.Submit();
  const absl::Status status = submitted.ok() ? ranks[0].Wait() : submitted;
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(ranks[0].state(), State::kFailed);
  EXPECT_THAT(ranks[0].AllReduce(arrays[0], arrays[0]),
              StatusIs(absl::StatusCode::kAborted, ::testing::_));
}

// K-C11
TEST_F(NcclCommunicators, AreAborted) {
  std::vector<Communicator> ranks = MakeRanks();
  Stream stream = Must(Stream::Create(devices_[0]));
  const std::vector<Array> arrays = SubmitWithoutLast(&ranks, stream);
  absl::Status waited;
  std::thread waiter([&] { waited = ranks[0].Wait(stream); });
  for (Communicator& rank : ranks) EXPECT_OK(rank.Abort("over"));
  waiter.join();
  EXPECT_THAT(waited, StatusIs(absl::StatusCode::kAborted, HasSubstr("over")));
  EXPECT_OK(stream.Synchronize());
}

// K-C9
TEST_F(NcclCommunicators, InitThatNeverEnds) {
  fake_nccl_knobs knobs = {};
  knobs.init_never = 1;
  fake_nccl_set(&knobs);
  Options options;
  options.init_timeout = absl::Milliseconds(50);
  EXPECT_THAT(Communicator::CreateAll(devices_, options).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::_));
  EXPECT_EQ(fake_nccl_live(), 0);
}

// The watch goes on beside an abort that does not return.
TEST_F(NcclCommunicators, FailInTimeBesideAnAbortThatHangs) {
  fake_nccl_knobs knobs = {};
  knobs.abort_hangs = 1;
  fake_nccl_set(&knobs);
  Options options;
  options.timeout = absl::Milliseconds(50);
  std::vector<Communicator> first = MakeRanks(options);
  options.timeout = absl::Milliseconds(400);
  options.on_failure = collectives::OnFailure::kReport;
  std::vector<Communicator> second = MakeRanks(options);
  const Array x = Ints(0, {1});
  const Array y = Ints(1, {1});
  ASSERT_OK(second[1].AllReduce(y, y));
  ASSERT_OK(first[0].AllReduce(x, x));
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (second[1].comm()->state.load() == State::kReady && absl::Now() < end) {
    std::this_thread::yield();
  }
  EXPECT_EQ(first[0].comm()->state.load(), State::kFailed);
  EXPECT_EQ(second[1].comm()->state.load(), State::kFailed);
  fake_nccl_let_go();
}

// A rank that waits for others in vain fails, and leaves nothing of the child.
TEST_F(NcclCommunicators, FailIfNoChildIsMade) {
  Options options;
  options.init_timeout = absl::Milliseconds(50);
  for (const auto on_failure :
       {collectives::OnFailure::kReport, collectives::OnFailure::kAbort}) {
    options.on_failure = on_failure;
    const auto live = [on_failure](int ranks) {
      return on_failure == collectives::OnFailure::kReport
                 ? ranks
                 : ranks * kNativeComms;
    };
    std::vector<Communicator> ranks = MakeRanks(options);
    EXPECT_THAT(ranks[0].Shrink({2}).status(),  // rank 1 does not come
                StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::_));
    EXPECT_EQ(ranks[0].state(), State::kFailed);
    EXPECT_THAT(ranks[0].failure().message(),
                HasSubstr("no communicator was made from it"));
    EXPECT_EQ(fake_nccl_live(), live(kRanks - 1));
    EXPECT_THAT(ranks[1].Split(0, 0).status(),
                StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::_));
    EXPECT_EQ(ranks[1].state(), State::kFailed);
    EXPECT_EQ(fake_nccl_live(), live(kRanks - 2));
  }
}

TEST_F(NcclCommunicators, KeepRegisteredMemoryThatOperationsUse) {
  Options options;
  options.timeout = absl::Milliseconds(100);
  std::vector<Communicator> ranks = MakeRanks(options);
  {
    const std::vector<Array> arrays = SubmitWithoutLast(&ranks, streams_[0]);
    const auto registration = ranks[0].Register(arrays[0]);
    ASSERT_OK(registration.status());
  }
  // The destructor has waited until the operation was ended.
  EXPECT_EQ(ranks[0].comm()->state.load(), State::kFailed);
}

TEST_F(NcclCommunicators, TakeRegisteredMemoryBackBeforeTheirEnd) {
  Options options;
  options.watch = false;  // its polls are calls, too
  const absl::Span<const Device> last(&devices_[2], 1);
  std::vector<Communicator> ranks =
      Must(Communicator::CreateAll(last, options));
  for (const bool is_late : {false, true}) {
    {
      const auto registration = ranks[0].Register(Ints(2, {1}));
      ASSERT_OK(registration.status());
      if (is_late) {
        EXPECT_OK(ranks[0].Finish());
      }
    }
    EXPECT_EQ(std::string(fake_nccl_last_call()) == "ncclCommDeregister",
              !is_late);
  }
}

// NCCL_LAUNCH_ORDER_IMPLICIT=1: another run of this test.
TEST_F(NcclCommunicators, LeaveTheOrderToTheLibraryIfTold) {
  const bool is_told = getenv("NCCL_LAUNCH_ORDER_IMPLICIT") != nullptr;
  std::vector<Communicator> ranks = MakeRanks();
  std::vector<Communicator> alone =
      Must(Communicator::CreateAll({devices_[0]}));
  const Stream other = Must(Stream::Create(devices_[0]));
  const Array x = Ints(0, {1});
  const std::vector<Array> open = SubmitWithoutLast(&ranks, streams_[0]);
  // Only the order is enqueued: the fake runs one host function of a device.
  fake_nccl_knobs knobs = {};
  knobs.does_nothing = 1;
  fake_nccl_set(&knobs);
  ASSERT_OK(alone[0].AllReduce(x, x, Reduction::kSum, other));
  // Behind the open operation, unless the library sees to that.
  const absl::Status done = alone[0].Wait(
      other,
      absl::Now() + (is_told ? absl::Seconds(20) : absl::Milliseconds(50)));
  EXPECT_EQ(done.ok(), is_told) << done;
  for (Communicator& rank : ranks) EXPECT_OK(rank.Abort("over"));
}

// The library learns it by the end of the communicators, and its other ranks by
// the library.
TEST_F(NcclCommunicators, LoseTheDeviceAndEnd) {
  const std::vector<Device> last = {Must(GetDevice("cuda:3"))};
  std::vector<Communicator> one = Must(Communicator::CreateAll(last));
  std::vector<Communicator> other = Must(Communicator::CreateAll(last));
  EXPECT_EQ(fake_nccl_live(), 2 * kNativeComms);
  EXPECT_FALSE(devrt::internal::LoseDevice(last[0], "for a test").ok());
  const auto state = [](const std::vector<Communicator>& ranks) {
    return ranks[0].comm()->state.load();
  };
  // Nobody calls: the watch finds it.
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (fake_nccl_live() != 0 && absl::Now() < end) std::this_thread::yield();
  EXPECT_EQ(fake_nccl_live(), 0);
  EXPECT_EQ(state(one), State::kFailed);
  EXPECT_THAT(one[0].failure().message(), HasSubstr("for a test"));
  EXPECT_NE(state(other), State::kReady);
}

// K-C12.  The last test: the device is lost.
TEST_F(NcclCommunicators, LoseTheDeviceIfAbortHangs) {
  collectives::internal::SetAbortLimit(absl::Milliseconds(100));
  std::vector<Communicator> ranks = MakeRanks();
  fake_nccl_knobs knobs = {};
  knobs.abort_hangs = 1;
  fake_nccl_set(&knobs);
  EXPECT_THAT(ranks[0].Abort("over"),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("did not return within 100ms")));
  EXPECT_THAT(devices_[0].Health().message(),
              HasSubstr("abort of communicator"));
  EXPECT_OK(devices_[1].Health());
  // The end of a communicator that was never ready, too.
  knobs.init_never = 1;
  fake_nccl_set(&knobs);
  Options options;
  options.init_timeout = absl::Milliseconds(20);
  const absl::Span<const Device> last(&devices_[2], 1);
  EXPECT_THAT(Communicator::CreateAll(last, options).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::_));
  EXPECT_THAT(devices_[2].Health().message(), HasSubstr("the end of commun"));
  fake_nccl_let_go();
}

// As ranks of several machines, which have no folder in common.
TEST_F(NcclCommunicators, ExchangeTheirRecords) {
  const auto bootstraps = Must(collectives::FromThreads(kRanks));
  Options options;
  options.exchange_records = true;
  options.timeout = absl::Milliseconds(200);
  std::vector<std::string> failures(kRanks);
  std::vector<std::thread> threads;
  for (int i = 0; i < kRanks; ++i) {
    threads.emplace_back([&, i] {
      Communicator rank =
          Must(Communicator::Create(devices_[i], *bootstraps[i], options));
      const Array x = Ints(i, {1, 2});
      EXPECT_OK(rank.AllReduce(x, x));
      // Rank 2 waits for somebody else, and so do the others.
      EXPECT_OK(i == 2 ? rank.Recv(x, 0) : rank.AllReduce(x, x));
      EXPECT_FALSE(rank.Wait().ok());
      const absl::Time end = absl::Now() + absl::Seconds(20);
      do {
        failures[i] = std::string(rank.failure().message());
      } while (failures[i].find("over the bootstrap") == std::string::npos &&
               absl::Now() < end);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) {
    EXPECT_THAT(failure,
                AllOf(HasSubstr("over the bootstrap: they differ at 2; rank 2 "
                                "is at 1 all_reduce(int32 x 2, sum)"),
                      HasSubstr("ranks 0, 1 are at 2 all_reduce"),
                      HasSubstr("rank 2 waits in recv(int32 x 2, from 0)")));
  }
}

// K-C14: NCCL itself would hang.
TEST_F(NcclCommunicators, CompareTheirCalls) {
  const auto bootstraps = Must(collectives::FromThreads(kRanks));
  Options options;
  options.check_signatures = true;
  std::vector<std::thread> threads;
  for (int i = 0; i < kRanks; ++i) {
    threads.emplace_back([&, i] {
      Communicator rank =
          Must(Communicator::Create(devices_[i], *bootstraps[i], options));
      const Array x = Ints(i, {1, 2});
      const Array y = Ints(i, i == 1 ? std::vector<int32_t>{1, 2, 3}
                                     : std::vector<int32_t>{1, 2});
      EXPECT_STATUS(rank.AllReduce(y, y), kInvalidArgument,
                    "rank 1: all_reduce(int32 x 3, sum)");
      EXPECT_EQ(rank.state(), State::kReady);
      EXPECT_OK(rank.AllReduce(x, x));
      EXPECT_THAT(Values(x), ElementsAre(kRanks, 2 * kRanks));
      EXPECT_OK(rank.Finish());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace devrt::testing
