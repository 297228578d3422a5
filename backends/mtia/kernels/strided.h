// SPDX-License-Identifier: Apache-2.0
//
// Strided memory in blocks.  Kernels never touch tensor memory themselves: a
// Reader gathers up to kBlock elements into an aligned buffer, a plain loop
// computes on buffers, a Writer scatters the result.  So each dtype needs one
// loop to load and one to store, whatever the operation, the layout and the
// dtypes of the other operands.
//
// All operands of a kernel are walked over the axes in one order.  Each operand
// merges axes that its strides make contiguous.

#ifndef DEVRT_BACKENDS_MTIA_KERNELS_STRIDED_H_
#define DEVRT_BACKENDS_MTIA_KERNELS_STRIDED_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backends/mtia/kernels/convert.h"
#include "backends/mtia/kernels/kernels.h"

namespace devrt::mtia {

using tensor::Axes;

inline constexpr size_t kBlock = 256;  // elements

// A buffer of kBlock elements of any type.
struct alignas(64) ElementBlock {
  std::byte bytes[kBlock * 16];
};

// out[i] := f(i) for i in [0, n), at any alignment.
//
// The loop writes a local buffer of constant size, which overlaps no input.  So
// gcc -O2 vectorises it: at this level it adds no run-time check for overlap.
template <typename R, typename F>
void Generate(std::byte* out, size_t n, F f) {
  constexpr size_t kStep = 16;
  R step[kStep];
  size_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (size_t j = 0; j < kStep; ++j) step[j] = f(i + j);
    std::memcpy(out + i * sizeof(R), step, sizeof step);
  }
  for (; i < n; ++i) {
    const R last = f(i);
    std::memcpy(out + i * sizeof(R), &last, sizeof last);
  }
}

// The offsets of a tensor's elements, row by row: a row is the longest run with
// one stride.  After the last element comes the first again.
class Cursor {
 public:
  Cursor(const Tensor& tensor, const Axes& axes);

  int64_t offset() const { return offset_; }  // bytes
  int64_t stride() const { return dims_[0].stride; }
  int64_t run() const { return dims_[0].extent - dims_[0].index; }
  int64_t elements() const { return elements_; }

  // True if the elements are adjacent and ascending.
  bool IsContiguous(int64_t item) const {
    return count_ == 1 && (dims_[0].extent == 1 || dims_[0].stride == item);
  }

  // Moves on by `n` elements, at most run().
  void Step(int64_t n) {
    Dim& inner = dims_[0];
    if (n < inner.extent - inner.index) {
      inner.index += n;
      offset_ += n * inner.stride;
    } else {
      NextRow();
    }
  }

 private:
  struct Dim {
    int64_t extent;
    int64_t stride;
    int64_t index;
  };

  void Append(int64_t extent, int64_t stride);
  void NextRow();

  std::array<Dim, DEVRT_MAX_DIMS> dims_;  // innermost first, count_ of them
  uint32_t count_ = 1;
  int64_t offset_ = 0;
  int64_t elements_ = 1;
};

// `n` elements at `from`, `stride` bytes apart, into a buffer of ComputeDtype.
using LoadFn = void (*)(const std::byte* from, int64_t stride, size_t n,
                        std::byte* to);
// Stores `n` elements of ComputeDtype from a buffer, `stride` bytes apart.
using StoreFn = void (*)(const std::byte* from, size_t n, std::byte* to,
                         int64_t stride);
LoadFn FindLoad(uint32_t dtype);
StoreFn FindStore(uint32_t dtype);

// Loads rows of one dtype as another.  Not thread-safe: it owns buffers.
class RowLoader {
 public:
  // Loads elements of `dtype` and converts them for a store as `as`.
  RowLoader(uint32_t dtype, uint32_t as);

  void Load(const std::byte* from, int64_t stride, size_t n, void* to);

  // For rows that come in parts: LoadPart adds `n` elements behind the `done`
  // that it has loaded, and Convert converts all.
  void LoadPart(const std::byte* from, int64_t stride, size_t n, size_t done,
                void* to);
  void Convert(size_t n, void* to);

 private:
  LoadFn load_;
  Conversion conversion_;
  size_t item_;  // bytes of a loaded element
  ElementBlock first_;
  ElementBlock second_;
};

// The elements of a tensor, in blocks.
class Reader {
 public:
  Reader(const Tensor& tensor, const std::byte* local, const Axes& axes,
         uint32_t dtype, uint32_t as);

  void Read(size_t n, void* to);

 private:
  Cursor cursor_;
  const std::byte* local_;
  RowLoader loader_;
};

class Writer {
 public:
  Writer(const Tensor& tensor, std::byte* local, const Axes& axes,
         uint32_t dtype);

  void Write(size_t n, const void* from);

 private:
  Cursor cursor_;
  std::byte* local_;
  StoreFn store_;
  size_t item_;  // bytes of an element in `from`
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_KERNELS_STRIDED_H_
