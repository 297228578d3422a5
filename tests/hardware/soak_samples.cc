// SPDX-License-Identifier: Apache-2.0
#include "tests/hardware/soak_samples.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace devrt::soak {
namespace {

double CountEntries(const char* folder) {
  const std::filesystem::directory_iterator entries(folder), end;
  return static_cast<double>(std::distance(entries, end));
}

// The number after the last `key` of the text, which begins with the heap's
// parts and ends with its sums.
double LastNumber(const std::string& text, const std::string& key) {
  const size_t at = text.rfind(key);
  return at == std::string::npos ? 0 : std::atof(&text[at + key.size()]);
}

// Returns the bytes that all arenas have from the system, without their free
// bytes.
double HeapInUse() {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* const stream = open_memstream(&text, &size);
  malloc_info(0, stream);
  std::fclose(stream);
  const std::string info(text, size);
  std::free(text);
  const auto total = [&](const std::string& type) {
    const size_t at = info.rfind("<total type=\"" + type + '"');
    const std::string rest = at == std::string::npos ? "" : info.substr(at);
    return LastNumber(rest.substr(0, rest.find('>')), "size=\"");
  };
  return LastNumber(info, "<system type=\"current\" size=\"") + total("mmap") -
         total("fast") - total("rest");
}

}  // namespace

void ReadProcess(Sample* sample) {
  double pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  sample->rss_bytes = resident * static_cast<double>(sysconf(_SC_PAGESIZE));
  sample->heap_bytes = HeapInUse();
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
  // The heap is exact; what is resident grows for a while with how it is cut
  // up.  Backends start threads when they first need them, the simulator up to
  // a second later where the machine is busy.
  static const auto* const measures = new std::vector<Measure>{
      {"rss_bytes", &Sample::rss_bytes, 32 * kMiB, 0.1, 30},
      {"heap_bytes", &Sample::heap_bytes, 2 * kMiB, 0.02, 30},
      {"device_bytes", &Sample::device_bytes, 16 * kMiB, 0, 0},
      {"files", &Sample::files, 2, 0, 0},
      {"threads", &Sample::threads, 2, 0, 5},
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
