// SPDX-License-Identifier: Apache-2.0
//
// The timeline as an SVG document.  It brings its own background, so that it
// reads the same in light and dark viewers, and needs no script, no style sheet
// and no font of its own.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "tools/demo/timeline.h"
#include "tools/text.h"

namespace devrt::tools {
namespace {

constexpr double kWidth = 1200;
constexpr double kMargin = 28;
constexpr double kLeft = 190;    // where the bars begin
constexpr double kRight = 1100;  // where they end
constexpr double kTop = 118;
constexpr double kGroupHeight = 30;
constexpr double kRowHeight = 46;
constexpr double kBarHeight = 24;
constexpr double kInk = 7.4;  // width of a letter, 13 px high

constexpr char kText[] = "#1b1f24";
constexpr char kFaint[] = "#5c6570";
constexpr char kLine[] = "#d9dee4";
constexpr char kPaper[] = "#ffffff";
constexpr char kArrow[] = "#3d4650";
constexpr char kFaintArrow[] = "#a9b3bd";

double WidthOf(std::string_view text) {
  return kInk * static_cast<double>(text.size());
}

std::string Words(double x, double y, std::string_view attributes,
                  std::string_view text) {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y,
                         attributes, MarkupText(text));
}

std::string Box(double x, double y, double width, double height,
                std::string_view attributes) {
  return absl::StrFormat(
      "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" %s/>\n", x, y,
      width, height, attributes);
}

class SvgWriter {
 public:
  explicit SvgWriter(const Timeline& timeline)
      : timeline_(timeline),
        elapsed_(
            static_cast<double>(std::max<uint64_t>(timeline.elapsed_ns(), 1))) {
    double y = kTop;
    std::string group;
    for (const TimelineRow& row : timeline.rows) {
      if (row.group != group) y += kGroupHeight;
      group = row.group;
      row_y_.push_back(y);
      y += kRowHeight;
    }
    bottom_ = y + 6;
    height_ = bottom_ + 74;
  }

  std::string Text() const {
    return Head() + Legend() + Axis() + Rows() + Arrows(false) + Arrows(true) +
           Bars() + Foot() + "</svg>\n";
  }

 private:
  double X(uint64_t ns) const {
    return kLeft + static_cast<double>(ns) / elapsed_ * (kRight - kLeft);
  }
  double Middle(size_t row) const { return row_y_[row] + kRowHeight / 2; }

  std::string Head() const {
    const std::string summary = absl::StrFormat(
        "Took %s (%s). On average %.2f operations ran at a time.",
        FormatTime(timeline_.elapsed_ns()), timeline_.clock,
        timeline_.overlap());
    return absl::StrFormat(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f "
               "%.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" "
               "font-family=\"'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', "
               "Arial, sans-serif\" font-size=\"13\" fill=\"%s\">\n",
               kWidth, height_, kWidth, height_, kText) +
           absl::StrFormat("<title>%s</title>\n<desc>%s</desc>\n",
                           MarkupText(timeline_.title), MarkupText(summary)) +
           Marker("arrow", kArrow) + Marker("faint", kFaintArrow) +
           Box(0.5, 0.5, kWidth - 1, height_ - 1,
               absl::StrFormat("rx=\"8\" fill=\"%s\" stroke=\"%s\"", kPaper,
                               kLine)) +
           Words(kMargin, 40, "font-size=\"20\" font-weight=\"600\"",
                 timeline_.title) +
           Words(kMargin, 64, absl::StrFormat("fill=\"%s\"", kFaint), summary);
  }

  static std::string Marker(const char* id, const char* colour) {
    return absl::StrFormat(
        "<marker id=\"%s\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
        "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">"
        "<path d=\"M0 0.5 L8 4 L0 7.5 z\" fill=\"%s\"/></marker>\n",
        id, colour);
  }

  std::string Legend() const {
    constexpr double kY = 92;
    std::string out;
    double x = kMargin;
    for (const OpKind kind : kAllKinds) {
      const bool occurs =
          std::any_of(timeline_.ops.begin(), timeline_.ops.end(),
                      [&](const TimelineOp& op) { return op.kind == kind; });
      if (!occurs) continue;
      out += Box(x, kY - 11, 22, 14,
                 absl::StrFormat("rx=\"3\" fill=\"%s\"", Style(kind).colour));
      out += Words(x + 28, kY, "", Style(kind).name);
      x += 28 + WidthOf(Style(kind).name) + 18;
    }
    constexpr char kDecisive[] = "wait that set the start";
    out += Arrow(x, kY - 4, x + 28, kY - 4, true);
    out += Words(x + 36, kY, "", kDecisive);
    x += 36 + WidthOf(kDecisive) + 18;
    out += Arrow(x, kY - 4, x + 28, kY - 4, false);
    return out + Words(x + 36, kY, "", "wait already over");
  }

  std::string Axis() const {
    constexpr size_t kMostMarks = 12;
    const AxisScale scale = ChooseScale(timeline_.elapsed_ns(), kMostMarks);
    std::string out;
    for (uint64_t ns = 0; ns <= timeline_.elapsed_ns(); ns += scale.step_ns) {
      out += absl::StrFormat(
          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
          "stroke=\"%s\"/>\n",
          X(ns), kTop + 4, X(ns), bottom_ + 5, kLine);
      out +=
          Words(X(ns), bottom_ + 22,
                absl::StrFormat("text-anchor=\"middle\" fill=\"%s\"", kFaint),
                absl::StrFormat("%d %s", ns / scale.unit_ns, scale.unit));
    }
    return out;
  }

  std::string Rows() const {
    std::string out;
    std::string group;
    for (size_t row = 0; row < timeline_.rows.size(); ++row) {
      const double y = row_y_[row];
      if (timeline_.rows[row].group != group) {
        group = timeline_.rows[row].group;
        out += Words(kMargin, y - 9, "font-weight=\"600\"", group);
      }
      out += absl::StrFormat(
          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
          "stroke=\"%s\" stroke-dasharray=\"1 3\"/>\n",
          kLeft, Middle(row), kRight, Middle(row), kFaintArrow);
      out +=
          Words(kMargin + 14, Middle(row) + 4.5, "", timeline_.rows[row].name);
      if (const uint64_t busy = timeline_.busy_ns(row); busy > 0) {
        const double share = 100 * static_cast<double>(busy) / elapsed_;
        out += Words(kWidth - kMargin, Middle(row) + 4.5,
                     absl::StrFormat("text-anchor=\"end\" fill=\"%s\"", kFaint),
                     absl::StrFormat("%.0f %% busy", share));
      }
    }
    return out;
  }

  double Width(const TimelineOp& op) const {
    return std::max(X(op.end_ns) - X(op.begin_ns), 3.0);
  }

  // Whether the names of a row's operations tell something and fit into all of
  // their bars.
  bool ShowsNames(size_t row) const {
    return std::all_of(
        timeline_.ops.begin(), timeline_.ops.end(), [&](const TimelineOp& op) {
          return op.row != row || (op.kind == OpKind::kKernel &&
                                   Width(op) >= WidthOf(op.name + " 9") + 4);
        });
  }

  // Whether nothing of the row begins before `right`, behind the operation.
  bool HasRoom(const TimelineOp& op, double right) const {
    // How busy the row was stands behind it.
    const double end =
        timeline_.busy_ns(op.row) > 0 ? kRight + 8 : kWidth - kMargin;
    return right <= end &&
           std::none_of(timeline_.ops.begin(), timeline_.ops.end(),
                        [&](const TimelineOp& other) {
                          return other.row == op.row &&
                                 other.begin_ns >= op.end_ns &&
                                 X(other.begin_ns) < right;
                        });
  }

  std::string Bars() const {
    std::string out;
    for (const TimelineOp& op : timeline_.ops) {
      const double x = X(op.begin_ns);
      const double width = Width(op);
      const double y = Middle(op.row) - kBarHeight / 2;
      std::string label = op.chunk > 0 ? std::to_string(op.chunk) : "";
      if (ShowsNames(op.row)) label = op.name + " " + label;
      out += absl::StrFormat("<g><title>%s</title>", MarkupText(Tip(op)));
      out += Box(x, y, width, kBarHeight,
                 absl::StrFormat("rx=\"3\" fill=\"%s\" stroke=\"%s\"",
                                 Style(op.kind).colour, kPaper));
      if (width >= WidthOf(label)) {
        out += Words(x + width / 2, y + 16.5,
                     "text-anchor=\"middle\" fill=\"#ffffff\"", label);
      } else if (HasRoom(op, x + width + 3 + WidthOf(label))) {  // beside it
        out += Words(x + width + 3, y + 16.5, "", label);
      }
      out += "</g>\n";
    }
    return out;
  }

  std::string Tip(const TimelineOp& op) const {
    std::string tip = absl::StrFormat(
        "%s, %s %d: %s to %s, %s", op.name, timeline_.unit, op.chunk,
        FormatTime(op.begin_ns), FormatTime(op.end_ns),
        FormatTime(op.end_ns - op.begin_ns));
    if (op.bytes > 0) tip += ", " + FormatBytes(op.bytes);
    for (size_t i = 0; i < op.waits.size(); ++i) {
      const TimelineOp& other = timeline_.ops[op.waits[i]];
      tip += absl::StrFormat("%s %s of %s %d", i == 0 ? "; waits for" : " and",
                             other.name, timeline_.unit, other.chunk);
    }
    return tip;
  }

  // `decisive`: only those waits that decided when their operation began.
  std::string Arrows(bool decisive) const {
    std::string out;
    for (size_t i = 0; i < timeline_.ops.size(); ++i) {
      const TimelineOp& op = timeline_.ops[i];
      for (size_t wait : op.waits) {
        if ((timeline_.Decisive(i) == wait) != decisive) continue;
        const TimelineOp& other = timeline_.ops[wait];
        if (other.row == op.row) continue;
        const double side = other.row < op.row ? 1 : -1;
        out +=
            Arrow(X(other.end_ns) - 1,
                  Middle(other.row) + side * kBarHeight / 2, X(op.begin_ns) + 2,
                  Middle(op.row) - side * kBarHeight / 2, decisive);
      }
    }
    return out;
  }

  static std::string Arrow(double x1, double y1, double x2, double y2,
                           bool decisive) {
    const double bend = (y1 + y2) / 2;
    return absl::StrFormat(
        "<path d=\"M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\" "
        "stroke=\"%s\" stroke-width=\"%s\" marker-end=\"url(#%s)\"/>\n",
        x1, y1, x1, bend, x2, bend, x2, y2, decisive ? kArrow : kFaintArrow,
        decisive ? "1.5" : "1", decisive ? "arrow" : "faint");
  }

  std::string Foot() const {
    const bool numbered =
        std::any_of(timeline_.ops.begin(), timeline_.ops.end(),
                    [](const TimelineOp& op) { return op.chunk > 0; });
    return Words(
        kMargin, height_ - 20,
        absl::StrFormat("font-size=\"12\" fill=\"%s\"", kFaint),
        "Each line is a stream" +
            (numbered ? "; the numbers are " + timeline_.unit + "s" : "") +
            ". Operations of one stream run one after another; streams run "
            "side by side unless an event makes one wait (the arrows).");
  }

  const Timeline& timeline_;
  const double elapsed_;
  std::vector<double> row_y_;
  double bottom_ = 0;  // of the rows
  double height_ = 0;  // of the document
};

}  // namespace

std::string SvgTimeline(const Timeline& timeline) {
  return SvgWriter(timeline).Text();
}

}  // namespace devrt::tools
