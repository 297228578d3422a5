// SPDX-License-Identifier: Apache-2.0
//
// The kernels for the frequent cases against the general one, and which of them
// is chosen for what.
#include "backends/gpu/fast_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backends/tensor/dtype.h"
#include "tests/gpu/run_apply.h"
#include "tests/gpu/tensors.h"
#include "tests/support/test_seed.h"

namespace devrt::gpu {
namespace {

using Path = FastApply::Path;
using Shape = std::vector<int64_t>;

constexpr uint32_t kUnary[] = {DEVRT_OP_COPY, DEVRT_OP_NEG, DEVRT_OP_ABS,
                               DEVRT_OP_LOGICAL_NOT};
constexpr uint32_t kBinary[] = {
    DEVRT_OP_ADD,         DEVRT_OP_SUB,        DEVRT_OP_MUL,
    DEVRT_OP_DIV,         DEVRT_OP_EQ,         DEVRT_OP_NE,
    DEVRT_OP_LT,          DEVRT_OP_LE,         DEVRT_OP_GT,
    DEVRT_OP_GE,          DEVRT_OP_LOGICAL_OR, DEVRT_OP_MAXIMUM,
    DEVRT_OP_LOGICAL_AND, DEVRT_OP_MINIMUM};

TEST(DivisorTest, DividesEveryNumberBelowItsEnd) {
  std::mt19937 random(20261122);
  std::vector<uint64_t> numbers = {1,   2,          3,          5,     7, 641,
                                   255, 0x7fffffff, 0x40000001, 65536, 10};
  for (int i = 0; i < 300; ++i) {
    const uint64_t any = 1 + random() % (kDivisibleEnd - 1);
    numbers.push_back(std::max<uint64_t>(1, any >> random() % 31));
  }
  for (const uint64_t d : numbers) {
    const Divisor divisor = Divisor::Of(d);
    for (uint64_t i = 0; i < 200; ++i) {
      // Around multiples, and any.
      const uint64_t multiple = random() % (kDivisibleEnd / d) * d;
      const uint64_t values[] = {multiple, multiple + d - 1, multiple - 1,
                                 random() % kDivisibleEnd, kDivisibleEnd - 1};
      for (const uint64_t n : values) {
        if (n >= kDivisibleEnd) continue;
        auto rest = static_cast<uint32_t>(n);
        ASSERT_EQ(divisor.Divide(&rest), n / d) << n << " / " << d;
        ASSERT_EQ(rest, n % d) << n << " / " << d;
      }
    }
  }
}

// A tensor somewhere in memory of its own.
struct Placed {
  std::vector<uint64_t> words;  // aligned to 16 from `first` on
  int64_t offset = 0;           // of the first element, in bytes
  Shape strides;
  char* bytes() { return reinterpret_cast<char*>(words.data()); }
};

class FastApplyTest : public ::testing::Test {
 protected:
  int64_t Any(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool OneIn(int64_t n) { return Any(1, n) == 1; }

  Shape AnyShape() {
    static const std::vector<int64_t> kExtents = {1,  2,  3,  4,  8, 16, 17,
                                                  31, 32, 33, 64, 5, 65, 128};
    Shape shape(static_cast<size_t>(Any(1, OneIn(5) ? 6 : 3)));
    int64_t elements = 1;
    for (int64_t& extent : shape) {
      extent = kExtents[static_cast<size_t>(
          Any(0, static_cast<int64_t>(kExtents.size()) - 1))];
      if (elements * extent > 20'000) extent = 1;
      elements *= extent;
    }
    return shape;
  }

  // Any order of axes, gaps, negative strides, broadcast axes, alignment.
  Placed Place(uint32_t dtype, const Shape& shape, bool is_output) {
    const auto item = static_cast<int64_t>(tensor::DtypeSize(dtype));
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (OneIn(2)) std::reverse(order.begin(), order.end());
    if (OneIn(4)) std::shuffle(order.begin(), order.end(), random_);
    Placed placed;
    placed.strides.assign(shape.size(), 0);
    int64_t stride = item * (OneIn(5) ? 2 : 1), low = 0, high = item;
    if (OneIn(20)) stride += 1;
    for (const size_t axis : order) {
      if (!is_output && OneIn(6)) continue;
      const bool is_negative = OneIn(8);
      placed.strides[axis] = is_negative ? -stride : stride;
      const int64_t span = (shape[axis] - 1) * stride;
      (is_negative ? low : high) += is_negative ? -span : span;
      stride *= shape[axis];
      if (OneIn(4)) stride += item * Any(1, 8);
      if (OneIn(4)) stride = (stride + 15) / 16 * 16;
    }
    placed.offset = 32 - low;
    if (OneIn(4)) placed.offset += item * Any(1, 5);
    if (OneIn(20)) placed.offset += Any(1, 15);
    placed.words.resize(static_cast<size_t>(placed.offset + high) / 8 + 6);
    for (uint64_t& word : placed.words) {
      word = random_() | static_cast<uint64_t>(random_()) << 32;
    }
    Spread(dtype, &placed);
    return placed;
  }

  // Numbers of a size that others, casts and quotients have something to do
  // with; else any bits.
  void Spread(uint32_t dtype, Placed* placed) {
    if (OneIn(2)) return;
    if (dtype == DEVRT_FLOAT32) {
      for (uint64_t& word : placed->words) {
        const auto value = static_cast<float>(Any(-100'000, 100'000)) / 64;
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        word = bits | static_cast<uint64_t>(bits) << 32;
      }
    } else if (dtype == DEVRT_FLOAT64) {
      for (uint64_t& word : placed->words) {
        const double value = static_cast<double>(Any(-100'000, 100'000)) / 64;
        std::memcpy(&word, &value, sizeof word);
      }
    }
  }

  tensor::Tensor Describe(Placed& placed, uint32_t dtype, const Shape& shape) {
    return TensorOf(placed.bytes() + placed.offset, dtype, shape,
                    placed.strides);
  }

  // One call, by the general kernel and by the chosen one.
  void Compare(uint32_t op, uint32_t out_dtype,
               const std::vector<uint32_t>& dtypes) {
    const Shape shape = AnyShape();
    Placed out = Place(out_dtype, shape, true);
    std::vector<Placed> placed;
    std::vector<tensor::Tensor> inputs;
    for (const uint32_t dtype : dtypes) {
      placed.push_back(Place(dtype, shape, false));
    }
    for (size_t i = 0; i < dtypes.size(); ++i) {
      inputs.push_back(Describe(placed[i], dtypes[i], shape));
    }
    // As an input, too.
    if (!dtypes.empty() && dtypes.back() == out_dtype && OneIn(5)) {
      inputs.back() = Describe(out, out_dtype, shape);
    }
    const std::vector<uint64_t> before = out.words;
    const tensor::Tensor to = Describe(out, out_dtype, shape);
    RunGeneral(op, to, inputs);
    const std::vector<uint64_t> want = out.words;
    std::copy(before.begin(), before.end(), out.words.begin());
    const FastApply fast = RunChosen(op, to, inputs);
    const bool is_packed =
        (fast.path == Path::kRows || fast.path == Path::kCast) &&
        fast.rows.is_packed != 0;
    ++seen_[{fast.path, is_packed}];
    ASSERT_TRUE(want == out.words)
        << "op " << op << " to " << tensor::DtypeName(out_dtype) << " from "
        << tensor::DtypeName(dtypes.back()) << ", path "
        << static_cast<int>(fast.path) << ", packed " << is_packed;
  }

  std::mt19937 random_{testing::TestSeed()};
  std::map<std::pair<Path, bool>, int> seen_;
};

TEST_F(FastApplyTest, OperationsAreThoseOfTheGeneralKernel) {
  SCOPED_TRACE(testing::SeedTrace());
  for (int round = 0; round < 8; ++round) {
    for (const uint32_t dtype : kKernelDtypes) {
      std::vector<uint32_t> ops(std::begin(kUnary), std::end(kUnary));
      ops.insert(ops.end(), std::begin(kBinary), std::end(kBinary));
      for (const uint32_t op : ops) {
        if (!tensor::ElementwiseSupports(op, dtype)) continue;
        const bool to_bool = op == DEVRT_OP_LOGICAL_NOT ||
                             (op >= DEVRT_OP_EQ && op <= DEVRT_OP_LOGICAL_OR);
        uint32_t out = to_bool ? DEVRT_BOOL : dtype;
        if (op == DEVRT_OP_ABS && dtype == DEVRT_COMPLEX64) out = DEVRT_FLOAT32;
        if (op == DEVRT_OP_ABS && dtype == DEVRT_COMPLEX128) {
          out = DEVRT_FLOAT64;
        }
        const std::vector<uint32_t> one = {dtype}, two = {dtype, dtype};
        Compare(op, out, op >= DEVRT_OP_ADD ? two : one);
        if (HasFatalFailure()) return;
      }
      Compare(DEVRT_OP_WHERE, dtype, {DEVRT_BOOL, dtype, dtype});
      for (int i = 0; i < 6; ++i) Compare(DEVRT_OP_COPY, dtype, {dtype});
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT((seen_[{Path::kRows, true}]), 25);
  EXPECT_GT((seen_[{Path::kRows, false}]), 25);
  EXPECT_GT((seen_[{Path::kTiles, false}]), 10);
  EXPECT_GT((seen_[{Path::kNone, false}]), 10);
}

// Four bytes are added at once; nothing of one may reach the next.
TEST(BytesTest, SumsAndDifferencesOfEveryPair) {
  std::vector<uint8_t> a(1 << 16), b(a.size()), out(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint8_t>(i);
    b[i] = static_cast<uint8_t>(i >> 8);
  }
  const Shape shape = {1 << 16};
  for (const uint32_t dtype : {DEVRT_INT8, DEVRT_UINT8}) {
    for (const bool subtracts : {false, true}) {
      const FastApply fast = RunChosen(
          subtracts ? DEVRT_OP_SUB : DEVRT_OP_ADD,
          TensorOf(out.data(), dtype, shape),
          {TensorOf(a.data(), dtype, shape), TensorOf(b.data(), dtype, shape)});
      EXPECT_EQ(fast.path, Path::kBytes);
      for (size_t i = 0; i < a.size(); ++i) {
        const int want = subtracts ? a[i] - b[i] : a[i] + b[i];
        ASSERT_EQ(out[i], static_cast<uint8_t>(want))
            << int{a[i]} << " and " << int{b[i]} << ", " << subtracts;
      }
    }
  }
}

// Bytes of a window move by the words that its rows are made of.
// The halves of a word do not carry into each other.
TEST(BytesTest, SumsAndDifferencesOfHalves) {
  std::vector<uint16_t> a, b;
  for (const int x : {0, 1, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff, 0x00ff}) {
    for (int y = 0; y < 0x10000; y += 97) {
      a.push_back(static_cast<uint16_t>(x));
      b.push_back(static_cast<uint16_t>(y));
    }
  }
  a.resize(a.size() / 8 * 8);
  std::vector<uint16_t> out(a.size());
  const auto count = static_cast<int64_t>(a.size());
  for (const uint32_t dtype : {DEVRT_INT16, DEVRT_UINT16}) {
    for (const uint32_t op : {DEVRT_OP_ADD, DEVRT_OP_SUB}) {
      const FastApply fast = RunChosen(op, TensorOf(out.data(), dtype, {count}),
                                       {TensorOf(a.data(), dtype, {count}),
                                        TensorOf(b.data(), dtype, {count})});
      EXPECT_EQ(fast.path, Path::kBytes);
      for (size_t i = 0; i < a.size(); ++i) {
        const int want = op == DEVRT_OP_ADD ? a[i] + b[i] : a[i] - b[i];
        ASSERT_EQ(out[i], static_cast<uint16_t>(want)) << a[i] << " " << b[i];
      }
    }
  }
}

TEST(CopyTest, TakesTheWidestWordsThatFit) {
  struct Case {
    int64_t first, columns, gap;
    uint32_t kernel;
  };
  for (const Case& c :
       {Case{4, 24, 40, DEVRT_UINT32}, Case{8, 24, 40, DEVRT_UINT64},
        Case{2, 24, 40, DEVRT_UINT16}, Case{4, 22, 40, DEVRT_UINT16},
        Case{4, 24, 38, DEVRT_UINT16}, Case{4, 24, 39, DEVRT_UINT8},
        Case{1, 24, 40, DEVRT_UINT8}, Case{0, 32, 48, DEVRT_UINT8}}) {
    alignas(16) uint8_t in[512];
    alignas(16) uint8_t out[512] = {};
    std::iota(in, in + sizeof in, uint8_t{1});
    const Shape shape = {7, c.columns}, strides = {c.gap, 1};
    const FastApply fast =
        RunChosen(DEVRT_OP_COPY, TensorOf(out, DEVRT_UINT8, shape),
                  {TensorOf(in + c.first, DEVRT_UINT8, shape, strides)});
    EXPECT_EQ(fast.kernel, c.kernel) << c.first << ", " << c.columns;
    for (int64_t i = 0; i < 7 * c.columns; ++i) {
      const int64_t from = c.first + i / c.columns * c.gap + i % c.columns;
      ASSERT_EQ(out[i], in[from]) << i << " of window " << c.first;
    }
  }
}

TEST_F(FastApplyTest, CastsAreThoseOfTheGeneralKernel) {
  SCOPED_TRACE(testing::SeedTrace());
  for (int round = 0; round < 8; ++round) {
    for (const uint32_t from : kKernelDtypes) {
      for (const uint32_t to : kKernelDtypes) {
        Compare(DEVRT_OP_COPY, to, {from});
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT((seen_[{Path::kCast, true}]), 25);
  EXPECT_GT((seen_[{Path::kCast, false}]), 25);
}

}  // namespace
}  // namespace devrt::gpu
