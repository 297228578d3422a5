// SPDX-License-Identifier: Apache-2.0
//
// New arrays with values: constants, ranges as NumPy makes them, host memory.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "devrt/arrays/array.h"
#include "tests/arrays/arrays_fixture.h"

namespace devrt {
namespace {

using testing::Must;
using FilledArray = testing::ArraysTest;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<Place> AllPlaces() {
  return {Place::Host(), Place(testing::MtiaTest::dev(1)),
          Place::Pinned(testing::MtiaTest::dev(0))};
}

// The elements' bytes, fetched.
std::string BytesOf(const Array& array) {
  const Array host = Must(Must(array.Contiguous()).To(Place::Host()));
  return std::string(host.data_as<char>(), host.nbytes());
}

std::string HexOf(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[c & 15];
  }
  return hex;
}

// ---- Constants -------------------------------------------------------------

TEST_F(FilledArray, EveryElementIsTheValue) {
  for (const Place& place : AllPlaces()) {
    for (const DType t : DType::All()) {
      const Scalar::Element one = Must(Scalar(1).As(t));
      const Array x = Must(Array::Full({3, 2}, t, 1, place));
      const std::string bytes = BytesOf(x);
      ASSERT_EQ(bytes.size(), 6 * t.size());
      for (size_t i = 0; i < 6; ++i) {
        ASSERT_EQ(std::memcmp(&bytes[i * t.size()], one.bytes, t.size()), 0)
            << t << " in " << place;
      }
      EXPECT_EQ(BytesOf(Must(Array::Zeros({2, 2}, t, place))),
                std::string(4 * t.size(), '\0'));
      EXPECT_EQ(Must(Array::Zeros({0, 2}, t, place)).size(), 0);
      EXPECT_EQ(BytesOf(Must(Array::Full({}, t, 1, place))).size(), t.size());
    }
  }
}

TEST_F(FilledArray, WithoutAPlaceIsOnTheCurrentDevice) {
  DeviceGuard guard(dev(2));
  EXPECT_EQ(Must(Array::Zeros({1}, kInt8)).place(), Place(dev(2)));
  EXPECT_EQ(Must(Array::Full({1}, kInt8, 7)).place(), Place(dev(2)));
  EXPECT_EQ(Must(Must(Array::Full({1}, kInt8, 7)).Item()).Value<int64_t>(), 7);
}

TEST_F(FilledArray, FullRefusesValuesOutsideTheDType) {
  EXPECT_STATUS(Array::Full({2}, kInt8, 128, dev(0)), kInvalidArgument,
                "int8 cannot hold the integer 128");
  EXPECT_STATUS(Array::Full({0}, kUInt16, -1, dev(0)), kInvalidArgument,
                "uint16 cannot hold the integer -1");
  EXPECT_STATUS(Array::Full({2}, kInt8, 1e9, dev(0)), kInvalidArgument,
                "int8 cannot hold the number 1000000000.0");
}

TEST_F(FilledArray, FillWithAValueOutsideTheDTypeKeepsTheElements) {
  for (const Place& place : AllPlaces()) {
    const Array x = Must(Array::Full({2}, kInt8, 7, place));
    EXPECT_STATUS(x.Fill(300), kInvalidArgument, "the integer 300");
    EXPECT_STATUS(x.Fill(-129.0), kInvalidArgument, "the number -129.0");
    EXPECT_STATUS(x.Fill(NAN), kInvalidArgument, "the number nan");
    EXPECT_STATUS(x.Fill(std::complex<double>(1, 0)), kInvalidArgument,
                  "the complex number (1.0+0.0j)");
    EXPECT_EQ(BytesOf(x), "\x07\x07");
  }
}

// ---- Ranges ----------------------------------------------------------------

struct Range {
  Scalar begin, end, step;
  const char* dtype;
  const char* bytes;
};

#include "tests/arrays/core/numpy_arange.inc"

TEST_F(FilledArray, RangesAreNumPys) {
  int compared = 0;
  for (const Range& r : kRanges) {
    const DType t = Must(DType::FromName(r.dtype));
    for (const Place& place : {Place::Host(), Place(dev(1))}) {
      const Array x = Must(Array::Arange(r.begin, r.end, r.step, t, place));
      ASSERT_EQ(HexOf(BytesOf(x)), r.bytes)
          << r.begin.ToString() << ", " << r.end.ToString() << ", "
          << r.step.ToString() << " " << t;
      EXPECT_EQ(x.place(), place);
      EXPECT_EQ(x.ndim(), 1);
    }
    ++compared;
  }
  EXPECT_GT(compared, 300);
}

TEST_F(FilledArray, RangesOfLargeIntegersAreExact) {
  const auto count = [](Scalar begin, Scalar end, Scalar step, DType t) {
    return Must(Array::Arange(begin, end, step, t, Place::Host())).size();
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(count(kMost - 3, kMost, 1, kInt64), 3);
  EXPECT_EQ(count(kMost, kMost - 3, -1, kInt64), 3);
  EXPECT_EQ(count(kLeast, kMost, kMost, kInt64), 3);
  EXPECT_EQ(count(UINT64_MAX - 4, UINT64_MAX, 2, kUInt64), 2);
  EXPECT_EQ(count(kLeast, UINT64_MAX, UINT64_MAX, kFloat64), 2);
  const Array x = Must(
      Array::Arange(UINT64_MAX - 4, UINT64_MAX, 2, kUInt64, Place::Host()));
  EXPECT_EQ(x.data_as<uint64_t>()[1], UINT64_MAX - 2);
}

TEST_F(FilledArray, ImpossibleRangesAreRefused) {
  const auto range = [](Scalar begin, Scalar end, Scalar step,
                        DType t = kFloat64) {
    return Array::Arange(begin, end, step, t, Place::Host());
  };
  EXPECT_STATUS(range(0, 5, 0), kInvalidArgument,
                "the range from 0 to 5 in steps of 0 never ends");
  EXPECT_STATUS(range(0, 5, -0.0), kInvalidArgument, "never ends");
  EXPECT_STATUS(range(0, kInf, 1), kInvalidArgument, "must be finite");
  EXPECT_STATUS(range(NAN, 1, 1), kInvalidArgument, "must be finite");
  EXPECT_STATUS(range(0, 1, -kInf), kInvalidArgument, "must be finite");
  EXPECT_STATUS(range(std::complex<double>(0, 1), 1, 1), kInvalidArgument,
                "is complex");
  EXPECT_STATUS(range(0, 1e300, 1e-300), kInvalidArgument,
                "more than 2^63 - 1 elements");
  EXPECT_STATUS(range(-1e308, 1.7e308, 1e308 / 1e30), kInvalidArgument,
                "is longer than any float64");
  EXPECT_STATUS(range(-1e308, 1e308, 1e308), kInvalidArgument,
                "is longer than any float64: scale it");
  EXPECT_STATUS(range(INT64_MIN, UINT64_MAX, 1), kInvalidArgument,
                "more than 2^63");
  EXPECT_STATUS(range(0, INT64_MAX, 1), kInvalidArgument, "2^63 - 1 bytes");
  EXPECT_STATUS(range(0, INT64_MAX / 16, 1), kResourceExhausted, "");
  EXPECT_STATUS(range(0, 3, 1, kBool), kInvalidArgument,
                "has 3 elements: of bools it has 2 at most");
  EXPECT_STATUS(range(-1, 3, 1, kUInt8), kInvalidArgument,
                "uint8 cannot hold the integer -1");
  EXPECT_STATUS(range(0, 600, 300, kUInt8), kInvalidArgument,
                "uint8 cannot hold the integer 300");
}

// ---- Host memory -----------------------------------------------------------

TEST_F(FilledArray, HostMemoryIsCopiedBeforeTheReturn) {
  for (const Place& place : AllPlaces()) {
    std::vector<float> values = {1, 2, 3, 4, 5, 6};
    const Array x =
        Must(Array::FromHost(values.data(), {2, 3}, kFloat32, place));
    std::fill(values.begin(), values.end(), -1.0f);
    const Array host = Must(x.To(Place::Host()));
    for (int i = 0; i < 6; ++i) {
      ASSERT_EQ(host.data_as<float>()[i], static_cast<float>(i + 1)) << place;
    }
    EXPECT_FALSE(x.read_only());
    EXPECT_EQ(x.place(), place);
  }
}

TEST_F(FilledArray, VectorsBecomeArraysOfOneAxis) {
  const std::vector<int16_t> values = {3, -1, 4};
  const Array x = Must(Array::FromVector(values, dev(0)));
  EXPECT_EQ(x.shape(), DimSpan({3}));
  EXPECT_EQ(x.dtype(), kInt16);
  EXPECT_EQ(Must(Must(x.Index(0, 1)).Item()).Value<int64_t>(), -1);
  const std::vector<std::complex<float>> none;
  EXPECT_EQ(Must(Array::FromVector(none, dev(0))).size(), 0);
}

TEST_F(FilledArray, NothingCannotBeCopied) {
  EXPECT_STATUS(Array::FromHost(nullptr, {2}, kInt8, dev(0)), kInvalidArgument,
                "a null pointer has no elements for shape (2,)");
  EXPECT_STATUS(Array::FromHost(nullptr, {-2}, kInt8, dev(0)), kInvalidArgument,
                "extent -2");
  EXPECT_OK(Array::FromHost(nullptr, {2, 0}, kInt8, dev(0)));
}

}  // namespace
}  // namespace devrt
