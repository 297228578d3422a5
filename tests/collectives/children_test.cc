// SPDX-License-Identifier: Apache-2.0
//
// Split and Shrink where one rank cannot make its recorder: every rank ends at
// once with the reason, and the communicator stays usable.
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "collectives/core/comm.h"
#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

using collectives::Options;
using collectives::State;
namespace ops = collectives;

constexpr int kGuilty = 1;

// Ranks that record to files, of which kGuilty finds no folder any more.
class Children : public CommTest {
 protected:
  Children() {
    std::string pattern = ::testing::TempDir() + "/children.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    setenv("DEVRT_COLLECTIVES_RECORD", folder_.c_str(), 1);
  }
  ~Children() override {
    unsetenv("DEVRT_COLLECTIVES_RECORD");
    std::filesystem::remove_all(folder_);
  }

  std::vector<Communicator> Make(int count, Options options = {}) {
    // The wait that the reason has to end.
    options.init_timeout = absl::Seconds(30);
    std::vector<Communicator> ranks = MakeRanks(count, options);
    ranks[kGuilty].comm()->record_folder = folder_ + "/none";
    return ranks;
  }
  void Mend(std::vector<Communicator>* ranks) const {
    (*ranks)[kGuilty].comm()->record_folder = folder_;
  }
  size_t Files() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      (void)entry;
      ++count;
    }
    return count;
  }
  static void ExpectSums(const std::vector<Communicator>& ranks) {
    std::vector<Array> x;
    Group group;
    for (size_t i = 0; i < ranks.size(); ++i) {
      x.push_back(Must(Array::Full({2}, kInt32, 1, ranks[i].device())));
      group.Add(ranks[i], ops::AllReduce(x[i], x[i]));
    }
    ASSERT_OK(group.Submit());
    for (const Array& sum : x) {
      EXPECT_THAT(Ints(sum), Each(static_cast<int32_t>(ranks.size())));
    }
  }
  // What each rank of `ranks` finds in a call that it makes on its own thread.
  template <typename Call>
  std::vector<absl::Status> OnThreads(std::vector<Communicator>* ranks,
                                      Call call) {
    std::vector<absl::Status> got(ranks->size());
    const absl::Time begin = absl::Now();
    InThreads(
        static_cast<int>(ranks->size()),
        [&](int i, collectives::Bootstrap&) { got[i] = call(&(*ranks)[i]); });
    EXPECT_LT(absl::Now() - begin, absl::Seconds(25));
    return got;
  }
  void ExpectReason(const std::vector<absl::Status>& got, size_t guilty,
                    const std::string& call) const {
    for (size_t i = 0; i < got.size(); ++i) {
      const auto reason = AllOf(HasSubstr("DEVRT_COLLECTIVES_RECORD: "),
                                HasSubstr(folder_ + "/none"));
      if (i == guilty) {
        EXPECT_THAT(got[i], StatusIs(absl::StatusCode::kNotFound, reason));
      } else {
        EXPECT_THAT(got[i],
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             AllOf(HasSubstr("rank 1 cannot take part in " +
                                             call + ": NOT_FOUND: "),
                                   reason)));
      }
    }
  }

  std::string folder_;
};

TEST_F(Children, OfASplitTellWhyOneRankCannotRecord) {
  std::vector<Communicator> ranks = Make(3);
  // The rank with another color learns it, too.
  const auto split = [](Communicator* rank) {
    return rank->Split(rank->rank() == 2 ? 7 : 0, 0).status();
  };
  ExpectReason(OnThreads(&ranks, split), kGuilty, "Split");
  for (const Communicator& rank : ranks) EXPECT_EQ(rank.state(), State::kReady);
  EXPECT_EQ(Files(), 3u);
  ExpectSums(ranks);
  Mend(&ranks);
  const auto children =
      Must(Communicator::SplitAll(ranks, {0, 0, -1}, {0, 0, 0}));
  EXPECT_EQ(Files(), 5u);
  EXPECT_EQ(children[1]->size(), 2);
  EXPECT_FALSE(children[2].has_value());
}

TEST_F(Children, OfASplitOnOneThread) {
  std::vector<Communicator> ranks = Make(2);
  EXPECT_THAT(Communicator::SplitAll(ranks, {0, 0}, {0, 0}).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none/")));
  ExpectSums(ranks);
}

TEST_F(Children, OfAShrinkLackARank) {
  std::vector<Communicator> ranks = Make(2);
  Mend(&ranks);
  for (const absl::Status& refused :
       {Communicator::ShrinkAll(ranks, {}).status(),
        ranks[0].Shrink({}).status()}) {
    EXPECT_THAT(refused,
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("Shrink without any rank that is gone")));
  }
  ExpectSums(ranks);
}

TEST_F(Children, OfAShrinkTellWhyOneRankCannotRecord) {
  std::vector<Communicator> ranks = Make(4);
  Communicator gone = std::move(ranks.back());
  ranks.pop_back();
  const auto shrink = [](Communicator* rank) {
    return rank->Shrink({3}).status();
  };
  ExpectReason(OnThreads(&ranks, shrink), kGuilty, "Shrink");
  for (const Communicator& rank : ranks) EXPECT_EQ(rank.state(), State::kReady);
  EXPECT_EQ(Files(), 4u);
  Mend(&ranks);
  const auto children = Must(Communicator::ShrinkAll(ranks, {3}));
  EXPECT_EQ(Files(), 7u);
  ExpectSums(children);
}

// Then the communicator itself cannot carry the reason.
TEST_F(Children, OfAShrinkAfterAFailure) {
  Options options;
  options.timeout = absl::Milliseconds(2);
  std::vector<Communicator> ranks = Make(3, options);
  Communicator gone = std::move(ranks.back());
  ranks.pop_back();
  for (int i = 0; i < 2; ++i) {
    const Array x = Filled(i, 4, 1);
    ASSERT_OK(ranks[i].AllReduce(x, x));
  }
  for (const Communicator& rank : ranks) {
    EXPECT_EQ(rank.comm()->ring->written(), 1u);
    EXPECT_NE(const_cast<Communicator&>(rank).Wait(), absl::OkStatus());
  }
  const auto shrink = [](Communicator* rank) {
    return rank->Shrink({2}).status();
  };
  ExpectReason(OnThreads(&ranks, shrink), kGuilty, "Shrink");
  for (const Communicator& rank : ranks) {
    EXPECT_EQ(rank.state(), State::kFailed);
  }
  Mend(&ranks);
  ExpectSums(Must(Communicator::ShrinkAll(ranks, {2})));
}

}  // namespace
}  // namespace devrt::testing
