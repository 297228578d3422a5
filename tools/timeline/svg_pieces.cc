// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline/svg_pieces.h"

#include "absl/strings/str_format.h"
#include "tools/common/text.h"

namespace devrt::tools::svg {

double WidthOf(std::string_view text) {
  return kInk * static_cast<double>(Columns(text));
}

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

std::string Diamond(double x, double y, const char* colour) {
  return absl::StrFormat(
      "<path d=\"M%.1f %.1fl%.1f %.1f %.1f %.1f %.1f %.1fz\" fill=\"%s\" "
      "stroke=\"%s\"/>\n",
      x, y - kMark, kMark, kMark, -kMark, kMark, -kMark, -kMark, colour, kText);
}

std::string ArrowHead(const char* id, const char* colour) {
  return absl::StrFormat(
      "<marker id=\"%s\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
      "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">"
      "<path d=\"M0 0.5 L8 4 L0 7.5 z\" fill=\"%s\"/></marker>\n",
      id, colour);
}

std::string ArrowPath(double x1, double y1, double x2, double y2,
                      const ArrowStyle& style, const std::string& tip) {
  const double bend = (y1 + y2) / 2;
  const std::string title =
      tip.empty() ? "" : "<title>" + MarkupText(tip) + "</title>";
  const std::string dashes =
      style.dashes == nullptr
          ? ""
          : absl::StrFormat(" stroke-dasharray=\"%s\"", style.dashes);
  return absl::StrFormat(
      "<path d=\"M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\" "
      "stroke=\"%s\" stroke-width=\"%s\"%s marker-end=\"url(#%s)\">%s"
      "</path>\n",
      x1, y1, x1, bend, x2, bend, x2, y2, style.colour, style.width, dashes,
      style.head, title);
}

}  // namespace devrt::tools::svg
