// SPDX-License-Identifier: Apache-2.0
#include "devrt/collectives/bootstrap.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/support/status_matchers.h"

namespace devrt::collectives {
namespace {

using ::devrt::testing::Must;
using ::devrt::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Time In(int milliseconds) {
  return absl::Now() + absl::Milliseconds(milliseconds);
}
constexpr int kLong = 20'000;

// A new folder of this user alone.
class FileBootstrapTest : public ::testing::Test {
 protected:
  FileBootstrapTest() {
    std::string pattern = ::testing::TempDir() + "/bootstrap.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~FileBootstrapTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  std::unique_ptr<Bootstrap> Make(int rank, int size,
                                  const std::string& job = "job") const {
    auto made = FromFile(folder_, rank, size, job);
    EXPECT_OK(made.status());
    return made.ok() ? *std::move(made) : nullptr;
  }
  // What rank 0 of 2 finds after `change` has changed the file of rank 1.
  template <typename Change>
  absl::Status AfterChange(Change change, const std::string& job = "job") {
    const auto other = Make(1, 2, job);
    EXPECT_FALSE(other->AllGather("theirs", absl::InfinitePast()).ok());
    const std::string path = Path("1.1");
    std::string bytes;
    {
      std::ifstream in(path, std::ios::binary);
      bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    std::filesystem::remove(path);
    change(path, bytes);
    return Make(0, 2)->AllGather("mine", In(kLong)).status();
  }
  static void Write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  std::string folder_;
};

TEST(ThreadBootstrap, GathersInEveryExchange) {
  auto ranks = FromThreads(3);
  ASSERT_OK(ranks.status());
  std::vector<std::vector<std::string>> got(3);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      Bootstrap& mine = *(*ranks)[i];
      EXPECT_EQ(mine.rank(), i);
      EXPECT_EQ(mine.size(), 3);
      for (int round = 0; round < 50; ++round) {
        const auto all = mine.AllGather(std::to_string(i * 100 + round),
                                        absl::InfiniteFuture());
        ASSERT_OK(all.status());
        got[i] = *all;
        EXPECT_THAT(*all, ElementsAre(std::to_string(round),
                                      std::to_string(100 + round),
                                      std::to_string(200 + round)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got[0], got[2]);
}

TEST(ThreadBootstrap, GivesAllTheBytesOfTheRoot) {
  auto ranks = Must(FromThreads(3));
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int root = 0; root < 3; ++root) {
        std::string bytes = std::to_string(i);
        EXPECT_OK(ranks[i]->Broadcast(&bytes, root, In(kLong)));
        EXPECT_EQ(bytes, std::to_string(root));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string bytes = "mine";
  EXPECT_THAT(ranks[0]->Broadcast(&bytes, 3, In(kLong)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("Broadcast: rank 3 of 3")));
  EXPECT_EQ(bytes, "mine");
}

TEST(ThreadBootstrap, NamesWhoDidNotCome) {
  auto ranks = FromThreads(5);
  ASSERT_OK(ranks.status());
  std::thread other(
      [&] { EXPECT_FALSE((*ranks)[3]->AllGather("x", In(20)).ok()); });
  other.join();
  const absl::Status status = (*ranks)[0]->AllGather("x", In(20)).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               HasSubstr("2 of 5 ranks came within ")));
  EXPECT_THAT(status.message(), HasSubstr("missing: ranks 1, 2, 4"));
}

TEST(ThreadBootstrap, NeedsARank) {
  EXPECT_THAT(FromThreads(0).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
}

// Bytes that a rank has put, and those that it has not.
void TryStore(Bootstrap& first, Bootstrap& second) {
  using std::nullopt;
  EXPECT_EQ(Must(first.Get("a-name", 1, absl::Now())), nullopt);
  std::thread late([&second] {
    absl::SleepFor(absl::Milliseconds(20));
    ASSERT_OK(second.Put("a-name", std::string("of\0second", 9)));
  });
  EXPECT_EQ(Must(first.Get("a-name", 1, absl::Now() + absl::Seconds(20))),
            std::string("of\0second", 9));
  late.join();
  EXPECT_EQ(Must(first.Get("a-name", 0, absl::Now())), nullopt);
  EXPECT_EQ(Must(first.Get("other", 1, absl::Now())), nullopt);
  ASSERT_OK(first.Put("a-name", ""));
  EXPECT_EQ(Must(second.Get("a-name", 0, absl::Now())), "");
  EXPECT_EQ(Must(second.Get("a-name", 1, absl::Now())),
            std::string("of\0second", 9));
}

TEST(ThreadBootstrap, IsAStore) {
  const auto ranks = Must(FromThreads(2));
  TryStore(*ranks[0], *ranks[1]);
}

TEST_F(FileBootstrapTest, IsAStore) {
  {
    const auto first = Make(0, 2);
    const auto second = Make(1, 2);
    TryStore(*first, *second);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST(CallbackBootstrap, MayHaveAStore) {
  BootstrapCallbacks callbacks;
  callbacks.all_gather = [](std::string, absl::Time) {
    return absl::UnknownError("nobody");
  };
  const auto without = Must(FromCallbacks(callbacks));
  EXPECT_STATUS(without->Put("a", "b"), kUnimplemented, "keeps no bytes");
  EXPECT_STATUS(without->Get("a", 0, absl::Now()), kUnimplemented,
                "keeps no bytes");
  callbacks.put = [](std::string_view, std::string) {
    return absl::OkStatus();
  };
  EXPECT_STATUS(FromCallbacks(callbacks), kInvalidArgument, "belong together");
  callbacks.get = [](std::string_view name, int rank, absl::Time) {
    return std::optional(absl::StrCat(std::string(name), rank));
  };
  const auto with = Must(FromCallbacks(callbacks));
  ASSERT_OK(with->Put("a", "b"));
  EXPECT_EQ(Must(with->Get("a", 7, absl::Now())), "a7");
}

TEST(CallbackBootstrap, PassesCallsOn) {
  BootstrapCallbacks callbacks;
  callbacks.rank = 1;
  callbacks.size = 2;
  EXPECT_THAT(FromCallbacks(callbacks).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("all_gather is empty")));
  callbacks.all_gather = [](std::string mine, absl::Time) {
    return std::vector<std::string>{"other", std::move(mine)};
  };
  const auto made = FromCallbacks(callbacks);
  ASSERT_OK(made.status());
  EXPECT_THAT(*(*made)->AllGather("mine", absl::InfiniteFuture()),
              ElementsAre("other", "mine"));
  callbacks.rank = 2;
  EXPECT_THAT(FromCallbacks(callbacks).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
}

TEST_F(FileBootstrapTest, ConnectsProcesses) {
  constexpr int kSize = 4;
  std::vector<pid_t> children;
  for (int rank = 1; rank < kSize; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      bool ok = false;
      {
        auto mine = FromFile(folder_, rank, kSize, "job");
        ok = mine.ok();
        for (int round = 0; ok && round < 5; ++round) {
          const auto all =
              (*mine)->AllGather(std::to_string(rank * 10 + round), In(kLong));
          ok = all.ok() && all->size() == kSize &&
               (*all)[0] == std::to_string(round) &&
               (*all)[3] == std::to_string(30 + round);
        }
      }
      _exit(ok ? 0 : 1);
    }
    children.push_back(child);
  }
  {
    const auto mine = Make(0, kSize);
    for (int round = 0; round < 5; ++round) {
      const auto all = mine->AllGather(std::to_string(round), In(kLong));
      ASSERT_OK(all.status());
      EXPECT_THAT(
          *all,
          ElementsAre(std::to_string(round), std::to_string(10 + round),
                      std::to_string(20 + round), std::to_string(30 + round)));
    }
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
  }
  // The last one has removed everything.
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

// The child has a copy of the object.
TEST_F(FileBootstrapTest, IsNotEndedByAForkedChild) {
  auto mine = Make(0, 1);
  const pid_t child = fork();
  if (child == 0) {
    mine.reset();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(Path("claim.0")));
  EXPECT_FALSE(std::filesystem::exists(Path("end.0")));
  EXPECT_OK(mine->AllGather("x", In(kLong)).status());
}

TEST_F(FileBootstrapTest, MakesTheFolder) {
  const std::string inner = Path("new");
  ASSERT_OK(FromFile(inner, 0, 1, "job").status());
  struct stat info;
  ASSERT_EQ(stat(inner.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(FileBootstrapTest, NamesWhoDidNotCome) {
  const absl::Status status = Make(1, 3)->AllGather("x", In(20)).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               HasSubstr("missing: ranks 0, 2")));
}

TEST_F(FileBootstrapTest, RefusesATakenRank) {
  const auto first = Make(0, 2);
  EXPECT_THAT(FromFile(folder_, 0, 2, "job").status(),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr("claim.0 exists, of the job \"job\": another "
                                 "process has rank 0")));
}

TEST_F(FileBootstrapTest, AgainAfterATimeout) {
  {
    const auto late = Make(2, 3);  // which exchanges nothing
    {
      const auto zero = Make(0, 3);
      const auto one = Make(1, 3);
      EXPECT_FALSE(zero->AllGather("old id", absl::InfinitePast()).ok());
      EXPECT_FALSE(one->AllGather("old", absl::InfinitePast()).ok());
    }
    EXPECT_TRUE(std::filesystem::exists(Path("1.0")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  std::vector<std::unique_ptr<Bootstrap>> ranks;
  for (const int rank : {1, 2, 0}) ranks.push_back(Make(rank, 3));
  std::vector<std::thread> threads;
  for (const auto& rank : ranks) {
    threads.emplace_back([&rank] {
      EXPECT_THAT(
          *rank->AllGather(rank->rank() == 0 ? "new id" : "new", In(kLong)),
          ElementsAre("new id", "new", "new"));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Rank 2 never came: the others do not wait for its end.
TEST_F(FileBootstrapTest, AgainAfterARankDidNotCome) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto zero = Make(0, 3);
    const auto one = Make(1, 3);
    EXPECT_FALSE(zero->AllGather("x", absl::InfinitePast()).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(FileBootstrapTest, WaitsForTheEndOfAnEarlierAttempt) {
  auto zero = Make(0, 2);
  auto one = Make(1, 2);
  EXPECT_FALSE(zero->AllGather("old", absl::InfinitePast()).ok());
  zero.reset();
  EXPECT_THAT(FromFile(folder_, 0, 2, "job").status(),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr("of an earlier bootstrap of the job \"job\", "
                                 "which has not ended in rank 1")));
  std::thread again([&] { zero = Make(0, 2); });
  one.reset();
  again.join();
  EXPECT_FALSE(std::filesystem::exists(Path("1.0")));
  EXPECT_FALSE(std::filesystem::exists(Path("claim.1")));
}

// Each attempt finds nothing of the one before, while others still end.
TEST_F(FileBootstrapTest, EndsAtOnceAndBeginsAnew) {
  constexpr int kSize = 3;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      for (int attempt = 0; attempt < 40; ++attempt) {
        const auto mine = Make(rank, kSize);
        ASSERT_NE(mine, nullptr);
        const std::string word = std::to_string(attempt);
        for (int round = 0; round < 2; ++round) {
          const auto all = mine->AllGather(word, In(kLong));
          ASSERT_OK(all.status());
          EXPECT_THAT(*all, ElementsAre(word, word, word));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(FileBootstrapTest, KnowsAFileOfARemovedClaim) {
  const auto old = Make(1, 2);
  EXPECT_FALSE(old->AllGather("old", absl::InfinitePast()).ok());
  std::filesystem::remove(Path("claim.1"));
  const auto zero = Make(0, 2);
  EXPECT_THAT(zero->AllGather("mine", In(20)).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("missing: rank 1")));
  const auto one = Make(1, 2);
  EXPECT_THAT(*one->AllGather("new", In(kLong)), ElementsAre("mine", "new"));
}

TEST_F(FileBootstrapTest, RefusesAnotherJob) {
  EXPECT_THAT(AfterChange(Write, "yesterday"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("of the job \"yesterday\"")));
}

TEST_F(FileBootstrapTest, RefusesDamagedFiles) {
  const auto shorter = [](const std::string& path, const std::string& bytes) {
    Write(path, bytes.substr(0, bytes.size() - 1));
  };
  EXPECT_THAT(AfterChange(shorter),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is damaged")));
}

TEST_F(FileBootstrapTest, RefusesChangedBytes) {
  const auto other = [](const std::string& path, std::string bytes) {
    bytes[bytes.size() / 2] ^= 1;
    Write(path, bytes);
  };
  EXPECT_THAT(AfterChange(other),
              StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
}

TEST_F(FileBootstrapTest, RefusesAnotherRanksFile) {
  const auto other = Make(0, 3);
  EXPECT_FALSE(other->AllGather("x", absl::InfinitePast()).ok());
  std::filesystem::copy_file(Path("1.0"), Path("1.2"));
  const auto reader = Make(1, 3);
  EXPECT_THAT(
      reader->AllGather("y", In(kLong)).status(),
      StatusIs(
          absl::StatusCode::kFailedPrecondition,
          HasSubstr("says rank 0 of 3 in exchange 1; expected is rank 2")));
}

TEST_F(FileBootstrapTest, FollowsNoLinks) {
  const auto link = [this](const std::string& path, const std::string& bytes) {
    Write(Path("elsewhere"), bytes);
    std::filesystem::create_symlink(Path("elsewhere"), path);
  };
  EXPECT_THAT(AfterChange(link), StatusIs(absl::StatusCode::kPermissionDenied,
                                          HasSubstr("is a link")));
  std::filesystem::create_directory_symlink(folder_, Path("linked"));
  EXPECT_THAT(
      FromFile(Path("linked"), 0, 1, "job").status(),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("is a link")));
}

TEST_F(FileBootstrapTest, RefusesAnOpenFolder) {
  chmod(folder_.c_str(), 0755);
  EXPECT_THAT(
      FromFile(folder_, 0, 1, "job").status(),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("chmod 700")));
}

TEST_F(FileBootstrapTest, RefusesSomebodyElsesFolder) {
  if (chown(folder_.c_str(), 12345, 12345) != 0) {
    GTEST_SKIP() << "only root gives a folder away";
  }
  EXPECT_THAT(FromFile(folder_, 0, 1, "job").status(),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("belongs to user 12345")));
}

TEST_F(FileBootstrapTest, RefusesBadArguments) {
  for (const absl::Status& status :
       {FromFile("relative", 0, 1, "job").status(),
        FromFile(folder_, 1, 1, "job").status(),
        FromFile(folder_, -1, 1, "job").status(),
        FromFile(folder_, 0, 0, "job").status(),
        FromFile(folder_, 0, 1, "").status(),
        FromFile(folder_, 0, 1, std::string(201, 'x')).status()}) {
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
  }
  EXPECT_THAT(FromFile("/no/such/folder", 0, 1, "job").status(),
              StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(FileBootstrapTest, ReadsTheEnvironment) {
  for (const char* name :
       {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
        "PMIX_NAMESPACE", "SLURM_PROCID", "DEVRT_BOOTSTRAP_DIR",
        "DEVRT_BOOTSTRAP_JOB"}) {
    unsetenv(name);
  }
  EXPECT_THAT(FromEnvironment().status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("DEVRT_BOOTSTRAP_DIR is not set")));
  setenv("PMIX_RANK", "0", 1);
  EXPECT_THAT(FromEnvironment().status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("PMIX_NAMESPACE is not set")));
  setenv("DEVRT_BOOTSTRAP_DIR", folder_.c_str(), 1);
  EXPECT_THAT(FromEnvironment().status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("SLURM_PROCID with SLURM_NTASKS")));
  setenv("RANK", "one", 1);
  EXPECT_THAT(FromEnvironment().status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("RANK=one is no number")));
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "2", 1);
  const auto made = FromEnvironment();
  ASSERT_OK(made.status());
  EXPECT_EQ((*made)->rank(), 1);
  EXPECT_EQ((*made)->size(), 2);
}

}  // namespace
}  // namespace devrt::collectives
