// SPDX-License-Identifier: Apache-2.0
//
// Bad input of operations: a status that names what, and nothing left behind.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/arrays/arrays_fixture.h"
#include "tests/support/spy_backend.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Refusals : public ArraysTest {
 protected:
  static Array Ones(DimSpan shape, DType dtype = kFloat32,
                    const Place& place = dev()) {
    return Must(Array::Full(shape, dtype, 1, place));
  }
};

TEST_F(Refusals, ShapesThatDoNotBroadcast) {
  EXPECT_THAT(Add(Ones({2, 3}), Ones({4})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("add: shapes (2, 3) and (4,)"),
                             HasSubstr("reshape one of them"))));
  EXPECT_STATUS(Where(Ones({2}), Ones({3}), 1), kInvalidArgument,
                "where: shapes (2,) and (3,)");
}

TEST_F(Refusals, TwoDevices) {
  const auto names =
      AllOf(HasSubstr("mtia:0"), HasSubstr("mtia:1"), HasSubstr("To(device)"));
  const Array here = Ones({2});
  const Array there = Ones({2}, kFloat32, dev(1));
  EXPECT_THAT(Add(here, there),
              StatusIs(absl::StatusCode::kInvalidArgument, names));
  EXPECT_THAT(Where(here, there, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, names));
}

TEST_F(Refusals, PlainHostMemory) {
  const Array host = Must(Array::FromVector<float>({1, 2}, Place::Host()));
  EXPECT_STATUS(Negate(host), kUnimplemented, "To(device)");
  EXPECT_STATUS(Add(host, 1), kUnimplemented, "To(device)");
  EXPECT_STATUS(Sum(host), kUnimplemented, "To(device)");
  EXPECT_STATUS(Where(host, 1, 2), kUnimplemented, "To(device)");
  EXPECT_STATUS(AddInto(host, Ones({2}), 1), kUnimplemented, "To(device)");
}

TEST_F(Refusals, OperationsThatDoNotExist) {
  const Array x = Ones({2});
  for (const int bad : {15, -1, 1'000'000'000}) {
    const auto op = static_cast<BinaryOp>(bad);
    const auto refused = StatusIs(
        absl::StatusCode::kInvalidArgument,
        AllOf(HasSubstr(absl::StrCat("Apply: operation ", bad)),
              HasSubstr("it is 0 (add), "), HasSubstr(" or 14 (minimum)")));
    EXPECT_THAT(Apply(op, x, x), refused);
    EXPECT_THAT(Apply(op, Operand(x), Operand(1)), refused);
    EXPECT_THAT(ApplyInto(op, x, x, x), refused);
    EXPECT_THAT(ResultType(op, x, x), refused);
    EXPECT_STREQ(ToString(op), "unknown");
  }
  EXPECT_STATUS(Apply(static_cast<UnaryOp>(3), x), kInvalidArgument,
                "Apply: operation 3 does not exist: it is 0 (negative), "
                "1 (absolute) or 2 (logical_not)");
  EXPECT_STREQ(ToString(static_cast<UnaryOp>(3)), "unknown");
  EXPECT_STATUS(Reduce(static_cast<ReduceOp>(7), x), kInvalidArgument,
                "Reduce: operation 7 does not exist: it is 0 (sum), ");
  EXPECT_STREQ(ToString(static_cast<ReduceOp>(7)), "unknown");
}

TEST_F(Refusals, NumbersAlone) {
  EXPECT_STATUS(devrt::Add(1, 2), kInvalidArgument,
                "both operands are numbers");
  EXPECT_STATUS(ResultType(BinaryOp::kAdd, 1, 2), kInvalidArgument, "numbers");
}

TEST_F(Refusals, NumbersThatTheDTypeCannotHold) {
  EXPECT_STATUS(Add(Ones({2}, kInt8), 300), kInvalidArgument, "300");
  EXPECT_STATUS(Add(Ones({2}, kUInt8), -1), kInvalidArgument, "uint8");
}

TEST_F(Refusals, DTypesThatAreStorageOnly) {
  for (DType dtype : {kFloat8E4M3FN, kFloat8E5M2}) {
    const Array x = Ones({2}, dtype);
    const auto says = AllOf(HasSubstr(dtype.name()), HasSubstr("Cast"));
    const auto refused = StatusIs(absl::StatusCode::kUnimplemented, says);
    EXPECT_THAT(Add(x, x), refused);
    EXPECT_THAT(Negate(x), refused);
    EXPECT_THAT(Equal(x, 1), refused);
    EXPECT_THAT(Sum(x), refused);
    EXPECT_THAT(Where(Ones({2}), x, x), refused);
  }
}

TEST_F(Refusals, OperationsThatADTypeDoesNotHave) {
  const Array truth = Ones({2}, kBool);
  const Array z = Ones({2}, kComplex64);
  EXPECT_STATUS(Sub(truth, truth), kUnimplemented, "subtract does not exist");
  EXPECT_STATUS(Negate(truth), kUnimplemented, "LogicalNot");
  EXPECT_STATUS(Less(z, z), kUnimplemented, "complex64");
  EXPECT_STATUS(Maximum(z, 1), kUnimplemented, "Abs");
  EXPECT_STATUS(DivTruncated(Ones({2}), 2), kUnimplemented, "use Div");
  EXPECT_STATUS(Reduce(ReduceOp::kMax, z), kUnimplemented, "max");
  ReduceOptions to_bool;
  to_bool.dtype = kBool;
  EXPECT_STATUS(Sum(truth, to_bool), kUnimplemented, "use Any or All");
}

TEST_F(Refusals, MissingAndRepeatedAxes) {
  const Array x = Ones({2, 3});
  const auto over = [&](std::vector<int> axes) {
    ReduceOptions options;
    options.axes = std::move(axes);
    return Sum(x, options);
  };
  EXPECT_STATUS(
      over({2}), kInvalidArgument,
      "sum: axis 2 does not exist: shape (2, 3) has 2 axes (-2 to 1)");
  EXPECT_STATUS(over({-3}), kInvalidArgument, "axis -3");
  EXPECT_STATUS(over({0, -2}), kInvalidArgument, "twice");
  EXPECT_OK(over({-1}));
}

TEST_F(Refusals, ExtremaOfNothing) {
  const Array none = Must(Array::Empty({0, 3}, kFloat32, dev()));
  ReduceOptions first;
  first.axes = {0};
  EXPECT_STATUS(Reduce(ReduceOp::kMin, none, first), kInvalidArgument,
                "(0, 3)");
  first.axes = {1};
  EXPECT_OK(Reduce(ReduceOp::kMin, none, first));
  // As in NumPy, where the result has no elements either.
  const Array empty = Must(Array::Empty({0, 0}, kFloat32, dev()));
  EXPECT_STATUS(Reduce(ReduceOp::kMax, empty, first), kInvalidArgument,
                "(0, 0)");
}

TEST_F(Refusals, DTypeOfAnOperationWithoutOne) {
  ReduceOptions options;
  options.dtype = kFloat64;
  EXPECT_STATUS(Reduce(ReduceOp::kMax, Ones({2}), options), kInvalidArgument,
                "takes no dtype");
}

TEST_F(Refusals, InsideHostFunctions) {
  const Array x = Ones({2});
  absl::Status inside;
  Stream s = NewStream();
  ASSERT_OK(
      LaunchHostFunc(s, [&](absl::Status) { inside = Add(x, x).status(); }));
  ASSERT_OK(s.Synchronize());
  EXPECT_EQ(inside.code(), absl::StatusCode::kFailedPrecondition);
}

// No memory for the result: nothing is computed, and nothing leaks.
TEST_F(Refusals, NoMemoryForTheResult) {
  const Array x = Ones({1024});
  const Array huge = Must(Ones({1}).BroadcastTo({64 << 20, 1}));
  EXPECT_STATUS(Add(huge, 1), kResourceExhausted, "out of memory");
  EXPECT_STATUS(Add(huge, Ones({1}, kFloat64)), kResourceExhausted, "memory");
  EXPECT_OK(Add(x, 1));
}

}  // namespace
}  // namespace devrt::testing
