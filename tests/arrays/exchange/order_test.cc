// SPDX-License-Identifier: Apache-2.0
//
// The order that an exchange creates, in every schedule. Without an order, both
// outcomes occur: E4, E5, E8, E15, E40, E43.

#include <cstdint>
#include <optional>

#include "tests/arrays/exchange/exchange_fixture.h"

namespace devrt::testing {
namespace {

using Ordering = ExchangeTest;

// Producer on `a`, consumer on another stream: what the consumer reads.
int64_t ReadByConsumer(bool ordered) {
  Stream a = ExchangeTest::NewStream();
  Stream b = ExchangeTest::NewStream();
  const Array x = ExchangeTest::NewCell(ExchangeTest::dev(), 1);
  Cell out(ExchangeTest::dev());
  EXPECT_OK(ExchangeTest::Store(a, x, 2));
  DLPackExport how;
  how.stream = ordered ? Handle(b) : -1;
  DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
  EXPECT_OK(ExchangeTest::Load(b, out, t->dl_tensor.data));
  Release(t);
  EXPECT_OK(b.Synchronize());
  EXPECT_OK(a.Synchronize());
  ExchangeTest::Settle();
  return out.Peek();
}

// E5
TEST_F(Ordering, TheConsumersStreamComesAfterPendingUses) {
  InEverySchedule([] { EXPECT_EQ(ReadByConsumer(true), 2); });
}

TEST_F(Ordering, ControlWithoutAStreamBothComeOut) {
  ExpectOutcomes({1, 2}, [] { return ReadByConsumer(false); });
}

// E4
TEST_F(Ordering, NoneIsTheDefaultStream) {
  InEverySchedule([] {
    Stream a = NewStream();
    const Array x = NewCell(dev(), 1);
    Cell out(dev());
    EXPECT_OK(Store(a, x, 2));
    DLManagedTensorVersioned* const t = Must(ToDLPack(x));
    EXPECT_OK(Load(DefaultStream(dev()), out, t->dl_tensor.data));
    Release(t);
    EXPECT_OK(dev().Synchronize());
    EXPECT_EQ(out.Peek(), 2);
    Settle();
  });
}

TEST_F(Ordering, TwoProducersAreJoined) {
  InEverySchedule([] {
    Stream a = NewStream();
    Stream b = NewStream();
    Stream c = NewStream();
    const Array x = Must(Array::Empty({2}, kInt64, Place(dev())));
    int64_t* const p = x.data_as<int64_t>();
    EXPECT_OK(StoreRaw(a, p, 3));
    EXPECT_OK(x.NoteUse(a));
    EXPECT_OK(StoreRaw(b, p + 1, 4));
    EXPECT_OK(x.NoteUse(b));
    Cell first(dev());
    Cell second(dev());
    DLPackExport how;
    how.stream = Handle(c);
    DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
    EXPECT_OK(Load(c, first, p));
    EXPECT_OK(Load(c, second, p + 1));
    Release(t);
    EXPECT_OK(dev().Synchronize());
    EXPECT_EQ(first.Peek(), 3);
    EXPECT_EQ(second.Peek(), 4);
    Settle();
  });
}

// The consumer's work comes before the next use of the memory, although the
// consumer released the tensor at once.
// E8
TEST_F(Ordering, MemoryIsReusedAfterTheConsumersWork) {
  InEverySchedule([] {
    Stream a = NewStream();
    Stream b = NewStream();
    Cell out(dev());
    {
      StreamGuard on_a(a);
      std::optional<Array> x = NewCell(dev(), 1);
      DLPackExport how;
      how.stream = Handle(b);
      DLManagedTensorVersioned* const t = Must(ToDLPack(*x, how));
      EXPECT_OK(Spin(b, kShort));
      EXPECT_OK(Load(b, out, t->dl_tensor.data));
      Release(t);
      x.reset();
      const Array next = Must(Array::Empty({1}, kInt64, Place(dev())));
      EXPECT_OK(Store(a, next, 9));
    }
    EXPECT_OK(dev().Synchronize());
    EXPECT_EQ(out.Peek(), 1);
    Settle();
  });
}

// The consumer's writes come before devrt's next use of the array that it gave
// away, once the consumer has let go.
// E8
TEST_F(Ordering, UsesByTheConsumerAreTold) {
  InEverySchedule([] {
    Stream a = NewStream();
    Stream b = NewStream();
    Cell out(dev());
    {
      StreamGuard on_a(a);
      const Array x = NewCell(dev(), 1);
      DLPackExport how;
      how.stream = Handle(b);
      DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
      EXPECT_OK(StoreRaw(b, static_cast<int64_t*>(t->dl_tensor.data), 5));
      Release(t);
      EXPECT_OK(x.OrderBefore(a));
      EXPECT_OK(Load(a, out, x.data()));
      EXPECT_OK(dev().Synchronize());
    }
    EXPECT_EQ(out.Peek(), 5);
    Settle();
  });
}

// E43
TEST_F(Ordering, HostMemoryIsReadyAfterExport) {
  InEverySchedule([] {
    Stream a = NewStream();
    const Array x = Must(Array::Empty({1}, kInt64, Place::Pinned(dev())));
    EXPECT_OK(Store(a, x, 4));
    DLManagedTensorVersioned* const t = Must(ToDLPack(x));
    EXPECT_EQ(*static_cast<int64_t*>(t->dl_tensor.data), 4);
    Release(t);
    EXPECT_OK(a.Synchronize());
    Settle();
  });
}

TEST_F(Ordering, CopiesForTheConsumerAreItsStreams) {
  InEverySchedule([] {
    Stream a = NewStream();
    Stream b = NewStream();
    const Array x = NewCell(dev(), 1);
    Cell out(dev());
    EXPECT_OK(Store(a, x, 6));
    DLPackExport how;
    how.stream = Handle(b);
    how.copy = true;
    DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
    EXPECT_OK(Load(b, out, t->dl_tensor.data));
    Release(t);
    EXPECT_OK(dev().Synchronize());
    EXPECT_EQ(out.Peek(), 6);
    Settle();
  });
}

// Both exports of the exchange API join into the current stream.
// E12
TEST_F(Ordering, NoSyncJoinsIntoTheCurrentStream) {
  for (const bool owning : {true, false}) {
    InEverySchedule([owning] {
      Stream a = NewStream();
      Stream b = NewStream();
      const Array x = NewCell(dev(), 1);
      Cell out(dev());
      EXPECT_OK(Store(a, x, 2));
      StreamGuard on_b(b);
      EXPECT_EQ(Must(CurrentWorkStream(kDLExtDev, 0)), Must(b.Native()));
      if (owning) {
        DLManagedTensorVersioned* const t = Must(ExportNoSync(x));
        EXPECT_OK(Load(b, out, t->dl_tensor.data));
        Release(t);
      } else {
        int64_t strides[1];
        DLTensor t;
        EXPECT_OK(BorrowNoSync(x, strides, &t));
        EXPECT_OK(Load(b, out, t.data));
      }
      EXPECT_OK(dev().Synchronize());
      EXPECT_EQ(out.Peek(), 2);
      Settle();
    });
  }
}

// E15, in both halves.
int64_t ReadAfterImport(bool sync) {
  Stream a = ExchangeTest::NewStream();
  Stream b = ExchangeTest::NewStream();
  Cell theirs(ExchangeTest::dev());
  Cell out(ExchangeTest::dev());
  theirs.Poke(1);
  EXPECT_OK(Put(a, theirs, 2));
  CudaArrayInterface cai;
  cai.shape = {1};
  cai.typestr = "<i8";
  cai.data = reinterpret_cast<uintptr_t>(theirs.ptr());
  cai.stream = Handle(a);
  CudaArrayImport how;
  how.sync = sync;
  {
    StreamGuard on_b(b);
    const Array x = Must(FromCudaArrayInterface(cai, nullptr, how));
    EXPECT_EQ(x.home_stream(), a.ref());
    EXPECT_OK(ExchangeTest::Load(b, out, x.data()));
    EXPECT_OK(x.NoteUse(b));
  }
  // Later work of the producer's stream waits for devrt's last use.
  EXPECT_OK(Put(a, theirs, 3));
  EXPECT_OK(ExchangeTest::dev().Synchronize());
  ExchangeTest::Settle();
  return out.Peek();
}

// E15
TEST_F(Ordering, TheProducersStreamComesBeforeAndAfter) {
  InEverySchedule([] { EXPECT_EQ(ReadAfterImport(true), 2); });
}

TEST_F(Ordering, ControlWithoutSyncBothComeOut) {
  ExpectOutcomes({1, 2}, [] { return ReadAfterImport(false); });
}

}  // namespace
}  // namespace devrt::testing
