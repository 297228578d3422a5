// SPDX-License-Identifier: Apache-2.0
//
// The timeline in a terminal: a line for each row, a bar for each operation.  A
// bar begins with the number of the chunk.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"
#include "tools/timeline/timeline.h"

namespace devrt::tools {
namespace {

// One character of a row.
struct TerminalCell {
  std::string text = " ";
  int colour = 0;  // the background's; 0: no colour
};

class TimelinePrinter {
 public:
  TimelinePrinter(const Timeline& timeline, const Terminal& terminal)
      : timeline_(timeline),
        terminal_(terminal),
        elapsed_(std::max<uint64_t>(timeline.elapsed_ns(), 1)) {
    size_t widest = 0;
    for (const TimelineRow& row : timeline.rows) {
      widest = std::max({widest, Columns(row.name) + 2, Columns(row.group)});
    }
    gutter_ = widest + 2;
    width_ = terminal.columns - std::min(terminal.columns - 20, gutter_ + 7);
  }

  std::string Text() const {
    std::string text;
    std::string group;
    for (size_t row = 0; row < timeline_.rows.size(); ++row) {
      if (timeline_.rows[row].group != group) {
        group = timeline_.rows[row].group;
        text += group + "\n";
      }
      text += RowText(row) + "\n";
    }
    return text + Axis() + Legend();
  }

 private:
  size_t Column(uint64_t ns) const {
    const double share =
        static_cast<double>(ns) / static_cast<double>(elapsed_);
    return static_cast<size_t>(share * static_cast<double>(width_));
  }

  std::string RowText(size_t row) const {
    std::vector<TerminalCell> cells(width_);
    bool device_work = false;
    for (const TimelineOp& op : timeline_.ops) {
      if (op.row != row) continue;
      device_work = device_work || op.kind != OpKind::kHostFunction;
      Draw(op, &cells);
    }
    std::string line = PadRight("  " + timeline_.rows[row].name, gutter_);
    line += CellsText(cells);
    if (device_work) {
      const double share = static_cast<double>(timeline_.busy_ns(row)) /
                           static_cast<double>(elapsed_);
      line += PadLeft(absl::StrFormat("%.0f %%", 100 * share), 6);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  }

  void Draw(const TimelineOp& op, std::vector<TerminalCell>* cells) const {
    const KindStyle& style = StyleOf(op.kind);
    const size_t begin = std::min(Column(op.begin_ns), width_ - 1);
    const size_t end = std::max(begin + 1, std::min(Column(op.end_ns), width_));
    const std::string label = std::to_string(op.chunk);
    for (size_t i = begin; i < end; ++i) {
      TerminalCell& cell = (*cells)[i];
      cell.colour = style.ansi;
      if (i - begin < label.size()) {
        cell.text = label[i - begin];
      } else if (terminal_.colour) {
        cell.text = " ";  // the coloured background is the bar
      } else {
        cell.text =
            terminal_.unicode ? style.fill : std::string(1, style.ascii_fill);
      }
    }
  }

  std::string CellsText(const std::vector<TerminalCell>& cells) const {
    std::string text;
    int colour = 0;
    for (const TerminalCell& cell : cells) {
      if (terminal_.colour && cell.colour != colour) {
        text += ColourChange(cell.colour);
        colour = cell.colour;
      }
      text += cell.text;
    }
    return colour == 0 ? text : text + ColourChange(0);
  }

  // Black text is readable on each colour; the terminal's default may not be.
  static std::string ColourChange(int colour) {
    return colour == 0 ? "\x1b[0m" : absl::StrFormat("\x1b[30;%dm", colour);
  }

  std::string Axis() const {
    constexpr size_t kColumnsPerMark = 12;
    const AxisScale scale = ChooseScale(elapsed_, width_ / kColumnsPerMark);
    const char* line = terminal_.unicode ? "─" : "-";
    const char* mark = terminal_.unicode ? "┴" : "+";
    std::vector<std::string> cells(width_ + 1, line);
    std::string labels(gutter_, ' ');
    for (uint64_t ns = 0; ns <= elapsed_; ns += scale.step_ns) {
      const size_t column = Column(ns);
      cells[column] = mark;
      std::string label = std::to_string(ns / scale.unit_ns);
      if (ns == 0) label += std::string(" ") + scale.unit;
      labels = PadRight(labels, gutter_ + column);
      if (labels.size() + label.size() <= terminal_.columns) labels += label;
    }
    std::string text(gutter_, ' ');
    for (const std::string& cell : cells) text += cell;
    return text + "\n" + labels + "\n";
  }

  std::string Legend() const {
    constexpr size_t kIndent = 2;
    constexpr size_t kGap = 3;
    std::string text(kIndent, ' ');
    size_t column = kIndent;
    for (const OpKind kind : kAllKinds) {
      if (!timeline_.Has(kind)) continue;
      const KindStyle& style = StyleOf(kind);
      const TerminalCell bar{terminal_.colour ? std::string("  ")
                             : terminal_.unicode
                                 ? std::string(style.fill)
                                 : std::string(1, style.ascii_fill),
                             style.ansi};
      const size_t width = Columns(bar.text) + 1 + Columns(style.name);
      if (column > kIndent && column + kGap + width > terminal_.columns) {
        text += "\n" + std::string(kIndent, ' ');
        column = kIndent;
      } else if (column > kIndent) {
        text += std::string(kGap, ' ');
        column += kGap;
      }
      text += CellsText({bar}) + " " + style.name;
      column += width;
    }
    return text + "\n" + std::string(kIndent, ' ') +
           Wrap(
               "A number is a chunk, where its operation begins; % is how much "
               "of the time the stream was busy.",
               terminal_.columns, kIndent) +
           "\n";
  }

  const Timeline& timeline_;
  const Terminal& terminal_;
  const uint64_t elapsed_;
  size_t gutter_;  // columns for the names
  size_t width_;   // columns for the bars
};

}  // namespace

std::string TerminalTimeline(const Timeline& timeline,
                             const Terminal& terminal) {
  return TimelinePrinter(timeline, terminal).Text();
}

}  // namespace devrt::tools
