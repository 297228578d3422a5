// SPDX-License-Identifier: Apache-2.0
//
// K-C6: what is refused enqueues nothing, and leaves communicators as they are.
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "collectives/core/comm.h"
#include "collectives/core/device_order.h"
#include "collectives/core/rank_record.h"
#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using collectives::RawOperation;
using collectives::State;
namespace ops = collectives;

using Refused = CommTest;

TEST_F(Refused, ArgumentsOfOperations) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const Array x = Filled(0, 4, 1);
  const Array y = Filled(0, 4, 1);
  const Array other = Filled(1, 4, 1);
  const Array wide = Filled(0, 4, 1, kInt64);
  const Array host = Must(Array::Zeros({4}, kInt32, Place::Host()));
  const Array odd = Filled(0, 5, 1);
  const Array truth = Must(Array::Zeros({4}, kBool, dev()));
  const Array grid = Must(Array::Zeros({2, 2}, kInt32, dev()));
  Array moved = x;
  const Array sink = std::move(moved);
  const Array part = Must(odd.SliceAxis(0, {0, 4}));
  const Array shifted = Must(odd.SliceAxis(0, {1, 5}));
  RawOperation null_src;
  null_src.dtype = kInt32;
  null_src.count = 4;
  null_src.dst = x.data();
  RawOperation huge;
  huge.dtype = kInt32;
  huge.count = UINT64_MAX / 4;
  huge.src = huge.dst = x.data();
  const struct {
    Operation operation;
    const char* text;
  } kCases[] = {
      {ops::AllReduce(x, other), "in is in mtia:1 and the communicator on "},
      {ops::AllReduce(host, x), "out is in cpu"},
      {ops::AllReduce(x, wide), "in has int64 and out int32"},
      {ops::AllReduce(odd, x), "out has 5 elements and in 4: out needs 4"},
      {ops::AllGather(y, x), "out needs 8"},
      {ops::ReduceScatter(x, odd), "in has 5 elements, which 2 ranks"},
      {ops::AllReduce(truth, truth), "bool has no sum"},
      {ops::AllReduce(x.AsReadOnly(), y), "out is read-only"},
      {ops::AllReduce(x, moved), "in was moved from"},
      {ops::AllReduce(grid, grid.Transpose()), "is not C-contiguous"},
      {ops::AllReduce(part, shifted), "in and out overlap"},
      {ops::Broadcast(x, 2), "root 2 is no rank: there are 2"},
      {ops::Broadcast(x, -1), "root -1 is no rank"},
      {ops::Send(x, 5), "peer 5 is no rank"},
      {ops::Send(x, 0), "peer 0 is this rank itself"},
      {ops::Recv(x, 0), "peer 0 is this rank itself"},
      {null_src, "src is null"},
      {huge, "fit into an address space"},
  };
  const auto expect_refused = [&] {
    for (const auto& c : kCases) {
      EXPECT_THAT(
          ranks[0].Submit({c.operation}),
          StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.text)));
    }
  };
  expect_refused();
  EXPECT_THAT(ranks[0].AllReduce(x, x, Reduction::kSum, DefaultStream(dev(1))),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the stream is of mtia:1, not of mtia:0")));
  EXPECT_THAT(ranks[0].Records(), IsEmpty());
  EXPECT_EQ(ranks[0].state(), State::kReady);
  // Nothing was enqueued: the next operation is the first.
  Group group;
  group.Add(ranks[0], ops::AllReduce(x, x));
  group.Add(ranks[1], ops::AllReduce(other, other));
  ASSERT_OK(group.Submit());
  EXPECT_THAT(Ints(x), Each(2));
  EXPECT_FALSE(Must(ranks[0].Supports(OpKind::kAllReduce, kBool)));
  EXPECT_TRUE(
      Must(ranks[0].Supports(OpKind::kAllReduce, kBool, Reduction::kMax)));
  // A kind of operation that has passed before is checked by fewer questions.
  expect_refused();
  ASSERT_EQ(ranks[0].Records().size(), 1u);
}

TEST_F(Refused, MemoryToRegister) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const Array grid = Must(Array::Zeros({2, 2}, kInt32, dev()));
  Array moved = grid;
  const Array sink = std::move(moved);
  const struct {
    Array array;
    const char* text;
  } kCases[] = {
      {Filled(1, 4, 1), "Register: array is in mtia:1 and the communicator on"},
      {Must(Array::Zeros({4}, kInt32, Place::Host())), "array is in cpu"},
      {Must(Array::Zeros({4}, kInt32, Place::Pinned(dev()))), "array is in "},
      // Its elements have other bytes of the memory as neighbours.
      {Must(grid.Index(1, 0)), "array of shape (2,) is not C-contiguous"},
      {moved, "array was moved from"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(
        ranks[0].Register(c.array).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.text)));
  }
  EXPECT_EQ(ranks[0].state(), State::kReady);
}

TEST_F(Refused, WhatTheEngineLacks) {
  std::vector<Communicator> ranks = MakeRanks(1);
  const Array x = Must(Array::Zeros({4}, kComplex64, dev()));
  EXPECT_FALSE(
      *ranks[0].Supports(OpKind::kAllReduce, kComplex64, Reduction::kMax));
  EXPECT_THAT(ranks[0].AllReduce(x, x, Reduction::kMax),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("all_reduce of complex64 with max does not "
                                 "exist in mtia")));
}

// The other thread is inside of a submission, which awaits its turn among those
// of the device.
TEST_F(Refused, TwoThreadsAtOnce) {
  std::vector<Communicator> ranks = MakeRanks(1);
  const Array x = Filled(0, 4, 1);
  auto* const order = collectives::internal::DeviceOrder::Of(dev(0));
  order->Lock();
  std::thread other([&] { EXPECT_OK(ranks[0].AllReduce(x, x)); });
  while (!ranks[0].comm()->in_use.load()) std::this_thread::yield();
  const auto expect_refused = [](const absl::Status& status) {
    EXPECT_STATUS(status, kFailedPrecondition,
                  "is in use by another thread: the order would differ "
                  "between ranks");
  };
  expect_refused(ranks[0].AllReduce(x, x));
  expect_refused(ranks[0].Submit({ops::Broadcast(x, 0), ops::AllReduce(x, x)}));
  expect_refused(ranks[0].Finish(absl::InfiniteFuture()));
  order->Unlock();
  other.join();
  EXPECT_EQ(ranks[0].Records().size(), 1u);
  EXPECT_OK(ranks[0].AllReduce(x, x));
}

// A rank whose options are wrong tells the others.
TEST_F(Refused, OptionsOfOneRank) {
  std::vector<absl::Status> got(2);
  InThreads(2, [&](int i, collectives::Bootstrap& bootstrap) {
    collectives::Options options;
    if (i == 1) options.timeout = absl::ZeroDuration();
    got[i] = Communicator::Create(dev(i), bootstrap, options).status();
  });
  EXPECT_THAT(got[0], StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("rank 1 cannot take part")));
  EXPECT_THAT(got[1], StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("Options::init_timeout is")));
}

// A rank that fails when the others have its record tells them, too.
TEST_F(Refused, BytesForOneRank) {
  const struct {
    std::function<void(SpoiledBootstrap::Parts*)> spoil;
    absl::StatusCode code;
    const char* text;
  } kCases[] = {
      {[](SpoiledBootstrap::Parts* parts) { (**parts)[0][40] ^= 1; },
       absl::StatusCode::kDataLoss, "bytes for rank 0 that this version"},
      {[](SpoiledBootstrap::Parts* parts) {
         *parts = absl::PermissionDeniedError("a link");
       },
       absl::StatusCode::kPermissionDenied, "a link"},
  };
  for (const auto& c : kCases) {
    std::vector<absl::Status> got(3);
    InThreads(3, [&](int i, collectives::Bootstrap& bootstrap) {
      SpoiledBootstrap spoiled(&bootstrap, 1, i == 1 ? c.spoil : nullptr);
      got[i] = Communicator::Create(dev(i), spoiled).status();
    });
    EXPECT_THAT(got[1], StatusIs(c.code, HasSubstr(c.text)));
    for (const int i : {0, 2}) {
      EXPECT_THAT(got[i], StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("rank 1 cannot take part: "),
                                         HasSubstr(c.text))));
    }
  }
}

// A bootstrap that gives one rank the id of an earlier communicator: the engine
// would wait for ever.
TEST_F(Refused, BytesOfAnEarlierRun) {
  SpoiledBootstrap::Parts old = absl::UnknownError("");
  for (const bool is_old : {false, true}) {
    std::vector<absl::Status> got(2);
    InThreads(2, [&](int i, collectives::Bootstrap& bootstrap) {
      SpoiledBootstrap spoiled(
          &bootstrap, 1, [&, i](SpoiledBootstrap::Parts* parts) {
            if (i == 1) (is_old ? *parts : old) = is_old ? old : *parts;
          });
      got[i] = Communicator::Create(dev(i), spoiled).status();
    });
    for (const absl::Status& status : got) {
      if (!is_old) {
        EXPECT_OK(status);
        continue;
      }
      EXPECT_THAT(status,
                  StatusIs(absl::StatusCode::kDataLoss,
                           HasSubstr(" got other bytes than this rank: ")));
    }
  }
}

// A bootstrap that returns the first exchange twice.
TEST_F(Refused, BytesOfTheExchangeBefore) {
  std::vector<absl::Status> got(2);
  InThreads(2, [&](int i, collectives::Bootstrap& bootstrap) {
    SpoiledBootstrap::Parts before = absl::UnknownError("");
    SpoiledBootstrap first(
        &bootstrap, 1,
        [&before](SpoiledBootstrap::Parts* parts) { before = *parts; });
    SpoiledBootstrap second(
        &first, 2,
        [&before](SpoiledBootstrap::Parts* parts) { *parts = before; });
    got[i] = Communicator::Create(dev(i), second).status();
  });
  EXPECT_THAT(got[0], StatusIs(absl::StatusCode::kDataLoss,
                               HasSubstr("this rank, rank 0, got other bytes "
                                         "than it gave: ")));
  EXPECT_THAT(got[1],
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("rank 0 got other bytes than this rank: ")));
}

// A bootstrap that gives one rank what rank 0 wrote in an attempt that failed:
// that rank refuses, and the others do not wait for it.
TEST_F(Refused, BytesOfAnEarlierFailure) {
  SpoiledBootstrap::Parts old = absl::UnknownError("");
  for (const bool is_old : {false, true}) {
    std::vector<absl::Status> got(2);
    InThreads(2, [&](int i, collectives::Bootstrap& bootstrap) {
      SpoiledBootstrap spoiled(&bootstrap, 1,
                               [&, i](SpoiledBootstrap::Parts* parts) {
                                 if (i == 0) return;
                                 if (is_old) (**parts)[0] = (*old)[0];
                                 old = *parts;
                               });
      collectives::Options options;
      options.init_timeout = absl::Seconds(30);
      if (i == 0 && !is_old) options.timeout = absl::ZeroDuration();
      got[i] = Communicator::Create(dev(i), spoiled, options).status();
    });
    EXPECT_THAT(got[1], StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("rank 0 cannot take part: ")));
    if (!is_old) continue;
    EXPECT_THAT(got[0], StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("rank 1 cannot take part: "
                                           "FAILED_PRECONDITION: rank 0 cannot "
                                           "take part: ")));
  }
}

// Holds the rank back before its second exchange, until `go`.
class LateBootstrap final : public collectives::Bootstrap {
 public:
  LateBootstrap(collectives::Bootstrap* of, absl::Notification* go)
      : of_(of), go_(go) {}
  int rank() const override { return of_->rank(); }
  int size() const override { return of_->size(); }
  absl::StatusOr<std::vector<std::string>> AllGather(
      std::string mine, absl::Time deadline) override {
    if (++exchanges_ == 2 && go_ != nullptr) go_->WaitForNotification();
    return of_->AllGather(std::move(mine), deadline);
  }
  void GiveUp(std::string mine, absl::Time deadline) override {
    of_->GiveUp(std::move(mine), deadline);
  }

 private:
  collectives::Bootstrap* const of_;
  absl::Notification* const go_;
  int exchanges_ = 0;
};

// Nobody waits for a rank that comes late, and it learns the reason, too.
TEST_F(Refused, WhileOneRankIsLate) {
  std::string pattern = ::testing::TempDir() + "/refused.XXXXXX";
  const std::string folder = mkdtemp(pattern.data());
  for (const bool files : {false, true}) {
    SCOPED_TRACE(files);
    std::vector<absl::Status> got(3);
    absl::Notification go;
    std::atomic<int> done{0};
    InThreads(3, [&](int i, collectives::Bootstrap& threads) {
      std::unique_ptr<collectives::Bootstrap> file;
      if (files) {
        file = Must(collectives::FromFile(folder + "/job", i, 3, "job"));
      }
      collectives::Bootstrap* const over = files ? file.get() : &threads;
      SpoiledBootstrap spoiled(over, 1, [i](SpoiledBootstrap::Parts* parts) {
        if (i == 0) *parts = absl::PermissionDeniedError("a link");
      });
      LateBootstrap late(&spoiled, i == 2 ? &go : nullptr);
      collectives::Options options;
      options.init_timeout = absl::Seconds(30);
      got[i] = Communicator::Create(dev(i), late, options).status();
      if (++done == 2) go.Notify();
    });
    EXPECT_THAT(got[0], StatusIs(absl::StatusCode::kPermissionDenied,
                                 HasSubstr("a link")));
    for (const int i : {1, 2}) {
      EXPECT_THAT(got[i], StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("rank 0 cannot take part: "),
                                         HasSubstr("a link"))));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder + "/job/claim.0"));
  std::filesystem::remove_all(folder);
}

// One rank that cannot end keeps the others as they are.
TEST_F(Refused, FinishOfAllForOne) {
  std::vector<Communicator> ranks = MakeRanks(2);
  EXPECT_OK(Communicator::BarrierAll(ranks));
  EXPECT_OK(ranks[1].Abort("over"));
  EXPECT_THAT(Communicator::FinishAll(ranks),
              StatusIs(absl::StatusCode::kAborted, ::testing::_));
  EXPECT_FALSE(ranks[0].comm()->finishing);
}

TEST_F(Refused, MovedFrom) {
  std::vector<Communicator> ranks = MakeRanks(1);
  const Communicator rank = std::move(ranks[0]);
  const Array x = Filled(0, 4, 1);
  EXPECT_THAT(ranks[0].AllReduce(x, x),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("was moved from")));
  Group group;
  group.Add(ranks[0], ops::AllReduce(x, x));
  EXPECT_THAT(group.Submit(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("was moved from")));
}

TEST_F(Refused, OneRankTwice) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const Communicator* const twice[] = {&ranks[0], &ranks[0]};
  const Communicator* const none[] = {&ranks[0], nullptr};
  const struct {
    Communicator::RankPointers ranks;
    const char* text;
  } kCases[] = {{twice, " (rank 0 of 2) twice: give each rank once"},
                {none, "no null pointer"}};
  for (const auto& c : kCases) {
    EXPECT_STATUS(Communicator::BarrierAll(c.ranks), kInvalidArgument, c.text);
    EXPECT_STATUS(Communicator::SplitAll(c.ranks, {0, 1}, {0, 0}),
                  kInvalidArgument, c.text);
    EXPECT_STATUS(Communicator::ShrinkAll(c.ranks, {1}), kInvalidArgument,
                  c.text);
    EXPECT_STATUS(Communicator::FinishAll(c.ranks), kInvalidArgument, c.text);
  }
  EXPECT_THAT(ranks[0].Records(), IsEmpty());
  EXPECT_OK(Communicator::FinishAll(ranks));
}

// ---- Ranks that differ ------------------------------------------------------

std::vector<collectives::internal::RankRecord> RecordsOf(int size) {
  std::vector<collectives::internal::RankRecord> records(size);
  for (int i = 0; i < size; ++i) {
    records[i].provider = "nccl";
    records[i].version = "2.28.9";
    records[i].flags = DEVRT_COLLECTIVES_ABORT | DEVRT_COLLECTIVES_SPLIT;
    records[i].uuid = std::to_string(i);
    records[i].unique_id = "id";
  }
  return records;
}

TEST(RanksThatDiffer, NameTheirVersions) {
  auto records = RecordsOf(8);
  for (int i = 4; i < 8; ++i) records[i].version = "2.32.3";
  EXPECT_THAT(collectives::internal::CheckRecords(records),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("ranks 0-3 have nccl 2.28, ranks 4-7 nccl "
                                 "2.32: ")));
  for (auto& record : records) record.allow_mixed_versions = 1;
  EXPECT_OK(collectives::internal::CheckRecords(records));
}

// A call that one rank's engine lacks would leave the others in theirs.
TEST(RanksThatDiffer, NameTheFeaturesThatSomeLack) {
  auto records = RecordsOf(3);
  records[1].flags |= DEVRT_COLLECTIVES_SHRINK | DEVRT_COLLECTIVES_KEEPS_ORDER;
  records[2].flags = DEVRT_COLLECTIVES_ABORT;
  EXPECT_THAT(
      collectives::internal::CheckRecords(records),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("of the features shrink split of nccl rank 0 has "
                         "split, rank 1 shrink split, rank 2 none: ")));
  for (auto& record : records) record.allow_mixed_versions = 1;
  EXPECT_OK(collectives::internal::CheckRecords(records));
  EXPECT_EQ(collectives::internal::MissingFlags(records),
            uint32_t{DEVRT_COLLECTIVES_SHRINK | DEVRT_COLLECTIVES_SPLIT});
}

// What a user can do who has one GPU.
TEST(RanksThatDiffer, SayWhichEnginesShareADevice) {
  constexpr char kRemedy[] =
      "nccl 2.28.9 cannot share one: nccl can from 2.30, and provider \"mpi\" "
      "can";
  auto records = RecordsOf(2);
  for (auto& record : records) record.uuid = "GPU-1";
  EXPECT_THAT(collectives::internal::CheckRecords(records),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("ranks 0 and 1 both have "),
                             HasSubstr("take Options::shared_device, but "),
                             HasSubstr(kRemedy))));
  for (auto& record : records) record.shared_device = 1;
  EXPECT_THAT(collectives::internal::CheckRecords(records),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(kRemedy)));
  for (auto& record : records) record.flags |= DEVRT_COLLECTIVES_SHARED_DEVICE;
  EXPECT_OK(collectives::internal::CheckRecords(records));
}

// The engine keeps the order of a device where its user asks for it.
TEST(RanksThatDiffer, MayDifferInWhoKeepsTheOrder) {
  auto records = RecordsOf(2);
  records[1].flags |= DEVRT_COLLECTIVES_KEEPS_ORDER;
  EXPECT_OK(collectives::internal::CheckRecords(records));
  EXPECT_EQ(collectives::internal::MissingFlags(records), 0u);
}

}  // namespace
}  // namespace devrt::testing
