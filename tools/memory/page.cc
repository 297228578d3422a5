// SPDX-License-Identifier: Apache-2.0
//
// The page around the chart, the map and the tables; and text that they share.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/text.h"
#include "tools/memory/report.h"

namespace devrt::tools {

namespace {

std::string Tile(std::string_view name, uint64_t bytes, std::string_view note,
                 std::string_view colour) {
  return absl::StrFormat(
      "<div class=\"tile\"><h3>%s%s</h3><b>%s</b><small>%s</small></div>\n",
      colour.empty() ? "" : absl::StrFormat("<i class=\"key %s\"></i>", colour),
      name, FormatBytes(bytes), MarkupText(note));
}

std::string Tiles(const MemoryReport& report) {
  const MemoryAnalysis& a = report.analysis;
  const MemorySnapshot& s = report.snapshot;
  std::string html = "<div class=\"tiles\">\n";
  html += Tile("In use", a.in_use,
               absl::StrFormat("%s, %s of it rounding",
                               CountedWithCommas(a.in_use_blocks, "block"),
                               FormatBytes(a.rounding)),
               "used");
  html += Tile("Waiting", a.pending,
               a.pending_blocks == 0
                   ? "nothing waits for a stream"
                   : CountedWithCommas(a.pending_blocks, "block") +
                         " freed, but not yet reusable",
               "pending");
  html += Tile("Free", a.free(),
               a.free() == 0 ? "nothing cached"
                             : absl::StrFormat("largest block %s",
                                               FormatBytes(a.largest_free)),
               "cached");
  html +=
      Tile("Reserved", a.reserved,
           absl::StrCat(CountedWithCommas(s.segments.size(), "segment"),
                        s.total_memory == 0
                            ? ""
                            : absl::StrFormat(", %s of %s",
                                              Share(a.reserved, s.total_memory),
                                              FormatBytes(s.total_memory))),
           "reserved-key");
  const uint64_t peak =
      std::max(a.peak, FigureOf(report, "allocated_bytes.all.peak"));
  html += Tile("Most in use", peak,
               s.events.empty() ? "since the last reset"
                                : "in the history or since the last reset",
               "");
  return html + "</div>\n";
}

// The reserved memory as one bar.
std::string Whole(const MemoryAnalysis& a) {
  if (a.reserved == 0) return "";
  struct Part {
    const char* colour;
    const char* name;
    uint64_t bytes;
  };
  const Part parts[] = {
      {"used", "in use", a.in_use},
      {"pending", "waiting for streams", a.pending},
      {"cached", "free, beside blocks in use", a.free_split},
      {"whole", "free, whole segments", a.free_whole},
  };
  std::string bar = "<div class=\"whole\">";
  std::string keys = "<div class=\"keys\">";
  for (const Part& p : parts) {
    if (p.bytes == 0) continue;
    const std::string text = absl::StrFormat(
        "%s: %s, %s", p.name, FormatBytes(p.bytes), Share(p.bytes, a.reserved));
    absl::StrAppendFormat(
        &bar,
        "<i class=\"%s\" style=\"flex:%.5f\" title=\"%s\">"
        "</i>",
        p.colour,
        static_cast<double>(p.bytes) / static_cast<double>(a.reserved), text);
    absl::StrAppendFormat(&keys, "<span><i class=\"%s\"></i>%s</span>",
                          p.colour, text);
  }
  return bar + "</div>\n" + keys + "</div>\n";
}

std::string Warnings(const MemoryReport& report) {
  const uint64_t retries = FigureOf(report, "num_alloc_retries");
  std::string html;
  const uint64_t failures = std::max<uint64_t>(report.analysis.failures.size(),
                                               FigureOf(report, "num_ooms"));
  if (failures > 0) {
    absl::StrAppendFormat(
        &html, "<p class=\"warning\">%s ran out of memory%s.</p>\n",
        CountedWithCommas(failures, "request"),
        report.analysis.failures.empty()
            ? ""
            : absl::StrFormat(
                  ", the last one of %s",
                  FormatBytes(report.analysis.failures.back().bytes)));
  }
  if (retries > 0) {
    absl::StrAppendFormat(&html,
                          "<p class=\"warning\">%s emptied the cache before "
                          "memory was found.</p>\n",
                          CountedWithCommas(retries, "request"));
  }
  return html;
}

// Panels that the script fills when the user chooses a segment or a block.
constexpr char kSegmentPanel[] =
    "<div id=\"segment\" hidden><div class=\"head\"><h3></h3>%s</div><svg "
    "id=\"strip\" tabindex=\"0\" role=\"img\" aria-label=\"Blocks of one "
    "segment\"></svg></div>\n";
constexpr char kBlockPanel[] =
    "<div id=\"block\" class=\"panel\" aria-live=\"polite\"></div>\n";

std::string Events(const MemoryReport& report) {
  if (report.snapshot.events.empty()) return "";
  return "<section><h2>Events</h2>\n<div class=\"head\"><p class=\"note\" "
         "id=\"event-count\"></p><label><input type=\"checkbox\" "
         "id=\"only-block\" disabled> only of the chosen block</label></div>\n"
         "<div id=\"events\" tabindex=\"0\" role=\"grid\" "
         "aria-label=\"Events\"></div></section>\n";
}

}  // namespace

uint64_t FigureOf(const MemoryReport& report, const char* key) {
  const auto found = report.figures.find(key);
  return found == report.figures.end() || found->second < 0
             ? 0
             : static_cast<uint64_t>(found->second);
}

std::string Share(uint64_t part, uint64_t whole) {
  if (whole == 0 || part == 0) return "0 %";
  const double share =
      100 * static_cast<double>(part) / static_cast<double>(whole);
  if (share < 0.1) return "< 0.1 %";
  return absl::StrFormat("%.*f %%", share < 10 ? 1 : 0, share);
}

std::string Duration(int64_t microseconds) {
  return microseconds <= 0
             ? "0 us"
             : FormatTime(static_cast<uint64_t>(microseconds) * 1000);
}

std::string OwnerClass(size_t owner) { return absl::StrCat("o", owner); }

std::string WithCommas(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string CountedWithCommas(uint64_t count, std::string_view noun) {
  return absl::StrFormat("%s %s%s", WithCommas(count), noun,
                         count == 1 ? "" : "s");
}

std::string MemoryPage(const MemoryReport& report) {
  const MemorySnapshot& s = report.snapshot;
  const std::string title = absl::StrFormat(
      "Memory of %s", s.device.empty() ? "an unnamed device" : s.device);
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
      MarkupText(title), "</title>\n<style>\n", kMemoryPageStyle,
      "</style></head>\n<body><main>\n<header><h1>", MarkupText(title),
      "</h1><p class=\"faint\">", MarkupText(report.title),
      s.events.empty()
          ? ""
          : absl::StrFormat(", %s over %s",
                            CountedWithCommas(s.events.size(), "event"),
                            Duration(report.analysis.duration_us)),
      "</p></header>\n", Warnings(report), Tiles(report),
      Whole(report.analysis), "<section><h2>Memory over time</h2>\n",
      MemoryChart(report), "</section>\n<section><h2>Segments</h2>\n",
      MemoryMap(report),
      absl::StrFormat(kSegmentPanel, ZoomButtons("the segment")),
      "</section>\n", Events(report), kBlockPanel, MemoryTables(report),
      "</main><div id=\"tip\" hidden></div>\n",
      "<script type=\"application/json\" id=\"data\">", MemoryPageData(report),
      "</script>\n<script>\n", kMemoryPageModel, kMemoryPageZoom,
      kMemoryPageEventList, kMemoryPageScript, "</script></body></html>\n");
}

}  // namespace devrt::tools
