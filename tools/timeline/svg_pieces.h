// SPDX-License-Identifier: Apache-2.0
//
// Elements of the SVG picture of a timeline: texts, bars, marks and arrows.

#ifndef DEVRT_TOOLS_TIMELINE_SVG_PIECES_H_
#define DEVRT_TOOLS_TIMELINE_SVG_PIECES_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace devrt::tools::svg {

inline constexpr double kInk = 7.4;   // width of a letter of 13 px
inline constexpr double kMark = 5.5;  // from a mark's middle to its corners

inline constexpr char kText[] = "#1b1f24";
inline constexpr char kFaint[] = "#5c6570";
inline constexpr char kLine[] = "#d9dee4";
inline constexpr char kPaper[] = "#ffffff";
inline constexpr char kArrow[] = "#3d4650";
inline constexpr char kFaintArrow[] = "#a9b3bd";
inline constexpr char kRed[] = "#d1242f";

// The width of `text` in letters of 13 px.
double WidthOf(std::string_view text);
// Returns `text`, cut to `most` letters; a cut text ends in "…".
std::string Cut(const std::string& text, size_t most);

// Escapes the text.
std::string Words(double x, double y, std::string_view attributes,
                  std::string_view text);
std::string Box(double x, double y, double width, double height,
                std::string_view attributes);
// The mark of an event or of stream-ordered memory.
std::string Diamond(double x, double y, const char* colour);

struct ArrowStyle {
  const char* head;  // the id of an ArrowHead
  const char* colour;
  const char* width;
  const char* dashes = nullptr;  // nullptr: one line
};
// The definition of a head.
std::string ArrowHead(const char* id, const char* colour);
// `tip`: the text of the tooltip, or empty.
std::string ArrowPath(double x1, double y1, double x2, double y2,
                      const ArrowStyle& style, const std::string& tip);

}  // namespace devrt::tools::svg

#endif  // DEVRT_TOOLS_TIMELINE_SVG_PIECES_H_
