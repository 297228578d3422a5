// SPDX-License-Identifier: Apache-2.0
//
// When copies return, what they refuse, and the functions of Array that copy.

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "devrt/arrays/operations.h"
#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {
namespace {

class CopyTest : public ArraysTest {
 protected:
  // Behind work that is running.
  static void Delay(StreamRef s) { Must(Spin(s, 100'000'000)); }
};

// docs/reference/semantics.md 3.2: to_non_blocking, copy_non_blocking,
// to_cpu_blocking_by_default.
TEST_F(CopyTest, BlockingAndNot) {
  Stream s = NewStream();
  const StreamGuard guard(s);
  const Array x = Filled(dev(), 7, 1000);
  const Place pinned = Place::Pinned(dev());
  for (const bool non_blocking : {false, true}) {
    SCOPED_TRACE(non_blocking);
    Delay(s);
    const Array there = Must(x.To(pinned, non_blocking));
    EXPECT_THAT(s.Query(), IsOkAndHolds(!non_blocking));
    ASSERT_OK(s.Synchronize());
    EXPECT_TRUE(IsAll(there, 7));
    Delay(s);
    const Array back = Must(there.To(dev(), non_blocking));
    EXPECT_THAT(s.Query(), IsOkAndHolds(!non_blocking));
    ASSERT_OK(s.Synchronize());
    EXPECT_TRUE(IsAll(back, 7));
    // Plain memory waits all the same (E46).
    Delay(s);
    const Array host = Must(x.To(Place::Host(), non_blocking));
    EXPECT_THAT(s.Query(), IsOkAndHolds(true));
    EXPECT_TRUE(IsAll(host, 7));
    Delay(s);
    EXPECT_OK(back.CopyFrom(host, non_blocking));
    EXPECT_THAT(s.Query(), IsOkAndHolds(true));
  }
}

// copy_non_blocking_type_conversion: the host never converts too early.
TEST_F(CopyTest, NonBlockingWithCast) {
  InEverySchedule([] {
    Stream s = NewStream();
    const StreamGuard guard(s);
    const Array x = Must(Array::Empty({1000}, kFloat32, dev()));
    Must(x.Fill(3.0));
    const Array pinned =
        Must(Array::Empty({1000}, kFloat32, Place::Pinned(dev())));
    Must(pinned.Fill(1.0));
    const Array y = Must(Array::Empty({1000}, kInt64, dev()));
    Must(Spin(s, kLong));
    Must(pinned.CopyFrom(x, true));
    Must(y.CopyFrom(pinned, true));
    // Packed by the host, when it may.
    const Array z = Must(Array::Empty({500}, kInt64, dev()));
    Must(z.CopyFrom(Must(pinned.SliceAxis(0, {0, 1000, 2})), true));
    EXPECT_EQ(Must(Must(y.Index(0, 999)).Item()).Value<int64_t>(), 3);
    EXPECT_EQ(Must(Must(z.Index(0, 499)).Item()).Value<int64_t>(), 3);
  });
}

TEST_F(CopyTest, OnAStreamOfChoice) {
  Stream a = NewStream(dev(0));
  Stream b = NewStream(dev(1));
  Stream c = NewStream(dev(2));
  const Array x = Filled(dev(0), 1);
  const Array y = Filled(dev(1), 2);
  for (Stream* s : {&a, &b}) {
    CopyOptions options;
    options.stream = *s;
    Delay(*s);
    EXPECT_OK(CopyArray(y, x, options));
    EXPECT_THAT(y.IsReady(), IsOkAndHolds(false));
    ASSERT_OK(y.Ready());
    EXPECT_TRUE(IsAll(y, 1));
  }
  CopyOptions options;
  options.stream = c;
  EXPECT_STATUS(CopyArray(y, x, options), kInvalidArgument, "mtia:1");
}

// Nothing depends on which device is current.
TEST_F(CopyTest, AnyDeviceCurrent) {
  for (int current = 0; current < 3; ++current) {
    const DeviceGuard guard(dev(current));
    const Array x = Filled(dev(1), 5);
    EXPECT_TRUE(IsAll(Must(x.To(Place::Host())), 5));
    EXPECT_EQ(Must(CurrentDevice("mtia")), dev(current));
  }
}

TEST_F(CopyTest, RefusedCopiesAndFillsTouchNothing) {
  const Array x = Filled(dev(), 1);
  EXPECT_STATUS(x.AsReadOnly().CopyFrom(x), kInvalidArgument, "read-only");
  EXPECT_STATUS(x.AsReadOnly().Fill(1), kInvalidArgument, "read-only");
  const Array row = Must(x.SliceAxis(0, {0, 1, 1}));
  const Array rows(x.storage(), x.data_as<char>(), {4, 1}, {0, 4}, kInt32);
  EXPECT_STATUS(rows.Fill(1), kInvalidArgument, "share memory");
  EXPECT_STATUS(row.CopyFrom(x), kInvalidArgument,
                "CopyArray: the source's shape (64,) does not broadcast to "
                "(1,): extents are equal or 1, counted from the last; reshape "
                "it, or copy to a slice of the target");
  EXPECT_STATUS(x.Item(), kInvalidArgument, "(64,)");
  EXPECT_STATUS(Must(x.Cast(kInt8)).Fill(1000), kInvalidArgument, "1000");
  EXPECT_STATUS(x.To(Place::Managed(dev())), kUnimplemented, "managed");
  // Nothing was touched.
  EXPECT_TRUE(IsAll(x, 1));
}

// A bool of others is true whatever its byte; what devrt makes of it is 1.
TEST_F(CopyTest, BytesThatAreNoBools) {
  const std::vector<uint8_t> bytes = {0, 1, 2, 255};
  for (const Place& place :
       {Place(dev()), Place::Pinned(dev()), Place::Host()}) {
    SCOPED_TRACE(place.name());
    const Array odd = Must(Must(Array::FromVector(bytes, place)).ViewAs(kBool));
    for (const Array& x : {odd, Must(odd.Copy()), Must(odd.To(dev(1)))}) {
      EXPECT_TRUE(Must(Must(x.Index(0, 2)).Item()).Value<bool>());
      EXPECT_EQ(Must(Must(x.Cast(kInt32)).To(Place::Host())).ToString(),
                "array([0, 1, 1, 1], dtype=int32, device='cpu')");
      const std::string text = x.ToString();
      EXPECT_THAT(text, ::testing::HasSubstr("[False,  True,  True,  True]"));
    }
    const Array there = Must(odd.To(dev()));
    const Array clean = Must(NotEqual(there, false));
    EXPECT_TRUE(Must(ArrayEqual(clean, there)));
    EXPECT_EQ(Must(Must(Sum(there)).Item()).Value<int64_t>(), 3);
    std::vector<uint8_t> seen(4);
    ASSERT_OK(clean.Ready());
    Must(sim().Peek(clean.data(), seen.data(), 4));
    EXPECT_EQ(seen, (std::vector<uint8_t>{0, 1, 1, 1}));
  }
}

TEST_F(CopyTest, InHostFunctions) {
  Stream s = NewStream();
  const Array x = Filled(dev(), 1);
  std::vector<absl::Status> seen;
  std::optional<Array> last = NewArray(dev());
  ASSERT_OK(LaunchHostFunc(s, [&](const absl::Status&) {
    seen = {x.Fill(2),
            x.CopyFrom(x),
            x.Ready(),
            x.NoteUse(s),
            x.RecordUse(s),
            x.OrderBefore(s),
            x.IsReady().status(),
            x.Copy().status()};
    last.reset();
  }));
  ASSERT_OK(s.Synchronize());
  ASSERT_EQ(seen.size(), 8u);
  for (const absl::Status& status : seen) {
    EXPECT_STATUS(status, kFailedPrecondition, "host function");
  }
}

TEST_F(CopyTest, FunctionsOfArray) {
  const Array x = Must(Array::FromVector<float>({1, 2, 3, 4, 5, 6}, dev()));
  const Array m = Must(x.Reshape({2, 3}));
  EXPECT_TRUE(Must(m.Contiguous()).SharesStorage(m));
  EXPECT_FALSE(Must(m.Copy()).SharesStorage(m));
  const Array t = Must(m.Transpose().Contiguous());
  EXPECT_TRUE(t.IsContiguous());
  EXPECT_EQ(Must(Must(Must(t.Index(0, 2)).Index(0, 1)).Item()).Value<double>(),
            6);
  EXPECT_EQ(Must(x.Cast(kFloat64)).dtype(), kFloat64);
  EXPECT_TRUE(Must(x.To(dev())).SharesStorage(x));
  EXPECT_FALSE(Must(x.To(dev(1))).SharesStorage(x));
  const Array empty = Must(Array::Empty({0, 3}, kInt8, dev()));
  EXPECT_OK(empty.Fill(1));
  EXPECT_EQ(Must(empty.To(Place::Host())).size(), 0);
}

}  // namespace
}  // namespace devrt::testing
