// SPDX-License-Identifier: Apache-2.0
//
// Operations on arrays that several streams use, each behind a kernel that
// spins: what has to wait does, on the device, and the host never.

#include <cstring>
#include <optional>
#include <string>

#include "tests/hardware/arrays_test.h"

namespace devrt::hardware {
namespace {

constexpr int64_t kShape[] = {1 << 16};

class ArraysOrder : public ArraysTest {
 protected:
  void SetUp() override {
    ArraysTest::SetUp();
    if (IsSkipped()) return;
    // Kernels are loaded, pools filled (F40).
    const Array x = Must(Array::Full(kShape, kInt32, 1, dev()));
    EXPECT_EQ(First(Must(Sum(Must(Add(x, x))))), 2 * kShape[0]);
  }
  static int64_t First(const Array& x) {
    Array element = x;
    while (element.ndim() > 0) element = Must(element.Index(0, 0));
    return Must(element.Item()).Value<int64_t>();
  }
  Array Ints(int value, Device device) const {
    return Must(Array::Full(kShape, kInt32, value, device));
  }
};

TEST_F(ArraysOrder, AReaderWaitsForTheWriter) {
  const Stream writer = Must(Stream::Create(dev()));
  const Stream reader = Must(Stream::Create(dev()));
  const Array x = Ints(1, dev());
  ASSERT_OK(x.Ready());
  Gate gate(dev());
  gate.Hold(writer);
  {
    StreamGuard on(writer);
    ASSERT_OK(x.Fill(7));
  }
  std::optional<Array> sum;
  {
    StreamGuard on(reader);
    sum = Must(Add(x, 1));
  }
  EXPECT_TRUE(gate.Holds()) << "the host waited";
  EXPECT_FALSE(Must(sum->IsReady()));
  gate.Release();
  EXPECT_EQ(First(*sum), 8);
}

TEST_F(ArraysOrder, AWriterWaitsForTheReader) {
  const Stream writer = Must(Stream::Create(dev()));
  const Stream reader = Must(Stream::Create(dev()));
  const Array x = Ints(1, dev());
  ASSERT_OK(x.Ready());
  Gate gate(dev());
  gate.Hold(reader);
  std::optional<Array> copy;
  {
    StreamGuard on(reader);
    copy = Must(x.Copy());
  }
  {
    StreamGuard on(writer);
    ASSERT_OK(x.Fill(2));
  }
  EXPECT_TRUE(gate.Holds()) << "the host waited";
  gate.Release();
  EXPECT_EQ(First(*copy), 1);
  EXPECT_EQ(First(x), 2);
}

TEST_F(ArraysOrder, ReadersDoNotWaitForEachOther) {
  const Stream held = Must(Stream::Create(dev()));
  const Stream fine = Must(Stream::Create(dev()));
  const Array x = Ints(3, dev());
  ASSERT_OK(x.Ready());
  Gate gate(dev());
  gate.Hold(held);
  std::optional<Array> later;
  {
    StreamGuard on(held);
    later = Must(x.Copy());
  }
  {
    StreamGuard on(fine);
    EXPECT_EQ(First(Must(Add(x, x))), 6);
  }
  EXPECT_TRUE(gate.Holds());
  gate.Release();
  EXPECT_EQ(First(*later), 3);
}

TEST_F(ArraysOrder, ACopyBetweenDevicesJoinsBothSides) {
  if (devices.size() < 2) GTEST_SKIP() << "one device";
  for (const bool hold_target : {false, true}) {
    SCOPED_TRACE(hold_target);
    const Device from = devices[0];
    const Device to = devices[1];
    const Stream source = Must(Stream::Create(from));
    const Stream target = Must(Stream::Create(to));
    const Array x = Ints(1, from);
    const Array y = Ints(2, to);
    ASSERT_OK(x.Ready());
    ASSERT_OK(y.Ready());
    Gate gate(hold_target ? to : from);
    gate.Hold(hold_target ? target : source);
    {
      StreamGuard on_source(source);
      StreamGuard on_target(target);
      ASSERT_OK(x.Fill(5));
      ASSERT_OK(y.Fill(6));
      ASSERT_OK(CopyArray(y, x));
      ASSERT_OK(x.Fill(9));  // after the copy has read it
    }
    EXPECT_TRUE(gate.Holds()) << "the host waited";
    gate.Release();
    EXPECT_EQ(First(y), 5);
    EXPECT_EQ(First(x), 9);
  }
}

// docs/reference/semantics.md 3.2, to_non_blocking and
// to_cpu_blocking_by_default.
TEST_F(ArraysOrder, CopiesToTheHost) {
  const Array x = Ints(4, dev());
  const Stream stream = Must(Stream::Create(dev()));
  StreamGuard on(stream);
  Gate gate(dev());
  gate.Hold(stream);
  const Array pinned = Must(x.To(Place::Pinned(dev()), true));
  EXPECT_TRUE(gate.Holds()) << "the host waited";
  EXPECT_FALSE(Must(pinned.IsReady()));
  gate.Release();
  ASSERT_OK(pinned.Ready());
  EXPECT_EQ(pinned.data_as<int32_t>()[kShape[0] - 1], 4);
  ASSERT_OK(Spin(stream, 50'000'000));
  const Array host = Must(x.To(Place::Host()));
  EXPECT_TRUE(Must(stream.Query()));
  EXPECT_EQ(host.data_as<int32_t>()[kShape[0] - 1], 4);
}

// docs/reference/semantics.md 3.2, copy_non_blocking_type_conversion.
TEST_F(ArraysOrder, CastFollowsThePendingCopy) {
  const Stream stream = Must(Stream::Create(dev()));
  StreamGuard on(stream);
  const Array floats = Must(Array::Full(kShape, kFloat32, 3, dev()));
  const Array pinned =
      Must(Array::Zeros(kShape, kFloat32, Place::Pinned(dev())));
  ASSERT_OK(floats.Ready());
  Gate gate(dev());
  gate.Hold(stream);
  ASSERT_OK(pinned.CopyFrom(floats, true));
  const Array integers = Must(Array::Zeros(kShape, kInt64, dev()));
  ASSERT_OK(integers.CopyFrom(pinned, true));
  EXPECT_TRUE(gate.Holds()) << "the host waited";
  gate.Release();
  EXPECT_EQ(First(integers), 3);
  EXPECT_EQ(First(Must(Sum(integers))), 3 * kShape[0]);
}

// The memory of an array that is gone comes back when its uses are over.
TEST_F(ArraysOrder, MemoryOfADestroyedArrayWaitsForItsUses) {
  const Stream home = Must(Stream::Create(dev()));
  const Stream other = Must(Stream::Create(dev()));
  std::optional<Array> x;
  {
    StreamGuard on(home);
    x = Ints(11, dev());
    ASSERT_OK(x->Ready());
  }
  const void* const address = x->data();
  Gate gate(dev());
  gate.Hold(other);
  std::optional<Array> copy;
  {
    StreamGuard on(other);
    copy = Must(x->Copy());
  }
  x.reset();
  {
    StreamGuard on(home);
    const Array next = Ints(12, dev());
    EXPECT_NE(next.data(), address);
    ASSERT_OK(next.Ready());
    EXPECT_TRUE(gate.Holds());
  }
  gate.Release();
  EXPECT_EQ(First(*copy), 11);
}

TEST_F(ArraysOrder, OwnerOfBorrowedMemoryWaitsForItsUses) {
  const Stream stream = Must(Stream::Create(dev()));
  void* const block = Must(Allocate(dev(), 4 * kShape[0]));
  bool gone = false;
  PointerOptions options;
  options.owner = std::shared_ptr<void>(block, [&](void*) { gone = true; });
  std::optional<Array> x =
      Must(Array::FromPointer(block, kShape, kInt32, std::move(options)));
  EXPECT_EQ(x->place(), Place(dev()));
  Gate gate(dev());
  gate.Hold(stream);
  {
    StreamGuard on(stream);
    ASSERT_OK(x->Fill(1));
  }
  x.reset();
  EXPECT_FALSE(gone);
  EXPECT_TRUE(gate.Holds());
  gate.Release();
  // Looked at by whatever devrt does next.
  for (int i = 0; i < 100 && !gone; ++i) {
    ASSERT_OK(Ints(0, dev()).Ready());
  }
  EXPECT_TRUE(gone);
  EXPECT_OK(Free(dev(), block));
}

}  // namespace
}  // namespace devrt::hardware
