// SPDX-License-Identifier: Apache-2.0
#include "tests/hardware/soak_samples.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/sanitizers.h"

namespace devrt::soak {
namespace {

constexpr double kMebibyte = 1 << 20;

std::vector<Sample> Series(const std::function<void(int, Sample*)>& change) {
  std::vector<Sample> samples;
  for (int i = 0; i < 40; ++i) {
    Sample sample;
    sample.seconds = 15.0 * i;
    sample.rss_bytes = 500 * kMebibyte;
    sample.files = 20;
    sample.threads = 30;
    sample.median_us = 100;
    sample.p99_us = 900;
    change(i, &sample);
    samples.push_back(sample);
  }
  return samples;
}

std::vector<std::string> Growing(
    const std::function<void(int, Sample*)>& change) {
  std::vector<std::string> names;
  for (const Verdict& verdict : Judge(Series(change))) {
    if (verdict.grows) names.push_back(verdict.name);
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(SoakJudge, AcceptsSteadyFigures) {
  EXPECT_EQ(Growing([](int, Sample*) {}), Names());
}

TEST(SoakJudge, AcceptsNoiseAndOutliers) {
  EXPECT_EQ(Growing([](int i, Sample* sample) {
              sample->rss_bytes += i % 7 * kMebibyte;
              sample->median_us += i % 3 * 20;
              if (i == 38) sample->p99_us = 1e6;
            }),
            Names());
}

TEST(SoakJudge, AcceptsGrowthInTheWarmUp) {
  EXPECT_EQ(Growing([](int i, Sample* sample) {
              if (i >= 8) return;
              sample->rss_bytes -= (8 - i) * 50 * kMebibyte;
              sample->threads -= 8 - i;
            }),
            Names());
}

// 200 KiB a second are 90 MiB in the 450 seconds that are judged.
TEST(SoakJudge, FindsSlowLeaks) {
  EXPECT_EQ(Growing([](int i, Sample* sample) {
              sample->rss_bytes += i * 15 * 0.2 * kMebibyte + i % 5 * kMebibyte;
            }),
            Names{"rss_bytes"});
  EXPECT_EQ(Growing([](int i, Sample* sample) {
              sample->heap_bytes += i * 15 * 0.01 * kMebibyte;
            }),
            Names{"heap_bytes"});
  EXPECT_EQ(Growing([](int i, Sample* sample) {
              sample->device_bytes += i * 2 * kMebibyte;
            }),
            Names{"device_bytes"});
  EXPECT_EQ(Growing([](int i, Sample* sample) { sample->files += i / 10; }),
            Names{"files"});
  EXPECT_EQ(Growing([](int i, Sample* sample) { sample->threads += i / 10; }),
            Names{"threads"});
}

TEST(SoakJudge, FindsLatencyThatGrows) {
  EXPECT_EQ(Growing([](int i, Sample* sample) { sample->median_us += 4 * i; }),
            Names{"median_us"});
  EXPECT_EQ(Growing([](int i, Sample* sample) { sample->p99_us += 100 * i; }),
            Names{"p99_us"});
}

// Growth in a short run is the warm-up's, but descriptors need none.
TEST(SoakJudge, NeedsMinutesToJudgeMemory) {
  std::vector<Sample> samples = Series([](int i, Sample* sample) {
    sample->rss_bytes += i * 10 * kMebibyte;
    sample->files += i;
  });
  for (Sample& sample : samples) sample.seconds /= 100;
  for (const Verdict& verdict : Judge(samples)) {
    EXPECT_EQ(verdict.judged,
              verdict.name == "files" || verdict.name == "device_bytes");
    EXPECT_EQ(verdict.grows, verdict.name == "files");
  }
}

TEST(SoakJudge, NeedsEnoughSamples) {
  std::vector<Sample> samples =
      Series([](int i, Sample* sample) { sample->files += i; });
  samples.resize(kFewestJudged);
  for (const Verdict& verdict : Judge(samples)) EXPECT_FALSE(verdict.judged);
}

TEST(Quantile, IsOfTheOrderedTimes) {
  EXPECT_EQ(Quantile({}, 0.5), 0);
  EXPECT_EQ(Quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(Quantile({3, 1, 2}, 0.99), 3);
}

TEST(ReadProcess, CountsOpenFiles) {
  Sample before, after;
  ReadProcess(&before);
  const int copy = dup(0);
  ReadProcess(&after);
  close(copy);
  EXPECT_EQ(after.files, before.files + 1);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_GT(before.rss_bytes, kMebibyte);
}

// Of every thread's arena, and of what is mapped by itself.
TEST(ReadProcess, CountsAllocatedBytes) {
  if (DEVRT_TEST_ASAN || DEVRT_TEST_TSAN)
    GTEST_SKIP() << "the heap is a sanitizer's";
  for (const size_t size : {size_t{1000}, size_t{8} << 20}) {
    Sample before, during, after;
    ReadProcess(&before);
    std::vector<std::vector<char>> blocks;
    std::thread([&] {
      for (int i = 0; i < 100; ++i) blocks.emplace_back(size);
    }).join();
    ReadProcess(&during);
    blocks.clear();
    ReadProcess(&after);
    const double allocated = 100.0 * static_cast<double>(size);
    EXPECT_NEAR(during.heap_bytes - before.heap_bytes, allocated,
                0.2 * allocated);
    EXPECT_NEAR(after.heap_bytes, before.heap_bytes, 0.2 * allocated);
  }
}

}  // namespace
}  // namespace devrt::soak
