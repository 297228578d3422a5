// SPDX-License-Identifier: Apache-2.0
//
// Communicators over NCCL on GPUs: what the library adds to the provider.  One
// rank on each of the first one, two or four GPUs, in one process.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "collectives/core/watch.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/devrt.h"
#include "tests/collectives/random_program.h"
#include "tests/hardware/capture.h"
#include "tests/hardware/cuda_test.h"

namespace devrt::hardware {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Must;
using testing::StatusIs;

using collectives::Communicator;
using collectives::Group;
using collectives::Options;
using collectives::State;
namespace ops = collectives;

// Holds a stream until the end of the scope.
class Hold {
 public:
  explicit Hold(StreamRef stream) {
    Must(LaunchHostFunc(stream, [this](const absl::Status&) {
      while (!released_) std::this_thread::yield();
      gone_ = true;
    }));
  }
  ~Hold() {
    released_ = true;
    while (!gone_) std::this_thread::yield();
  }

 private:
  std::atomic<bool> released_{false}, gone_{false};
};

class NcclLibrary : public CudaTest,
                    public ::testing::WithParamInterface<size_t> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (devices.size() < GetParam()) {
      GTEST_SKIP() << "this machine has " << devices.size() << " GPUs";
    }
    devices.erase(devices.begin() + static_cast<std::ptrdiff_t>(GetParam()),
                  devices.end());
    auto made = Communicator::CreateAll(devices);
    if (absl::IsUnavailable(made.status())) GTEST_SKIP() << made.status();
    ASSERT_OK(made);
    std::printf("nccl %s from %s\n", (*made)[0].provider().version.c_str(),
                (*made)[0].provider().path.c_str());
    Finish(&*made);
  }

  // An operation that ends takes less.  On a GPU the first ones load kernels.
  absl::Duration ShortTimeout() const {
    const std::string model = Must(devices[0].Properties()).name;
    return absl::StrContains(model, "fake CUDA device")
               ? absl::Milliseconds(500)
               : absl::Seconds(1);
  }
  std::vector<Communicator> MakeRanks(const Options& options = {}) const {
    return Must(Communicator::CreateAll(devices, options));
  }
  static void Finish(std::vector<Communicator>* ranks) {
    EXPECT_OK(Communicator::FinishAll(*ranks, absl::Now() + absl::Seconds(60)));
  }
  Array Ones(size_t rank, int64_t count = 64) const {
    return Must(Array::Full({count}, kFloat32, 1, devices[rank]));
  }
  static float First(const Array& x) {
    const Array host = Must(x.To(Place::Host()));
    return *host.data_as<float>();
  }
  // An all-reduce of ones on all ranks; the first one connects them.
  void ExpectSum(std::vector<Communicator>* ranks) const {
    std::vector<Array> arrays;
    Group group;
    for (size_t i = 0; i < ranks->size(); ++i) {
      arrays.push_back(Ones(i));
      group.Add((*ranks)[i], ops::AllReduce(arrays[i], arrays[i]));
    }
    ASSERT_OK(group.Submit());
    for (size_t i = 0; i < ranks->size(); ++i) {
      EXPECT_OK((*ranks)[i].Wait());
      EXPECT_EQ(First(arrays[i]), static_cast<float>(ranks->size()));
    }
  }
  // Rank 0 submits alone, or behind a hold: the operation does not end.
  std::unique_ptr<Hold> SubmitWhatDoesNotEnd(Communicator* rank, const Array& x,
                                             StreamRef stream) {
    std::unique_ptr<Hold> hold;
    if (GetParam() == 1) hold = std::make_unique<Hold>(stream);
    EXPECT_OK(rank->AllReduce(x, x, ops::Reduction::kSum, stream));
    return hold;
  }
};

TEST_P(NcclLibrary, Computes) {
  std::vector<Communicator> ranks = MakeRanks();
  EXPECT_EQ(ranks[0].provider().name, "nccl");
  EXPECT_TRUE(collectives::internal::IsWatching());
  ExpectSum(&ranks);
  EXPECT_NE(ranks[0].Records().back().end_ns, 0u);
  Finish(&ranks);
}

// Two ranks have one GPU.
TEST_P(NcclLibrary, RefusesOneDeviceForTwoRanks) {
  std::vector<Device> twice = {devices[0], devices[0]};
  EXPECT_THAT(Communicator::CreateAll(twice).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("ranks 0 and 1 both have cuda:0 ("),
                             HasSubstr("nccl needs a device for each rank"))));
  Options options;
  options.shared_device = true;
  // With this variable NCCL 2.30 and newer make such ranks.
  constexpr const char* kAllows = "NCCL_MULTI_RANK_GPU_ENABLE";
  const char* const set = std::getenv(kAllows);
  const std::string before = set == nullptr ? "" : set;
  unsetenv(kAllows);
  EXPECT_THAT(
      Communicator::CreateAll(twice, options).status(),
      StatusIs(absl::StatusCode::kUnimplemented,
               AnyOf(HasSubstr("cannot share one"), HasSubstr(kAllows))));
  if (set != nullptr) setenv(kAllows, before.c_str(), 1);
}

// Nothing is enqueued, and the communicator stays as it was.
TEST_P(NcclLibrary, RefusesWrongArguments) {
  std::vector<Communicator> ranks = MakeRanks();
  const Array x = Ones(0);
  const Array half = Must(x.SliceAxis(0, {0, 32}));
  const Array shifted = Must(x.SliceAxis(0, {16, 48}));
  const Array ints = Must(Array::Full({64}, kInt32, 1, devices[0]));
  const int size = static_cast<int>(GetParam());
  for (const auto& [operation, text] :
       std::vector<std::pair<ops::Operation, std::string>>{
           {ops::AllReduce(half, x), "32"},
           {ops::AllReduce(ints, x), "int32"},
           {ops::AllReduce(shifted, half), "overlap"},
           {ops::Broadcast(x, size), absl::StrCat("root ", size)},
           {ops::Send(x, -1), "peer -1"}}) {
    EXPECT_THAT(ranks[0].Submit({&operation, 1}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }
  EXPECT_EQ(ranks[0].state(), State::kReady);
  EXPECT_TRUE(ranks[0].Records().empty());
  ExpectSum(&ranks);
  Finish(&ranks);
}

// ---- Children ---------------------------------------------------------------

// K-C13: the others compute without the last rank.
TEST_P(NcclLibrary, ShrinksWithoutItsLastRank) {
  if (GetParam() == 1) GTEST_SKIP() << "a rank alone leaves nobody";
  std::vector<Communicator> ranks = MakeRanks();
  ExpectSum(&ranks);
  const int gone = static_cast<int>(GetParam()) - 1;
  std::vector<Communicator> others;
  for (int i = 0; i < gone; ++i) others.push_back(std::move(ranks[i]));
  std::vector<Communicator> children =
      Must(Communicator::ShrinkAll(others, {gone}));
  ASSERT_EQ(children.size(), others.size());
  for (int i = 0; i < gone; ++i) {
    EXPECT_EQ(children[i].rank(), i);
    EXPECT_EQ(children[i].size(), gone);
  }
  ExpectSum(&children);
  Finish(&children);
  for (Communicator& rank : others) EXPECT_OK(rank.Abort("over"));
  EXPECT_OK(ranks[gone].Abort("over"));
}

// K-C13 after a failure: the last rank never submits, and the others time out.
TEST_P(NcclLibrary, ShrinksAfterATimeout) {
  if (GetParam() == 1) GTEST_SKIP() << "a rank alone waits for nobody";
  Options options;
  options.timeout = ShortTimeout();
  std::vector<Communicator> ranks = MakeRanks(options);
  ExpectSum(&ranks);
  const int gone = static_cast<int>(GetParam()) - 1;
  std::vector<Communicator> others;
  for (int i = 0; i < gone; ++i) others.push_back(std::move(ranks[i]));
  std::vector<Array> arrays;
  Group group;
  for (int i = 0; i < gone; ++i) {
    arrays.push_back(Ones(i));
    group.Add(others[i], ops::AllReduce(arrays[i], arrays[i]));
  }
  EXPECT_OK(group.Submit());
  for (Communicator& rank : others) {
    EXPECT_THAT(rank.Wait(), ::testing::Not(testing::IsOk()));
    EXPECT_EQ(rank.state(), State::kFailed);
  }
  std::vector<Communicator> children =
      Must(Communicator::ShrinkAll(others, {gone}));
  ExpectSum(&children);
  Finish(&children);
  EXPECT_OK(ranks[gone].Abort("over"));
}

TEST_P(NcclLibrary, SplitsByColor) {
  std::vector<Communicator> ranks = MakeRanks();
  ExpectSum(&ranks);
  const int size = static_cast<int>(GetParam());
  // The ranks in reverse order, without the last one if there are more.
  std::vector<int> colors(size, 0), keys;
  if (size > 1) colors[size - 1] = -1;
  for (int i = 0; i < size; ++i) keys.push_back(-i);
  auto made = Must(Communicator::SplitAll(ranks, colors, keys));
  std::vector<Communicator> children;
  for (int i = 0; i < size; ++i) {
    ASSERT_EQ(made[i].has_value(), colors[i] == 0) << i;
    if (made[i].has_value()) children.push_back(*std::move(made[i]));
  }
  for (size_t i = 0; i < children.size(); ++i) {
    EXPECT_EQ(children[i].rank(), static_cast<int>(children.size() - 1 - i));
  }
  ExpectSum(&children);
  Finish(&children);
  Finish(&ranks);
}

// ---- What the ranks register and compare ------------------------------------

TEST_P(NcclLibrary, UsesRegisteredMemory) {
  std::vector<Communicator> ranks = MakeRanks();
  EXPECT_THAT(ranks[0].provider().features, ::testing::Contains("register"));
  ExpectSum(&ranks);
  std::vector<Array> arrays;
  std::vector<collectives::Registration> registrations;
  constexpr int64_t kCount = 1 << 20;
  for (size_t i = 0; i < ranks.size(); ++i) {
    arrays.push_back(Ones(i, kCount));
    registrations.push_back(Must(ranks[i].Register(arrays[i])));
  }
  float expected = 1;
  for (int call = 0; call < 3; ++call) {
    Group group;
    for (size_t i = 0; i < ranks.size(); ++i) {
      group.Add(ranks[i], ops::AllReduce(arrays[i], arrays[i]));
    }
    ASSERT_OK(group.Submit());
    expected *= static_cast<float>(ranks.size());
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_OK(ranks[i].Wait());
    EXPECT_EQ(First(Must(arrays[i].SliceAxis(0, {kCount - 1, kCount}))),
              expected);
  }
  registrations.clear();
  ExpectSum(&ranks);
  Finish(&ranks);
}

// K-C14: a mismatch, with which NCCL hangs, is told to every rank.
TEST_P(NcclLibrary, ComparesTheCallsOfTheRanks) {
  if (GetParam() == 1) GTEST_SKIP() << "a rank alone differs from nobody";
  Options options;
  options.check_signatures = true;
  const int size = static_cast<int>(GetParam());
  auto bootstraps = Must(collectives::FromThreads(size));
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      auto made = Communicator::Create(devices[i], *bootstraps[i], options);
      ASSERT_OK(made);
      Communicator rank = *std::move(made);
      const Array x = Ones(i, i == 1 ? 32 : 64);
      EXPECT_THAT(
          rank.AllReduce(x, x),
          StatusIs(absl::StatusCode::kInvalidArgument,
                   AllOf(HasSubstr("the ranks' calls differ at 1: "),
                         HasSubstr("rank 1: all_reduce(float32 x 32, sum) "),
                         HasSubstr("all_reduce(float32 x 64, sum) "))));
      EXPECT_EQ(rank.state(), State::kReady);
      const Array y = Ones(i);
      EXPECT_OK(rank.AllReduce(y, y));
      EXPECT_OK(rank.Wait());
      EXPECT_EQ(First(y), static_cast<float>(size));
      EXPECT_OK(rank.Finish(absl::Now() + absl::Seconds(60)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// K-C19: half of the programs submit for some ranks at a time, over
// communicators whose submissions do not wait for the other ranks.
TEST_P(NcclLibrary, RunsRandomPrograms) {
  if (GetParam() == 1) GTEST_SKIP() << "programs have two ranks or more";
  using testing::RandomProgram;
  constexpr uint64_t kPrograms = 200;
  const int most = static_cast<int>(GetParam());
  std::map<std::pair<int, bool>, std::vector<Communicator>> made;
  for (uint64_t seed = 1; seed <= kPrograms && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const int size = RandomProgram::RanksOf(seed, most);
    const bool of_some = seed % 2 == 0;
    std::vector<Communicator>& ranks = made[{size, of_some}];
    if (ranks.empty()) {
      Options options;
      if (of_some) options.on_failure = collectives::OnFailure::kReport;
      ranks = Must(Communicator::CreateAll(
          {devices.data(), static_cast<size_t>(size)}, options));
    }
    RandomProgram(seed, &ranks,
                  of_some ? RandomProgram::Submissions::kOfSomeRanks
                          : RandomProgram::Submissions::kOfAllRanks)
        .Run();
  }
  for (auto& [key, ranks] : made) Finish(&ranks);
}

// ---- Failure ----------------------------------------------------------------

// K-C10: the watch finds the timeout; other streams and a new communicator of
// the devices go on.
TEST_P(NcclLibrary, TimesOut) {
  std::vector<Communicator> before = MakeRanks();
  ExpectSum(&before);  // the library is warm
  Finish(&before);
  Options options;
  options.timeout = ShortTimeout();
  // An abort would wait for the hold, as it frees memory.
  if (GetParam() == 1) options.on_failure = collectives::OnFailure::kReport;
  std::vector<Communicator> ranks = MakeRanks(options);
  ExpectSum(&ranks);
  const Stream stream = Must(Stream::Create(devices[0]));
  const Array x = Ones(0);
  ASSERT_OK(x.Ready());
  {
    const absl::Time begin = absl::Now();
    const auto hold = SubmitWhatDoesNotEnd(&ranks[0], x, stream);
    EXPECT_THAT(ranks[0].Wait(stream),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr("all_reduce(float32 x 64, sum)")));
    EXPECT_LT(absl::Now() - begin, options.timeout + absl::Seconds(5));
    EXPECT_EQ(ranks[0].state(), State::kFailed);
    EXPECT_THAT(ranks[0].AllReduce(x, x),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("failed")));
  }
  for (Communicator& rank : ranks) EXPECT_OK(rank.Abort("the test is over"));
  EXPECT_OK(stream.Synchronize());
  std::vector<Communicator> again = MakeRanks();
  ExpectSum(&again);
  Finish(&again);
}

// K-C11: another thread ends a Wait.
TEST_P(NcclLibrary, AbortEndsAWait) {
  std::vector<Communicator> ranks = MakeRanks();
  ExpectSum(&ranks);
  const Stream stream = Must(Stream::Create(devices[0]));
  const Array x = Ones(0);
  ASSERT_OK(x.Ready());
  absl::Status waited;
  std::thread waiter;
  {
    const auto hold = SubmitWhatDoesNotEnd(&ranks[0], x, stream);
    std::atomic<bool> waits{false};
    waiter = std::thread([&] {
      waits = true;
      waited = ranks[0].Wait(stream);
    });
    while (!waits) std::this_thread::yield();
    if (GetParam() > 1) {
      for (Communicator& rank : ranks) EXPECT_OK(rank.Abort("over"));
    }
  }
  waiter.join();
  // One rank is complete when it is released.
  EXPECT_THAT(waited,
              GetParam() == 1
                  ? ::testing::Matcher<absl::Status>(testing::IsOk())
                  : StatusIs(absl::StatusCode::kAborted, HasSubstr("over")));
  for (Communicator& rank : ranks) EXPECT_OK(rank.Abort("again"));
  EXPECT_OK(stream.Synchronize());
  std::vector<Communicator> again = MakeRanks();
  ExpectSum(&again);
  Finish(&again);
}

// K-C18: the watch asks after a pending operation, while this thread captures
// in the strictest mode.
TEST_P(NcclLibrary, TheWatchLeavesCapturesValid) {
  std::vector<Communicator> ranks = MakeRanks();
  ExpectSum(&ranks);
  const Array x = Ones(0);
  ASSERT_OK(x.Ready());
  const Stream held = Must(Stream::Create(devices[0]));
  const Stream captured = Must(Stream::Create(devices[0]));
  {
    const auto hold = SubmitWhatDoesNotEnd(&ranks[0], x, held);
    Capture capture(captured);
    EXPECT_THAT(ranks[0].AllReduce(x, x, ops::Reduction::kSum, captured),
                ::testing::Not(testing::IsOk()));
    // Several rounds of the watch.
    absl::SleepFor(absl::Milliseconds(300));
    EXPECT_TRUE(capture.End());
  }
  EXPECT_EQ(ranks[0].state(), State::kReady);
  for (Communicator& rank : ranks) EXPECT_OK(rank.Abort("over"));
}

// K-C11: a failure ends all communicators of the device at once, whose kernels
// wait for peers that do not come.  The last test: the device is lost if the
// library does not return.
TEST_P(NcclLibrary, AFailureEndsFourCommunicators) {
  if (GetParam() == 1) GTEST_SKIP() << "a rank alone waits for nobody";
  Options options;
  options.timeout = ShortTimeout();
  std::vector<std::vector<Communicator>> all;
  std::vector<Stream> streams;
  std::vector<Array> arrays;
  for (int i = 0; i < 4; ++i) {
    all.push_back(MakeRanks(options));
    ExpectSum(&all.back());
    streams.push_back(Must(Stream::Create(devices[0])));
    arrays.push_back(Ones(0));
    ASSERT_OK(arrays.back().Ready());
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_OK(all[i][0].AllReduce(arrays[i], arrays[i], ops::Reduction::kSum,
                                  streams[i]));
  }
  EXPECT_THAT(all[0][0].Wait(streams[0]), ::testing::Not(testing::IsOk()));
  const absl::Time end = absl::Now() + absl::Seconds(40);
  for (int i = 0; i < 4; ++i) {
    while (all[i][0].state() == State::kReady && absl::Now() < end) {
      std::this_thread::yield();
    }
    EXPECT_NE(all[i][0].state(), State::kReady) << i;
    for (Communicator& rank : all[i]) EXPECT_OK(rank.Abort("over"));
  }
  EXPECT_OK(devices[0].Health());
  for (const Stream& stream : streams) EXPECT_OK(stream.Synchronize());
  std::vector<Communicator> again = MakeRanks();
  ExpectSum(&again);
  Finish(&again);
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclLibrary, ::testing::Values(1u, 2u, 4u),
                         [](const ::testing::TestParamInfo<size_t>& param) {
                           return "of_" + std::to_string(param.param);
                         });

}  // namespace
}  // namespace devrt::hardware
