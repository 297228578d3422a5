// SPDX-License-Identifier: Apache-2.0
//
// The timeline as an SVG document.  The document has its own background, so
// that its colours fit in light and dark viewers, and needs no script, no style
// sheet and no font.

#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"
#include "tools/common/text.h"
#include "tools/timeline/timeline.h"

namespace devrt::tools {
namespace {

constexpr double kWidth = 1200;
constexpr double kMargin = 28;
constexpr double kLeft = 190;    // where the bars begin
constexpr double kRight = 1090;  // where they end
constexpr double kLegendTop = 92;
constexpr double kLegendHeight = 22;  // one line
constexpr double kGroupHeight = 30;
constexpr double kRowHeight = 46;
constexpr double kBarHeight = 24;
constexpr double kInk = 7.4;   // width of a letter of 13 px
constexpr double kMark = 5.5;  // from the middle of a mark to its corners
constexpr size_t kLongestRowName = 19;

constexpr char kText[] = "#1b1f24";
constexpr char kFaint[] = "#5c6570";
constexpr char kLine[] = "#d9dee4";
constexpr char kPaper[] = "#ffffff";
constexpr char kArrow[] = "#3d4650";
constexpr char kFaintArrow[] = "#a9b3bd";

double WidthOf(std::string_view text) {
  return kInk * static_cast<double>(Columns(text));
}

// Returns `text`, cut to `most` letters; a cut text ends in "…".
std::string Cut(const std::string& text, size_t most) {
  if (Columns(text) <= most) return text;
  std::string out;
  for (size_t at = 0, columns = 0; at < text.size(); ++at) {
    columns += Columns(text.substr(at, 1));
    if (columns >= most) break;
    out += text[at];
  }
  return out + "…";
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

// Draws the mark of an event or of stream-ordered memory.
std::string Diamond(double x, double y, const char* colour) {
  return absl::StrFormat(
      "<path d=\"M%.1f %.1fl%.1f %.1f %.1f %.1f %.1f %.1fz\" fill=\"%s\" "
      "stroke=\"%s\"/>\n",
      x, y - kMark, kMark, kMark, -kMark, kMark, -kMark, -kMark, colour, kText);
}

class SvgWriter {
 public:
  explicit SvgWriter(const Timeline& timeline)
      : timeline_(timeline),
        elapsed_(
            static_cast<double>(std::max<uint64_t>(timeline.elapsed_ns(), 1))) {
    for (const TimelineOp& op : timeline.ops) {
      waited_for_.insert(op.waits.begin(), op.waits.end());
    }
    legend_ = Legend();
    double y = top_;
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
    return Head() + legend_ + Axis() + Rows() + Arrows(false) + Arrows(true) +
           Bars() + Marks() + Foot() + "</svg>\n";
  }

 private:
  double X(uint64_t ns) const {
    return kLeft + static_cast<double>(ns) / elapsed_ * (kRight - kLeft);
  }
  double Middle(size_t row) const { return row_y_[row] + kRowHeight / 2; }

  std::string Head() const {
    const std::string title =
        timeline_.title.empty() ? "What ran when" : timeline_.title;
    const std::string summary = absl::StrFormat(
        "Took %s (%s). On average %.2f operations ran at a time.",
        FormatTime(timeline_.elapsed_ns()), timeline_.clock,
        timeline_.overlap());
    return absl::StrFormat(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f "
               "%.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" "
               "style=\"max-width:100%%;height:auto\" "
               "font-family=\"'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', "
               "Arial, sans-serif\" font-size=\"13\" fill=\"%s\">\n",
               kWidth, height_, kWidth, height_, kText) +
           absl::StrFormat("<title>%s</title>\n<desc>%s</desc>\n",
                           MarkupText(title), MarkupText(summary)) +
           Marker("arrow", kArrow) + Marker("faint", kFaintArrow) +
           Box(0.5, 0.5, kWidth - 1, height_ - 1,
               absl::StrFormat("rx=\"8\" fill=\"%s\" stroke=\"%s\"", kPaper,
                               kLine)) +
           Words(kMargin, 40, "font-size=\"20\" font-weight=\"600\"", title) +
           Words(kMargin, 64, absl::StrFormat("fill=\"%s\"", kFaint), summary);
  }

  static std::string Marker(const char* id, const char* colour) {
    return absl::StrFormat(
        "<marker id=\"%s\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
        "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">"
        "<path d=\"M0 0.5 L8 4 L0 7.5 z\" fill=\"%s\"/></marker>\n",
        id, colour);
  }

  // Sets top_, the upper edge of the rows.
  std::string Legend() {
    std::string out;
    double x = kMargin;
    double y = kLegendTop;
    // Adds `words` behind a sample that is `sample` wide.  Returns the sample's
    // x.
    const auto add = [&](double sample, std::string_view words) {
      const double width = sample + 6 + WidthOf(words) + 18;
      if (x > kMargin && x + width > kWidth - kMargin) {
        x = kMargin;
        y += kLegendHeight;
      }
      out += Words(x + sample + 6, y, "", words);
      x += width;
      return x - width;
    };
    for (const OpKind kind : kAllKinds) {
      const bool behind_work = kind == OpKind::kRecord && !waited_for_.empty();
      if (!timeline_.Has(kind) && !behind_work) continue;
      if (IsMark(kind)) {
        const double at = add(2 * kMark, StyleOf(kind).name);
        out += Diamond(at + kMark, y - 4, StyleOf(kind).colour);
      } else {
        const double at = add(22, StyleOf(kind).name);
        out +=
            Box(at, y - 11, 22, 14,
                absl::StrFormat("rx=\"3\" fill=\"%s\"", StyleOf(kind).colour));
      }
    }
    for (const bool decisive : {true, false}) {
      if (waited_for_.empty()) break;
      const double at =
          add(30, decisive ? "wait that set the start" : "wait already over");
      out += Arrow(at, y - 4, at + 28, y - 4, decisive, "");
    }
    top_ = y + 26;
    return out;
  }

  std::string Axis() const {
    constexpr size_t kMostMarks = 12;
    const AxisScale scale = ChooseScale(timeline_.elapsed_ns(), kMostMarks);
    std::string out;
    for (uint64_t ns = 0; ns <= timeline_.elapsed_ns(); ns += scale.step_ns) {
      out += absl::StrFormat(
          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
          "stroke=\"%s\"/>\n",
          X(ns), top_ + 4, X(ns), bottom_ + 5, kLine);
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
      out += Words(kMargin + 14, Middle(row) + 4.5, "",
                   Cut(timeline_.rows[row].name, kLongestRowName));
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

  // True if the row has only kernels, apart from marks, and each bar has room
  // for the name and the number.
  bool ShowsNames(size_t row) const {
    return std::all_of(timeline_.ops.begin(), timeline_.ops.end(),
                       [&](const TimelineOp& op) {
                         return op.row != row || IsMark(op.kind) ||
                                (op.kind == OpKind::kKernel &&
                                 Width(op) >= WidthOf(op.name + " 9") + 4);
                       });
  }

  // True if a label that ends at `right` covers no later bar of the row.
  bool HasRoom(const TimelineOp& op, double right) const {
    // The end of the line has the text that says how busy the row was.
    const double end =
        timeline_.busy_ns(op.row) > 0 ? kRight + 8 : kWidth - kMargin;
    return right <= end &&
           std::none_of(timeline_.ops.begin(), timeline_.ops.end(),
                        [&](const TimelineOp& other) {
                          return other.row == op.row && !IsMark(other.kind) &&
                                 other.begin_ns >= op.end_ns &&
                                 X(other.begin_ns) < right;
                        });
  }

  // The number of the operation, or as much of its name as fits into the bar.
  std::string Label(const TimelineOp& op) const {
    constexpr double kPadding = 4 + 2 * kMark;  // marks cover its ends
    constexpr size_t kShortest = 4;
    if (op.chunk > 0) {
      const std::string number = std::to_string(op.chunk);
      return ShowsNames(op.row) ? op.name + " " + number : number;
    }
    const double room = std::max(0.0, (Width(op) - kPadding) / kInk);
    const size_t letters = static_cast<size_t>(room);
    return letters < std::min(kShortest, Columns(op.name))
               ? ""
               : Cut(op.name, letters);
  }

  std::string Bars() const {
    std::string out;
    for (const TimelineOp& op : timeline_.ops) {
      if (IsMark(op.kind)) continue;
      const double x = X(op.begin_ns);
      const double width = Width(op);
      const double y = Middle(op.row) - kBarHeight / 2;
      const std::string label = Label(op);
      const double beside = x + width + 3 + (waited_for_.empty() ? 0 : kMark);
      out += absl::StrFormat("<g><title>%s</title>", MarkupText(Tip(op)));
      out += Box(x, y, width, kBarHeight,
                 absl::StrFormat("rx=\"3\" fill=\"%s\" stroke=\"%s\"",
                                 StyleOf(op.kind).colour, kPaper));
      if (width >= WidthOf(label)) {
        out += Words(x + width / 2, y + 16.5,
                     "text-anchor=\"middle\" fill=\"#ffffff\"", label);
      } else if (HasRoom(op, beside + WidthOf(label))) {
        out += Words(beside, y + 16.5, "", label);
      }
      out += "</g>\n";
    }
    return out;
  }

  // The operations that are marks, and an event behind each operation that
  // another operation waits for.
  std::string Marks() const {
    std::string out;
    for (size_t i = 0; i < timeline_.ops.size(); ++i) {
      const TimelineOp& op = timeline_.ops[i];
      if (!IsMark(op.kind) && waited_for_.count(i) == 0) continue;
      const OpKind kind = IsMark(op.kind) ? op.kind : OpKind::kRecord;
      out += absl::StrFormat(
          "<g><title>%s</title>%s</g>\n",
          MarkupText(IsMark(op.kind) ? Tip(op) : "event behind " + NameOf(op)),
          Diamond(MarkX(op), Middle(op.row), StyleOf(kind).colour));
    }
    return out;
  }

  // The x of a mark, or of the event behind an operation.
  double MarkX(const TimelineOp& op) const {
    return IsMark(op.kind) ? (X(op.begin_ns) + X(op.end_ns)) / 2 : X(op.end_ns);
  }

  // "copy in of chunk 1", "record on stream 3".
  std::string NameOf(const TimelineOp& op) const {
    return op.chunk > 0 ? absl::StrFormat("%s of %s %d", op.name,
                                          timeline_.unit, op.chunk)
                        : op.name + " on " + timeline_.rows[op.row].name;
  }

  std::string Tip(const TimelineOp& op) const {
    std::string tip = op.name;
    if (op.chunk > 0) {
      tip += absl::StrFormat(", %s %d", timeline_.unit, op.chunk);
    }
    tip += absl::StrFormat(": %s to %s, %s", FormatTime(op.begin_ns),
                           FormatTime(op.end_ns),
                           FormatTime(op.end_ns - op.begin_ns));
    if (op.bytes > 0) tip += ", " + FormatBytes(op.bytes);
    for (size_t i = 0; i < op.waits.size(); ++i) {
      tip += (i == 0 ? "; waits for " : " and ") +
             NameOf(timeline_.ops[op.waits[i]]);
    }
    return op.note.empty() ? tip : tip + "; " + op.note;
  }

  // With `decisive`, draws only the waits that decided when an operation began.
  std::string Arrows(bool decisive) const {
    std::string out;
    for (size_t i = 0; i < timeline_.ops.size(); ++i) {
      const TimelineOp& op = timeline_.ops[i];
      for (size_t wait : op.waits) {
        if ((timeline_.DecidingOp(i) == wait) != decisive) continue;
        const TimelineOp& other = timeline_.ops[wait];
        if (other.row == op.row) continue;
        const double side = other.row < op.row ? 1 : -1;
        const double to_x = IsMark(op.kind) ? MarkX(op) : X(op.begin_ns) + 2;
        const double to_y = IsMark(op.kind) ? kMark : kBarHeight / 2;
        out += Arrow(MarkX(other), Middle(other.row) + side * kBarHeight / 2,
                     to_x, Middle(op.row) - side * to_y, decisive,
                     NameOf(op) + " waits for " + NameOf(other));
      }
    }
    return out;
  }

  // `tip`: the text of the tooltip, or empty.
  static std::string Arrow(double x1, double y1, double x2, double y2,
                           bool decisive, const std::string& tip) {
    const double bend = (y1 + y2) / 2;
    const std::string title =
        tip.empty() ? "" : "<title>" + MarkupText(tip) + "</title>";
    return absl::StrFormat(
        "<path d=\"M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\" "
        "stroke=\"%s\" stroke-width=\"%s\" marker-end=\"url(#%s)\">%s"
        "</path>\n",
        x1, y1, x1, bend, x2, bend, x2, y2, decisive ? kArrow : kFaintArrow,
        decisive ? "1.5" : "1", decisive ? "arrow" : "faint", title);
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
  std::set<size_t> waited_for_;  // indices into Timeline::ops
  std::string legend_;
  double top_ = 0;  // upper edge of the rows
  std::vector<double> row_y_;
  double bottom_ = 0;
  double height_ = 0;  // the document's
};

}  // namespace

std::string SvgTimeline(const Timeline& timeline) {
  return SvgWriter(timeline).Text();
}

}  // namespace devrt::tools
