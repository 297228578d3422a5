// SPDX-License-Identifier: Apache-2.0
//
// K-C19: random programs of 2 to 16 ranks give the results of a plain
// reference.  DEVRT_TEST_PROGRAMS sets their number, DEVRT_TEST_SEED the first:
// DEVRT_TEST_PROGRAMS=10000 is the number of the specification.  Under the race
// detector with DEVRT_RACE=throw a false report fails its call.
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "tests/collectives/collectives_fixture.h"
#include "tests/collectives/random_program.h"
#include "tests/support/test_seed.h"

namespace devrt::testing {
namespace {

namespace ops = collectives;

uint64_t NumberFrom(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

using RandomPrograms = CommTest;

TEST_F(RandomPrograms, EqualTheReference) {
  const uint64_t first = TestSeed();
  const uint64_t programs = NumberFrom("DEVRT_TEST_PROGRAMS", 200);
  for (uint64_t seed = first; seed < first + programs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Reset("strategy=random,seed=" + std::to_string(seed));
    auto ranks = MakeRanks(RandomProgram::RanksOf(seed, kDevices));
    RandomProgram(seed, &ranks).Run();
    ranks.clear();
    for (int i = 0; i < kDevices; ++i) ASSERT_OK(dev(i).Synchronize());
    if (HasFailure()) return;
    for (int i = 0; i < kDevices; ++i) ASSERT_OK(EmptyCache(dev(i)));
  }
}

// The detector is not silent because it sees nothing: it reports communicators
// that write the same memory in no order, and nothing where devrt orders them.
// The operations are raw ones, since arrays would order them.
TEST_F(RandomPrograms, AreOrderedBetweenCommunicators) {
  const char* const mode = std::getenv("DEVRT_RACE");
  const bool is_watched = mode != nullptr && std::string(mode) == "throw";
  for (const bool is_ordered : {true, false}) {
    SCOPED_TRACE(is_ordered);
    collectives::Options options;
    options.order_across_communicators = is_ordered;
    const Array arrays[] = {Filled(0, 4, 1), Filled(1, 4, 1)};
    for (int i = 0; i < 2; ++i) ASSERT_OK(dev(i).Synchronize());
    std::vector<Stream> streams;
    absl::Status submitted[2];
    std::vector<Communicator> ranks[2];
    for (int k = 0; k < 2; ++k) {
      ranks[k] = MakeRanks(2, options);
      Group group;
      for (int i = 0; i < 2; ++i) {
        collectives::RawOperation raw;
        raw.dtype = kInt32;
        raw.count = 4;
        raw.src = raw.dst = arrays[i].data();
        streams.push_back(Must(Stream::Create(dev(i))));
        group.Add(ranks[k][i], raw, streams.back());
      }
      submitted[k] = group.Submit();
    }
    EXPECT_OK(submitted[0]);
    if (is_ordered || !is_watched) {
      EXPECT_OK(submitted[1]);
    } else {
      EXPECT_STATUS(submitted[1], kFailedPrecondition, "race");
    }
  }
}

// With DEVRT_TEST_RANKS=1024 DEVRT_TEST_CALLS=1000 the figure of the
// specification: all-reduces of 4 KiB.  The property "seconds" is their time of
// the processor.  The ranks share the devices of the fixture.  By default so
// few that ThreadSanitizer, which follows 63 locks of a thread, can follow,
// unless TSAN_OPTIONS has detect_deadlocks=0.
TEST_F(RandomPrograms, ManyRanks) {
  const int ranks_wanted = static_cast<int>(NumberFrom("DEVRT_TEST_RANKS", 32));
  const uint64_t calls = NumberFrom("DEVRT_TEST_CALLS", 10);
  collectives::Options options;
  options.shared_device = true;
  std::vector<Device> devices;
  for (int i = 0; i < ranks_wanted; ++i) devices.push_back(dev(i % kDevices));
  std::vector<Stream> streams;
  std::vector<Array> arrays;
  auto ranks = Must(Communicator::CreateAll(devices, options));
  for (int i = 0; i < ranks_wanted; ++i) {
    streams.push_back(Must(Stream::Create(devices[i])));
    const StreamGuard guard(streams.back());
    arrays.push_back(Filled(i % kDevices, 1024, i == 0 ? 1 : 0));
  }
  const std::clock_t begin = std::clock();
  for (uint64_t call = 0; call < calls; ++call) {
    Group group;
    for (int i = 0; i < ranks_wanted; ++i) {
      group.Add(ranks[i], ops::AllReduce(arrays[i], arrays[i], Reduction::kMax),
                streams[i]);
    }
    ASSERT_OK(group.Submit());
  }
  for (int i = 0; i < ranks_wanted; ++i) ASSERT_OK(ranks[i].Wait(streams[i]));
  const double took =
      static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  RecordProperty("seconds", std::to_string(took));
  EXPECT_EQ(Ints(arrays.back())[5], 1);
}

}  // namespace
}  // namespace devrt::testing
