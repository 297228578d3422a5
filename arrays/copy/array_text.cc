// SPDX-License-Identifier: Apache-2.0
//
// Array::ToString, in NumPy's layout.  Fetches only the elements that are
// printed.

#include <algorithm>
#include <cstring>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "arrays/core/elements_text.h"
#include "arrays/core/geometry.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/status.h"

namespace devrt {
namespace {

constexpr size_t kLineWidth = 75;
constexpr char kPrefix[] = "array(";
constexpr size_t kPrefixWidth = sizeof kPrefix - 1;
constexpr char kSummary[] = "...";
// A limit for arrays that are long although each axis is shortened.
constexpr int64_t kMostPrinted = 100'000;

// ---- The elements that are printed -----------------------------------------

// A shortened axis shows its first and last `edge` indices.
struct Excerpt {
  Dims shape;
  int64_t edge = 0;  // 0: no axis is shortened

  bool IsCut(int64_t extent) const { return edge != 0 && extent > 2 * edge; }
};

Excerpt MakeExcerpt(const Array& array, int64_t edge) {
  Excerpt excerpt;
  excerpt.edge = edge;
  for (const int64_t extent : array.shape()) {
    excerpt.shape.push_back(excerpt.IsCut(extent) ? 2 * edge : extent);
  }
  return excerpt;
}

Excerpt ChooseExcerpt(const Array& array, const Array::TextOptions& options) {
  if (array.size() <= options.threshold) return MakeExcerpt(array, 0);
  int64_t edge = std::clamp<int64_t>(options.edge_items, 1, kMostPrinted);
  Excerpt excerpt = MakeExcerpt(array, edge);
  while (edge > 1 && internal::CountElements(excerpt.shape) > kMostPrinted) {
    excerpt = MakeExcerpt(array, --edge);
  }
  return excerpt;
}

// ---- Fetching --------------------------------------------------------------

// Copies elements from `from`, host memory, to `to`, which is dense.
void Scatter(const Array& from, int axis, const char* source, char* to,
             const Dims& strides) {
  if (axis == from.ndim()) {
    std::memcpy(to, source, from.item_size());
    return;
  }
  for (int64_t i = 0; i < from.shape()[axis]; ++i) {
    Scatter(from, axis + 1, source + i * from.strides()[axis],
            to + i * strides[axis], strides);
  }
}

// Copies the part of `array` that `excerpt` keeps of its axes from `axis` on.
absl::Status Fetch(const Array& array, const Excerpt& excerpt, int axis,
                   char* to, const Dims& strides, CallSite site) {
  if (axis == array.ndim()) {
    DEVRT_ASSIGN_OR_RETURN(const Array host,
                           array.To(Place::Host(), false, site));
    Scatter(host, 0, host.data_as<const char>(), to, strides);
    return absl::OkStatus();
  }
  const int64_t extent = array.shape()[axis];
  if (!excerpt.IsCut(extent)) {
    return Fetch(array, excerpt, axis + 1, to, strides, site);
  }
  const int64_t edge = excerpt.edge;
  DEVRT_ASSIGN_OR_RETURN(const Array first,
                         array.SliceAxis(axis, {0, edge, 1}));
  DEVRT_RETURN_IF_ERROR(Fetch(first, excerpt, axis + 1, to, strides, site));
  DEVRT_ASSIGN_OR_RETURN(const Array last,
                         array.SliceAxis(axis, {extent - edge, extent, 1}));
  return Fetch(last, excerpt, axis + 1, to + edge * strides[axis], strides,
               site);
}

absl::StatusOr<std::vector<std::string>> FetchWords(
    const Array& array, const Excerpt& excerpt,
    const Array::TextOptions& options) {
  const int64_t count = internal::CountElements(excerpt.shape);
  if (count > kMostPrinted && excerpt.edge != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat(count, " elements would be printed"));
  }
  std::vector<char> bytes(static_cast<size_t>(count) * array.item_size());
  DEVRT_RETURN_IF_ERROR(
      Fetch(array, excerpt, 0, bytes.data(),
            internal::ContiguousStrides(excerpt.shape, array.item_size()),
            options.site));
  return internal::ElementWords(array.dtype(), bytes.data(),
                                static_cast<size_t>(count),
                                std::clamp(options.precision, 0, 17),
                                /*alone=*/array.ndim() == 0);
}

// ---- Layout ----------------------------------------------------------------

class Layout {
 public:
  Layout(DimSpan shape, const Excerpt& excerpt,
         const std::vector<std::string>& words)
      : shape_(shape), excerpt_(excerpt), words_(words) {}

  // Nested brackets, beginning at `indent` columns.
  std::string Text(size_t indent) {
    // Leaves room for the closing parenthesis.
    return Nested(0, indent, kLineWidth - 1);
  }

 private:
  // The next words, in brackets unless it is a single element.  Lines after the
  // first begin with `indent` spaces and end before `width`.
  std::string Nested(size_t axis, size_t indent, size_t width) {
    if (axis == shape_.size()) return words_[next_++];
    const std::string text = axis + 1 == shape_.size()
                                 ? Row(indent + 1, width)
                                 : Block(axis, indent + 1, width);
    return "[" + text + "]";
  }

  // One row of elements; a long row takes several lines.
  std::string Row(size_t indent, size_t width) {
    std::string text;
    std::string line(indent, ' ');
    const auto add = [&](const std::string& word, bool is_last) {
      if (line.size() + word.size() + 1 > width && line.size() > indent) {
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
        line = std::string(indent, ' ');
      }
      line += word;
      if (!is_last) line += ", ";
    };
    const int64_t count = excerpt_.shape.back();
    for (int64_t i = 0; i < count; ++i) {
      if (IsGap(shape_.size() - 1, i)) add(kSummary, false);
      add(words_[next_++], i + 1 == count);
    }
    return (text + line).substr(indent);
  }

  // Rows or blocks, one below the other, with empty lines between blocks.
  std::string Block(size_t axis, size_t indent, size_t width) {
    const std::string between = "," +
                                std::string(shape_.size() - axis - 1, '\n') +
                                std::string(indent, ' ');
    std::string text;
    for (int64_t i = 0; i < excerpt_.shape[axis]; ++i) {
      if (i > 0) text += between;
      if (IsGap(axis, i)) text += kSummary + between;
      text += Nested(axis + 1, indent, width - 1);
    }
    return text;
  }

  bool IsGap(size_t axis, int64_t index) const {
    return excerpt_.IsCut(shape_[axis]) && index == excerpt_.edge;
  }

  const DimSpan shape_;
  const Excerpt& excerpt_;
  const std::vector<std::string>& words_;
  size_t next_ = 0;
};

std::string ElementsText(const Array& array, const Excerpt& excerpt,
                         const Array::TextOptions& options) {
  if (array.size() == 0) return "[]";
  const auto words = FetchWords(array, excerpt, options);
  if (!words.ok()) return absl::StrCat("<", StatusText(words.status()), ">");
  return Layout(array.shape(), excerpt, *words).Text(kPrefixWidth);
}

}  // namespace

std::string Array::ToString(const TextOptions& options) const {
  if (storage_ == nullptr) return "array(<moved from>)";
  const Excerpt excerpt = ChooseExcerpt(*this, options);
  const std::string text =
      kPrefix + ElementsText(*this, excerpt, options) + ",";
  std::string rest;
  // The shape, if the brackets do not show it.
  if (excerpt.edge != 0 || (size_ == 0 && ndim() != 1)) {
    absl::StrAppend(&rest, "shape=", ShapeText(shape_), ", ");
  }
  absl::StrAppend(&rest, "dtype=", dtype_.name(), ", device='", place().name(),
                  "')");
  const size_t last_line = text.size() - (text.rfind('\n') + 1);
  const bool fits = last_line + 1 + rest.size() <= kLineWidth;
  return text + (fits ? " " : "\n" + std::string(kPrefixWidth, ' ')) + rest;
}

std::ostream& operator<<(std::ostream& os, const Array& array) {
  return os << array.ToString();
}

}  // namespace devrt
