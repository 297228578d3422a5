// SPDX-License-Identifier: Apache-2.0
//
// Refusals of wrong descriptors and operands, and their messages.

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "backends/mtia/kernels/kernels.h"
#include "tests/mtia/random_tensor.h"

namespace devrt::mtia {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr uint32_t kF32 = DEVRT_FLOAT32;
constexpr uint32_t kI32 = DEVRT_INT32;

struct BadTensor {
  const char* error;
  void* data;
  uint32_t dtype;
  Shape shape;
  Shape strides;  // empty: NULL
};

// Expects the error of each case. An error names the tensor, the value and
// the expectation.
void ExpectErrors(const std::vector<BadTensor>& cases) {
  for (const BadTensor& test : cases) {
    const devrt_tensor_v0 in = {
        test.data, test.shape.data(),
        test.strides.empty() ? nullptr : test.strides.data(),
        static_cast<uint32_t>(test.shape.size()), test.dtype};
    Tensor out;
    std::string error;
    EXPECT_FALSE(CopyTensor(in, "t", &out, &error)) << test.error;
    EXPECT_EQ(error, test.error);
  }
}

TEST(CopyTensorErrors, NameBadDtypesAndShapes) {
  ExpectErrors({
      {"t: dtype (code 9, 7 bits) is not known",
       kData,
       DEVRT_DTYPE(9, 7),
       {1},
       {}},
      {"t: ndim is 33, expected 0 to 32", kData, kF32, Shape(33, 1), {}},
      {"t: shape[1] is -4, expected 0 or more", kData, kF32, {2, -4}, {}},
      {"t: shape[1] is -1, expected 0 or more", kData, kF32, {0, -1}, {}},
      {"t: shape[1] is 4: the number of elements exceeds 2^63 - 1",
       kData,
       DEVRT_INT8,
       {int64_t{1} << 61, 4},
       {}},
      {"t: shape[0] is 4611686018427387904: the size in bytes exceeds "
       "2^63 - 1",
       kData,
       DEVRT_INT16,
       {int64_t{1} << 62},
       {}},
  });
}

TEST(CopyTensorErrors, NameSpansOfMoreThan63Bits) {
  ExpectErrors({
      {"t: shape[0] is 3 and strides[0] is 9223372036854775807: the span in "
       "bytes exceeds 2^63 - 1",
       kData,
       kF32,
       {3},
       {kMax}},
      {"t: shape[0] is 3 and strides[0] is -9223372036854775808: the span in "
       "bytes exceeds 2^63 - 1",
       kData,
       kF32,
       {3},
       {kMin}},
      {"t: shape[1] is 2 and strides[1] is 4611686018427387904: the span in "
       "bytes exceeds 2^63 - 1",
       kData,
       kF32,
       {2, 2},
       {int64_t{1} << 62, int64_t{1} << 62}},
  });
}

TEST(CopyTensorErrors, NameDataOutsideTheAddressSpace) {
  ExpectErrors({
      {"t: data is NULL, expected the address of 6 elements",
       nullptr,
       kF32,
       {2, 3},
       {}},
      {"t: data is NULL, expected the address of 1 element",
       nullptr,
       kF32,
       {},
       {}},
      {"t: bytes -1099511627777 to 4 from data are outside the address space",
       kData,
       kF32,
       {2},
       {-(int64_t{1} << 40) - 1}},
      {"t: bytes -9223372036854775808 to 4 from data are outside the address "
       "space",
       kData,
       kF32,
       {2},
       {kMin}},
      {"t: bytes 0 to 20 from data are outside the address space",
       reinterpret_cast<void*>(~uintptr_t{15}),
       kF32,
       {5},
       {}},
  });
}

TEST(CopyTensorErrors, NameTheMissingShape) {
  const devrt_tensor_v0 in = {kData, nullptr, nullptr, 2, kF32};
  Tensor out;
  std::string error;
  EXPECT_FALSE(CopyTensor(in, "input 1", &out, &error));
  EXPECT_EQ(error, "input 1: shape is NULL, expected 2 extents");
}

Tensor Make(uint32_t dtype, const Shape& shape) {
  return MakeTensor(kData, dtype, shape, nullptr);
}

// Elementwise operations on tensors of shape (2, 3), one for each dtype.
class ElementwiseErrors : public ::testing::Test {
 protected:
  struct Case {
    uint32_t op;
    Tensor out;
    std::vector<Tensor> inputs;
    const char* error;
  };
  static void ExpectErrors(const std::vector<Case>& cases) {
    for (const Case& test : cases) {
      std::string error;
      EXPECT_FALSE(CheckElementwise(test.op, test.out, test.inputs, &error))
          << test.error;
      EXPECT_EQ(error, test.error);
    }
  }

  const Shape s_ = {2, 3};
  const Tensor f_ = Make(kF32, s_);
  const Tensor i_ = Make(kI32, s_);
  const Tensor b_ = Make(DEVRT_BOOL, s_);
  const Tensor c_ = Make(DEVRT_COMPLEX64, s_);
  const Tensor e_ = Make(DEVRT_FLOAT8_E5M2, s_);
};

TEST_F(ElementwiseErrors, NameTheOperationAndItsInputCount) {
  ExpectErrors({
      {99, f_, {f_}, "op 99 is not known"},
      {DEVRT_OP_ADD, f_, {f_}, "add: input_count is 1, expected 2"},
      {DEVRT_OP_COPY, f_, {}, "copy: input_count is 0, expected 1"},
      {DEVRT_OP_WHERE,
       f_,
       {b_, f_, f_, f_},
       "where: input_count is 4, expected 3"},
  });
}

TEST_F(ElementwiseErrors, NameDtypesThatDoNotFitEachOther) {
  ExpectErrors({
      {DEVRT_OP_ADD,
       f_,
       {f_, i_},
       "add: input 1 has dtype int32, expected float32 (as input 0)"},
      {DEVRT_OP_ADD,
       i_,
       {f_, f_},
       "add: out has dtype int32, expected float32 (for inputs of float32)"},
      {DEVRT_OP_LT,
       f_,
       {f_, f_},
       "lt: out has dtype float32, expected bool (for inputs of float32)"},
      {DEVRT_OP_ABS,
       c_,
       {c_},
       "abs: out has dtype complex64, expected float32 (for inputs of "
       "complex64)"},
      {DEVRT_OP_WHERE,
       f_,
       {i_, f_, f_},
       "where: input 0 has dtype int32, expected bool (the condition's "
       "dtype)"},
      {DEVRT_OP_WHERE,
       f_,
       {b_, f_, i_},
       "where: input 2 has dtype int32, expected float32 (as input 1)"},
  });
}

TEST_F(ElementwiseErrors, NameDtypesThatTheOperationLacks) {
  ExpectErrors({
      {DEVRT_OP_LT,
       b_,
       {c_, c_},
       "lt: input 0 has dtype complex64, for which the operation does not "
       "exist"},
      {DEVRT_OP_NEG,
       b_,
       {b_},
       "neg: input 0 has dtype bool, for which the operation does not exist"},
      {DEVRT_OP_ADD,
       e_,
       {e_, e_},
       "add: input 0 has dtype float8_e5m2, for which the operation does not "
       "exist"},
      {DEVRT_OP_LOGICAL_AND,
       b_,
       {f_, f_},
       "logical_and: input 0 has dtype float32, for which the operation does "
       "not exist"},
      {DEVRT_OP_WHERE,
       e_,
       {b_, e_, e_},
       "where: input 1 has dtype float8_e5m2, for which the operation does "
       "not exist"},
  });
}

TEST_F(ElementwiseErrors, NameShapesThatAreNotBroadcast) {
  ExpectErrors({
      {DEVRT_OP_MUL,
       f_,
       {f_, Make(kF32, {3})},
       "mul: input 1 has shape (3,), expected (2, 3) as out (broadcast with "
       "stride 0)"},
      {DEVRT_OP_COPY,
       Make(kF32, {}),
       {f_},
       "copy: input 0 has shape (2, 3), expected () as out (broadcast with "
       "stride 0)"},
  });
}

TEST(ReduceErrors, NameTensorValueAndExpectation) {
  const Tensor in = Make(kF32, {2, 3});
  const Tensor all = Make(kF32, {1, 1});
  const Tensor none = Make(kF32, {0, 3});
  const struct {
    uint32_t op;
    Tensor out;
    Tensor in;
    uint32_t axes;
    const char* error;
  } kCases[] = {
      {6, all, in, 3, "op 6 is not known"},
      {DEVRT_REDUCE_SUM, Make(kI32, {1, 1}), in, 3,
       "sum: does not exist from dtype float32 (in) to int32 (out)"},
      {DEVRT_REDUCE_SUM, Make(DEVRT_BOOL, {1}), Make(DEVRT_BOOL, {4}), 1,
       "sum: does not exist from dtype bool (in) to bool (out)"},
      {DEVRT_REDUCE_PROD, all, in, 7,
       "prod: axes is 7, expected less than 2^2: in has 2 dimensions"},
      {DEVRT_REDUCE_MAX, Make(kF32, {2, 3}), in, 1,
       "max: out has shape (2, 3), expected (1, 3): in's, with 1 on the "
       "reduced axes"},
      {DEVRT_REDUCE_MAX, Make(kF32, {3}), in, 1,
       "max: out has shape (3,), expected (1, 3): in's, with 1 on the reduced "
       "axes"},
      {DEVRT_REDUCE_MIN, Make(kF32, {1, 3}), none, 1,
       "min: in has shape (0, 3), expected at least 1 element per element of "
       "out"},
  };
  for (const auto& test : kCases) {
    std::string error;
    EXPECT_FALSE(CheckReduce(test.op, test.out, test.in, test.axes, &error))
        << test.error;
    EXPECT_EQ(error, test.error);
  }
  std::string error;
  EXPECT_TRUE(
      CheckReduce(DEVRT_REDUCE_MIN, Make(kF32, {0, 1}), none, 2, &error))
      << error;
  EXPECT_TRUE(CheckReduce(DEVRT_REDUCE_ANY, Make(DEVRT_BOOL, Shape(32, 1)),
                          Make(kF32, Shape(32, 1)), ~0u, &error))
      << error;
}

}  // namespace
}  // namespace devrt::mtia
