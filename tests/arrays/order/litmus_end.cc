// SPDX-License-Identifier: Apache-2.0
//
// The order at the end of memory, and the joins of captures and adopted
// streams.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "devrt/arrays/dlpack_exchange.h"
#include "devrt/memory/resources.h"
#include "tests/arrays/order/litmus.h"
#include "tests/arrays/order/others.h"

namespace devrt::testing {
namespace {

// Knows of no uses: what came back on a stream is that stream's next block.
class LastBlock final : public MemoryResource {
 public:
  explicit LastBlock(Device d) : MemoryResource(d) {}
  ~LastBlock() override {
    if (last_ != nullptr) Must(devrt::Free(device(), last_));
  }
  MemoryProperties properties() const override { return {"last block"}; }

 private:
  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    if (last_ != nullptr && stream_ == r.stream) {
      return std::exchange(last_, nullptr);
    }
    return devrt::Allocate(device(), r.bytes);
  }
  absl::Status DoDeallocate(const MemoryReturn& r) override {
    void* const before = std::exchange(last_, r.pointer);
    stream_ = r.stream;
    if (before == nullptr) return absl::OkStatus();
    return devrt::Free(device(), before);
  }

  void* last_ = nullptr;
  std::optional<StreamRef> stream_;
};

class Ends : public OthersPrograms {
 public:
  static bool LenderComesAfterUses() {
    Stream lender = NewStream();
    Stream a = NewStream();
    const Array memory = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    {
      PointerOptions options;
      options.stream = lender;
      const Array x = Must(
          Array::FromPointer(memory.data(), memory.shape(), kInt32, options));
      Delay(a);
      On(a, [&] { return y.CopyFrom(x); });
    }
    Others::Fill(lender, memory.data(), 0, memory.nbytes());
    Done();
    return IsAll(y, 1);
  }
  static bool RecordedUseLastsUpToTheEnd() {
    Stream a = NewStream();
    Stream b = NewStream();
    const Array y = Filled(dev(), 2);
    std::optional<Array> x;
    On(a, [&] {
      x = Filled(dev(), 1);
      return x->RecordUse(b);
    });
    // Whatever is known to be over by then.
    Must(b.Synchronize());
    ReadAsConsumer(b, y, x->data());
    x.reset();
    UseAgain(a);
    Done();
    return IsAll(y, 1);
  }
  // The home stream's work comes before the next work of the deallocation
  // stream, also if devrt does not know of that work.
  static bool DeallocationStreamComesAfterHome(bool known) {
    Stream a = NewStream();
    Stream b = NewStream();
    const Array y = Filled(dev(), 2);
    Must(SetMemoryResource(dev(), std::make_shared<LastBlock>(dev())));
    std::optional<Array> x;
    On(a, [&]() -> absl::Status {
      x = Filled(dev(), 1);
      DEVRT_RETURN_IF_ERROR(x->SetDeallocationStream(b));
      Delay(a);
      if (known) return y.CopyFrom(*x);
      int64_t strides[1];
      DLTensor t;
      DEVRT_RETURN_IF_ERROR(BorrowNoSync(*x, strides, &t));
      Others::Copy(a, y.data(), t.data, y.nbytes());
      return absl::OkStatus();
    });
    x.reset();
    UseAgain(b);
    Done();
    Must(SetMemoryResource(dev(), nullptr));
    return IsAll(y, 1);
  }
  static bool DeallocationStreamComesAfterHome() {
    return DeallocationStreamComesAfterHome(true);
  }
  static bool DeallocationStreamComesAfterBorrowers() {
    return DeallocationStreamComesAfterHome(false);
  }
  // The deallocation stream's work comes before the next work of the home
  // stream.
  static bool EndedDeallocationStreamComesFirst() {
    Stream a = NewStream();
    std::optional<Stream> b = NewStream();
    const Array y = Filled(dev(), 2);
    std::optional<Array> x;
    On(a, [&] {
      x = Filled(dev(), 1);
      return x->SetDeallocationStream(*b);
    });
    Must(a.Synchronize());
    ReadAsConsumer(*b, y, x->data());
    b.reset();
    x.reset();
    UseAgain(a);
    Done();
    return IsAll(y, 1);
  }
  static bool CapturedUsesAreEdges() {
    Capture capture;
    Stream a = NewStream();
    Stream b = NewStream();
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    Delay(a);
    capture.Begin(a);
    capture.Begin(b);
    On(a, [&] { return x.Fill(7); });
    On(b, [&] { return y.CopyFrom(x); });
    capture.End(a);
    capture.End(b);
    Done();
    return IsAll(y, 7);
  }
  static bool MemoryOutlivesGraphs() {
    Capture capture;
    Stream a = NewStream();
    const Array y = Filled(dev(), 2);
    std::optional<Array> x;
    On(a, [&] {
      x = Filled(dev(), 1);
      capture.Begin(a);
      return x->Fill(7);
    });
    const void* const address = x->data();
    x.reset();
    capture.End(a);
    UseAgain(a);
    Others::Copy(a, y.data(), address, y.nbytes());  // as the graph does
    Done();
    return IsAll(y, 7);
  }
  // Without a wait for its whole device, which is all there is for a stream
  // that devrt may not touch later.
  static bool AdoptedStreamsAreJoinedByEvents() {
    Stream a = NewStream();
    Stream b = NewStream();
    const Stream adopted = Must(Stream::FromNative(dev(), Must(a.Native())));
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    Delay(adopted.ref());
    On(adopted.ref(), [&] { return x.Fill(7); });
    static int waits;
    static devrt_ops_v0 real;
    waits = 0;
    devrt_ops_v0& ops = dev().record()->backend->ops;
    real = ops;
    ops.device_sync = [](void* self, uint32_t device) {
      ++waits;
      return real.device_sync(self, device);
    };
    On(b, [&] { return y.CopyFrom(x); });
    ops = real;
    Done();
    return waits == 0 && IsAll(y, 7);
  }
};

}  // namespace

const std::vector<Litmus>& EndLitmus() {
#define PROGRAM(name) \
  { #name, &Ends::name }
  static const std::vector<Litmus> all = {
      PROGRAM(LenderComesAfterUses),
      PROGRAM(RecordedUseLastsUpToTheEnd),
      PROGRAM(DeallocationStreamComesAfterHome),
      PROGRAM(DeallocationStreamComesAfterBorrowers),
      PROGRAM(EndedDeallocationStreamComesFirst),
      PROGRAM(CapturedUsesAreEdges),
      PROGRAM(MemoryOutlivesGraphs),
      PROGRAM(AdoptedStreamsAreJoinedByEvents),
  };
#undef PROGRAM
  return all;
}

}  // namespace devrt::testing
