// SPDX-License-Identifier: Apache-2.0
//
// Chains of random views of random arrays against ViewModel: where each element
// lies, what fails, and what geometry.h says of pairs.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "arrays/core/geometry.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/array.h"
#include "tests/arrays/core/view_model.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_seed.h"

namespace devrt {
namespace {

using testing::AllIndices;
using testing::Index;
using testing::ViewModel;

constexpr int kCases = 22'000;
constexpr int64_t kMostElements = 64;

char* Base() { return reinterpret_cast<char*>(uintptr_t{1} << 44); }

class ViewsPropertyTest : public ::testing::Test {
 protected:
  int64_t Between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool OneIn(int n) { return Between(1, n) == 1; }

  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[Between(0, static_cast<int64_t>(values.size()) - 1)];
  }

  std::vector<int64_t> RandomShape() {
    const int64_t ndim = OneIn(12)  ? Between(6, 32)
                         : OneIn(8) ? 0
                                    : Between(1, 5);
    std::vector<int64_t> shape;
    int64_t size = 1;
    for (int64_t k = 0; k < ndim; ++k) {
      int64_t extent = OneIn(3) ? 1 : Between(1, 7);
      if (OneIn(40)) extent = 0;
      if (size * std::max<int64_t>(extent, 1) > kMostElements) extent = 1;
      size *= std::max<int64_t>(extent, 1);
      shape.push_back(extent);
    }
    return shape;
  }

  Dims RandomStrides(const std::vector<int64_t>& shape, int64_t item) {
    Dims strides =
        internal::ContiguousStrides(shape, static_cast<uint64_t>(item));
    if (OneIn(3)) return strides;
    for (int64_t& stride : strides) {
      if (OneIn(6)) stride = 0;
      if (OneIn(4)) stride = -stride;
      if (OneIn(6)) stride *= Between(2, 5);
      if (OneIn(10)) stride = Between(-40, 40);
    }
    if (OneIn(3)) std::shuffle(strides.begin(), strides.end(), random_);
    return strides;
  }

  struct Pair {
    Array array;
    ViewModel model;
  };

  // All addresses: views read no element.
  static const std::shared_ptr<internal::Storage>& Memory() {
    static const auto* const memory = [] {
      internal::Storage::Borrowed all;
      all.bytes = UINT64_MAX;
      return new std::shared_ptr<internal::Storage>(
          internal::Storage::Borrow(Place::Host(), std::move(all)));
    }();
    return *memory;
  }

  Pair RandomPair() {
    const DType dtype = DType::All()[static_cast<size_t>(Between(0, 16))];
    const std::vector<int64_t> shape = RandomShape();
    const Dims strides =
        RandomStrides(shape, static_cast<int64_t>(dtype.size()));
    ViewModel model{shape, {}};
    for (const Index& index : AllIndices(shape)) {
      int64_t byte = 0;
      for (size_t k = 0; k < index.size(); ++k) byte += index[k] * strides[k];
      model.bytes.push_back(byte);
    }
    return {Array(Memory(), Base(), Dims(shape.begin(), shape.end()), strides,
                  dtype, OneIn(4)),
            model};
  }

  int RandomAxis(const Array& array) {
    return static_cast<int>(
        OneIn(12) ? Between(-34, 34)
                  : Between(-array.ndim(), std::max(0, array.ndim() - 1)));
  }

  Slice RandomSlice(int64_t extent) {
    const auto bound = [&]() -> std::optional<int64_t> {
      if (OneIn(4)) return std::nullopt;
      if (OneIn(12)) return OneOf({INT64_MIN, INT64_MIN + 1, INT64_MAX});
      return Between(-extent - 2, extent + 2);
    };
    Slice slice{bound(), bound(), OneIn(2) ? 1 : Between(-4, 4)};
    if (OneIn(15)) slice.step = OneOf({INT64_MIN, INT64_MAX, INT64_MIN + 1});
    return slice;
  }

  std::vector<int> RandomAxes(const Array& array) {
    std::vector<int> axes;
    for (int k = 0; k < array.ndim(); ++k) {
      axes.push_back(OneIn(2) ? k : k - array.ndim());
    }
    std::shuffle(axes.begin(), axes.end(), random_);
    if (OneIn(10) && !axes.empty()) axes[0] = RandomAxis(array);
    if (OneIn(20)) axes.push_back(0);
    return axes;
  }

  // Extents that multiply to `size`, or nearly.
  std::vector<int64_t> RandomReshape(int64_t size) {
    std::vector<int64_t> shape;
    int64_t left = size;
    for (int64_t factor = 2; factor <= left; ++factor) {
      while (left % factor == 0) {
        shape.push_back(factor);
        left /= factor;
      }
    }
    if (size == 0) shape.push_back(0);
    while (OneIn(3) && shape.size() < 33) shape.push_back(1);
    std::shuffle(shape.begin(), shape.end(), random_);
    while (shape.size() > 1 && OneIn(2)) {
      const int64_t last = shape.back();
      shape.pop_back();
      shape.back() *= last;
    }
    if (!shape.empty() && OneIn(3)) {
      shape[static_cast<size_t>(
          Between(0, static_cast<int64_t>(shape.size()) - 1))] = -1;
    }
    if (OneIn(15)) shape.push_back(OneOf<int64_t>({-1, -2, 0, 2}));
    return shape;
  }

  std::vector<int64_t> RandomBroadcast(const ViewModel& model) {
    std::vector<int64_t> shape = model.shape;
    int64_t size = static_cast<int64_t>(model.bytes.size());
    for (int64_t& extent : shape) {
      if (extent == 1 && size < kMostElements && OneIn(2)) {
        extent = Between(0, 3);
        size *= std::max<int64_t>(1, extent);
      } else if (OneIn(30)) {
        extent = Between(-1, 3);
      }
    }
    while (OneIn(3) && size < kMostElements) {
      shape.insert(shape.begin(), Between(0, 3));
      size *= std::max<int64_t>(1, shape.front());
    }
    if (OneIn(20) && !shape.empty()) shape.erase(shape.begin());
    return shape;
  }

  // Applies a random view to both; false if it had to fail.
  bool Step(Pair* pair) {
    const Array& a = pair->array;
    const ViewModel& m = pair->model;
    const int axis = RandomAxis(a);
    const int64_t k = axis < 0 ? axis + a.ndim() : axis;
    const int64_t extent = k >= 0 && k < a.ndim() ? a.shape()[k] : 1;
    switch (Between(0, 9)) {
      case 0:
      case 1: {
        const Slice slice = RandomSlice(extent);
        return Same("slice", a.SliceAxis(axis, slice),
                    testing::SliceAxis(m, axis, slice), pair);
      }
      case 2: {
        const int64_t index = Between(-extent - 1, extent);
        return Same("index", a.Index(axis, index),
                    testing::TakeIndex(m, axis, index), pair);
      }
      case 3:
        return Same("transpose", a.Transpose(), testing::Transpose(m), pair);
      case 4: {
        const std::vector<int> axes = RandomAxes(a);
        return Same("permute", a.Permute(axes), testing::Permute(m, axes),
                    pair);
      }
      case 5:
      case 6: {
        const auto shape = RandomReshape(a.size());
        return Same("reshape", a.Reshape(shape), testing::Reshape(m, shape),
                    pair);
      }
      case 7:
        return Same("expand", a.ExpandDims(axis), testing::ExpandDims(m, axis),
                    pair);
      case 8:
        if (OneIn(2)) {
          return Same("squeeze", a.Squeeze(), testing::Squeeze(m), pair);
        }
        return Same("squeeze", a.Squeeze(axis), testing::Squeeze(m, axis),
                    pair);
      default: {
        const auto shape = RandomBroadcast(m);
        return Same("broadcast", a.BroadcastTo(shape),
                    testing::BroadcastTo(m, shape), pair);
      }
    }
  }

  bool Same(const char* name, const absl::StatusOr<Array>& got,
            const std::optional<ViewModel>& expected, Pair* pair) {
    ++done_[absl::StrCat(name, expected ? "" : " refused")];
    EXPECT_EQ(got.ok(), expected.has_value())
        << name << " of " << ShapeText(pair->array.shape()) << " "
        << ShapeText(pair->array.strides()) << ": " << got.status();
    if (!got.ok()) {
      EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument);
      return false;
    }
    if (!expected) return false;
    EXPECT_EQ(got->read_only(), pair->array.read_only());
    EXPECT_EQ(got->dtype(), pair->array.dtype());
    pair->array = *got;
    pair->model = *expected;
    return true;
  }

  void CheckPlaces(const Pair& pair) {
    const Array& a = pair.array;
    const ViewModel& m = pair.model;
    ASSERT_EQ(a.shape(), DimSpan(m.shape));
    ASSERT_EQ(a.size(), static_cast<int64_t>(m.bytes.size()));
    ASSERT_EQ(a.nbytes(), m.bytes.size() * a.item_size());
    ASSERT_EQ(a.strides().size(), a.shape().size());
    if (a.size() == 0) {
      ASSERT_EQ(a.data(), nullptr);
      return;
    }
    size_t i = 0;
    for (const Index& index : AllIndices(m.shape)) {
      int64_t byte = a.data_as<char>() - Base();
      for (size_t k = 0; k < index.size(); ++k) {
        byte += index[k] * a.strides()[k];
      }
      ASSERT_EQ(byte, m.bytes[i]) << "element " << i;
      ++i;
    }
  }

  // Where each element begins, in ascending order.
  static std::vector<int64_t> FirstBytesOf(const Pair& pair) {
    std::vector<int64_t> first = pair.model.bytes;
    std::sort(first.begin(), first.end());
    return first;
  }

  static bool IsDense(const ViewModel& model, int64_t item) {
    for (size_t i = 0; i < model.bytes.size(); ++i) {
      const int64_t expected = model.bytes[0] + static_cast<int64_t>(i) * item;
      if (model.bytes[i] != expected) return false;
    }
    return true;
  }

  void CheckGeometry(const Pair& pair) {
    const Array& a = pair.array;
    const int64_t item = static_cast<int64_t>(a.item_size());
    EXPECT_EQ(a.IsContiguous(), IsDense(pair.model, item));
    EXPECT_EQ(a.IsFortranContiguous(),
              IsDense(testing::Transpose(pair.model), item));
    const std::vector<int64_t> first = FirstBytesOf(pair);
    const auto share_bytes = [item](int64_t low, int64_t high) {
      return high - low < item;
    };
    EXPECT_EQ(internal::HasOverlap(a),
              std::adjacent_find(first.begin(), first.end(), share_bytes) !=
                  first.end());
    const internal::ByteSpan span = internal::SpanOf(a);
    if (a.size() == 0) {
      EXPECT_EQ(span.hi - span.lo, 0);
      return;
    }
    const int64_t data = pair.model.bytes.front();
    EXPECT_EQ(span.lo, first.front() - data);
    EXPECT_EQ(span.hi, first.back() + item - data);
  }

  void CheckTogether(const Pair& a, const Pair& b) {
    EXPECT_EQ(internal::IsSameView(a.array, b.array),
              a.model.shape == b.model.shape &&
                  a.model.bytes == b.model.bytes &&
                  a.array.item_size() == b.array.item_size());
    // Views keep their array's dtype: the elements of both have one size.
    const int64_t item = static_cast<int64_t>(a.array.item_size());
    const std::vector<int64_t> in_a = FirstBytesOf(a);
    bool overlap = false;
    for (const int64_t first : b.model.bytes) {
      const auto near =
          std::upper_bound(in_a.begin(), in_a.end(), first - item);
      overlap |= near != in_a.end() && *near < first + item;
    }
    const bool answer = internal::MayOverlap(a.array, b.array);
    EXPECT_EQ(answer, internal::MayOverlap(b.array, a.array));
    if (overlap) {
      EXPECT_TRUE(answer);
      ++overlapping_;
    } else if (a.array.IsContiguous() && b.array.IsContiguous()) {
      EXPECT_FALSE(answer);
    }
    apart_ += !answer;
  }

  std::mt19937_64 random_{testing::TestSeed()};
  std::map<std::string, int> done_;
  int overlapping_ = 0;
  int apart_ = 0;
};

TEST_F(ViewsPropertyTest, EveryViewIsItsMapping) {
  SCOPED_TRACE(testing::SeedTrace());
  for (int i = 0; i < kCases && !HasFailure(); ++i) {
    Pair pair = RandomPair();
    const Pair original = pair;
    Pair other = pair;
    const int64_t steps = Between(1, 4);
    for (int64_t s = 0; s < steps && Step(&pair); ++s) {
    }
    CheckPlaces(pair);
    CheckGeometry(pair);
    CheckTogether(original, pair);
    Step(&other);
    CheckTogether(pair, other);
  }
  if (HasFailure()) return;
  // Each view, and each refusal, was really reached.
  for (const char* name : {"slice", "index", "permute", "reshape", "expand",
                           "squeeze", "broadcast"}) {
    EXPECT_GT(done_[name], 1000) << name;
    EXPECT_GT(done_[absl::StrCat(name, " refused")], 100) << name;
  }
  EXPECT_GT(done_["transpose"], 1000);
  EXPECT_GT(overlapping_, 1000);
  EXPECT_GT(apart_, 1000);
}

}  // namespace
}  // namespace devrt
