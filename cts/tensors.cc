// SPDX-License-Identifier: Apache-2.0
#include "cts/tensors.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace devrt::cts {
namespace {

constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();
constexpr long double kInfinity = std::numeric_limits<long double>::infinity();
// Bytes between tensors, which no kernel may touch.
constexpr uint64_t kBetween = 24;

Shape StridesOf(const Shape& shape, int64_t item, Layout layout) {
  Shape strides(shape.size());
  int64_t bytes = item;
  if (layout == Layout::kGaps) bytes = 3 * item;
  if (layout == Layout::kUnaligned) bytes = item + 1;
  const size_t n = shape.size();
  for (size_t i = 0; i < n; ++i) {
    const size_t axis = layout == Layout::kTransposed ? i : n - 1 - i;
    strides[axis] = bytes;
    bytes *= std::max<int64_t>(shape[axis], 1);
    if (layout == Layout::kGaps) bytes += item;
    if (layout == Layout::kUnaligned) bytes += 3;
    if (i % 2 != 0) continue;
    if (layout == Layout::kNegative) strides[axis] = -strides[axis];
    if (layout == Layout::kBroadcast) strides[axis] = 0;
  }
  return strides;
}

// Values at the borders of dtypes, and of their precision.
constexpr long double kReals[] = {0.0L,
                                  -0.0L,
                                  1.0L,
                                  -1.0L,
                                  0.5L,
                                  1.0L / 3,
                                  65504.0L,
                                  65520.0L,
                                  448.0L,
                                  464.0L,
                                  465.0L,
                                  57344.0L,
                                  1e38L,
                                  -1e300L,
                                  1e-40L,
                                  6e-8L,
                                  255.5L,
                                  256.0L,
                                  -2147483648.0L,
                                  4294967296.0L,
                                  -9223372036854775808.0L,
                                  18446744073709551616.0L,
                                  kInfinity,
                                  -kInfinity,
                                  kNan};
constexpr uint64_t kIntegers[] = {0,
                                  1,
                                  ~uint64_t{0},
                                  127,
                                  128,
                                  255,
                                  0x7fff,
                                  0x8000,
                                  0x7fffffff,
                                  1u << 31,
                                  1ull << 63,
                                  ~uint64_t{0} >> 1,
                                  16777217,
                                  0x20000000000001};

Number Extreme(std::mt19937_64& random, uint32_t dtype) {
  const auto real = [&] {
    return kReals[Uniform(random, 0, static_cast<int>(std::size(kReals)) - 1)];
  };
  if (IsInteger(dtype) || dtype == DEVRT_BOOL) {
    const int last = static_cast<int>(std::size(kIntegers)) - 1;
    return Number::Integer(
        static_cast<Wide>(kIntegers[Uniform(random, 0, last)]));
  }
  if (IsComplex(dtype)) return Number::Complex(real(), real());
  return Number::Real(real());
}

}  // namespace

const char* NameOf(Layout layout) {
  constexpr const char* kNames[] = {"contiguous", "transposed", "negative",
                                    "with gaps",  "unaligned",  "broadcast"};
  return kNames[static_cast<size_t>(layout)];
}

int64_t View::elements() const {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

void ForEach(const Shape& shape,
             const std::function<void(const Shape&)>& visit) {
  if (std::count(shape.begin(), shape.end(), 0) != 0) return;
  Shape index(shape.size());
  while (true) {
    visit(index);
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) {
      index[--axis] = 0;
    }
    if (axis == 0) return;
  }
}

int64_t OffsetOf(const View& view, const Shape& index) {
  int64_t offset = 0;
  for (size_t k = 0; k < index.size(); ++k) {
    offset += index[k] * view.strides[k];
  }
  return offset;
}

std::string TextOf(const View& view) {
  return absl::StrCat(DtypeName(view.dtype), " ",
                      absl::StrJoin(view.shape, "x"), " ", NameOf(view.layout));
}

ElementwiseKernels::ElementwiseKernels(Test& t) : t_(t) {
  const Extension found = t.NeedExtension(DEVRT_ELEMENTWISE_EXTENSION,
                                          sizeof(devrt_elementwise_v0));
  table_ = static_cast<const devrt_elementwise_v0*>(found.table);
  self_ = found.self;
}

bool ElementwiseKernels::Supports(uint32_t op, uint32_t dtype) const {
  uint32_t yes = 2;
  t_.Require(t_.machine().CallExtension(&devrt_elementwise_v0::supports, table_,
                                        self_, op, dtype, &yes),
             "supports");
  t_.Expect(yes < 2, "supports answers 0 or 1");
  return yes != 0;
}

Result ElementwiseKernels::Fill(const RawStream& s, const devrt_tensor_v0& out,
                                const void* value) const {
  return t_.machine().CallExtension(&devrt_elementwise_v0::fill, table_, self_,
                                    s.handle(), &out, value);
}

Result ElementwiseKernels::Apply(
    const RawStream& s, uint32_t op, const devrt_tensor_v0& out,
    const std::vector<devrt_tensor_v0>& inputs) const {
  return t_.machine().CallExtension(&devrt_elementwise_v0::apply, table_, self_,
                                    s.handle(), op, &out, inputs.data(),
                                    static_cast<uint32_t>(inputs.size()));
}

Arena::Arena(Test& t, uint32_t device)
    : random_(t.random()), block_(t, device, kSize), host_(t, device, kSize) {}

void Arena::Clear() {
  for (uint64_t i = 0; i < used_; ++i) {
    host_.ptr()[i] = static_cast<uint8_t>(random_());
  }
  used_ = 0;
}

View Arena::Place(uint32_t dtype, const Shape& shape, Layout layout) {
  const auto item = static_cast<int64_t>(SizeOf(dtype));
  View view = {dtype, shape, StridesOf(shape, item, layout), layout, 0};
  int64_t low = 0, high = item;  // bytes around the element of index 0
  for (size_t k = 0; k < shape.size(); ++k) {
    const int64_t reach = std::max<int64_t>(shape[k] - 1, 0) * view.strides[k];
    (reach < 0 ? low : high) += reach;
  }
  const uint64_t lead = kBetween + (layout == Layout::kUnaligned ? 1 : 0);
  const uint64_t begin = (used_ + 15) / 16 * 16 + lead;
  view.offset = static_cast<int64_t>(begin) - low;
  used_ = begin + static_cast<uint64_t>(high - low) + kBetween;
  if (used_ > kSize) std::abort();  // a mistake of the test
  return view;
}

devrt_tensor_v0 Arena::Describe(const View& view) const {
  return {block_.ptr() + view.offset, view.shape.data(),
          view.layout == Layout::kContiguous ? nullptr : view.strides.data(),
          static_cast<uint32_t>(view.shape.size()), view.dtype};
}

void Arena::Upload(const RawStream& stream) const {
  stream.Copy(block_.ptr(), host_.ptr(), used_, DEVRT_COPY_H2D);
}

void Arena::Download(const RawStream& stream) const {
  stream.Copy(host_.ptr(), block_.ptr(), used_, DEVRT_COPY_D2H);
  stream.Sync();
}

Shape RandomShape(std::mt19937_64& random) {
  switch (Uniform(random, 0, 6)) {
    case 0:
      return {};
    case 1:
      return {Uniform(random, 1, 200)};
    case 2:
      return {Uniform(random, 1, 12), Uniform(random, 1, 12)};
    case 3: {
      Shape many(DEVRT_MAX_DIMS, 1);
      for (int i = 0; i < 5; ++i) {
        many[static_cast<size_t>(Uniform(random, 0, 31))] = 2;
      }
      return many;
    }
    case 4:
      return {1, Uniform(random, 1, 60), 1};
    default:
      return {Uniform(random, 1, 4), Uniform(random, 2, 5),
              Uniform(random, 1, 6)};
  }
}

int Uniform(std::mt19937_64& random, int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(random);
}

void RandomSmall(std::mt19937_64& random, uint32_t dtype, uint8_t* element) {
  const auto real = [&] {
    return std::uniform_real_distribution<double>(-50, 50)(random);
  };
  if (dtype == DEVRT_BOOL) {
    Store(dtype, Number::Integer(Uniform(random, 0, 1)), element);
  } else if (IsInteger(dtype)) {
    Store(dtype, Number::Integer(Uniform(random, -9, 9)), element);
  } else if (IsComplex(dtype)) {
    Store(dtype, Number::Complex(real(), real()), element);
  } else {
    Store(dtype, Number::Real(real()), element);
  }
}

void RandomElement(std::mt19937_64& random, uint32_t dtype, uint8_t* element) {
  switch (Uniform(random, 0, 2)) {
    case 0:
      return RandomSmall(random, dtype, element);
    case 1:
      return Store(dtype, Extreme(random, dtype), element);
    default:
      for (size_t i = 0; i < SizeOf(dtype); ++i) {
        element[i] = static_cast<uint8_t>(random());
      }
  }
}

}  // namespace devrt::cts
