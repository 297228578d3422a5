// SPDX-License-Identifier: Apache-2.0
//
// The joins of an exchange.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "devrt/arrays/cuda_array_interface.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/dlpack_exchange.h"
#include "tests/arrays/order/litmus.h"
#include "tests/arrays/order/others.h"

namespace devrt::testing {
namespace {

class Exchanges : public OthersPrograms {
 public:
  static DLManagedTensorVersioned* Export(const Array& x, StreamRef consumer) {
    DLPackExport how;
    how.stream = Others::Handle(consumer);
    return Must(ToDLPack(x, how));
  }
  static void Release(DLManagedTensorVersioned* t) { t->deleter(t); }
  // Memory that somebody lends and who, once it is back, has other plans with
  // it.
  static Array Borrowed(const Array& memory, StreamRef home) {
    PointerOptions options;
    options.stream = home;
    options.owner = std::shared_ptr<void>(nullptr, [memory](void*) {
      const std::vector<int32_t> other(64, 99);
      Must(sim().Poke(memory.data(), other.data(), memory.nbytes()));
    });
    return Must(Array::FromPointer(memory.data(), memory.shape(), kInt32,
                                   std::move(options)));
  }
  // ---- Out ----

  // `consume(x, b, y)` exports `x` to the stream `b`, which copies `x` to `y`.
  template <typename Consume>
  static bool ComesAfterUses(Consume consume) {
    Stream a = NewStream();
    Stream b = NewStream();
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    Delay(a);
    On(a, [&] { return x.Fill(7); });
    consume(x, b, y);
    Done();
    return IsAll(y, 7);
  }
  static bool ConsumerComesAfterUses() {
    return ComesAfterUses([](const Array& x, StreamRef b, const Array& y) {
      DLManagedTensorVersioned* const t = Export(x, b);
      Others::Copy(b, y.data(), t->dl_tensor.data, y.nbytes());
      Release(t);
    });
  }
  static bool NoSyncConsumerComesAfterUses() {
    return ComesAfterUses([](const Array& x, StreamRef b, const Array& y) {
      const StreamGuard on_b(b);
      DLManagedTensorVersioned* const t = Must(ExportNoSync(x));
      Others::Copy(b, y.data(), t->dl_tensor.data, y.nbytes());
      Release(t);
    });
  }
  static bool BorrowerComesAfterUses() {
    return ComesAfterUses([](const Array& x, StreamRef b, const Array& y) {
      const StreamGuard on_b(b);
      int64_t strides[1];
      DLTensor t;
      Must(BorrowNoSync(x, strides, &t));
      Others::Copy(b, y.data(), t.data, y.nbytes());
    });
  }
  static bool CaiConsumerComesAfterUses() {
    const AsHip hip;
    bool named = false;
    return ComesAfterUses([&](const Array& x, StreamRef b, const Array& y) {
             const StreamGuard on_b(b);
             const CudaArrayInterface cai = Must(ToCudaArrayInterface(x));
             // No stream is named where nothing is pending.
             named =
                 !cai.stream.has_value() || *cai.stream == Others::Handle(b);
             Others::Copy(b, y.data(), x.data(), y.nbytes());
           }) &&
           named;
  }
  static bool HostConsumerComesAfterUses() {
    Stream a = NewStream();
    const Array y = Filled(dev(), 7);
    const Array pinned = Filled(Place::Pinned(dev()), 1);
    Delay(a);
    On(a, [&] { return pinned.CopyFrom(y, true); });
    DLManagedTensorVersioned* const t = Must(ToDLPack(pinned));
    const bool right = *static_cast<const int32_t*>(t->dl_tensor.data) == 7;
    Release(t);
    Done();
    return right;
  }

  // ---- What the consumer did ----

  // `home`: on the array's own stream.
  static bool ConsumersWriteIsJoined(bool home, bool no_sync) {
    Stream a = NewStream();
    Stream b = NewStream();
    const Array y = Filled(dev(), 2);
    std::optional<Array> x;
    On(home ? b : a, [&] {
      x = Filled(dev(), 1);
      return x->OrderBefore(a);
    });
    const StreamGuard on_b(b);
    DLManagedTensorVersioned* const t =
        no_sync ? Must(ExportNoSync(*x)) : Export(*x, b);
    WriteAsConsumer(b, *x);
    Release(t);
    On(a, [&] { return y.CopyFrom(*x); });
    Done();
    return IsAll(y, 0);
  }
  static bool ConsumersWriteIsJoined() {
    return ConsumersWriteIsJoined(false, false);
  }
  static bool HomeConsumersWriteIsJoined() {
    return ConsumersWriteIsJoined(true, false);
  }
  static bool NoSyncConsumersWriteIsJoined() {
    return ConsumersWriteIsJoined(false, true);
  }
  static bool NoSyncHomeConsumersWriteIsJoined() {
    return ConsumersWriteIsJoined(true, true);
  }
  // The consumer's stream ends before it lets go.
  static bool EndedConsumersWriteIsJoined() {
    Stream a = NewStream();
    std::optional<Stream> b = NewStream();
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    DLManagedTensorVersioned* const t = Export(x, *b);
    Must(x.OrderBefore(a));
    WriteAsConsumer(*b, x);
    b.reset();
    Release(t);
    On(a, [&] { return y.CopyFrom(x); });
    Done();
    return IsAll(y, 0);
  }
  static bool MemoryOutlivesItsConsumer() {
    Stream a = NewStream();
    Stream b = NewStream();
    const Array y = Filled(dev(), 2);
    std::optional<Array> x;
    On(a, [&] {
      x = Filled(dev(), 1);
      return absl::OkStatus();
    });
    DLManagedTensorVersioned* const t = Export(*x, b);
    ReadAsConsumer(b, y, t->dl_tensor.data);
    x.reset();
    Release(t);
    UseAgain(a);
    Done();
    return IsAll(y, 1);
  }
  // Its stream is one that devrt does not know, and a blocking one.
  static bool MemoryOutlivesUnknownConsumers() {
    const AsHip hip;
    devrt_stream_desc_v0 desc = {};
    desc.struct_size = sizeof desc;
    desc.flags = DEVRT_STREAM_BLOCKING;
    internal::DeviceRecord* const device = dev().record();
    devrt_stream handle = nullptr;
    Must(internal::FromPlugin(
        device, device->ops->stream_create(device->self, 0, &desc, &handle),
        "stream"));
    void* native = nullptr;
    Must(internal::FromPlugin(
        device, device->ops->stream_native(device->self, handle, &native),
        "handle"));
    Stream a = NewStream();
    const Array y = Filled(dev(), 2);
    std::optional<Array> x;
    On(a, [&] {
      x = Filled(dev(), 1);
      return absl::OkStatus();
    });
    DLPackExport how;
    how.stream = static_cast<int64_t>(reinterpret_cast<uintptr_t>(native));
    DLManagedTensorVersioned* const t = Must(ToDLPack(*x, how));
    {
      const Stream consumer = Must(Stream::FromNative(dev(), native));
      ReadAsConsumer(consumer.ref(), y, t->dl_tensor.data);
    }
    x.reset();
    Release(t);
    UseAgain(a);
    Done();
    Must(internal::FromPlugin(
        device, device->ops->stream_destroy(device->self, handle), "end"));
    return IsAll(y, 1);
  }
  static bool OwnerOutlivesHomeConsumers() {
    Stream a = NewStream();
    const Array y = Filled(dev(), 2);
    const Array memory = Filled(dev(), 1);
    std::optional<Array> x = Borrowed(memory, a);
    DLManagedTensorVersioned* const t = Export(*x, a);
    ReadAsConsumer(a, y, t->dl_tensor.data);
    x.reset();
    Release(t);
    for (int i = 0; i < 3; ++i) internal::RunPendingReleases();
    Done();
    return IsAll(y, 1) && IsAll(memory, 99);
  }
  static bool OwnerOutlivesHomeBorrowers() {
    Stream a = NewStream();
    const Array y = Filled(dev(), 2);
    const Array memory = Filled(dev(), 1);
    {
      const Array x = Borrowed(memory, a);
      const StreamGuard on_a(a);
      int64_t strides[1];
      DLTensor t;
      Must(BorrowNoSync(x, strides, &t));
      ReadAsConsumer(a, y, t.data);
    }
    for (int i = 0; i < 3; ++i) internal::RunPendingReleases();
    Done();
    return IsAll(y, 1) && IsAll(memory, 99);
  }
  static bool MemoryOutlivesBorrowers() {
    Stream a = NewStream();
    Stream b = NewStream();
    const Array y = Filled(dev(), 2);
    std::optional<Array> x;
    On(a, [&] {
      x = Filled(dev(), 1);
      return absl::OkStatus();
    });
    On(b, [&]() -> absl::Status {
      int64_t strides[1];
      DLTensor t;
      DEVRT_RETURN_IF_ERROR(BorrowNoSync(*x, strides, &t));
      ReadAsConsumer(b, y, t.data);
      return absl::OkStatus();
    });
    x.reset();
    UseAgain(a);
    Done();
    return IsAll(y, 1);
  }
  // `pending`: or nothing is, and so no stream is named.
  static bool MemoryOutlivesCaiConsumers(bool pending) {
    const AsHip hip;
    Stream a = NewStream();
    Stream b = NewStream();
    const Array y = Filled(dev(), 2);
    std::optional<Array> x;
    On(a, [&] {
      x = Filled(dev(), 1);
      if (!pending) return absl::OkStatus();
      Delay(a);
      return x->Fill(7);
    });
    On(b, [&]() -> absl::Status {
      DEVRT_RETURN_IF_ERROR(ToCudaArrayInterface(*x).status());
      ReadAsConsumer(b, y, x->data());
      return absl::OkStatus();
    });
    x.reset();
    UseAgain(a);
    Done();
    return IsAll(y, pending ? 7 : 1);
  }
  static bool MemoryOutlivesCaiConsumers() {
    return MemoryOutlivesCaiConsumers(true);
  }
  static bool MemoryOutlivesUnnamedCaiConsumers() {
    return MemoryOutlivesCaiConsumers(false);
  }

  // ---- In ----

  static bool CaiImportComesAfterItsStream() {
    Stream a = NewStream();
    Stream b = NewStream();
    const Array memory = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    WriteAsConsumer(a, memory);
    CudaArrayInterface cai;
    cai.shape = {64};
    cai.typestr = "<i4";
    cai.data = reinterpret_cast<uintptr_t>(memory.data());
    cai.stream = Others::Handle(a);
    const StreamGuard on_b(b);
    const Array x = Must(FromCudaArrayInterface(cai, nullptr));
    // Not by devrt, which would come after the home stream anyway.
    Others::Copy(b, y.data(), x.data(), y.nbytes());
    Done();
    return IsAll(y, 0);
  }
  static bool OwnTensorComesAfterItsStream() {
    Stream a = NewStream();
    Stream b = NewStream();
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    DLPackExport how;
    how.stream = -1;
    DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
    WriteAsConsumer(b, x);
    DLPackImport in;
    in.stream = b;
    const Array back = Must(FromDLPack(t, in));
    On(a, [&] { return y.CopyFrom(back); });
    Done();
    return IsAll(y, 0);
  }
  // The export alone names the stream of the consumer's work.
  static bool OwnTensorComesAfterItsConsumer() {
    Stream a = NewStream();
    Stream b = NewStream();
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    DLManagedTensorVersioned* const t = Export(x, b);
    Must(x.OrderBefore(a));
    WriteAsConsumer(b, x);
    const Array back = Must(FromDLPack(t));
    On(a, [&] { return y.CopyFrom(back); });
    Done();
    return IsAll(y, 0);
  }
};

}  // namespace

const std::vector<Litmus>& ExchangeLitmus() {
#define PROGRAM(name) \
  { #name, &Exchanges::name }
  static const std::vector<Litmus> all = {
      PROGRAM(ConsumerComesAfterUses),
      PROGRAM(NoSyncConsumerComesAfterUses),
      PROGRAM(BorrowerComesAfterUses),
      PROGRAM(CaiConsumerComesAfterUses),
      PROGRAM(HostConsumerComesAfterUses),
      PROGRAM(ConsumersWriteIsJoined),
      PROGRAM(HomeConsumersWriteIsJoined),
      PROGRAM(NoSyncConsumersWriteIsJoined),
      PROGRAM(NoSyncHomeConsumersWriteIsJoined),
      PROGRAM(EndedConsumersWriteIsJoined),
      PROGRAM(MemoryOutlivesItsConsumer),
      PROGRAM(MemoryOutlivesUnknownConsumers),
      PROGRAM(OwnerOutlivesHomeConsumers),
      PROGRAM(OwnerOutlivesHomeBorrowers),
      PROGRAM(MemoryOutlivesBorrowers),
      PROGRAM(MemoryOutlivesCaiConsumers),
      PROGRAM(MemoryOutlivesUnnamedCaiConsumers),
      PROGRAM(CaiImportComesAfterItsStream),
      PROGRAM(OwnTensorComesAfterItsStream),
      PROGRAM(OwnTensorComesAfterItsConsumer),
  };
#undef PROGRAM
  return all;
}

}  // namespace devrt::testing
