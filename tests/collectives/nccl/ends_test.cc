// SPDX-License-Identifier: Apache-2.0
//
// How communicators over the fake NCCL end if something is wrong: their device
// is lost, a rank has stopped, or an abort does not return.  The last tests
// lose their devices.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "collectives/core/failure.h"
#include "collectives/core/watch.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/collectives/communicator.h"
#include "devrt/devrt.h"
#include "runtime/registry/outside_calls.h"
#include "tests/fakes/nccl/knobs.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using collectives::Bootstrap;
using collectives::Communicator;
using collectives::OnFailure;
using collectives::Options;

// Until the condition holds, 20 s at most.
template <typename Condition>
bool Await(Condition condition) {
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (!condition() && absl::Now() < end) std::this_thread::yield();
  return condition();
}

class NcclEnds : public ::testing::Test {
 protected:
  NcclEnds() { Set({}); }
  ~NcclEnds() override {
    fake_nccl_let_go();
    EXPECT_TRUE(Await([] { return !collectives::internal::IsWatching(); }));
  }
  static void Set(const fake_nccl_knobs& knobs) { fake_nccl_set(&knobs); }
  static Device Gpu(int i) {
    return Must(GetDevice("cuda:" + std::to_string(i)));
  }
};

// The watch has found the failure, and is in an abort that takes a while.
TEST_F(NcclEnds, TellAWaitWhatTheRecordsSayBehindAnAbort) {
  std::string folder = ::testing::TempDir() + "/behind_an_abort.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  setenv("DEVRT_COLLECTIVES_RECORD", folder.c_str(), 1);
  fake_nccl_knobs knobs = {};
  knobs.abort_hangs = 1;
  Set(knobs);
  Options options;
  options.timeout = absl::Milliseconds(50);
  {
    auto ranks = Must(Communicator::CreateAll({Gpu(0), Gpu(1)}, options));
    unsetenv("DEVRT_COLLECTIVES_RECORD");
    const Array x = Must(Array::Zeros({4}, kInt32, Gpu(0)));
    ASSERT_OK(ranks[0].AllReduce(x, x));  // rank 1 does not come
    EXPECT_TRUE(Await([&] {
      return ranks[0].comm()->state.load() != collectives::State::kReady;
    }));
    ASSERT_FALSE(ranks[0].comm()->followed.load());
    std::thread helper([] {
      absl::SleepFor(absl::Milliseconds(20));  // the Wait begins meanwhile
      fake_nccl_let_go();
    });
    EXPECT_THAT(ranks[0].Wait(),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr("; by their records: they differ at 1")));
    helper.join();
  }
  std::filesystem::remove_all(folder);
}

// A bootstrap that says when its rank has come.
class Noted : public Bootstrap {
 public:
  Noted(Bootstrap* inner, std::function<void()> note)
      : inner_(inner), note_(std::move(note)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::StatusOr<std::vector<std::string>> AllGather(
      std::string mine, absl::Time deadline) override {
    note_();
    return inner_->AllGather(std::move(mine), deadline);
  }

 private:
  Bootstrap* const inner_;
  const std::function<void()> note_;
};

// The environment of one rank keeps submissions from waiting.  The others
// cannot know what a rank finds out after the exchange.
TEST_F(NcclEnds, AgreeOnWaitsInTheExchange) {
  constexpr const char* kVariable = "NCCL_COMM_SPLIT_SHARE_RESOURCES";
  for (const char* value : {"0", "1"}) {
    const auto bootstraps = Must(collectives::FromThreads(2));
    std::atomic<bool> has_come{false};
    Noted first(bootstraps[0].get(), [&] { has_come = true; });
    Noted second(bootstraps[1].get(), [&] { unsetenv(kVariable); });
    std::optional<Communicator> rank;
    std::thread thread(
        [&] { rank.emplace(Must(Communicator::Create(Gpu(0), first))); });
    EXPECT_TRUE(Await([&] { return has_come.load(); }));
    setenv(kVariable, value, 1);
    const Communicator other = Must(Communicator::Create(Gpu(1), second));
    thread.join();
    EXPECT_EQ(fake_nccl_live(), 2) << value;
    rank.reset();
  }
}

// The third call asks for the communicator that the second one makes.
TEST_F(NcclEnds, SayThatTheLibraryGaveUp) {
  constexpr int kTimeout = 8;  // ncclTimeout
  fake_nccl_knobs knobs = {};
  knobs.fail_at = 3;
  knobs.fail_code = kTimeout;
  fake_nccl_set(&knobs);
  const auto bootstraps = Must(collectives::FromThreads(1));
  EXPECT_THAT(Communicator::Create(Gpu(0), *bootstraps[0]).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("(ncclTimeout)"),
                             Not(HasSubstr("did not connect them within")))));
  EXPECT_EQ(fake_nccl_live(), 0);
}

// The variable of the library goes before what devrt asks of it.
TEST_F(NcclEnds, AreNotMadeToBlockByAVariable) {
  constexpr const char* kVariable = "NCCL_COMM_BLOCKING";
  setenv(kVariable, "1", 1);
  const auto refused = Communicator::CreateAll({Gpu(0), Gpu(1)});
  setenv(kVariable, "0", 1);
  const auto ranks = Communicator::CreateAll({Gpu(0), Gpu(1)});
  unsetenv(kVariable);
  EXPECT_THAT(refused.status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("NCCL_COMM_BLOCKING=1 makes calls of NCCL")));
  ASSERT_OK(ranks.status());
  EXPECT_EQ(fake_nccl_live(), 2);  // none of them would block
}

// Nothing would end them.
TEST_F(NcclEnds, DoNotWaitWithoutATimeout) {
  Options options;
  options.timeout = absl::InfiniteDuration();
  const auto ranks = Must(Communicator::CreateAll({Gpu(0), Gpu(1)}, options));
  EXPECT_EQ(fake_nccl_live(), 2);
}

// K-C11: the memory of a communicator is given back behind the work of all
// others of the device, which wait for a rank that does not come.
TEST_F(NcclEnds, OfOneEndFourOfItsDevice) {
  Options options;
  options.timeout = absl::Milliseconds(200);
  std::vector<std::vector<Communicator>> all;
  std::vector<Stream> streams;
  std::vector<Array> arrays;
  for (int i = 0; i < 4; ++i) {
    all.push_back(Must(Communicator::CreateAll({Gpu(0), Gpu(1)}, options)));
    streams.push_back(Must(Stream::Create(Gpu(0))));
    arrays.push_back(Must(Array::Zeros({4}, kInt32, Gpu(0))));
    ASSERT_OK(arrays[i].Ready());
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_OK(all[i][0].AllReduce(arrays[i], arrays[i],
                                  collectives::Reduction::kSum, streams[i]));
  }
  EXPECT_FALSE(all[0][0].Wait(streams[0]).ok());
  for (std::vector<Communicator>& ranks : all) {
    EXPECT_TRUE(
        Await([&] { return ranks[0].state() != collectives::State::kReady; }));
    for (Communicator& rank : ranks) EXPECT_OK(rank.Abort("over"));
  }
  EXPECT_OK(Gpu(0).Health());
  for (const Stream& stream : streams) EXPECT_OK(stream.Synchronize());
  all.clear();
  EXPECT_EQ(fake_nccl_live(), 0);
}

// A rank may be far ahead of the one that has stopped.
TEST_F(NcclEnds, TellWhereTheOldestOpenCallIs) {
  const auto bootstraps = Must(collectives::FromThreads(2));
  Options options;
  options.exchange_records = true;
  options.timeout = absl::Seconds(2);
  std::string failures[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      Communicator rank =
          Must(Communicator::Create(Gpu(i), *bootstraps[i], options));
      const Array x = Must(Array::Zeros({4}, kInt32, Gpu(i)));
      for (int call = 0; call < (i == 0 ? 100 : 10); ++call) {
        EXPECT_OK(rank.AllReduce(x, x));
      }
      if (i == 1) {
        EXPECT_OK(rank.Recv(x, 0));
      }
      EXPECT_FALSE(rank.Wait().ok());
      EXPECT_TRUE(Await([&] {
        failures[i] = std::string(rank.failure().message());
        return failures[i].find("over the bootstrap") != std::string::npos;
      }));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) {
    EXPECT_THAT(failure,
                AllOf(HasSubstr("over the bootstrap: they differ at 11; "),
                      HasSubstr("rank 0 is at 11 all_reduce(int32 x 4"),
                      HasSubstr("rank 1 is at 10 all_reduce(int32 x 4")));
  }
}

// ---- Devices that are lost --------------------------------------------------

// The program unwinds before the watch looks.
TEST_F(NcclEnds, AbortWhatALostDeviceHas) {
  int device = 3;
  for (const OnFailure on_failure : {OnFailure::kAbort, OnFailure::kReport}) {
    Options options;
    options.on_failure = on_failure;
    {
      const auto one = Must(Communicator::CreateAll({Gpu(device)}, options));
      EXPECT_NE(fake_nccl_live(), 0);
      EXPECT_FALSE(devrt::internal::LoseDevice(Gpu(device), "for a test").ok());
    }
    EXPECT_EQ(fake_nccl_live(), 0);
    --device;
  }
}

// Of a rank that has failed a moment ago.
TEST_F(NcclEnds, ShrinkNothingIfAnAbortHangs) {
  collectives::internal::SetAbortLimit(absl::Milliseconds(100));
  auto ranks = Must(Communicator::CreateAll({Gpu(0), Gpu(1)}));
  const Array x = Must(Array::Zeros({4}, kInt32, Gpu(0)));
  fake_nccl_knobs knobs = {};
  knobs.abort_hangs = 1;
  knobs.async_code = 6;  // a remote error, at the next group
  Set(knobs);
  EXPECT_OK(ranks[0].AllReduce(x, x));
  EXPECT_FALSE(collectives::internal::NoteFailure(ranks[0].comm().get()).ok());
  std::atomic<bool> is_done{false};
  absl::Status shrunk;
  std::thread thread([&] {
    shrunk = ranks[0].Shrink({1}).status();
    is_done = true;
  });
  EXPECT_TRUE(Await([&] { return is_done.load(); }));
  fake_nccl_let_go();
  thread.join();
  EXPECT_THAT(shrunk, StatusIs(absl::StatusCode::kInternal,
                               HasSubstr("did not return within 100ms")));
}

}  // namespace
}  // namespace devrt::testing
