// SPDX-License-Identifier: Apache-2.0
//
// Where with two numbers, whose dtype NumPy decides.

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/arrays/arrays_fixture.h"
#include "tests/arrays/core/numpy_tables.h"

namespace devrt::testing {
namespace {

class WhereOfNumbers : public ArraysTest {
 protected:
  static absl::StatusOr<Array> Choose(bool first, Scalar a, Scalar b) {
    return Where(Must(Array::Full({2}, kBool, first, dev())), a, b);
  }
  // Both are there, whichever is chosen.
  template <typename T>
  static void Expect(DType dtype, Scalar a, Scalar b) {
    SCOPED_TRACE(a.ToString() + ", " + b.ToString());
    for (const bool first : {true, false}) {
      const Array got = Must(Choose(first, a, b));
      EXPECT_EQ(got.dtype(), dtype);
      const Scalar item = Must(Must(got.Index(0, 1)).Item());
      EXPECT_EQ(item.Value<T>(), (first ? a : b).Value<T>());
    }
  }
};

TEST_F(WhereOfNumbers, KindsAreNumPys) {
  const std::vector<std::vector<Scalar>> kinds = {
      {true},
      {int8_t{1}, 1, int64_t{1}, uint8_t{1}, 1u, size_t{1}},
      {1.0f, 1.0},
      {std::complex<double>(1)}};
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::vector<std::string> row = Words(kWhereOfNumbers[i].results);
    for (size_t k = 0; k < kinds.size(); ++k) {
      for (const Scalar& a : kinds[i]) {
        for (const Scalar& b : kinds[k]) {
          EXPECT_EQ(Must(Choose(true, a, b)).dtype().name(), row[k])
              << kWhereOfNumbers[i].dtype << " " << a.ToString() << ", "
              << b.ToString();
        }
      }
    }
  }
}

TEST_F(WhereOfNumbers, IntegersKeepTheirValues) {
  constexpr int64_t kBig = (int64_t{1} << 53) + 1;
  Expect<int64_t>(kInt64, kBig, 0u);
  Expect<int64_t>(kInt64, uint64_t{kBig}, -1);
  Expect<int64_t>(kInt64, INT64_MIN, uint64_t{INT64_MAX});
  Expect<uint64_t>(kUInt64, UINT64_MAX, 1);
  Expect<uint64_t>(kUInt64, 0, UINT64_MAX);
  Expect<uint64_t>(kUInt64, UINT64_MAX, true);
  Expect<uint64_t>(kUInt64, UINT64_MAX, uint64_t{1} << 63);
  Expect<double>(kFloat64, UINT64_MAX, 0.5);
  EXPECT_STATUS(Choose(true, UINT64_MAX, -1), kInvalidArgument,
                "no integer dtype holds both 18446744073709551615 and -1");
  EXPECT_STATUS(Choose(true, -1, UINT64_MAX), kInvalidArgument, "no integer");
}

}  // namespace
}  // namespace devrt::testing
