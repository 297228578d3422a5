// SPDX-License-Identifier: Apache-2.0
//
// devrt.reduce/0: which pairs of dtypes exist, the checks of a call, the body.
//
// Partial results are combined pairwise, so the error of a float sum grows with
// the logarithm of the number of terms.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backends/mtia/describe.h"
#include "backends/mtia/dtype.h"
#include "backends/mtia/kernels.h"
#include "backends/mtia/operators.h"
#include "backends/mtia/strided.h"

namespace devrt::mtia {
namespace {

const char* const kNames[] = {"sum", "prod", "min", "max", "any", "all"};

bool IsOrder(uint32_t op) {
  return op == DEVRT_REDUCE_MIN || op == DEVRT_REDUCE_MAX;
}

// What NumPy's sum and prod of `dtype` return.
uint32_t WideSum(uint32_t dtype) {
  switch (ClassOf(dtype)) {
    case DtypeClass::kBool:
    case DtypeClass::kSigned:
      return DEVRT_INT64;
    case DtypeClass::kUnsigned:
      return DEVRT_UINT64;
    default:
      return dtype;
  }
}

// The dtype of partial results; the 16-bit floats' is float32.
uint32_t PartialDtype(uint32_t op, uint32_t dtype) {
  if (op == DEVRT_REDUCE_ANY || op == DEVRT_REDUCE_ALL) return DEVRT_BOOL;
  if (IsOrder(op) && dtype == DEVRT_BOOL) return DEVRT_BOOL;
  return ComputeDtype(WideSum(dtype));
}

bool CheckOperands(uint32_t op, const Tensor& out, const Tensor& in,
                   uint32_t axes, std::string* error) {
  if (!ReduceSupports(op, in.dtype, out.dtype)) {
    *error = "does not exist from dtype " + DtypeName(in.dtype) + " (in) to " +
             DtypeName(out.dtype) + " (out)";
    return false;
  }
  const size_t ndim = in.shape.size();
  if (ndim < DEVRT_MAX_DIMS && axes >> ndim != 0) {
    *error = "axes is " + std::to_string(axes) + ", expected less than 2^" +
             std::to_string(ndim) + ": in has " + std::to_string(ndim) +
             " dimensions";
    return false;
  }
  std::vector<int64_t> expected = in.shape;
  for (size_t k = 0; k < ndim; ++k) {
    if ((axes >> k & 1) != 0) expected[k] = 1;
  }
  if (out.shape != expected) {
    *error = "out has shape " + ShapeText(out.shape) + ", expected " +
             ShapeText(expected) + ": in's, with 1 on the reduced axes";
    return false;
  }
  if (IsOrder(op) && in.elements == 0 && out.elements != 0) {
    *error = "in has shape " + ShapeText(in.shape) +
             ", expected at least 1 element per element of out";
    return false;
  }
  return true;
}

// The result for no elements at all.
void FillIdentity(uint32_t op, const Tensor& out, std::byte* out_local) {
  Tensor value = out;
  value.dtype = DEVRT_BOOL;
  value.strides.assign(out.shape.size(), 0);
  const std::byte one{op == DEVRT_REDUCE_PROD || op == DEVRT_REDUCE_ALL};
  RunElementwise(DEVRT_OP_COPY, out, out_local, {value}, {&one});
}

// Combines rows of partial results as the carries of a binary counter do.
class Pairwise {
 public:
  Pairwise(const Fold& fold, size_t item) : fold_(fold), item_(item) {}

  // Destroys `row`.
  void Push(size_t n, Block* row) {
    size_t k = 0;
    for (uint64_t carry = count_++; (carry & 1) != 0; carry >>= 1, ++k) {
      fold_.combine(levels_[k].bytes, row->bytes, n, row->bytes);
    }
    if (k == levels_.size()) levels_.emplace_back();
    std::memcpy(levels_[k].bytes, row->bytes, n * item_);
  }

  // Starts anew.
  void Finish(size_t n, Block* row) {
    bool first = true;
    for (size_t k = 0; k < levels_.size(); ++k) {
      if ((count_ >> k & 1) == 0) continue;
      if (first) {
        std::memcpy(row->bytes, levels_[k].bytes, n * item_);
      } else {
        fold_.combine(levels_[k].bytes, row->bytes, n, row->bytes);
      }
      first = false;
    }
    count_ = 0;
  }

 private:
  const Fold fold_;
  const size_t item_;
  uint64_t count_ = 0;  // rows pushed; bit k: levels_[k] holds 2^k of them
  std::vector<Block> levels_;
};

class Reduction {
 public:
  Reduction(uint32_t op, const Tensor& out, std::byte* out_local,
            const Tensor& in, const std::byte* in_local, uint32_t axes)
      : Reduction(PartialDtype(op, in.dtype), op, out, out_local, in, in_local,
                  OrderAxes(in, ~axes), OrderAxes(in, axes)) {}

  void Run() {
    // Side by side where that walks memory in order, or where one result has
    // too few elements to be worth a walk of its own.
    constexpr int64_t kShort = 32;
    constexpr int64_t kWide = 8;
    const bool side_by_side = kept_inner_ || reduced_.elements() < kShort;
    if (side_by_side && kept_.elements() >= kWide) {
      SideBySide();
    } else {
      OneByOne();
    }
  }

 private:
  Reduction(uint32_t partial, uint32_t op, const Tensor& out,
            std::byte* out_local, const Tensor& in, const std::byte* in_local,
            const Axes& kept, const Axes& reduced)
      : fold_(FindFold(op, partial)),
        loader_(in.dtype, partial),
        kept_(in, kept),
        reduced_(in, reduced),
        out_(out, kept),
        kept_inner_(Magnitude(kept_.stride()) < Magnitude(reduced_.stride())),
        in_local_(in_local),
        out_local_(out_local),
        finish_(FindConversion(partial, out.dtype).first),
        store_(FindStore(out.dtype)),
        pairwise_(fold_, DtypeSize(partial)) {}

  void OneByOne() {
    for (int64_t left = kept_.elements(); left > 0; --left) {
      for (int64_t rest = reduced_.elements(); rest > 0;) {
        const int64_t n = std::min<int64_t>(rest, kBlock);
        Gather(static_cast<size_t>(n));
        fold_.row(row_.bytes, static_cast<size_t>(n), row_.bytes);
        pairwise_.Push(1, &row_);
        rest -= n;
      }
      Finish(1);
    }
  }

  void SideBySide() {
    for (int64_t left = kept_.elements(); left > 0;) {
      const int64_t n =
          std::min({kept_.run(), out_.run(), static_cast<int64_t>(kBlock)});
      Stack(static_cast<size_t>(n));
      Finish(n);
      left -= n;
    }
  }

  // The next `n` elements of one result.
  void Gather(size_t n) {
    const std::byte* const from = in_local_ + kept_.offset();
    for (size_t done = 0; done < n;) {
      const size_t part =
          std::min(n - done, static_cast<size_t>(reduced_.run()));
      loader_.LoadPart(from + reduced_.offset(), reduced_.stride(), part, done,
                       row_.bytes);
      reduced_.Step(static_cast<int64_t>(part));
      done += part;
    }
    loader_.Convert(n, row_.bytes);
  }

  // All elements of the next `n` results.
  void Stack(size_t n) {
    constexpr int64_t kRows = 16;
    const std::byte* const from = in_local_ + kept_.offset();
    int64_t rows = 0;
    for (int64_t left = reduced_.elements(); left > 0; --left) {
      Block* const to = rows == 0 ? &row_ : &next_;
      loader_.Load(from + reduced_.offset(), kept_.stride(), n, to->bytes);
      reduced_.Step(1);
      if (rows > 0) {
        fold_.combine(row_.bytes, next_.bytes, n, row_.bytes);
      }
      if (++rows == kRows || left == 1) {
        pairwise_.Push(n, &row_);
        rows = 0;
      }
    }
  }

  void Finish(int64_t n) {
    pairwise_.Finish(static_cast<size_t>(n), &row_);
    Block* result = &row_;
    if (finish_ != nullptr) {
      finish_(row_.bytes, static_cast<size_t>(n), next_.bytes);
      result = &next_;
    }
    store_(result->bytes, static_cast<size_t>(n), out_local_ + out_.offset(),
           out_.stride());
    kept_.Step(n);
    out_.Step(n);
  }

  const Fold fold_;
  RowLoader loader_;
  Cursor kept_;
  Cursor reduced_;
  Cursor out_;
  const bool kept_inner_;
  const std::byte* const in_local_;
  std::byte* const out_local_;
  const ConvertFn finish_;  // null: partial results are stored as they are
  const StoreFn store_;
  Pairwise pairwise_;
  Block row_;
  Block next_;
};

}  // namespace

bool ReduceSupports(uint32_t op, uint32_t in_dtype, uint32_t out_dtype) {
  const DtypeClass kind = ClassOf(in_dtype);
  if (kind == DtypeClass::kUnknown || kind == DtypeClass::kFloat8) return false;
  switch (op) {
    case DEVRT_REDUCE_SUM:
    case DEVRT_REDUCE_PROD:
      return out_dtype == WideSum(in_dtype) ||
             (out_dtype == in_dtype && kind != DtypeClass::kBool);
    case DEVRT_REDUCE_MIN:
    case DEVRT_REDUCE_MAX:
      return out_dtype == in_dtype && kind != DtypeClass::kComplex;
    case DEVRT_REDUCE_ANY:
    case DEVRT_REDUCE_ALL:
      return out_dtype == DEVRT_BOOL;
    default:
      return false;
  }
}

bool CheckReduce(uint32_t op, const Tensor& out, const Tensor& in,
                 uint32_t axes, std::string* error) {
  if (op > DEVRT_REDUCE_ALL) {
    *error = "op " + std::to_string(op) + " is not known";
    return false;
  }
  if (CheckOperands(op, out, in, axes, error)) return true;
  *error = std::string(kNames[op]) + ": " + *error;
  return false;
}

void RunReduce(uint32_t op, const Tensor& out, std::byte* out_local,
               const Tensor& in, const std::byte* in_local, uint32_t axes) {
  if (out.elements == 0) return;
  if (in.elements == 0) {
    FillIdentity(op, out, out_local);
    return;
  }
  Reduction(op, out, out_local, in, in_local, axes).Run();
}

}  // namespace devrt::mtia
