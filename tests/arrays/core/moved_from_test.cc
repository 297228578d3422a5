// SPDX-License-Identifier: Apache-2.0
//
// An Array that was moved from: it has no elements, and every call on it or
// with it says so.

#include <sstream>
#include <utility>
#include <vector>

#include "devrt/arrays/cuda_array_interface.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/dlpack_exchange.h"
#include "devrt/devrt.h"
#include "tests/arrays/arrays_fixture.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;

class MovedFromTest : public ArraysTest {
 protected:
  static Array New() {
    const int64_t shape[] = {2, 3};
    return Must(Array::Full(shape, kFloat32, 1.0, dev()));
  }
};

auto Refused(const char* call) {
  return StatusIs(absl::StatusCode::kInvalidArgument,
                  std::string(call) +
                      " on an Array that was moved from: use the Array that "
                      "it was moved to");
}

void ExpectNothing(const Array& a) {
  EXPECT_EQ(a.size(), 0);
  EXPECT_EQ(a.nbytes(), 0u);
  EXPECT_EQ(a.ndim(), 0);
  EXPECT_TRUE(a.shape().empty());
  EXPECT_TRUE(a.strides().empty());
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(a.data_as<float>(), nullptr);
  EXPECT_EQ(a.place(), Place::Host());
  EXPECT_EQ(a.device(), std::nullopt);
  EXPECT_EQ(a.home_stream(), std::nullopt);
  EXPECT_EQ(a.storage(), nullptr);
  EXPECT_EQ(a.ToString(), "array(<moved from>)");
}

TEST_F(MovedFromTest, HasNoElements) {
  Array a = New();
  const void* const data = a.data();
  Array b = std::move(a);
  ExpectNothing(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b.size(), 6);
  EXPECT_EQ(b.shape(), DimSpan({2, 3}));
  EXPECT_EQ(a.item_size(), 4u);
  EXPECT_EQ(a.dtype(), kFloat32);
  EXPECT_FALSE(a.read_only());
  EXPECT_TRUE(a.IsContiguous());
  EXPECT_TRUE(a.IsFortranContiguous());
  EXPECT_FALSE(a.SharesStorage(b));
  EXPECT_FALSE(a.SharesStorage(a));
  ExpectNothing(a.AsReadOnly());
  ExpectNothing(a.Transpose());
  ExpectNothing(a.Squeeze());
  const Array copy = a;
  ExpectNothing(copy);
  std::ostringstream text;
  text << a;
  EXPECT_EQ(text.str(), "array(<moved from>)");
}

TEST_F(MovedFromTest, MovesOnAndIsAssignedTo) {
  Array a = New();
  Array b = New();
  const void* const data = a.data();
  b = std::move(a);
  ExpectNothing(a);
  EXPECT_EQ(b.data(), data);
  Array& same = b;
  b = std::move(same);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b.shape(), DimSpan({2, 3}));
  Array c = std::move(a);
  ExpectNothing(c);
  a = b;
  EXPECT_TRUE(a.SharesStorage(b));
}

TEST_F(MovedFromTest, RefusesEveryMemberCall) {
  Array a = New();
  Array b = std::move(a);
  Stream s = NewStream();
  EXPECT_THAT(a.SliceAxis(0, {}), Refused("SliceAxis"));
  EXPECT_THAT(a.Index(0, 0), Refused("Index"));
  EXPECT_THAT(a.Permute({}), Refused("Permute"));
  EXPECT_THAT(a.Reshape({}), Refused("Reshape"));
  EXPECT_THAT(a.ExpandDims(0), Refused("ExpandDims"));
  EXPECT_THAT(a.Squeeze(0), Refused("Squeeze"));
  EXPECT_THAT(a.BroadcastTo({}), Refused("BroadcastTo"));
  EXPECT_THAT(a.ViewAs(kInt32), Refused("ViewAs"));
  EXPECT_THAT(a.Contiguous(), Refused("Contiguous"));
  EXPECT_THAT(a.Copy(), Refused("Copy"));
  EXPECT_THAT(a.To(Place::Host()), Refused("To"));
  EXPECT_THAT(a.To(dev(), kFloat64), Refused("To"));
  EXPECT_THAT(a.Cast(kFloat32), Refused("Cast"));
  EXPECT_THAT(a.Cast(kFloat64), Refused("Cast"));
  EXPECT_THAT(a.CopyFrom(b), Refused("CopyArray"));
  EXPECT_THAT(a.Fill(1), Refused("Fill"));
  EXPECT_THAT(a.Item(), Refused("Item"));
  EXPECT_THAT(a.NoteUse(s), Refused("NoteUse"));
  EXPECT_THAT(a.RecordUse(s), Refused("RecordUse"));
  EXPECT_THAT(a.OrderBefore(s), Refused("OrderBefore"));
  EXPECT_THAT(a.Ready(), Refused("Ready"));
  EXPECT_THAT(a.IsReady(), Refused("IsReady"));
  EXPECT_THAT(a.SetDeallocationStream(s), Refused("SetDeallocationStream"));
}

TEST_F(MovedFromTest, IsRefusedAsAnArgument) {
  Array a = New();
  Array b = std::move(a);
  EXPECT_THAT(b.CopyFrom(a), Refused("CopyArray"));
  EXPECT_THAT(CopyArray(b, a), Refused("CopyArray"));
  EXPECT_THAT(CopyArray(a, b), Refused("CopyArray"));
  EXPECT_THAT(Add(a, b), Refused("add"));
  EXPECT_THAT(Add(b, a), Refused("add"));
  EXPECT_THAT(Mul(a, 2.0f), Refused("multiply"));
  EXPECT_THAT(Apply(BinaryOp::kAdd, b, b, &a), Refused("add"));
  EXPECT_THAT(AddInto(a, b, b), Refused("add"));
  EXPECT_THAT(AddInto(b, b, a), Refused("add"));
  EXPECT_THAT(Negate(a), Refused("negative"));
  EXPECT_THAT(Apply(UnaryOp::kAbs, b, &a), Refused("absolute"));
  EXPECT_THAT(Sum(a), Refused("sum"));
  EXPECT_THAT(Reduce(ReduceOp::kMean, a), Refused("mean"));
  EXPECT_THAT(Where(a, b, b), Refused("where"));
  EXPECT_THAT(Where(b, a, 1.0f), Refused("where"));
  EXPECT_THAT(ArrayEqual(a, b), Refused("ArrayEqual"));
  EXPECT_THAT(ArrayEqual(b, a), Refused("ArrayEqual"));
  EXPECT_THAT(ArrayEqual(a, a), Refused("ArrayEqual"));
  EXPECT_THAT(ToDLPack(a), Refused("DLPack export"));
  EXPECT_THAT(ToDLPackLegacy(a), Refused("DLPack export"));
  EXPECT_THAT(ExportNoSync(a), Refused("DLPack export"));
  DLTensor tensor;
  EXPECT_THAT(BorrowNoSync(a, nullptr, &tensor), Refused("DLPack export"));
  EXPECT_THAT(ToCudaArrayInterface(a), Refused("CUDA Array Interface"));
  EXPECT_OK(b.Ready());
}

TEST_F(MovedFromTest, StreamsThatWereMovedFromAreRefused) {
  Array a = New();
  Stream s = NewStream();
  Stream t = std::move(s);
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("on a Stream that was moved from"));
  EXPECT_THAT(a.NoteUse(s), refused);
  EXPECT_THAT(a.RecordUse(s), refused);
  EXPECT_THAT(a.OrderBefore(s), refused);
  EXPECT_THAT(a.SetDeallocationStream(s), refused);
}

TEST_F(MovedFromTest, DeviceIsThatOfThePlace) {
  const int64_t extent = 1;
  EXPECT_EQ(New().device(), dev());
  EXPECT_EQ(
      Must(Array::Empty({&extent, 1}, kInt8, Place::Pinned(dev(1)))).device(),
      dev(1));
  EXPECT_EQ(Must(Array::Empty({&extent, 1}, kInt8, Place::Host())).device(),
            std::nullopt);
}

}  // namespace
}  // namespace devrt::testing
