// SPDX-License-Identifier: Apache-2.0

#include "tests/arrays/order/litmus.h"

#include <memory>
#include <optional>

#include "devrt/arrays/operations.h"
#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {
namespace {

class Programs : public ArraysTest {
 public:
  void TestBody() override {}

  // Two streams; the first is slow.
  struct Two {
    Stream a = NewStream();
    Stream b = NewStream();
    void Delay() const { Must(Spin(a, kLong)); }
  };
  static void Done() {
    for (int i = 0; i < kDevices; ++i) Must(dev(i).Synchronize());
  }
  // Operations of arrays on `stream`.
  template <typename F>
  static void On(StreamRef stream, F f) {
    const StreamGuard guard(stream);
    Must(f());
  }

  static bool ReadAfterWrite() {
    Two two;
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    two.Delay();
    On(two.a, [&] { return x.Fill(7); });
    On(two.b, [&] { return y.CopyFrom(x); });
    Done();
    return IsAll(y, 7);
  }
  static bool KernelReadsAfterWrite() {
    Two two;
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    two.Delay();
    On(two.a, [&] { return x.Fill(7); });
    On(two.b, [&] { return AddInto(y, x, 1); });
    Done();
    return IsAll(y, 8);
  }
  static bool WriteAfterRead() {
    Two two;
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    two.Delay();
    On(two.a, [&] { return y.CopyFrom(x); });
    On(two.b, [&] { return x.Fill(9); });
    Done();
    return IsAll(y, 1) && IsAll(x, 9);
  }
  static bool WriteAfterWrite() {
    Two two;
    const Array x = Filled(dev(), 1);
    two.Delay();
    On(two.a, [&] { return x.Fill(5); });
    On(two.b, [&] { return x.Fill(9); });
    Done();
    return IsAll(x, 9);
  }
  // A write stands for what came before it, also for those after it.
  static bool WriteStandsForReads() {
    Two two;
    Stream c = NewStream();
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    two.Delay();
    On(two.a, [&] { return y.CopyFrom(x); });
    On(two.b, [&] { return x.Fill(9); });
    On(c, [&] { return x.Fill(3); });
    Done();
    return IsAll(y, 1) && IsAll(x, 3);
  }
  // A block that its stream still uses, by what had it before.
  static bool AllocationComesAfterItsStream() {
    Two two;
    const Array y = Filled(dev(), 2);
    std::optional<Array> fresh;
    {
      const StreamGuard guard(two.a);
      const Array x = NewArray(dev());
      Must(Spin(two.a, kLong));
      Must(x.Fill(1));
      Must(y.CopyFrom(x));
    }
    On(two.a, [&] {
      fresh = NewArray(dev());
      return absl::OkStatus();
    });
    On(two.b, [&] { return fresh->Fill(5); });
    Done();
    return IsAll(y, 1) && IsAll(*fresh, 5);
  }
  static bool ImportComesAfterItsStream() {
    Two two;
    const Array y = Filled(dev(), 2);
    const Array owner = Filled(dev(), 1);
    two.Delay();
    Must(FillAsync(two.a, owner.data(), 0, owner.nbytes()));
    PointerOptions options;
    options.stream = two.a;
    const Array x =
        Must(Array::FromPointer(owner.data(), owner.shape(), kInt32, options));
    On(two.b, [&] { return y.CopyFrom(x); });
    Done();
    return IsAll(y, 0);
  }
  static bool NotedUseIsJoined() {
    Two two;
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    two.Delay();
    Must(FillAsync(two.a, x.data(), 0, x.nbytes()));
    Must(x.NoteUse(two.a));
    On(two.b, [&] { return y.CopyFrom(x); });
    Done();
    return IsAll(y, 0);
  }
  static bool OrderBeforeIsOrder() {
    Two two;
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    two.Delay();
    On(two.a, [&] { return x.Fill(7); });
    Must(x.OrderBefore(two.b));
    Must(CopyAsync(two.b, y.data(), x.data(), x.nbytes()));
    Done();
    return IsAll(y, 7);
  }
  // The memory of an array that is gone, under its last use.
  static bool MemoryOutlivesItsUses() {
    Two two;
    const Array y = Filled(dev(), 2);
    const StreamGuard home(two.b);
    std::optional<Array> x = Filled(dev(), 1);
    two.Delay();
    On(two.a, [&] { return y.CopyFrom(*x); });
    x.reset();
    const Array z = NewArray(dev());
    Must(z.Fill(3));
    Done();
    return IsAll(y, 1) && IsAll(z, 3);
  }
  static bool PinnedMemoryOutlivesItsUses() {
    Two two;
    const Array y = Filled(dev(), 2);
    std::optional<Array> x = Filled(Place::Pinned(dev()), 1);
    two.Delay();
    On(two.a, [&] { return y.CopyFrom(*x, true); });
    x.reset();
    const Array z = NewArray(Place::Pinned(dev()));
    Must(z.Fill(3));
    Done();
    return IsAll(y, 1);
  }
  static bool OwnerOutlivesItsUses() {
    Two two;
    const Array y = Filled(dev(), 2);
    const Array memory = Filled(dev(), 1);
    PointerOptions options;
    // The lender writes to the memory when it gets it back.
    options.owner = std::shared_ptr<void>(nullptr, [&](void*) {
      const std::vector<int32_t> other(64, 99);
      Must(sim().Poke(memory.data(), other.data(), memory.nbytes()));
    });
    {
      const Array x = Must(
          Array::FromPointer(memory.data(), memory.shape(), kInt32, options));
      options.owner.reset();
      two.Delay();
      On(two.a, [&] { return y.CopyFrom(x); });
    }
    Done();
    for (int i = 0; i < 10; ++i) internal::RunPendingReleases();
    return IsAll(y, 1) && IsAll(memory, 99);
  }
  static bool HostReadsPinnedAfterWrite() {
    Two two;
    const Array x = Filled(dev(), 7);
    const Array pinned = Filled(Place::Pinned(dev()), 1);
    const Array host = Filled(Place::Host(), 2);
    two.Delay();
    On(two.a, [&] { return pinned.CopyFrom(x, true); });
    Must(host.CopyFrom(pinned));
    const bool right = IsAll(host, 7);
    Done();
    return right;
  }
  static bool HostWritesPinnedAfterRead() {
    Two two;
    const Array x = Filled(dev(), 7);
    const Array pinned = Filled(Place::Pinned(dev()), 1);
    two.Delay();
    On(two.a, [&] { return x.CopyFrom(pinned, true); });
    Must(pinned.Fill(8));
    Done();
    return IsAll(x, 1);
  }
  static bool CopyToHostHasArrived() {
    Two two;
    const Array x = Filled(dev(), 7);
    const Array host = Filled(Place::Host(), 2);
    const Array pinned = Filled(Place::Pinned(dev()), 2);
    two.Delay();
    On(two.a, [&] { return x.Fill(8); });
    On(two.a, [&] { return pinned.CopyFrom(x); });
    const bool right = IsAll(pinned, 8);
    On(two.b, [&] { return host.CopyFrom(x); });
    const bool arrived = IsAll(host, 8);
    Done();  // without the wait, the copy may write to `host` until here
    return right && arrived;
  }
  static bool CopyFromHostHasLeft() {
    Two two;
    const Array x = Filled(dev(), 7);
    const Array host = Filled(Place::Host(), 2);
    two.Delay();
    On(two.a, [&] { return x.CopyFrom(host, true); });
    host.data_as<int32_t>()[0] = 5;
    Done();
    return IsAll(x, 2);
  }
  // The target's current stream may have been given anything, by anybody (C57).
  static bool PeerCopyComesAfterTheTarget() {
    Stream there = NewStream(dev(1));
    const Array x = Filled(dev(0), 7);
    const Array y = Filled(dev(1), 2);
    const StreamGuard guard(there);
    Must(Spin(there, kLong));
    Must(FillAsync(there, y.data(), 0, y.nbytes()));
    Must(y.CopyFrom(x));
    Done();
    return IsAll(y, 7);
  }
  static bool PeerCopyComesBeforeTheTarget() {
    Stream here = NewStream(dev(0));
    Stream there = NewStream(dev(1));
    const Array x = Filled(dev(0), 7);
    const Array y = Filled(dev(1), 2);
    const Array z = Filled(dev(1), 3);
    const MultiStreamGuard guard({here, there});
    Must(Spin(here, kLong));
    Must(y.CopyFrom(x));
    Must(CopyAsync(there, z.data(), y.data(), y.nbytes()));
    Done();
    return IsAll(z, 7);
  }
  // Uses of both sides, on streams that are not current (E42).
  static bool PeerCopyJoinsBothSides() {
    Stream a = NewStream(dev(0));
    Stream b = NewStream(dev(1));
    const Array x = Filled(dev(0), 7);
    const Array y = Filled(dev(1), 2);
    const Array z = Filled(dev(1), 3);
    Must(Spin(a, kLong));
    Must(Spin(b, kLong));
    On(a, [&] { return x.Fill(8); });
    On(b, [&] { return z.CopyFrom(y); });
    Must(y.CopyFrom(x));
    Stream c = NewStream(dev(1));
    const Array w = Filled(dev(1), 4);
    On(c, [&] { return w.CopyFrom(y); });
    Stream d = NewStream(dev(0));
    On(d, [&] { return x.Fill(1); });
    Done();
    return IsAll(z, 2) && IsAll(y, 8) && IsAll(w, 8) && IsAll(x, 1);
  }
  // Packed there, cast here.
  static bool StridedPeerCopyKeepsItsSteps() {
    Stream a = NewStream(dev(0));
    const Array x = Filled(dev(0), 7);
    const Array y = Must(Array::Empty({2, 32}, kInt32, dev(1)));
    Must(y.Fill(1));
    Must(Spin(a, kLong));
    On(a, [&] { return x.Fill(8); });
    Must(y.Transpose().CopyFrom(Must(x.Reshape({32, 2}))));
    Done();
    return IsAll(y, 8);
  }
  // Steps of other streams in between, through what the first made known.
  static bool OrderIsHandedOn() {
    Two two;
    Stream c = NewStream();
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    const Array z = Filled(dev(), 3);
    two.Delay();
    On(two.a, [&] { return x.Fill(7); });
    On(two.b, [&] { return y.CopyFrom(x); });
    On(c, [&] { return z.CopyFrom(y); });
    On(c, [&] { return x.Fill(4); });
    Done();
    return IsAll(y, 7) && IsAll(z, 7) && IsAll(x, 4);
  }
  static bool EndedStreamIsJoined() {
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    {
      Stream a = NewStream();
      Must(Spin(a, kLong));
      On(a, [&] { return x.Fill(7); });
    }
    Stream b = NewStream();
    On(b, [&] { return y.CopyFrom(x); });
    Done();
    return IsAll(y, 7);
  }
};

}  // namespace

const std::vector<Litmus>& AllLitmus() {
#define PROGRAM(name) \
  { #name, &Programs::name }
  static std::vector<Litmus> all = {
      PROGRAM(ReadAfterWrite),
      PROGRAM(KernelReadsAfterWrite),
      PROGRAM(WriteAfterRead),
      PROGRAM(WriteAfterWrite),
      PROGRAM(WriteStandsForReads),
      PROGRAM(AllocationComesAfterItsStream),
      PROGRAM(ImportComesAfterItsStream),
      PROGRAM(NotedUseIsJoined),
      PROGRAM(OrderBeforeIsOrder),
      PROGRAM(MemoryOutlivesItsUses),
      PROGRAM(PinnedMemoryOutlivesItsUses),
      PROGRAM(OwnerOutlivesItsUses),
      PROGRAM(HostReadsPinnedAfterWrite),
      PROGRAM(HostWritesPinnedAfterRead),
      PROGRAM(CopyToHostHasArrived),
      PROGRAM(CopyFromHostHasLeft),
      PROGRAM(PeerCopyComesAfterTheTarget),
      PROGRAM(PeerCopyComesBeforeTheTarget),
      PROGRAM(PeerCopyJoinsBothSides),
      PROGRAM(StridedPeerCopyKeepsItsSteps),
      PROGRAM(OrderIsHandedOn),
      PROGRAM(EndedStreamIsJoined),
  };
#undef PROGRAM
  [[maybe_unused]] static const bool with_others = [] {
    for (const auto* more :
         {&AdoptedLitmus(), &ExchangeLitmus(), &EndLitmus()}) {
      all.insert(all.end(), more->begin(), more->end());
    }
    return true;
  }();
  return all;
}

}  // namespace devrt::testing
