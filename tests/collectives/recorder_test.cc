// SPDX-License-Identifier: Apache-2.0
#include "devrt/collectives/recorder.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/recorder/report.h"
#include "collectives/recorder/ring.h"
#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using collectives::Report;
using collectives::internal::Call;
using collectives::internal::kRecords;
using collectives::internal::Ring;
namespace ops = collectives;

class RecorderTest : public CommTest {
 protected:
  RecorderTest() {
    std::string pattern = ::testing::TempDir() + "/recorder.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~RecorderTest() override {
    unsetenv("DEVRT_COLLECTIVES_RECORD");
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<Ring> MakeRing(uint32_t rank, uint32_t size,
                                 uint64_t key = 7) const {
    Ring::Identity identity;
    identity.key = key;
    identity.id = 3;
    identity.rank = rank;
    identity.size = size;
    identity.label = "3 grads";
    return Must(Ring::Make(identity, folder_));
  }
  static Call AllReduceOf(uint64_t sequence, uint64_t count, int line = 41) {
    Call call;
    call.op = DEVRT_COLLECTIVE_ALL_REDUCE;
    call.sequence = sequence;
    call.count = count;
    call.dtype = kFloat32.code();
    call.site = {"train.cc", line};
    return call;
  }
  static Call AllGatherOf(uint64_t sequence) {
    Call call = AllReduceOf(sequence, 8, 44);
    call.op = DEVRT_COLLECTIVE_ALL_GATHER;
    return call;
  }
  std::string ReportText() const { return Must(Report(folder_)); }

  std::string folder_;
};

using Records = RecorderTest;
using Reports = RecorderTest;

TEST_F(Records, KeepTheNewest) {
  const auto ring = MakeRing(0, 1);
  for (uint64_t i = 1; i <= kRecords + 10; ++i) {
    EXPECT_EQ(ring->Append(AllReduceOf(i, i)), i);
  }
  EXPECT_EQ(ring->Find(10), nullptr);
  ASSERT_NE(ring->Find(11), nullptr);
  EXPECT_EQ(ring->Find(11)->count, 11u);
  EXPECT_EQ(ring->Find(kRecords + 11), nullptr);
  ring->End(5);  // whose place another call has
  EXPECT_EQ(ring->Find(5 + kRecords)->end_ns, 0u);
}

// A call from Python may have no line.
TEST_F(Records, OfAnUnknownPlaceBehindAKnownOne) {
  const auto ring = MakeRing(0, 1);
  Call call = AllReduceOf(1, 4);
  EXPECT_EQ(ring->Append(call), 1);
  call.site = {};
  EXPECT_EQ(ring->Append(call), 2);
  EXPECT_EQ(ring->Find(2)->file, 0);
}

TEST_F(Reports, TheRankThatIsBehind) {
  std::vector<std::unique_ptr<Ring>> rings;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    rings.push_back(MakeRing(rank, 4));
    for (uint64_t i = 1; i <= 118; ++i)
      rings[rank]->Append(AllReduceOf(i, 4096));
    if (rank != 3) rings[rank]->Append(AllGatherOf(119));
  }
  EXPECT_EQ(ReportText(),
            "communicator 3 grads, 4 ranks: they differ at 119\n"
            "  rank 3 is at 118 all_reduce(float32 x 4096, sum) train.cc:41\n"
            "  ranks 0-2 are at 119 all_gather(float32 x 8) train.cc:44\n");
}

TEST_F(Reports, TheRankThatIsDifferent) {
  std::vector<std::unique_ptr<Ring>> rings;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    rings.push_back(MakeRing(rank, 4));
    for (uint64_t i = 1; i <= 9; ++i) {
      const bool is_other = rank == 1 && i == 5;
      rings[rank]->Append(AllReduceOf(i, is_other ? 17 : 16));
    }
  }
  rings[1]->Fail("communicator 3 failed");
  EXPECT_EQ(ReportText(),
            "communicator 3 grads, 4 ranks: rank 3 has left no records; they "
            "differ at 5\n"
            "  rank 1 is at 5 all_reduce(float32 x 17, sum) train.cc:41\n"
            "  ranks 0, 2 are at 5 all_reduce(float32 x 16, sum) train.cc:41\n"
            "  rank 1 says: communicator 3 failed\n");
}

TEST_F(Reports, NoDifference) {
  const auto a = MakeRing(0, 2);
  const auto b = MakeRing(1, 2);
  EXPECT_THAT(ReportText(), HasSubstr("no collective was submitted"));
  a->Append(AllReduceOf(1, 4));
  b->Append(AllReduceOf(1, 4));
  EXPECT_EQ(ReportText(),
            "communicator 3 grads, 2 ranks: no difference; the last is 1 "
            "all_reduce(float32 x 4, sum) train.cc:41\n");
}

// Of a rank without records nobody knows whether it differs.
TEST_F(Reports, NoDifferenceOfSome) {
  const auto a = MakeRing(0, 3);
  EXPECT_THAT(ReportText(), HasSubstr("ranks 1, 2 have left no records; the "
                                      "others have submitted no collective\n"));
  a->Append(AllReduceOf(1, 4));
  EXPECT_THAT(ReportText(), HasSubstr("; the last of rank 0 is 1 all_reduce("));
  const auto b = MakeRing(1, 3);
  b->Append(AllReduceOf(1, 4));
  EXPECT_EQ(
      ReportText(),
      "communicator 3 grads, 3 ranks: rank 2 has left no records; the "
      "others do not differ; their last is 1 all_reduce(float32 x 4, sum) "
      "train.cc:41\n");
}

TEST_F(Reports, RefuseWhatIsNone) {
  EXPECT_THAT(Report(folder_), StatusIs(absl::StatusCode::kNotFound,
                                        HasSubstr("DEVRT_COLLECTIVES_RECORD")));
  // The variable takes an absolute path only.
  ASSERT_EQ(chdir(folder_.c_str()), 0);
  EXPECT_THAT(Report("."), StatusIs(absl::StatusCode::kNotFound,
                                    HasSubstr("DEVRT_COLLECTIVES_RECORD=/")));
  ASSERT_EQ(chdir("/"), 0);
  EXPECT_THAT(Report(folder_ + "/none"),
              StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  const auto ring = MakeRing(0, 1);
  ring->Append(AllReduceOf(1, 4));
  std::ofstream(folder_ + "/short.dvcl") << "x";
  std::filesystem::create_symlink(folder_ + "/short.dvcl",
                                  folder_ + "/link.dvcl");
  {
    std::ofstream(folder_ + "/zero.dvcl") << "";
    std::filesystem::resize_file(
        folder_ + "/zero.dvcl",
        collectives::internal::kRecordsOffset + 64 * kRecords);
  }
  EXPECT_THAT(
      ReportText(),
      AllOf(HasSubstr("no difference"), HasSubstr("short.dvcl has 1 bytes"),
            HasSubstr("link.dvcl cannot be read"),
            HasSubstr("zero.dvcl is no recorder's file")));
}

TEST_F(Reports, WhoWaitsInATransfer) {
  std::vector<std::unique_ptr<Ring>> rings;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    rings.push_back(MakeRing(rank, 3));
    Call call = AllReduceOf(0, 4, 20);
    call.op = DEVRT_COLLECTIVE_SEND;
    call.root_or_peer = static_cast<int32_t>(rank + 1) % 3;
    rings[rank]->End(rings[rank]->Append(call));
    rings[rank]->Append(AllReduceOf(1, 4));
  }
  EXPECT_THAT(ReportText(), Not(HasSubstr(" wait")));
  Call call = AllReduceOf(0, 4, 30);
  call.op = DEVRT_COLLECTIVE_RECV;
  call.site.file = "ring.cc";
  call.root_or_peer = 1;
  for (const int rank : {0, 2}) rings[rank]->Append(call);
  call.root_or_peer = 0;
  rings[1]->Append(call);
  EXPECT_EQ(ReportText(),
            "communicator 3 grads, 3 ranks: no difference; the last is 1 "
            "all_reduce(float32 x 4, sum) train.cc:41\n"
            "  rank 1 waits in recv(float32 x 4, from 0) ring.cc:30\n"
            "  ranks 0, 2 wait in recv(float32 x 4, from 1) ring.cc:30\n");
}

// A transfer is complete if its stream has begun later work.
TEST_F(Reports, NoWaitBeforeACollectiveThatAllHaveBegun) {
  const auto first = MakeRing(0, 2);
  const auto second = MakeRing(1, 2);
  Call transfer = AllReduceOf(0, 4, 20);
  transfer.op = DEVRT_COLLECTIVE_SEND;
  Call other = transfer;  // on a stream of its own
  other.stream = 9;
  other.site.line = 21;
  second->Append(transfer, /*now_ns=*/10);
  second->Append(other, 10);
  second->Append(AllReduceOf(1, 4), 20);
  const uint64_t end = first->Append(AllReduceOf(1, 4), 20);
  transfer.site.line = 22;
  second->Append(transfer, 20);  // of the group of the collective
  EXPECT_THAT(ReportText(), HasSubstr("rank 1 waits in send(float32 x 4, to 0) "
                                      "train.cc:22\n"));
  second->Withdraw();
  EXPECT_THAT(ReportText(), HasSubstr("train.cc:21\n"));  // the newest
  // Its end on one rank says that the other rank has begun it.
  first->End(end);
  EXPECT_THAT(ReportText(), HasSubstr("train.cc:21\n"));
  const uint64_t later = second->Append(other, 30);
  second->End(later);
  EXPECT_THAT(ReportText(), Not(HasSubstr(" wait")));
}

// What ranks send over a bootstrap after a failure.
TEST_F(Reports, OfImages) {
  using collectives::internal::CompareImages;
  const auto first = MakeRing(0, 4);
  const auto second = MakeRing(1, 4);
  for (uint64_t i = 1; i <= 118; ++i) {
    first->Append(AllReduceOf(i, 4096));
    if (i < 118) second->Append(AllReduceOf(i, 4096));
  }
  first->Append(AllGatherOf(119));
  const std::string image = first->Image(0, 64, 8);
  EXPECT_LT(image.size(), 16u << 10);
  EXPECT_EQ(
      CompareImages({image, second->Image(0, 64, 8), std::nullopt, "junk"}),
      "ranks 2, 3 have left no records; they differ at 118; rank 0 is "
      "at 118 all_reduce(float32 x 4096, sum) train.cc:41; rank 1 is at "
      "117 all_reduce(float32 x 4096, sum) train.cc:41; what rank 3 sent "
      "is damaged, or no image of a recorder");
  EXPECT_EQ(CompareImages({std::nullopt, image}),
            "no rank sent its records; what rank 1 sent is of rank 0, not 1");
  EXPECT_EQ(CompareImages({image.substr(0, image.size() - 1)}),
            "no rank sent its records; what rank 0 sent is damaged, or no "
            "image of a recorder");
  // In the header, a name, the count of a record, and the checksum.
  for (const size_t at :
       {size_t{20}, image.size() / 2, image.size() - 60, image.size() - 1}) {
    std::string damaged = image;
    damaged[at] ^= 1;
    EXPECT_EQ(CompareImages({damaged}),
              "no rank sent its records; what rank 0 sent is damaged, or no "
              "image of a recorder");
  }
}

// A rank far ahead gives the calls from its oldest open one on.
TEST_F(Reports, OfImagesOfARankThatIsAhead) {
  using collectives::internal::CompareImages;
  constexpr char kAt[] = " all_reduce(float32 x 4, sum) train.cc:41";
  const auto ahead = MakeRing(0, 2);
  const auto behind = MakeRing(1, 2);
  for (uint64_t i = 1; i <= 200; ++i) {
    ahead->Append(AllReduceOf(i, 4));
    if (i <= 10) behind->Append(AllReduceOf(i, 4));
  }
  const auto compare = [&](uint64_t from) {
    return CompareImages({ahead->Image(from, 64, 8), behind->Image(0, 64, 8)});
  };
  const std::string one = std::string("rank 1 is at 10") + kAt;
  EXPECT_EQ(compare(11), std::string("they differ at 11; rank 0 is at 11") +
                             kAt + "; " + one);
  EXPECT_EQ(compare(1), compare(11));
  // It does not know where the other one stopped.
  EXPECT_EQ(compare(0), "the records of rank 0 begin at 137; " + one);
  EXPECT_EQ(compare(37), "the records of rank 0 begin at 37; " + one);
  EXPECT_EQ(ahead->Image(11, 64, 8).size(), ahead->Image(0, 64, 8).size());
  // Calls 12 to 67 are there, and 193 to 200.
  for (uint64_t i = 11; i <= 100; ++i) behind->Append(AllReduceOf(i, 4));
  EXPECT_THAT(compare(12), HasSubstr("they differ at 101; rank 0 is at 200"));
}

TEST_F(Reports, DoNotWaitForAFifo) {
  const auto ring = MakeRing(0, 1);
  const std::string path = folder_ + "/fifo.dvcl";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(ReportText(), HasSubstr("fifo.dvcl is no regular file"));
}

TEST_F(Reports, NameATruncatedFile) {
  const auto ring = MakeRing(0, 1);
  ring->Append(AllReduceOf(1, 4));
  const std::string other = folder_ + "/other.dvcl";
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    std::filesystem::copy_file(entry.path(), other);
    break;
  }
  std::filesystem::resize_file(other, 5000);
  EXPECT_THAT(ReportText(), AllOf(HasSubstr("no difference; the last is 1"),
                                  HasSubstr("other.dvcl has 5000 bytes")));
}

TEST_F(Reports, NameAFileOfAnotherSize) {
  std::vector<std::unique_ptr<Ring>> rings;
  for (uint32_t rank = 0; rank < 3; ++rank) rings.push_back(MakeRing(rank, 3));
  rings.push_back(MakeRing(3, INT32_MAX));
  rings.push_back(MakeRing(4, UINT32_MAX));
  EXPECT_THAT(
      ReportText(),
      AllOf(HasSubstr("grads, 3 ranks: no collective was submitted\n"),
            HasSubstr(".dvcl is of rank 3 of 2147483647: not compared\n"),
            HasSubstr(".dvcl is of rank 4 of 4294967295\n")));
}

TEST_F(Reports, OfManyRanksThatAreMissing) {
  const auto ring = MakeRing(3, INT32_MAX);
  EXPECT_THAT(ReportText(),
              HasSubstr("ranks 0-2, 4-2147483646 have left no records; "));
}

TEST_F(Reports, ExcludeTheLargestNumbers) {
  const auto ring = MakeRing(0, 1);
  ring->Append(AllReduceOf(UINT64_MAX, 4));
  EXPECT_THAT(ReportText(), HasSubstr("no collective was submitted"));
}

TEST_F(Reports, EscapeWhatSteersATerminal) {
  Ring::Identity identity;
  identity.size = 1;
  identity.label = "3 gr\x1b[31m\xc3\xa4\xc2\x9b";
  const auto ring = Must(Ring::Make(identity, folder_));
  ring->Fail("a\rb");
  std::ofstream(folder_ + "/\x07.dvcl") << "x";
  EXPECT_THAT(
      ReportText(),
      AllOf(HasSubstr("communicator 3 gr\\x1b[31m\xc3\xa4\\xc2\\x9b, 1 rank"),
            HasSubstr("rank 0 says: a\\x0db\n"),
            HasSubstr("/\\x07.dvcl has 1 bytes")));
}

// As on a disk that is full: an error now, and no SIGBUS later.
TEST_F(Records, NeedTheWholeFile) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Ring::Identity identity;
  identity.size = 1;
  const absl::Status status = Ring::Make(identity, folder_).status();
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("DEVRT_COLLECTIVES_RECORD: " + folder_),
                    HasSubstr("cannot be made: File too large")));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  const auto ring = MakeRing(0, 1);
  struct stat info;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_GE(info.st_blocks * 512, info.st_size);
  }
}

// K-C15
TEST_F(Reports, SurviveAKill) {
  setenv("DEVRT_COLLECTIVES_RECORD", folder_.c_str(), 1);
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    // No device: a forked child has none.
    const auto ring = MakeRing(1, 2);
    ring->Append(AllReduceOf(1, 4));
    ring->Append(AllReduceOf(2, 5, 77));
    (void)!write(pipe_fds[1], "x", 1);
    pause();
    _exit(1);
  }
  char told;
  ASSERT_EQ(read(pipe_fds[0], &told, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const auto mine = MakeRing(0, 2);
  mine->Append(AllReduceOf(1, 4));
  EXPECT_THAT(ReportText(),
              AllOf(HasSubstr("rank 1 is at 2 all_reduce(float32 x 5, sum) "
                              "train.cc:77"),
                    HasSubstr("rank 1 is gone: the process ended without "
                              "Finish, at 2 all_reduce(float32 x 5, sum) "
                              "train.cc:77"),
                    Not(HasSubstr("rank 0 is gone"))));
}

// A rank that has left, or that said why it failed, is not gone.
TEST_F(Reports, NameNoRankThatHasLeft) {
  MakeRing(0, 3)->Append(AllReduceOf(1, 4));
  const pid_t child = fork();
  if (child == 0) {
    const auto ring = MakeRing(1, 3);
    ring->Append(AllReduceOf(1, 4));
    ring->Fail("a timeout");
    const auto other = MakeRing(2, 3);
    other->Leave();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_THAT(ReportText(), AllOf(HasSubstr("rank 1 says: a timeout"),
                                  Not(HasSubstr("gone"))));
}

// The error of a rank compares all of them, where their records are files.
TEST_F(Reports, AreInTheErrorOfARank) {
  setenv("DEVRT_COLLECTIVES_RECORD", folder_.c_str(), 1);
  collectives::Options options;
  options.timeout = absl::Milliseconds(5);
  std::vector<Communicator> ranks = MakeRanks(2, options);
  const Array x = Filled(0, 4, 1);
  ASSERT_OK(ranks[0].AllReduce(x, x));
  EXPECT_THAT(ranks[0].Wait().ToString(),
              AllOf(HasSubstr("; by their records: they differ at 1; rank 0 is "
                              "at 1 all_reduce(int32 x 4, sum)"),
                    HasSubstr("rank 1 is at no collective yet")));
}

TEST_F(Reports, OfAProgram) {
  setenv("DEVRT_COLLECTIVES_RECORD", folder_.c_str(), 1);
  collectives::Options options;
  options.name = "grads";
  std::vector<Communicator> ranks = MakeRanks(3, options);
  Group group;
  for (int i = 0; i < 3; ++i) {
    const Array x = Filled(i, 4, 1);
    group.Add(ranks[i], ops::AllReduce(x, x));
  }
  ASSERT_OK(group.Submit());
  EXPECT_THAT(ReportText(), AllOf(HasSubstr(" grads, 3 ranks: no difference"),
                                  HasSubstr("recorder_test.cc:")));
  setenv("DEVRT_COLLECTIVES_RECORD", "relative", 1);
  EXPECT_THAT(Communicator::CreateAll(devs(2)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is no absolute path")));
}

// The figure of the specification: 4,096 ranks in less than 5 s.
TEST_F(Reports, ManyRanks) {
  const char* const wanted = getenv("DEVRT_TEST_RANKS");
  const uint32_t ranks = wanted != nullptr ? atoi(wanted) : 128;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const auto ring = MakeRing(rank, ranks);
    for (uint64_t i = 1; i <= 100; ++i) {
      ring->Append(AllReduceOf(i, rank == 77 && i == 90 ? 1 : 2));
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(ReportText(), HasSubstr("rank 77 is at 90 "));
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - begin;
  RecordProperty("seconds", std::to_string(took.count()));
  EXPECT_LT(took.count(), 5);
}

}  // namespace
}  // namespace devrt::testing
