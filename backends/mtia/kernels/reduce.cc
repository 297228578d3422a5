// SPDX-License-Identifier: Apache-2.0
//
// devrt.reduce/0: the body.
//
// Partial results are combined pairwise, so the error of a float sum grows with
// the logarithm of the number of terms.

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/mtia/kernels/kernels.h"
#include "backends/mtia/kernels/operators.h"
#include "backends/mtia/kernels/strided.h"
#include "backends/tensor/dtype.h"

namespace devrt::mtia {
namespace {

using tensor::Magnitude;
using tensor::PartialDtype;

// The result of a reduction of no elements.
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

  // Overwrites `row`.
  void Push(size_t n, ElementBlock* row) {
    size_t k = 0;
    for (uint64_t carry = count_++; (carry & 1) != 0; carry >>= 1, ++k) {
      fold_.combine(levels_[k].bytes, row->bytes, n, row->bytes);
    }
    if (k == levels_.size()) levels_.emplace_back();
    std::memcpy(levels_[k].bytes, row->bytes, n * item_);
  }

  // Begins a new result.
  void Finish(size_t n, ElementBlock* row) {
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
  std::vector<ElementBlock> levels_;
};

class Reduction {
 public:
  Reduction(uint32_t op, const Tensor& out, std::byte* out_local,
            const Tensor& in, const std::byte* in_local, uint32_t axes)
      : Reduction(PartialDtype(op, in.dtype), op, out, out_local, in, in_local,
                  OrderAxes(in, ~axes), OrderAxes(in, axes)) {}

  void Run() {
    // Computes results side by side if that walks memory in order, or if a
    // result has too few elements for a walk of its own.
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
      ElementBlock* const to = rows == 0 ? &row_ : &next_;
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
    ElementBlock* result = &row_;
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
  ElementBlock row_;
  ElementBlock next_;
};

}  // namespace

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
