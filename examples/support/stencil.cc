// SPDX-License-Identifier: Apache-2.0

#include "examples/support/stencil.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace example {
namespace {

using devrt::Array;
using devrt::Slice;

constexpr float kHot = 1.0f;

absl::StatusOr<Array> Rows(const Array& a, int64_t begin, int64_t end) {
  return a.SliceAxis(0, Slice{begin, end});
}
absl::StatusOr<Array> Columns(const Array& a, std::optional<int64_t> begin,
                              std::optional<int64_t> end) {
  return a.SliceAxis(1, Slice{begin, end});
}

// Sets `out` to (up + down + left + right) / 4, except in the outer columns.
absl::Status Stencil(const Array& out, const Array& up, const Array& here,
                     const Array& down, const Array& quarter) {
  DEVRT_ASSIGN_OR_RETURN(const Array to, Columns(out, 1, -1));
  DEVRT_ASSIGN_OR_RETURN(const Array above, Columns(up, 1, -1));
  DEVRT_ASSIGN_OR_RETURN(const Array below, Columns(down, 1, -1));
  DEVRT_ASSIGN_OR_RETURN(const Array left, Columns(here, std::nullopt, -2));
  DEVRT_ASSIGN_OR_RETURN(const Array right, Columns(here, 2, std::nullopt));
  DEVRT_RETURN_IF_ERROR(devrt::AddInto(to, above, below));
  DEVRT_RETURN_IF_ERROR(devrt::AddInto(to, to, left));
  DEVRT_RETURN_IF_ERROR(devrt::AddInto(to, to, right));
  return devrt::ApplyInto(devrt::BinaryOp::kMul, to, to, quarter);
}

// The plate after `steps` steps, computed with the additions in the order of
// Stencil.
std::vector<float> Serial(int64_t rows, int64_t columns, int64_t steps) {
  const int64_t w = columns;
  std::vector<float> now(static_cast<size_t>((rows + 2) * w), 0.0f);
  for (int64_t c = 0; c < w; ++c) now[static_cast<size_t>(c)] = kHot;
  std::vector<float> next = now;
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t r = 1; r <= rows; ++r) {
      for (int64_t c = 1; c + 1 < w; ++c) {
        const float* x = now.data() + r * w + c;
        next[static_cast<size_t>(r * w + c)] =
            (((x[-w] + x[w]) + x[-1]) + x[1]) * 0.25f;
      }
    }
    std::swap(now, next);
  }
  return {now.begin() + w, now.end() - w};
}

}  // namespace

absl::StatusOr<Part> Part::Make(devrt::Device device, int64_t rows,
                                int64_t columns, bool top) {
  DEVRT_ASSIGN_OR_RETURN(devrt::Stream inner, devrt::Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(devrt::Stream edges, devrt::Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(devrt::Stream exchange, devrt::Stream::Create(device));
  const auto zeros = [&](int64_t n) {
    return Array::Zeros({n, columns}, devrt::kFloat32, device);
  };
  DEVRT_ASSIGN_OR_RETURN(Array now, zeros(rows));
  DEVRT_ASSIGN_OR_RETURN(Array next, zeros(rows));
  DEVRT_ASSIGN_OR_RETURN(Array first, zeros(1));
  DEVRT_ASSIGN_OR_RETURN(Array last, zeros(1));
  DEVRT_ASSIGN_OR_RETURN(Array above, zeros(1));
  DEVRT_ASSIGN_OR_RETURN(Array below, zeros(1));
  DEVRT_ASSIGN_OR_RETURN(Array quarter,
                         Array::Full({}, devrt::kFloat32, 0.25, device));
  if (top) DEVRT_RETURN_IF_ERROR(above.Fill(kHot));
  return Part{std::move(inner),  std::move(edges), std::move(exchange),
              std::move(now),    std::move(next),  std::move(first),
              std::move(last),   std::move(above), std::move(below),
              std::move(quarter)};
}

absl::Status Part::ComputeEdges() {
  const devrt::StreamGuard on(edges);
  const int64_t n = now.shape()[0];
  DEVRT_ASSIGN_OR_RETURN(const Array row0, Rows(now, 0, 1));
  DEVRT_ASSIGN_OR_RETURN(const Array row1, Rows(now, 1, 2));
  DEVRT_RETURN_IF_ERROR(Stencil(first, above, row0, row1, quarter));
  DEVRT_ASSIGN_OR_RETURN(const Array row_n2, Rows(now, n - 2, n - 1));
  DEVRT_ASSIGN_OR_RETURN(const Array row_n1, Rows(now, n - 1, n));
  return Stencil(last, row_n2, row_n1, below, quarter);
}

absl::Status Part::ComputeInner() {
  const devrt::StreamGuard on(inner);
  const int64_t n = now.shape()[0];
  DEVRT_ASSIGN_OR_RETURN(const Array to, Rows(next, 1, n - 1));
  DEVRT_ASSIGN_OR_RETURN(const Array up, Rows(now, 0, n - 2));
  DEVRT_ASSIGN_OR_RETURN(const Array here, Rows(now, 1, n - 1));
  DEVRT_ASSIGN_OR_RETURN(const Array down, Rows(now, 2, n));
  DEVRT_RETURN_IF_ERROR(Stencil(to, up, here, down, quarter));
  DEVRT_ASSIGN_OR_RETURN(const Array to_first, Rows(next, 0, 1));
  DEVRT_ASSIGN_OR_RETURN(const Array to_last, Rows(next, n - 1, n));
  DEVRT_RETURN_IF_ERROR(to_first.CopyFrom(first));
  DEVRT_RETURN_IF_ERROR(to_last.CopyFrom(last));
  std::swap(now, next);
  return absl::OkStatus();
}

absl::Status Part::Ready() const {
  for (const Array* array : {&now, &above, &below}) {
    DEVRT_RETURN_IF_ERROR(array->Ready());
  }
  return absl::OkStatus();
}

absl::Status Verify(const Array& rows, int64_t first, int64_t all_rows,
                    int64_t steps) {
  const int64_t columns = rows.shape()[1];
  const std::vector<float> expected = Serial(all_rows, columns, steps);
  DEVRT_ASSIGN_OR_RETURN(const Array host, rows.To(devrt::Place::Host()));
  for (int64_t i = 0; i < host.size(); ++i) {
    const float found = host.data_as<float>()[i];
    const float wanted = expected[static_cast<size_t>(first * columns + i)];
    if (found == wanted) continue;
    return absl::InternalError(
        "column " + std::to_string(i % columns) + " of row " +
        std::to_string(first + i / columns) + " is " + std::to_string(found) +
        ", not " + std::to_string(wanted) + ": the streams were not in order");
  }
  return absl::OkStatus();
}

}  // namespace example
