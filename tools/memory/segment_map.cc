// SPDX-License-Identifier: Apache-2.0
//
// The map of segments, as SVG.  Each segment is a bar with its blocks in the
// colours of their owners, and free blocks light.  The bars of one stream form
// a group of rows; all groups of one pool have one scale.

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/text.h"
#include "tools/memory/report.h"

namespace devrt::tools {

namespace {

constexpr double kMapPx = 1120;
constexpr double kBar = 22;
constexpr double kRow = 27;
constexpr double kHeading = 26;
constexpr double kGap = 3;
constexpr double kLeastBar = 3;       // width of the smallest segment
constexpr double kLeastLargest = 30;  // least width of the largest segment
constexpr double kLeastBlock = 1.5;   // narrower blocks are drawn as one
constexpr size_t kMostRows = 24;      // in a pool
constexpr size_t kMostGroups = 6;     // in a pool

using Group = std::vector<const SegmentSnapshot*>;
struct NamedGroup {
  std::string name;
  uint64_t bytes = 0;
  Group segments;
};

double BarWidth(const SegmentSnapshot& s, double scale) {
  return std::max(kLeastBar, static_cast<double>(s.size) / scale);
}

size_t RowsOf(const Group& group, double scale) {
  size_t rows = 1;
  double x = 0;
  for (const SegmentSnapshot* s : group) {
    const double width = BarWidth(*s, scale);
    if (x > 0 && x + width > kMapPx) {
      ++rows;
      x = 0;
    }
    x += width + kGap;
  }
  return rows;
}

// Bytes for each unit of width: the fewest at which all rows fit, up to a limit
// at which the largest segment is still seen.
double ScaleOf(const std::vector<NamedGroup>& groups) {
  uint64_t largest = 1;
  for (const NamedGroup& g : groups) {
    for (const SegmentSnapshot* s : g.segments)
      largest = std::max(largest, s->size);
  }
  // So few bytes that two segments do not look like a wall ...
  double scale = static_cast<double>(largest) / (kMapPx / 4);
  // ... and so many that blocks of a segment can be seen.
  const double most = static_cast<double>(largest) / kLeastLargest;
  for (; scale < most; scale *= 1.25) {
    size_t rows = 0;
    for (const NamedGroup& g : groups) rows += RowsOf(g.segments, scale);
    if (rows <= kMostRows && static_cast<double>(largest) / scale <= kMapPx) {
      break;
    }
  }
  return scale;
}

class Map {
 public:
  explicit Map(const MemoryReport& report)
      : report_(report), a_(report.analysis) {}

  std::string Svg() {
    for (const bool large : {true, false}) DrawPool(large);
    return absl::StrFormat(
        "<svg id=\"map\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
        "aria-label=\"Segments and their blocks\">\n%s</svg>\n",
        kMapPx, y_ + 2, svg_);
  }

 private:
  // One group for each stream, the largest first.
  void DrawPool(bool large) {
    std::map<uint64_t, NamedGroup> by_stream;
    for (const SegmentSnapshot& s : report_.snapshot.segments) {
      if (s.large != large) continue;
      NamedGroup& group = by_stream[s.stream];
      group.name = s.stream == 0 ? "default stream"
                                 : absl::StrFormat("stream %d", s.stream);
      group.bytes += s.size;
      group.segments.push_back(&s);
    }
    std::vector<NamedGroup> groups;
    for (auto& [stream, group] : by_stream) groups.push_back(std::move(group));
    std::stable_sort(groups.begin(), groups.end(),
                     [](const NamedGroup& a, const NamedGroup& b) {
                       return a.bytes > b.bytes;
                     });
    while (groups.size() > kMostGroups) {
      NamedGroup last = std::move(groups.back());
      groups.pop_back();
      NamedGroup& into = groups.back();
      into.name = absl::StrFormat(
          "%s further streams", WithCommas(by_stream.size() + 1 - kMostGroups));
      into.bytes += last.bytes;
      into.segments.insert(into.segments.end(), last.segments.begin(),
                           last.segments.end());
    }
    const double scale = ScaleOf(groups);
    size_t rows = kMostRows;
    for (size_t i = 0; i < groups.size(); ++i) {
      Heading(large, groups[i], i == 0 ? scale : 0);
      const size_t share = std::max<size_t>(1, rows / (groups.size() - i));
      rows -= std::min(rows, DrawGroup(groups[i].segments, scale, share));
    }
  }

  void Heading(bool large, const NamedGroup& group, double scale) {
    if (y_ > 0) y_ += 8;
    absl::StrAppendFormat(
        &svg_,
        "<text class=\"group\" x=\"0\" y=\"%.0f\">%s pool, %s"
        "<tspan class=\"faint\" dx=\"10\">%s, %s</tspan></text>\n",
        y_ + 16, large ? "Large" : "Small", MarkupText(group.name),
        CountedWithCommas(group.segments.size(), "segment"),
        FormatBytes(group.bytes));
    if (scale > 0) Ruler(scale);
    y_ += kHeading;
  }

  // A ruler with the bytes that its length stands for.
  void Ruler(double scale) {
    uint64_t bytes = 512;
    while (static_cast<double>(bytes) / scale < 60) bytes *= 2;
    const double width = static_cast<double>(bytes) / scale;
    absl::StrAppendFormat(
        &svg_,
        "<path class=\"ruler\" d=\"M%.1f %.1fv6h%.1fv-6\"/><text "
        "class=\"axis\" "
        "x=\"%.1f\" y=\"%.0f\" text-anchor=\"end\">%s</text>\n",
        kMapPx - width - 1, y_ + 9, width, kMapPx - width - 8, y_ + 16,
        FormatBytes(bytes));
  }

  // Returns the number of rows.  A line of text sums up segments that do not
  // fit into `most_rows`.
  size_t DrawGroup(const Group& group, double scale, size_t most_rows) {
    size_t rows = 1;
    double x = 0;
    uint64_t hidden = 0;
    uint64_t hidden_bytes = 0;
    for (const SegmentSnapshot* s : group) {
      const double width = BarWidth(*s, scale);
      const bool is_full = x > 0 && x + width > kMapPx;
      if (hidden > 0 || (is_full && rows == most_rows)) {
        ++hidden;
        hidden_bytes += s->size;
        continue;
      }
      if (is_full) {
        ++rows;
        x = 0;
        y_ += kRow;
      }
      DrawSegment(*s, x, width);
      x += width + kGap;
    }
    y_ += kRow;
    if (hidden > 0) {
      absl::StrAppendFormat(&svg_,
                            "<text class=\"axis\" x=\"0\" y=\"%.0f\">and %s "
                            "more segments, %s</text>\n",
                            y_ + 12, WithCommas(hidden),
                            FormatBytes(hidden_bytes));
      y_ += 20;
    }
    return rows;
  }

  void DrawSegment(const SegmentSnapshot& s, double x, double width) {
    uint64_t span = 0;  // with unmapped holes
    bool is_whole = true;
    for (const BlockSnapshot& b : s.blocks) {
      span += b.size;
      is_whole &= b.state == BlockState::kFree;
    }
    absl::StrAppendFormat(
        &svg_,
        "<g data-g=\"%d\" data-s=\"%s segment at 0x%x%s\">"
        "<rect class=\"seg\" x=\"%.1f\" y=\"%.0f\" "
        "width=\"%.1f\" height=\"%.0f\"/>\n",
        &s - report_.snapshot.segments.data(), FormatBytes(s.size), s.address,
        s.expandable ? ", expandable" : "", x, y_, width, kBar);
    DrawBlocks(s, is_whole, x,
               width / static_cast<double>(std::max<uint64_t>(1, span)));
    svg_ += "</g>\n";
  }

  // Neighbours that are too narrow to be drawn one by one.
  struct SmallBlocks {
    uint64_t begin;
    uint64_t used = 0;
    uint64_t count = 0;
    std::map<std::string, uint64_t> by_colour = {};
  };

  // `scale` is the width of a byte.
  void DrawBlocks(const SegmentSnapshot& s, bool is_whole, double x,
                  double scale) {
    const auto at = [&](uint64_t address) {
      return x + static_cast<double>(address - s.address) * scale;
    };
    uint64_t end = s.address;
    SmallBlocks small = {end};
    const auto flush = [&] {
      if (small.used > 0) DrawSmall(small, at(small.begin), at(end), end);
      small = {end};
    };
    for (const BlockSnapshot& b : s.blocks) {
      const bool is_small = static_cast<double>(b.size) * scale < kLeastBlock;
      if (!is_small) flush();
      end = b.address + b.size;
      if (!is_small) {
        DrawBlock(b, &b - s.blocks.data(), is_whole, at(b.address), at(end));
        small = {end};
        continue;
      }
      if (b.state == BlockState::kLive || b.state == BlockState::kPending) {
        small.used += b.size;
        small.by_colour[ColourOf(b)] += b.size;
      }
      ++small.count;
      if (static_cast<double>(end - small.begin) * scale >= 2 * kLeastBlock) {
        flush();
      }
    }
    flush();
  }

  std::string ColourOf(const BlockSnapshot& b) const {
    if (b.state == BlockState::kPending) return "pending";
    if (b.state == BlockState::kUnmapped) return "hole";
    const size_t owner = a_.owner(b.site);
    return owner < std::min(MemoryAnalysis::kSeries, a_.owners.size())
               ? OwnerClass(owner)
               : "others";
  }

  // One rectangle, in the colour of the most bytes, whose opacity is the used
  // share.
  void DrawSmall(const SmallBlocks& small, double from, double to,
                 uint64_t end) {
    const uint64_t all = end - small.begin;
    const auto most = std::max_element(
        small.by_colour.begin(), small.by_colour.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    absl::StrAppendFormat(
        &svg_,
        "<rect class=\"%s\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" "
        "height=\"%.0f\" opacity=\"%.2f\" data-b=\"%s, %s of them in use\"/>\n",
        most->first, from, y_, to - from, kBar,
        0.15 +
            0.85 * static_cast<double>(small.used) / static_cast<double>(all),
        CountedWithCommas(small.count, "small block"), Share(small.used, all));
  }

  // `place` is the index of the block in its segment.
  void DrawBlock(const BlockSnapshot& b, ptrdiff_t place, bool is_whole,
                 double from, double to) {
    if (b.state == BlockState::kFree) {
      absl::StrAppendFormat(&svg_,
                            "<rect class=\"%s\" x=\"%.1f\" y=\"%.0f\" "
                            "width=\"%.1f\" height=\"%.0f\" data-p=\"%d\" "
                            "data-b=\"free: %s\"/>\n",
                            is_whole ? "whole" : "free", from, y_, to - from,
                            kBar, place, FormatBytes(b.size));
      return;
    }
    const size_t owner = a_.owner(b.site);
    std::string what = "nothing behind it";
    if (b.state == BlockState::kLive) {
      what = owner < a_.owners.size() ? a_.owners[owner].name : "in use";
    } else if (b.state == BlockState::kPending) {
      what = "freed, waits for a stream";
    }
    // A thin gap between neighbours of one colour.
    const double line = to - from > 4 ? 0.7 : 0;
    absl::StrAppendFormat(&svg_,
                          "<rect class=\"%s\" x=\"%.1f\" y=\"%.0f\" "
                          "width=\"%.1f\" height=\"%.0f\" data-p=\"%d\" "
                          "data-b=\"%s: %s\"/>\n",
                          ColourOf(b), from, y_, to - from - line, kBar, place,
                          MarkupText(what), FormatBytes(b.size));
  }

  const MemoryReport& report_;
  const MemoryAnalysis& a_;
  std::string svg_;
  double y_ = 0;
};

}  // namespace

std::string MemoryMap(const MemoryReport& report) {
  if (report.snapshot.segments.empty()) {
    return "<p class=\"empty\">Nothing is reserved.</p>\n";
  }
  return "<p class=\"note\">One bar a segment, to scale; blocks in the colours "
         "of their owners. Click one for its life, its stack and its "
         "neighbours. <span class=\"keys inline\"><span><i "
         "class=\"free\"></i>free</span><span><i class=\"whole\"></i>free, the "
         "whole segment</span><span><i class=\"pending\"></i>freed, waits for "
         "a stream</span></span></p>\n" +
         Map(report).Svg();
}

}  // namespace devrt::tools
