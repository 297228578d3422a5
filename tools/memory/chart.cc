// SPDX-License-Identifier: Apache-2.0
//
// The empty chart, which the page's script draws, and its legend.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/text.h"
#include "tools/memory/report.h"

namespace devrt::tools {

namespace {

std::string Key(std::string_view name, std::string_view text) {
  return absl::StrFormat("<span><i class=\"%s\"></i>%s</span>\n", name,
                         MarkupText(text));
}

std::string Keys(const MemoryAnalysis& a) {
  std::string html = "<div class=\"keys\">\n";
  const size_t series = a.timeline[0].in_use.size();
  for (size_t i = 0; i + 1 < series; ++i) {
    html += Key(OwnerClass(i), a.owners[i].name);
  }
  if (a.owners.size() + 1 > series) {
    html += Key(
        "others",
        absl::StrFormat("%s more", WithCommas(a.owners.size() + 1 - series)));
  }
  const bool waits =
      std::any_of(a.timeline.begin(), a.timeline.end(),
                  [](const MemoryMoment& m) { return m.pending > 0; });
  if (waits) html += Key("pending", "freed, waits for a stream");
  return html + Key("reserved", "reserved") + "</div>\n";
}

}  // namespace

std::string ZoomButtons(std::string_view what) {
  return absl::StrFormat(
      "<div class=\"zoom\" role=\"group\" aria-label=\"Zoom %s\">"
      "<button data-zoom=\"back\" title=\"earlier part\">&#8592;</button>"
      "<button data-zoom=\"in\" title=\"zoom in\">+</button>"
      "<button data-zoom=\"out\" title=\"zoom out\">&#8722;</button>"
      "<button data-zoom=\"on\" title=\"later part\">&#8594;</button>"
      "<button data-zoom=\"all\" title=\"show all\">all</button></div>\n",
      what);
}

std::string MemoryChart(const MemoryReport& report) {
  const MemoryAnalysis& a = report.analysis;
  if (report.snapshot.events.empty()) {
    return "<p class=\"empty\">The snapshot has no history. "
           "<code>RecordMemoryHistory(device, HistoryOptions())</code> begins "
           "one, in Python <code>devrt.record_memory_history()</code>.</p>\n";
  }
  std::string html = absl::StrFormat(
      "<div class=\"head\"><p class=\"note\">most in use: %s at %s. Drag over "
      "a part to zoom in, click for the blocks of a moment.</p>%s</div>\n%s"
      "<noscript><p class=\"empty\">The chart, the events and what is known "
      "of each block need JavaScript.</p></noscript>\n"
      "<svg id=\"chart\" tabindex=\"0\" role=\"img\" aria-label=\"Memory over "
      "time\"></svg>\n",
      FormatBytes(a.peak), Duration(a.peak_time_us), ZoomButtons("the chart"),
      Keys(a));
  if (!a.is_complete) {
    html += absl::StrFormat(
        "<p class=\"note\">%s older events were dropped; what was allocated "
        "before is told from what is there now.</p>\n",
        WithCommas(report.snapshot.events.front().number - 1));
  }
  return html;
}

}  // namespace devrt::tools
