// SPDX-License-Identifier: Apache-2.0
//
// Tensors in device memory for the tests of devrt.elementwise/0 and
// devrt.reduce/0.
//
//   Arena arena(t, t.device());
//   arena.Clear();
//   const View out = arena.Place(DEVRT_INT32, {3, 4}, Layout::kTransposed);
//   ... fill arena.At(out, offset) ...
//   arena.Upload(s); run a kernel on arena.Describe(out); arena.Download(s);

#ifndef DEVRT_CTS_TENSORS_H_
#define DEVRT_CTS_TENSORS_H_

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cts/numbers.h"
#include "cts/objects.h"

namespace devrt::cts {

using Shape = std::vector<int64_t>;

enum class Layout {
  kContiguous,  // strides is NULL
  kTransposed,  // the first axis is the innermost
  kNegative,    // every second axis runs backwards
  kGaps,        // space between elements
  kUnaligned,   // strides are not multiples of the size, addresses are odd
  kBroadcast,   // every second axis has stride 0; inputs only
};
inline constexpr int kOutputLayouts = 5;
inline constexpr int kInputLayouts = 6;
const char* NameOf(Layout layout);

// A tensor in an arena.
struct View {
  uint32_t dtype = 0;
  Shape shape, strides;
  Layout layout = Layout::kContiguous;
  int64_t offset = 0;  // of the element with index 0
  int64_t elements() const;
};

// Calls `visit` with every index of `shape`; the last axis varies fastest.
void ForEach(const Shape& shape,
             const std::function<void(const Shape&)>& visit);
// Bytes between the element with index 0 and that with `index`.
int64_t OffsetOf(const View& view, const Shape& index);
// "int32 3x4 transposed".
std::string TextOf(const View& view);

// The table of devrt.elementwise/0; without it the test is unsupported.
class ElementwiseKernels {
 public:
  explicit ElementwiseKernels(Test& t);
  bool Supports(uint32_t op, uint32_t dtype) const;
  Result Fill(const RawStream& s, const devrt_tensor_v0& out,
              const void* value) const;
  Result Apply(const RawStream& s, uint32_t op, const devrt_tensor_v0& out,
               const std::vector<devrt_tensor_v0>& inputs) const;

 private:
  Test& t_;
  const devrt_elementwise_v0* table_ = nullptr;
  void* self_ = nullptr;
};

// Device memory and a copy of it in host memory.
class Arena {
 public:
  static constexpr uint64_t kSize = 256u << 10;
  Arena(Test& t, uint32_t device);

  // Forgets all tensors and fills the arena with random bytes.
  void Clear();
  View Place(uint32_t dtype, const Shape& shape, Layout layout);
  // Views cannot be changed: call Place again for another dtype or shape.
  devrt_tensor_v0 Describe(const View& view) const;

  // The address of an element in the host's copy.
  uint8_t* At(const View& view, int64_t offset) {
    return host_.ptr() + view.offset + offset;
  }
  uint8_t* At(const View& view, const Shape& index) {
    return At(view, OffsetOf(view, index));
  }
  const uint8_t* begin() const { return host_.ptr(); }
  uint64_t used() const { return used_; }

  void Upload(const RawStream& stream) const;
  void Download(const RawStream& stream) const;

 private:
  std::mt19937_64& random_;
  DeviceBlock block_;
  HostBlock host_;
  uint64_t used_ = 0;
};

// A random shape: a scalar, long rows, many axes, extents of 1.
Shape RandomShape(std::mt19937_64& random);
// A random number from `least` to `most`.
int Uniform(std::mt19937_64& random, int least, int most);
// A random element: a small number, an extreme number, or any bits.
void RandomElement(std::mt19937_64& random, uint32_t dtype, uint8_t* element);
// A random element that is a small number.
void RandomSmall(std::mt19937_64& random, uint32_t dtype, uint8_t* element);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_TENSORS_H_
