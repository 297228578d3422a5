// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "absl/strings/str_format.h"
#include "tools/common/text.h"
#include "tools/memory/report.h"

namespace devrt::tools {

namespace {

constexpr size_t kOwnerLines = 10;
constexpr size_t kChartColumns = 64;

// Memory in use over time, one character for each column.
std::string Sparkline(const MemoryAnalysis& a, bool unicode) {
  static constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄",
                                          "▅", "▆", "▇", "█"};
  static constexpr const char* kAscii[] = {" ", ".", ":", "-", "=",
                                           "+", "*", "%", "#"};
  uint64_t columns[kChartColumns] = {};
  size_t from = 0;
  for (size_t i = 0; i < a.timeline.size(); ++i) {
    const MemoryMoment& m = a.timeline[i];
    const size_t at =
        static_cast<size_t>(m.time_us * int64_t{kChartColumns - 1} /
                            std::max<int64_t>(1, a.duration_us));
    const uint64_t before = i == 0 ? 0 : a.timeline[i - 1].total();
    for (; from < at; ++from) columns[from] = std::max(columns[from], before);
    columns[at] = std::max(columns[at], m.total());
  }
  std::string line;
  for (const uint64_t bytes : columns) {
    const double share =
        a.peak == 0 ? 0
                    : static_cast<double>(bytes) / static_cast<double>(a.peak);
    const size_t level = bytes == 0  ? 0
                         : share < 1 ? static_cast<size_t>(1 + 7 * share)
                                     : 8;
    line += unicode ? kBars[level] : kAscii[level];
  }
  return line;
}

std::string Line(std::string_view name, uint64_t bytes, std::string_view note) {
  return absl::StrFormat("  %s%s  %s\n", PadRight(name, 12),
                         PadLeft(FormatBytes(bytes), 10), note);
}

std::string Sums(const MemoryReport& report) {
  const MemoryAnalysis& a = report.analysis;
  const MemorySnapshot& s = report.snapshot;
  std::string text =
      Line("in use", a.in_use,
           absl::StrFormat("%s, %s of it rounding",
                           CountedWithCommas(a.in_use_blocks, "block"),
                           FormatBytes(a.rounding)));
  if (a.pending_blocks > 0) {
    text += Line("waiting", a.pending,
                 absl::StrFormat("freed, but a stream still uses %s",
                                 CountedWithCommas(a.pending_blocks, "block")));
  }
  text += Line("free", a.free(),
               a.free() == 0
                   ? "nothing cached"
                   : absl::StrFormat("%s, the largest %s; %s in whole segments",
                                     CountedWithCommas(a.free_blocks, "block"),
                                     FormatBytes(a.largest_free),
                                     FormatBytes(a.free_whole)));
  std::string note = CountedWithCommas(s.segments.size(), "segment");
  if (s.total_memory > 0) {
    note += absl::StrFormat(", %s of %s", Share(a.reserved, s.total_memory),
                            FormatBytes(s.total_memory));
  }
  text += Line("reserved", a.reserved, note);
  return text;
}

std::string Owners(const MemoryAnalysis& a) {
  if (a.owners.empty()) return "";
  Table table({"OWNER", "IN USE", "BLOCKS", "AT THE PEAK"});
  for (size_t i = 0; i < std::min(kOwnerLines, a.owners.size()); ++i) {
    const MemoryOwner& o = a.owners[i];
    table.Add({Printable(o.name), FormatBytes(o.bytes), WithCommas(o.blocks),
               FormatBytes(o.peak_bytes)});
  }
  std::string text = "\n" + table.Text(2);
  if (a.owners.size() > kOwnerLines) {
    text += absl::StrFormat("  and %s more\n",
                            WithCommas(a.owners.size() - kOwnerLines));
  }
  return text;
}

}  // namespace

std::string MemoryText(const MemoryReport& report, bool unicode) {
  const MemoryAnalysis& a = report.analysis;
  const MemorySnapshot& s = report.snapshot;
  std::string text =
      absl::StrFormat("%s: %s\n\n",
                      s.device.empty() ? "no device" : Printable(s.device),
                      Printable(report.title)) +
      Sums(report) + Owners(a);
  if (s.events.empty()) {
    return text +
           "\n  No history: RecordMemoryHistory(device, HistoryOptions()) "
           "begins one, in\n  Python devrt.record_memory_history().\n";
  }
  text += absl::StrFormat("\n  In use over %s, %s; the peak of %s at %s:\n",
                          Duration(a.duration_us),
                          CountedWithCommas(s.events.size(), "event"),
                          FormatBytes(a.peak), Duration(a.peak_time_us));
  text += "  " + Sparkline(a, unicode) + "\n";
  if (!a.is_complete) {
    text += absl::StrFormat("  Older events were dropped: %s of them.\n",
                            WithCommas(s.events.front().number - 1));
  }
  for (size_t i = 0; i < std::min<size_t>(3, a.failures.size()); ++i) {
    text += absl::StrFormat("  Out of memory at %s: %s asked for.\n",
                            Duration(a.failures[i].time_us),
                            FormatBytes(a.failures[i].bytes));
  }
  if (a.failures.size() > 3) {
    text += absl::StrFormat("  Out of memory %s more times.\n",
                            WithCommas(a.failures.size() - 3));
  }
  return text;
}

}  // namespace devrt::tools
