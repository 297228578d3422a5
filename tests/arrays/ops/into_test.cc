// SPDX-License-Identifier: Apache-2.0
//
// Operations that write their result to a given array: one that overlaps
// operands, one that does not, and one that is refused.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {
namespace {

using Floats = std::vector<float>;

class OutputArray : public ArraysTest {
 protected:
  static Array Counting(int count) {
    Floats values;
    for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
    return Must(Array::FromVector(values, dev()));
  }
  static Floats Values(const Array& array) {
    const Array host =
        Must(Must(array.To(Place::Host(), kFloat32)).Contiguous());
    const float* data = host.data_as<float>();
    return Floats(data, data + host.size());
  }
  static Array Part(const Array& a, std::optional<int64_t> begin,
                    std::optional<int64_t> end, int64_t step = 1) {
    return Must(a.SliceAxis(0, Slice{begin, end, step}));
  }
};

TEST_F(OutputArray, MayBeAnOperand) {
  const Array a = Counting(4);
  EXPECT_OK(AddInto(a, a, a));
  EXPECT_EQ(Values(a), (Floats{0, 2, 4, 6}));
}

TEST_F(OutputArray, MayOverlapAnOperandShifted) {
  const Array a = Counting(6);
  EXPECT_OK(AddInto(Part(a, 1, std::nullopt), Part(a, 0, -1), 10));
  EXPECT_EQ(Values(a), (Floats{0, 10, 11, 12, 13, 14}));
  const Array b = Counting(6);
  EXPECT_OK(AddInto(Part(b, 0, -1), Part(b, 1, std::nullopt), 10));
  EXPECT_EQ(Values(b), (Floats{11, 12, 13, 14, 15, 5}));
}

TEST_F(OutputArray, MayBeAnOperandInReverse) {
  const Array a = Counting(5);
  EXPECT_OK(AddInto(a, Part(a, std::nullopt, std::nullopt, -1), 0));
  EXPECT_EQ(Values(a), (Floats{4, 3, 2, 1, 0}));
}

TEST_F(OutputArray, MayContainABroadcastOperand) {
  const Array a = Counting(3);
  const Array square = Must(Array::Zeros({3, 3}, kFloat32, dev()));
  const Array row = Must(square.Index(0, 1));
  ASSERT_OK(row.CopyFrom(a));
  EXPECT_OK(AddInto(square, Must(row.BroadcastTo({3, 3})), a));
  EXPECT_EQ(Values(square), (Floats{0, 2, 4, 0, 2, 4, 0, 2, 4}));
}

TEST_F(OutputArray, MayBeTheTransposeOfAnOperand) {
  const Array a = Must(Counting(9).Reshape({3, 3}));
  EXPECT_OK(AddInto(a, a.Transpose(), 0));
  EXPECT_EQ(Values(a), (Floats{0, 3, 6, 1, 4, 7, 2, 5, 8}));
}

// The output has the bytes of an operand under another dtype, so the kernel
// must not write it while it reads the operand.
TEST_F(OutputArray, MayShareBytesWithAnOperandOfAnotherDType) {
  const Array a = Must(Array::FromVector<int32_t>({1, -2, 3}, dev()));
  const Array as_float = Must(a.ViewAs(kFloat32));
  EXPECT_OK(AddInto(as_float, a, 0.0f));
  EXPECT_EQ(Values(as_float), (Floats{1, -2, 3}));
}

TEST_F(OutputArray, MayHaveAWiderDType) {
  const Array out = Must(Array::Zeros({3}, kFloat64, dev()));
  EXPECT_OK(AddInto(out, Counting(3), 1));
  EXPECT_EQ(Values(out), (Floats{1, 2, 3}));
  const Array narrow = Must(Array::Zeros({3}, kFloat16, dev()));
  EXPECT_OK(AddInto(narrow, Counting(3), 1));
  EXPECT_EQ(Values(narrow), (Floats{1, 2, 3}));
}

TEST_F(OutputArray, MayBePinned) {
  const Array out = Must(Array::Zeros({3}, kFloat32, Place::Pinned(dev())));
  EXPECT_OK(AddInto(out, Counting(3), 1));
  ASSERT_OK(out.Ready());
  EXPECT_EQ(out.data_as<float>()[2], 3.0f);
}

TEST_F(OutputArray, KeepsTheBytesBetweenItsElements) {
  const Array a = Counting(6);
  EXPECT_OK(
      ApplyInto(BinaryOp::kMul, Part(a, 0, std::nullopt, 2), Counting(3), -1));
  EXPECT_EQ(Values(a), (Floats{0, 1, -1, 3, -2, 5}));
}

TEST_F(OutputArray, RunsNoKernelWithoutElements) {
  const Array none = Must(Array::Empty({0, 4}, kFloat32, dev()));
  const uint64_t before = Must(sim().Stats()).kernels_run;
  EXPECT_OK(AddInto(none, none, Counting(4)));
  ASSERT_OK(CurrentStream(dev()).Synchronize());
  EXPECT_EQ(Must(sim().Stats()).kernels_run, before);
}

// ---- Refused arrays, which stay unchanged -----------------------------------

TEST_F(OutputArray, OfAnotherShapeIsRefused) {
  const Array out = Counting(3);
  EXPECT_STATUS(AddInto(out, Counting(4), 1), kInvalidArgument, "(3,)");
  const Array wide = Must(Array::Zeros({2, 4}, kFloat32, dev()));
  EXPECT_STATUS(AddInto(wide, Counting(4), 1), kInvalidArgument, "(2, 4)");
  EXPECT_EQ(Values(out), (Floats{0, 1, 2}));
}

TEST_F(OutputArray, OfADTypeOfALowerKindIsRefused) {
  const Array out = Must(Array::Zeros({3}, kInt32, dev()));
  EXPECT_STATUS(AddInto(out, Counting(3), 1), kInvalidArgument, "int32");
}

TEST_F(OutputArray, ThatIsReadOnlyIsRefused) {
  const Array a = Counting(3);
  EXPECT_STATUS(AddInto(a.AsReadOnly(), a, 1), kInvalidArgument, "read-only");
}

TEST_F(OutputArray, WithElementsThatShareMemoryIsRefused) {
  const Array a = Must(Counting(1).BroadcastTo({3}));
  EXPECT_STATUS(AddInto(a, Counting(3), 1), kInvalidArgument, "share memory");
}

TEST_F(OutputArray, OfAnotherDeviceIsRefused) {
  const Array out = Must(Array::Zeros({3}, kFloat32, dev(1)));
  EXPECT_STATUS(AddInto(out, Counting(3), 1), kInvalidArgument, "mtia:1");
}

}  // namespace
}  // namespace devrt::testing
