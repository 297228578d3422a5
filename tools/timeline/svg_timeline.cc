// SPDX-License-Identifier: Apache-2.0
//
// The timeline as an SVG document.  The document has its own background, so
// that its colours fit in light and dark viewers, and needs no script, no style
// sheet and no font.

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "tools/common/text.h"
#include "tools/timeline/svg_pieces.h"
#include "tools/timeline/timeline.h"

namespace devrt::tools {
namespace {

using namespace svg;  // NOLINT(google-build-using-namespace)

constexpr double kImagePx = 1200;
constexpr double kMargin = 28;
constexpr double kLeft = 190;    // where the bars begin
constexpr double kRight = 1090;  // where they end
constexpr double kLegendTop = 92;
constexpr double kLegendHeight = 22;  // one line
constexpr double kGroupHeight = 30;
constexpr double kRowHeight = 46;
constexpr double kRowHeightWithNotes = 78;
constexpr double kFootHeight = 18;  // one line
constexpr size_t kFootColumns = 150;
constexpr double kBarHeight = 24;
constexpr size_t kLongestRowName = 19;

constexpr ArrowStyle kDeciding = {"arrow", kArrow, "1.5"};
constexpr ArrowStyle kPassed = {"faint", kFaintArrow, "1"};
constexpr ArrowStyle kNearMiss = {"faint", kFaintArrow, "1.5"};
constexpr ArrowStyle kMissing = {"missing", kRed, "2.5", "7 4"};

const ArrowStyle& StyleOf(TimelineArrow::Kind kind) {
  switch (kind) {
    case TimelineArrow::Kind::kMissing:
      return kMissing;
    case TimelineArrow::Kind::kNearMiss:
      return kNearMiss;
    case TimelineArrow::Kind::kOrder:
      break;
  }
  return kDeciding;
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
    row_height_ = timeline.timed ? kRowHeight : kRowHeightWithNotes;
    double y = top_;
    std::string group;
    for (const TimelineRow& row : timeline.rows) {
      if (row.group != group) y += kGroupHeight;
      group = row.group;
      row_y_.push_back(y);
      y += row_height_;
    }
    bottom_ = y + 6;
    foot_ = FootLines();
    height_ = bottom_ + (timeline.timed ? 56 : 20) +
              kFootHeight * static_cast<double>(foot_.size());
  }

  std::string Text() const {
    return Head() + legend_ + Axis() + Rows() + Arrows(false) + Arrows(true) +
           FurtherArrows() + Bars() + Marks() + Foot() + "</svg>\n";
  }

 private:
  double X(uint64_t ns) const {
    return kLeft + static_cast<double>(ns) / elapsed_ * (kRight - kLeft);
  }
  double Middle(size_t row) const { return row_y_[row] + row_height_ / 2; }

  std::string Head() const {
    const std::string title =
        timeline_.title.empty() ? "What ran when" : timeline_.title;
    const std::string summary =
        timeline_.timed
            ? absl::StrFormat(
                  "Took %s (%s). On average %.2f operations ran at a time.",
                  FormatTime(timeline_.elapsed_ns()), timeline_.clock,
                  timeline_.overlap())
            : timeline_.summary;
    return absl::StrFormat(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f "
               "%.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" "
               "style=\"max-width:100%%;height:auto\" "
               "font-family=\"'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', "
               "Arial, sans-serif\" font-size=\"13\" fill=\"%s\">\n",
               kImagePx, height_, kImagePx, height_, kText) +
           absl::StrFormat("<title>%s</title>\n<desc>%s</desc>\n",
                           MarkupText(title), MarkupText(summary)) +
           ArrowHead("arrow", kArrow) + ArrowHead("faint", kFaintArrow) +
           (Has(TimelineArrow::Kind::kMissing) ? ArrowHead("missing", kRed)
                                               : "") +
           Box(0.5, 0.5, kImagePx - 1, height_ - 1,
               absl::StrFormat("rx=\"8\" fill=\"%s\" stroke=\"%s\"", kPaper,
                               kLine)) +
           Words(kMargin, 40, "font-size=\"20\" font-weight=\"600\"", title) +
           Words(kMargin, 64, absl::StrFormat("fill=\"%s\"", kFaint), summary);
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
      if (x > kMargin && x + width > kImagePx - kMargin) {
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
      out += ArrowPath(at, y - 4, at + 28, y - 4,
                       decisive ? kDeciding : kPassed, "");
    }
    for (const auto& [kind, words] :
         {std::pair(TimelineArrow::Kind::kMissing, "missing wait"),
          std::pair(TimelineArrow::Kind::kNearMiss, "wait that does not help"),
          std::pair(TimelineArrow::Kind::kOrder, "last common order")}) {
      if (!Has(kind)) continue;
      const double at = add(30, words);
      out += ArrowPath(at, y - 4, at + 28, y - 4, StyleOf(kind), "");
    }
    top_ = y + 26;
    return out;
  }

  bool Has(TimelineArrow::Kind kind) const {
    return std::any_of(
        timeline_.arrows.begin(), timeline_.arrows.end(),
        [&](const TimelineArrow& arrow) { return arrow.kind == kind; });
  }

  std::string Axis() const {
    if (!timeline_.timed) return "";
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
      if (const uint64_t busy = BusyNs(row); busy > 0) {
        const double share = 100 * static_cast<double>(busy) / elapsed_;
        out += Words(kImagePx - kMargin, Middle(row) + 4.5,
                     absl::StrFormat("text-anchor=\"end\" fill=\"%s\"", kFaint),
                     absl::StrFormat("%.0f %% busy", share));
      }
    }
    return out;
  }

  uint64_t BusyNs(size_t row) const {
    return timeline_.timed ? timeline_.busy_ns(row) : 0;
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
    const double end = BusyNs(op.row) > 0 ? kRight + 8 : kImagePx - kMargin;
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
      out += "</g>\n" + Note(op);
    }
    return out;
  }

  // The note of an operation, where the picture has notes: above the first row
  // and below the others, since arrows are between the rows.
  std::string Note(const TimelineOp& op) const {
    if (timeline_.timed || op.note.empty()) return "";
    const double y = Middle(op.row) +
                     (op.row == 0 ? -kBarHeight / 2 - 6 : kBarHeight / 2 + 14);
    return Words(
        MiddleX(op), y,
        absl::StrFormat("text-anchor=\"middle\" font-size=\"11\" fill=\"%s\"",
                        kFaint),
        op.note);
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
      out += Note(op);
    }
    return out;
  }

  // The x of a mark, or of the event behind an operation.
  double MarkX(const TimelineOp& op) const {
    return IsMark(op.kind) ? MiddleX(op) : X(op.end_ns);
  }
  double MiddleX(const TimelineOp& op) const {
    return (X(op.begin_ns) + X(op.end_ns)) / 2;
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
    if (timeline_.timed) {
      tip += absl::StrFormat(": %s to %s, %s", FormatTime(op.begin_ns),
                             FormatTime(op.end_ns),
                             FormatTime(op.end_ns - op.begin_ns));
    }
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
        out += Arrow(other, op, decisive ? kDeciding : kPassed,
                     NameOf(op) + " waits for " + NameOf(other));
      }
    }
    return out;
  }

  std::string FurtherArrows() const {
    std::string out;
    for (const TimelineArrow& arrow : timeline_.arrows) {
      out += Arrow(timeline_.ops[arrow.from], timeline_.ops[arrow.to],
                   StyleOf(arrow.kind), arrow.tip);
    }
    return out;
  }

  // Between operations of two rows.  Nothing for operations of one row.
  std::string Arrow(const TimelineOp& from, const TimelineOp& to,
                    const ArrowStyle& style, const std::string& tip) const {
    if (from.row == to.row) return "";
    const double side = from.row < to.row ? 1 : -1;
    const double to_x = IsMark(to.kind) ? MarkX(to) : X(to.begin_ns) + 2;
    const double to_y = IsMark(to.kind) ? kMark : kBarHeight / 2;
    return ArrowPath(MarkX(from), Middle(from.row) + side * kBarHeight / 2,
                     to_x, Middle(to.row) - side * to_y, style, tip);
  }

  std::vector<std::string> FootLines() const {
    if (timeline_.timed) return {TimedFoot()};
    std::vector<std::string> lines;
    std::istringstream text(Wrap(timeline_.foot, kFootColumns, 0));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  std::string TimedFoot() const {
    const bool numbered =
        std::any_of(timeline_.ops.begin(), timeline_.ops.end(),
                    [](const TimelineOp& op) { return op.chunk > 0; });
    return "Each line is a stream" +
           (numbered ? "; the numbers are " + timeline_.unit + "s" : "") +
           ". Operations of one stream run one after another; streams run "
           "side by side unless an event makes one wait (the arrows).";
  }

  std::string Foot() const {
    std::string out;
    double y =
        height_ - 20 - kFootHeight * (static_cast<double>(foot_.size()) - 1);
    for (const std::string& line : foot_) {
      out +=
          Words(kMargin, y,
                absl::StrFormat("font-size=\"12\" fill=\"%s\"", kFaint), line);
      y += kFootHeight;
    }
    return out;
  }

  const Timeline& timeline_;
  const double elapsed_;
  std::set<size_t> waited_for_;  // indices into Timeline::ops
  std::string legend_;
  double row_height_ = kRowHeight;
  std::vector<std::string> foot_;  // lines
  double top_ = 0;                 // upper edge of the rows
  std::vector<double> row_y_;
  double bottom_ = 0;
  double height_ = 0;  // the document's
};

}  // namespace

std::string SvgTimeline(const Timeline& timeline) {
  return SvgWriter(timeline).Text();
}

}  // namespace devrt::tools
