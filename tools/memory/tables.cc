// SPDX-License-Identifier: Apache-2.0
//
// The page's tables: owners, free blocks by size, and statistics.

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/text.h"
#include "tools/memory/report.h"

namespace devrt::tools {

namespace {

constexpr size_t kOwnerRows = 20;

std::string Cell(std::string_view text) {
  return absl::StrFormat("<td class=\"n\">%s</td>", MarkupText(text));
}

double Percent(uint64_t part, uint64_t whole) {
  return whole == 0
             ? 0
             : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

// A bar for `part`, in front of a pale bar for `before`.
std::string BarCell(std::string_view name, uint64_t part, uint64_t before,
                    uint64_t most) {
  std::string html = "<td class=\"bar\"><div>";
  if (before > 0) {
    absl::StrAppendFormat(&html,
                          "<i class=\"%s pale\" style=\"width:%.1f%%\"></i>",
                          name, Percent(before, most));
  }
  if (part > 0) {
    absl::StrAppendFormat(&html, "<i class=\"%s\" style=\"width:%.1f%%\"></i>",
                          name, Percent(part, most));
  }
  return html + "</div></td>";
}

// The full path of the owner's first site, and its stack frames, if any.
std::string Details(const MemorySnapshot& s, const MemoryAnalysis& a,
                    size_t owner) {
  for (size_t i = 0; i < s.sites.size(); ++i) {
    if (a.owner_of_site[i] != owner) continue;
    std::string text = s.sites[i].file;
    for (const uint64_t frame : s.sites[i].frames) {
      absl::StrAppendFormat(&text, "\n0x%x", frame);
    }
    return text;
  }
  return "";
}

// `most`: the bytes of the longest bar.
std::string OwnerRow(const MemoryReport& report, size_t i, uint64_t most) {
  const MemoryAnalysis& a = report.analysis;
  const MemoryOwner& o = a.owners[i];
  const bool history = !report.snapshot.events.empty();
  const std::string colour =
      i < MemoryAnalysis::kSeries ? OwnerClass(i) : "others";
  std::string html =
      absl::StrCat("<tr title=\"", MarkupText(Details(report.snapshot, a, i)),
                   "\"><td class=\"name\"><i class=\"key ", colour, "\"></i>",
                   MarkupText(o.name), "</td>",
                   BarCell(colour, o.bytes, history ? o.peak_bytes : 0, most),
                   Cell(FormatBytes(o.bytes)), Cell(Share(o.bytes, a.in_use)),
                   Cell(WithCommas(o.blocks)));
  if (history) {
    absl::StrAppend(&html, Cell(FormatBytes(o.peak_bytes)),
                    Cell(WithCommas(o.allocations)));
  }
  return html + "</tr>\n";
}

std::string Owners(const MemoryReport& report) {
  const MemoryAnalysis& a = report.analysis;
  if (a.owners.empty()) {
    return "<p class=\"empty\">Nothing is in use.</p>\n";
  }
  const bool history = !report.snapshot.events.empty();
  uint64_t most = 1;
  for (const MemoryOwner& o : a.owners) {
    most = std::max({most, o.bytes, o.peak_bytes});
  }
  std::string html =
      absl::StrCat("<table><tr><th>Allocated at</th><th>",
                   history ? "in use, pale: at the peak" : "",
                   "</th><th class=\"n\">in use</th>"
                   "<th class=\"n\">share</th><th class=\"n\">blocks</th>");
  if (history) {
    html += "<th class=\"n\">at the peak</th><th class=\"n\">allocations</th>";
  }
  html += "</tr>\n";
  const size_t shown = std::min(kOwnerRows, a.owners.size());
  for (size_t i = 0; i < shown; ++i) html += OwnerRow(report, i, most);
  html += "</table>\n";
  if (a.owners.size() > shown) {
    uint64_t bytes = 0;
    for (size_t i = shown; i < a.owners.size(); ++i) bytes += a.owners[i].bytes;
    absl::StrAppendFormat(&html, "<p class=\"note\">and %s more with %s</p>\n",
                          WithCommas(a.owners.size() - shown),
                          FormatBytes(bytes));
  }
  return html;
}

std::string FreeBlocks(const MemoryAnalysis& a) {
  if (a.free() == 0) {
    return "<p class=\"empty\">No memory is cached: nothing is "
           "fragmented.</p>\n";
  }
  std::string html = absl::StrFormat(
      "<p>%s free in %s. The largest is <b>%s</b>: one request can have "
      "<b>%s</b> of it, the rest only smaller ones. %s are whole segments, "
      "which <code>EmptyCache</code> gives back.</p>\n",
      FormatBytes(a.free()), CountedWithCommas(a.free_blocks, "block"),
      FormatBytes(a.largest_free), Share(a.largest_free, a.free()),
      FormatBytes(a.free_whole));
  uint64_t most = 1;
  for (const FreeClass& c : a.free_classes) most = std::max(most, c.bytes);
  html +=
      "<table><tr><th>Size of the block</th><th></th><th class=\"n\">bytes</th>"
      "<th class=\"n\">share</th><th class=\"n\">blocks</th></tr>\n";
  for (auto c = a.free_classes.rbegin(); c != a.free_classes.rend(); ++c) {
    if (c->blocks == 0) continue;
    absl::StrAppend(&html, "<tr><td class=\"name\">", FormatBytes(c->least),
                    " to ", FormatBytes(c->least * 2), "</td>",
                    BarCell("cached", c->bytes, 0, most),
                    Cell(FormatBytes(c->bytes)),
                    Cell(Share(c->bytes, a.free())),
                    Cell(WithCommas(c->blocks)), "</tr>\n");
  }
  return html + "</table>\n";
}

std::string Number(const std::string& key, int64_t value) {
  if (key.find("bytes") != std::string::npos && value >= 0) {
    return FormatBytes(static_cast<uint64_t>(value));
  }
  return value < 0 ? absl::StrFormat("%d", value)
                   : WithCommas(static_cast<uint64_t>(value));
}

// One row for "active.all": its current, peak, allocated and freed.
std::string Figures(const SnapshotFigures& figures) {
  std::map<std::string, std::map<std::string, std::string>> rows;
  std::string rest;
  for (const auto& [name, value] : figures) {
    const std::string key = MarkupText(Printable(name));
    const size_t dot = key.rfind('.');
    if (dot == std::string::npos) {
      absl::StrAppend(&rest, "<tr><td class=\"name\">", key, "</td>",
                      Cell(Number(key, value)), "</tr>\n");
    } else {
      rows[key.substr(0, dot)][key.substr(dot + 1)] = Number(key, value);
    }
  }
  std::string html = absl::StrCat(
      "<details><summary>All ", Counted(figures.size(), "figure"),
      "</summary>\n<table><tr><th></th>"
      "<th class=\"n\">current</th><th class=\"n\">peak</th><th "
      "class=\"n\">allocated</th><th class=\"n\">freed</th></tr>\n");
  for (auto& [name, row] : rows) {
    absl::StrAppend(&html, "<tr><td class=\"name\">", name, "</td>",
                    Cell(row["current"]), Cell(row["peak"]),
                    Cell(row["allocated"]), Cell(row["freed"]), "</tr>\n");
  }
  return html + rest + "</table></details>\n";
}

}  // namespace

std::string MemoryTables(const MemoryReport& report) {
  return absl::StrCat("<section><h2>Top owners</h2>\n", Owners(report),
                      "</section>\n<section><h2>Fragmentation</h2>\n",
                      FreeBlocks(report.analysis),
                      "</section>\n<section><h2>Figures</h2>\n",
                      Figures(report.figures), "</section>\n");
}

}  // namespace devrt::tools
