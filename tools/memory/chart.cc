// SPDX-License-Identifier: Apache-2.0
//
// Memory over time, as SVG: what is in use stacked by owner, what waits for
// streams on top, what is reserved as a line.

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/memory/report.h"
#include "tools/text.h"

namespace devrt::tools {

namespace {

constexpr double kWidth = 1120;
constexpr double kHeight = 330;
constexpr double kLeft = 78;
constexpr double kRight = 1104;
constexpr double kTop = 34;
constexpr double kBottom = 290;

// A round step in units of 1024s: at most `lines` of them up to `most`.
uint64_t ByteStep(uint64_t most, uint64_t lines) {
  uint64_t step = 1;
  while (most / step > lines) step *= 2;
  return std::max<uint64_t>(step, 512);
}

int64_t TimeStep(int64_t most, int64_t lines) {
  for (int64_t step = 1;; step *= 10) {
    for (const int64_t times : {1, 2, 5}) {
      if (most / (step * times) <= lines) return step * times;
    }
  }
}

class Chart {
 public:
  explicit Chart(const MemoryAnalysis& analysis) : a_(analysis) {
    for (const MemoryMoment& m : a_.timeline) {
      most_ = std::max({most_, m.reserved, m.total() + m.pending});
    }
    span_ = std::max<int64_t>(1, a_.duration_us);
  }

  std::string Svg() const {
    return absl::StrFormat(
               "<svg id=\"chart\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
               "aria-label=\"Memory over time\">\n",
               kWidth, kHeight) +
           Grid() + Areas() + Reserved() + Peak() + Failures() +
           absl::StrFormat(
               "<line id=\"cursor\" y1=\"%.0f\" y2=\"%.0f\" class=\"cursor\" "
               "visibility=\"hidden\"/>\n</svg>\n",
               kTop, kBottom) +
           Data();
  }

 private:
  double X(int64_t us) const {
    return kLeft + static_cast<double>(us) / static_cast<double>(span_) *
                       (kRight - kLeft);
  }
  double Y(uint64_t bytes) const {
    return kBottom - static_cast<double>(bytes) /
                         static_cast<double>(std::max<uint64_t>(1, most_)) *
                         (kBottom - kTop);
  }

  std::string Grid() const {
    std::string svg;
    const uint64_t step = ByteStep(most_, 5);
    for (uint64_t bytes = 0; bytes <= most_; bytes += step) {
      absl::StrAppendFormat(
          &svg,
          "<line class=\"grid\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" "
          "y2=\"%.1f\"/><text class=\"axis\" x=\"%.0f\" y=\"%.1f\" "
          "text-anchor=\"end\">%s</text>\n",
          kLeft, kRight, Y(bytes), Y(bytes), kLeft - 8, Y(bytes) + 4,
          bytes == 0 ? "0" : FormatBytes(bytes));
    }
    const int64_t time_step = TimeStep(span_, 10);
    for (int64_t us = 0; us <= span_; us += time_step) {
      absl::StrAppendFormat(
          &svg,
          "<line class=\"tick\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" "
          "y2=\"%.0f\"/><text class=\"axis\" x=\"%.1f\" y=\"%.0f\" "
          "text-anchor=\"middle\">%s</text>\n",
          X(us), X(us), kBottom, kBottom + 5, X(us), kBottom + 20,
          us == 0 ? "0" : Duration(us));
    }
    absl::StrAppendFormat(&svg,
                          "<text class=\"axis\" x=\"%.0f\" y=\"%.0f\" "
                          "text-anchor=\"end\">time since the first event"
                          "</text>\n",
                          kRight, kBottom + 36);
    return svg;
  }

  // The next point of a curve that goes in steps, or its first.
  static void AppendStep(std::string* path, double x, double y) {
    if (path->empty()) {
      absl::StrAppendFormat(path, "M%.1f %.1f", x, y);
    } else {
      absl::StrAppendFormat(path, "H%.1fV%.1f", x, y);
    }
  }

  // Between two curves of the moments, as steps.
  template <typename Low, typename High>
  std::string Area(std::string_view name, Low low, High high) const {
    std::string path;
    bool is_empty = true;
    for (size_t i = 0; i < a_.timeline.size(); ++i) {
      const MemoryMoment& m = a_.timeline[i];
      is_empty &= low(m) == high(m);
      AppendStep(&path, X(m.time_us), Y(high(m)));
    }
    if (is_empty) return "";
    for (size_t i = a_.timeline.size(); i-- > 0;) {
      // Backwards, the step comes before the point.
      const MemoryMoment& m = a_.timeline[i];
      absl::StrAppendFormat(&path, "V%.1fH%.1f", Y(low(m)), X(m.time_us));
    }
    return absl::StrFormat("<path class=\"%s\" d=\"%sZ\"/>\n", name, path);
  }

  std::string Areas() const {
    std::string svg;
    const size_t series = a_.timeline[0].in_use.size();
    const auto below = [](const MemoryMoment& m, size_t n) {
      uint64_t sum = 0;
      for (size_t i = 0; i < n; ++i) sum += m.in_use[i];
      return sum;
    };
    for (size_t i = 0; i < series; ++i) {
      svg += Area(
          i + 1 == series ? "others" : OwnerClass(i),
          [&](const MemoryMoment& m) { return below(m, i); },
          [&](const MemoryMoment& m) { return below(m, i + 1); });
    }
    return svg +
           Area(
               "pending", [](const MemoryMoment& m) { return m.total(); },
               [](const MemoryMoment& m) { return m.total() + m.pending; });
  }

  std::string Reserved() const {
    std::string path;
    for (const MemoryMoment& m : a_.timeline) {
      AppendStep(&path, X(m.time_us), Y(m.reserved));
    }
    return absl::StrFormat("<path class=\"reserved\" d=\"%s\"/>\n", path);
  }

  std::string Peak() const {
    const double x = X(a_.peak_time_us);
    const bool left = x > (kLeft + kRight) / 2;
    return absl::StrFormat(
        "<circle class=\"peak\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>"
        "<text class=\"label\" x=\"%.1f\" y=\"%.0f\" text-anchor=\"%s\">"
        "most in use: %s at %s</text>\n",
        x, Y(a_.peak), x + (left ? 4 : -4), kTop - 14, left ? "end" : "start",
        FormatBytes(a_.peak), Duration(a_.peak_time_us));
  }

  std::string Failures() const {
    std::string svg;
    double last = -100;
    for (const MemoryMark& mark : a_.failures) {
      const double x = X(mark.time_us);
      if (x - last < 2) continue;  // on the same spot
      last = x;
      absl::StrAppendFormat(
          &svg,
          "<g class=\"failure\"><line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" "
          "y2=\"%.0f\"/><path d=\"M%.1f %.0fl-6 -10h12z\"/><title>out of "
          "memory: %s asked for</title></g>\n",
          x, x, kTop, kBottom, x, kTop, FormatBytes(mark.bytes));
    }
    return svg;
  }

  // For the script: x and the sums of each moment.
  std::string Data() const {
    std::string js = "<script type=\"application/json\" id=\"moments\">[";
    const char* comma = "";
    for (const MemoryMoment& m : a_.timeline) {
      absl::StrAppendFormat(&js, "%s[%.1f,%d,%d,%d,%d]", comma, X(m.time_us),
                            m.time_us, m.total(), m.pending, m.reserved);
      comma = ",";
    }
    return js + "]</script>\n";
  }

  const MemoryAnalysis& a_;
  uint64_t most_ = 0;
  int64_t span_ = 1;
};

std::string Key(std::string_view name, std::string_view text) {
  return absl::StrFormat("<span><i class=\"%s\"></i>%s</span>\n", name,
                         MarkupText(text));
}

}  // namespace

std::string MemoryChart(const MemoryReport& report) {
  const MemoryAnalysis& a = report.analysis;
  if (report.snapshot.events.empty()) {
    return "<p class=\"empty\">The snapshot has no history. "
           "<code>RecordMemoryHistory(device, {})</code> begins one.</p>\n";
  }
  std::string html = "<div class=\"keys\">\n";
  const size_t series = a.timeline[0].in_use.size();
  for (size_t i = 0; i + 1 < series; ++i) {
    html += Key(OwnerClass(i), a.owners[i].name);
  }
  if (a.owners.size() + 1 > series) {
    html +=
        Key("others",
            absl::StrFormat("%s more", Grouped(a.owners.size() + 1 - series)));
  }
  const bool waits =
      std::any_of(a.timeline.begin(), a.timeline.end(),
                  [](const MemoryMoment& m) { return m.pending > 0; });
  if (waits) html += Key("pending", "freed, waits for a stream");
  html += Key("reserved", "reserved");
  html += "</div>\n" + Chart(a).Svg();
  if (!a.is_complete) {
    html += absl::StrFormat(
        "<p class=\"note\">%s older events were dropped; what was allocated "
        "before is told from what is there now.</p>\n",
        Grouped(report.snapshot.events.front().number - 1));
  }
  return html;
}

}  // namespace devrt::tools
