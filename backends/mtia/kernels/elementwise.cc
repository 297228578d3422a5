// SPDX-License-Identifier: Apache-2.0
//
// devrt.elementwise/0: the bodies.

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "backends/mtia/kernels/kernels.h"
#include "backends/mtia/kernels/operators.h"
#include "backends/mtia/kernels/strided.h"
#include "backends/tensor/dtype.h"

namespace devrt::mtia {
namespace {

using tensor::ComputeDtype;
using tensor::kAllAxes;
using tensor::RawDtype;

size_t NextBlock(int64_t left) {
  return static_cast<size_t>(std::min<int64_t>(left, kBlock));
}

void RunCopy(const Tensor& out, std::byte* out_local, const Tensor& in,
             const std::byte* in_local, const Axes& axes) {
  const bool same = out.dtype == in.dtype;
  const uint32_t from = same ? RawDtype(in.dtype) : in.dtype;
  const uint32_t to = same ? RawDtype(out.dtype) : out.dtype;
  const int64_t item = DtypeSize(to);
  if (from == to && to != DEVRT_BOOL && Cursor(out, axes).IsContiguous(item) &&
      Cursor(in, axes).IsContiguous(item)) {
    std::memmove(out_local, in_local, static_cast<size_t>(out.elements * item));
    return;
  }
  Reader reader(in, in_local, axes, from, to);
  Writer writer(out, out_local, axes, to);
  ElementBlock block;
  for (int64_t left = out.elements; left > 0;) {
    const size_t n = NextBlock(left);
    reader.Read(n, block.bytes);
    writer.Write(n, block.bytes);
    left -= static_cast<int64_t>(n);
  }
}

}  // namespace

void RunFill(const Tensor& out, std::byte* out_local, const void* value) {
  if (out.elements == 0) return;
  const uint32_t raw = RawDtype(out.dtype);
  const Axes axes = OrderAxes(out, kAllAxes);
  Writer writer(out, out_local, axes, raw);
  ElementBlock block;
  FindLoad(raw)(static_cast<const std::byte*>(value), 0, kBlock, block.bytes);
  for (int64_t left = out.elements; left > 0;) {
    const size_t n = NextBlock(left);
    writer.Write(n, block.bytes);
    left -= static_cast<int64_t>(n);
  }
}

void RunElementwise(uint32_t op, const Tensor& out, std::byte* out_local,
                    const std::vector<Tensor>& inputs,
                    const std::vector<const std::byte*>& input_locals) {
  if (out.elements == 0) return;
  const Axes axes = OrderAxes(out, kAllAxes);
  if (op == DEVRT_OP_COPY) {
    RunCopy(out, out_local, inputs[0], input_locals[0], axes);
    return;
  }
  // WHERE only moves elements.
  const bool move = op == DEVRT_OP_WHERE;
  const auto dtype = [move](const Tensor& tensor) {
    return move ? RawDtype(tensor.dtype) : tensor.dtype;
  };
  std::optional<Reader> readers[3];
  for (size_t k = 0; k < inputs.size(); ++k) {
    const uint32_t as = dtype(inputs[k]);
    readers[k].emplace(inputs[k], input_locals[k], axes, as, as);
  }
  Writer writer(out, out_local, axes, dtype(out));
  const BlockFn apply = FindOperator(op, ComputeDtype(dtype(inputs.back())));
  ElementBlock in[3];
  const std::byte* const blocks[] = {in[0].bytes, in[1].bytes, in[2].bytes};
  ElementBlock result;
  for (int64_t left = out.elements; left > 0;) {
    const size_t n = NextBlock(left);
    for (size_t k = 0; k < inputs.size(); ++k) {
      readers[k]->Read(n, in[k].bytes);
    }
    apply(blocks, n, result.bytes);
    writer.Write(n, result.bytes);
    left -= static_cast<int64_t>(n);
  }
}

}  // namespace devrt::mtia
