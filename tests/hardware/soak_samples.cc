// SPDX-License-Identifier: Apache-2.0
#include "tests/hardware/soak_samples.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace devrt::soak {
namespace {

double CountEntries(const char* folder) {
  const std::filesystem::directory_iterator entries(folder), end;
  return static_cast<double>(std::distance(entries, end));
}

}  // namespace

void ReadProcess(Sample* sample) {
  double pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  sample->rss_bytes = resident * static_cast<double>(sysconf(_SC_PAGESIZE));
  // Without the one that reads the folder.
  sample->files = CountEntries("/proc/self/fd") - 1;
  sample->threads = CountEntries("/proc/self/task");
}

double Quantile(std::vector<double> times, double part) {
  if (times.empty()) return 0;
  const auto rank = static_cast<std::ptrdiff_t>(
      std::ceil(part * static_cast<double>(times.size())) - 1);
  const auto at = times.begin() + std::max<std::ptrdiff_t>(rank, 0);
  std::nth_element(times.begin(), at, times.end());
  return *at;
}

const std::vector<Measure>& Measures() {
  constexpr double kMiB = 1 << 20;
  static const auto* const measures = new std::vector<Measure>{
      {"rss_bytes", &Sample::rss_bytes, 16 * kMiB, 0.05, 30},
      {"device_bytes", &Sample::device_bytes, 16 * kMiB, 0, 0},
      {"files", &Sample::files, 0.5, 0, 0},
      {"threads", &Sample::threads, 0.5, 0, 0},
      {"median_us", &Sample::median_us, 50, 0.5, 30},
      {"p99_us", &Sample::p99_us, 2000, 1, 30},
  };
  return *measures;
}

std::vector<Verdict> Judge(const std::vector<Sample>& all) {
  const std::vector<Sample> samples(
      all.begin() + static_cast<std::ptrdiff_t>(all.size() / 4), all.end());
  std::vector<Verdict> verdicts;
  for (const Measure& measure : Measures()) {
    Verdict verdict;
    verdict.name = measure.name;
    std::vector<double> slopes, first;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (i <= samples.size() / 3) first.push_back(samples[i].*measure.value);
      for (size_t j = i + 1; j < samples.size(); ++j) {
        slopes.push_back(
            (samples[j].*measure.value - samples[i].*measure.value) /
            (samples[j].seconds - samples[i].seconds));
      }
    }
    if (samples.size() >= kFewestJudged) {
      const double seconds = samples.back().seconds - samples.front().seconds;
      verdict.at_first = Quantile(first, 0.5);
      verdict.growth = Quantile(slopes, 0.5) * seconds;
      verdict.allowed =
          std::max(measure.most_growth, measure.most_part * verdict.at_first);
      verdict.judged = seconds >= measure.fewest_seconds;
      verdict.grows = verdict.judged && verdict.growth > verdict.allowed;
    }
    verdicts.push_back(verdict);
  }
  return verdicts;
}

}  // namespace devrt::soak
