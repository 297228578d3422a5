// SPDX-License-Identifier: Apache-2.0
//
// Explore finds the mistakes of the validate layer's corpus without the layer,
// by what the programs compute, and makes the failing schedules small.

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "devrt/devrt.h"
#include "tests/layers/validate_corpus.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

constexpr uint64_t kRuns = 128;
constexpr char kConfig[] = "devices=2,outcome=on";
constexpr char kNative[] = "a kernel is declared to the layer only";
constexpr char kHostRead[] = "the program drops what the host has read";

// Programs whose mistake changes no outcome, each with the reason.
const std::map<std::string, std::string>& Unseen() {
  static const auto* const known = new std::map<std::string, std::string>{
      {"ACollectiveIsNotRecorded", kNative},
      {"TheStreamIsRecordedForAnotherBlock", kNative},
      {"AnotherStreamIsRecorded", kNative},
      {"TheFreeNamesAStreamThatHasNotWaited", kNative},
      {"AnArrayEndsUnderAKernel", kNative},
      {"AConsumerReleasesATensorTooEarly", kNative},
      {"APinnedBlockIsFreedUnderAKernel", kNative},
      {"AValueIsReturnedBeforeItArrives", kHostRead},
      {"AHostBufferIsCopiedBeforeItsEvent", kHostRead},
      {"AKernelWritesPinnedMemoryThatTheHostPolls", kHostRead},
      {"AVectorIsReadBeforeItArrives", kHostRead},
  };
  return *known;
}

// Runs the faulty program, and returns what it computed.
absl::StatusOr<uint64_t> OutcomeOf(const Mistake& mistake) {
  const Simulator simulator = Must(Simulator::Get());
  ::testing::TestPartResultArray failures;
  {
    const ::testing::ScopedFakeTestPartResultReporter intercept(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS,
        &failures);
    {
      Program program(false);
      mistake.body(program);
    }
    for (const Device device : simulator.backend().devices()) {
      device.Synchronize().IgnoreError();
      EXPECT_OK(EmptyCache(device));
    }
    EXPECT_OK(EmptyPinnedCache(simulator.backend()));
  }
  if (failures.size() > 0) {
    return absl::InternalError(failures.GetTestPartResult(0).message());
  }
  return simulator.Outcome();
}

// Prints the number of the run that computes something else than the program
// does if each operation is complete at once, and the decisions that it needs.
void Search(const Mistake& mistake) {
  setenv("DEVRT_LOG", "off", 1);
  const Simulator simulator = Must(Simulator::Get());
  Must(simulator.Reset(std::string(kConfig) + ",strategy=asap"));
  const absl::StatusOr<uint64_t> right = OutcomeOf(mistake);
  sim::Options options;
  options.config = kConfig;
  options.runs = kRuns;
  options.seed = 1;
  options.check_every = 0;
  const sim::Result result = sim::Explore(options, [&]() -> absl::Status {
    const absl::StatusOr<uint64_t> outcome = OutcomeOf(mistake);
    if (outcome.status().code() == right.status().code() &&
        (!right.ok() || *outcome == *right)) {
      return absl::OkStatus();
    }
    return absl::InternalError("another outcome");
  });
  const auto decisions = std::count_if(
      result.failing.decisions.begin(), result.failing.decisions.end(),
      [](const SimulatedDecision& made) { return made.choice != 0; });
  const bool found = result.verdict == sim::Result::Verdict::kFailed;
  std::printf("found %d %d %d\n",
              found ? static_cast<int>(result.schedules) : 0,
              static_cast<int>(decisions), static_cast<int>(result.verdict));
  if (!result.ok() && !found) std::puts(result.text().c_str());
}

struct Found {
  int run = 0;  // 0: not found
  int decisions = 0;
};

TEST(Corpus, ExploreFindsItsMistakesWithoutTheDetector) {
  std::vector<Found> all;
  for (const Mistake& mistake : AllMistakes()) {
    const std::string kind = mistake.kind;
    // No schedule computes something else.
    if (kind == "use-after-free" || kind == "wrong-device") continue;
    if (Unseen().count(mistake.name) != 0) continue;
    const ProcessResult ended = RunInChild([&] { Search(mistake); });
    const size_t at = ended.output.find("found ");
    Found found;
    int verdict = 0;
    ASSERT_NE(at, std::string::npos) << mistake.name << ": " << ended;
    ASSERT_EQ(std::sscanf(ended.output.c_str() + at, "found %d %d %d",
                          &found.run, &found.decisions, &verdict),
              3);
    if (found.run == 0) {
      std::printf("  not found: %s (%s) %s\n", mistake.name, mistake.kind,
                  verdict == 0 ? "" : ended.output.c_str());
    } else if (found.run > 4 || found.decisions > 2) {
      std::printf("  %s (%s): run %d, %d decisions\n", mistake.name,
                  mistake.kind, found.run, found.decisions);
    }
    all.push_back(found);
  }
  const auto within = [&](int runs) {
    return std::count_if(all.begin(), all.end(), [&](const Found& found) {
      return found.run > 0 && found.run <= runs;
    });
  };
  const auto small = std::count_if(
      all.begin(), all.end(),
      [](const Found& found) { return found.run > 0 && found.decisions <= 2; });
  std::printf(
      "of %zu: %td in 1 run, %td in 2, %td in 4, %td in 16, %td in 64, "
      "%td in 128; %td with at most 2 decisions\n",
      all.size(), within(1), within(2), within(4), within(16), within(64),
      within(128), small);
  const auto count = static_cast<double>(all.size());
  EXPECT_GE(static_cast<double>(within(2)), 0.75 * count);
  EXPECT_GE(static_cast<double>(within(64)), 0.95 * count);
  EXPECT_EQ(within(kRuns), static_cast<std::ptrdiff_t>(all.size()));
  EXPECT_GE(static_cast<double>(small), 0.9 * static_cast<double>(within(128)));
}

}  // namespace
}  // namespace devrt::testing
