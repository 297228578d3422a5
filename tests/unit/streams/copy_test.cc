// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills: C47 to C60.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

// Device or pinned memory of the size of `count` integers.
class Ints {
 public:
  static constexpr size_t kCount = 256;
  static constexpr uint64_t kBytes = kCount * sizeof(int64_t);
  enum class Where { kDevice, kPinned };

  explicit Ints(Device device, Where where = Where::kDevice)
      : device_(device), where_(where) {
    auto made = where == Where::kDevice ? Allocate(device, kBytes)
                                        : AllocateHost(device, kBytes);
    EXPECT_OK(made.status());
    ptr_ = made.ok() ? static_cast<int64_t*>(*made) : nullptr;
  }
  Ints(const Ints&) = delete;
  Ints& operator=(const Ints&) = delete;
  ~Ints() {
    EXPECT_OK(where_ == Where::kDevice ? Free(device_, ptr_) : FreeHost(ptr_));
  }
  int64_t* ptr() const { return ptr_; }
  void PokeAll(int64_t value) const {
    std::vector<int64_t> v(kCount, value);
    EXPECT_OK(MtiaTest::sim().Poke(ptr_, v.data(), kBytes));
  }
  int64_t PeekAt(size_t i) const {
    int64_t value = 0;
    EXPECT_OK(MtiaTest::sim().Peek(ptr_ + i, &value, sizeof value));
    return value;
  }

 private:
  Device device_;
  Where where_;
  int64_t* ptr_;
};

constexpr uint64_t kBytes = Ints::kBytes;

using FillTest = MtiaTest;
using CopyArguments = MtiaTest;

// C47
TEST_F(FillTest, FillIsAsynchronousAndInOrder) {
  InEverySchedule([] {
    Ints x(dev());
    Stream s = NewStream();
    Flag gate = NewFlag();
    ASSERT_OK(gate.WaitOn(s));
    ASSERT_OK(FillAsync(s, x.ptr(), 0x7f, kBytes));
    EXPECT_FALSE(*s.Query());
    EXPECT_NE(x.PeekAt(0), 0x7f7f7f7f7f7f7f7f);
    ASSERT_OK(gate.Set());
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(x.PeekAt(0), 0x7f7f7f7f7f7f7f7f);
    EXPECT_EQ(x.PeekAt(Ints::kCount - 1), 0x7f7f7f7f7f7f7f7f);
  });
}

// C47
TEST_F(FillTest, TargetsThatAreNotOfTheDevice) {
  Stream s = NewStream();
  Ints pinned(dev(), Ints::Where::kPinned);
  Ints other(dev(1));
  int64_t pageable = 5;
  pinned.ptr()[0] = 5;
  other.PokeAll(5);
  for (void* target :
       {static_cast<void*>(pinned.ptr()), static_cast<void*>(other.ptr()),
        static_cast<void*>(&pageable)}) {
    EXPECT_STATUS(FillAsync(s, target, 0, 8), kInvalidArgument,
                  "a fill on a stream of mtia:0 needs memory of that device");
  }
  ASSERT_OK(dev().Synchronize());
  EXPECT_EQ(pageable, 5);
  EXPECT_EQ(pinned.ptr()[0], 5);
  EXPECT_EQ(other.PeekAt(0), 5);
}

// C47
TEST_F(FillTest, MemoryOfAPeerWithAccess) {
  InEverySchedule([] {
    Stream s = NewStream();
    Ints other(dev(1));
    ASSERT_OK(EnablePeerAccess(dev(0), dev(1)));
    ASSERT_OK(FillAsync(s, other.ptr(), 0x11, kBytes));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(other.PeekAt(Ints::kCount - 1), 0x1111111111111111);
    ASSERT_OK(DisablePeerAccess(dev(0), dev(1)));
    EXPECT_STATUS(FillAsync(s, other.ptr(), 0, 8), kInvalidArgument,
                  "enable peer access");
  });
}

// C47
TEST_F(CopyArguments, FreedMemoryIsNotCalledHostMemory) {
  Stream s = NewStream();
  void* block = Must(Allocate(dev(), 64));
  ASSERT_OK(Free(dev(), block));
  EXPECT_STATUS(FillAsync(s, block, 0, 8), kInvalidArgument,
                "not allocated: it was in a block of 64 bytes of memory of "
                "mtia:0, allocated at ");
}

// C47
TEST_F(CopyArguments, UsesAfterTheFreeNameBothPlaces) {
  Stream s = NewStream();
  void* live = Must(Allocate(dev(), 64, 0, CallSite{"a.cc", 1}));
  void* block = Must(Allocate(dev(), 64, 0, CallSite{"a.cc", 2}));
  ASSERT_OK(Free(dev(), block, CallSite{"b.cc", 3}));
  char host[64] = {};
  const char* const places = ", allocated at a.cc:2, freed at b.cc:3";
  EXPECT_STATUS(FillAsync(s, block, 0, 8), kInvalidArgument, places);
  EXPECT_STATUS(CopyAsync(s, host, block, 8), kInvalidArgument, places);
  EXPECT_STATUS(CopyAsync(s, block, host, 8), kInvalidArgument, places);
  EXPECT_STATUS(CopyAsync(s, live, block, 8), kInvalidArgument, places);
  EXPECT_STATUS(CopyAsync(s, block, live, 8), kInvalidArgument, places);
  EXPECT_OK(Free(dev(), live));
}

// C47
TEST_F(CopyArguments, UsesAfterFreeMemoryAreRefused) {
  Stream s = NewStream();
  void* block = Must(AllocateMemory(s, 4096));
  void* live = Must(AllocateMemory(s, 4096));
  ASSERT_OK(FreeMemory(block, CallSite{"b.cc", 3}));
  char host[8] = {};
  const char* const why =
      "is memory from AllocateMemory, but no live block: it was a block of "
      "memory of mtia:0 from AllocateMemory, freed at ";
  EXPECT_STATUS(FillAsync(s, block, 0, 8), kInvalidArgument, why);
  EXPECT_STATUS(CopyAsync(s, host, block, 8), kInvalidArgument, why);
  EXPECT_STATUS(CopyAsync(s, live, block, 8), kInvalidArgument, why);
  EXPECT_STATUS(
      Launch(s, {Read(live, 8), Write(block, 8)}, [](const LaunchContext&) {}),
      kInvalidArgument, "b.cc:3");
  // Into the middle: nobody knows where that was freed.
  EXPECT_STATUS(FillAsync(s, static_cast<char*>(block) + 8, 0, 8),
                kInvalidArgument, "it was freed, or lies behind its block");
  EXPECT_OK(Launch(s, {Read(block, 0)}, [](const LaunchContext&) {}));
  EXPECT_OK(s.Synchronize());
  EXPECT_OK(FreeMemory(live));
  EXPECT_OK(EmptyCache(dev()));
}

// C47
TEST_F(CopyArguments, ADeviceStandsForItsCurrentStream) {
  InEverySchedule([] {
    Stream s = NewStream();
    const StreamGuard guard(s);
    void* block = Must(AllocateMemory(dev(), 64));
    EXPECT_OK(FillAsync(dev(), block, 7, 64));
    EXPECT_FALSE(s.ref() == DefaultStream(dev()));
    uint8_t byte = 0;
    EXPECT_OK(CopyAsync(dev(), block, block, 0));
    EXPECT_OK(Copy(dev(), &byte, block, 1));
    EXPECT_EQ(byte, 7);
    EXPECT_OK(FreeMemory(block));
    EXPECT_OK(EmptyCache(dev()));
  });
}

using BlockingCopy = MtiaTest;
// C48
TEST_F(BlockingCopy, BlockingFromPageableIsCompleteForEveryStream) {
  InEverySchedule([] {
    Ints x(dev());
    Cell sum(dev());
    Stream a = NewStream();
    Stream b = NewStream();
    std::vector<int64_t> host(Ints::kCount, 11);
    ASSERT_OK(Copy(a, x.ptr(), host.data(), kBytes));
    host.assign(Ints::kCount, 99);  // the source may be used again
    const int64_t* from = x.ptr();
    int64_t* to = sum.ptr();
    ASSERT_OK(Launch(b, {Read(from, kBytes), ReadWrite(to, 8)},
                     [=](const LaunchContext& k) {
                       *k.Local(to) = k.Local(from, Ints::kCount)[255];
                     }));
    ASSERT_OK(b.Synchronize());
    EXPECT_EQ(sum.Peek(), 11);
  });
}

// C49
TEST_F(BlockingCopy, BlockingFromPinnedWaitsForTheStream) {
  InEverySchedule([] {
    Ints x(dev());
    Ints host(dev(), Ints::Where::kPinned);
    std::fill_n(host.ptr(), Ints::kCount, 3);
    Stream s = NewStream();
    ASSERT_OK(Spin(s, kLong));
    ASSERT_OK(Copy(s, x.ptr(), host.ptr(), kBytes));
    EXPECT_TRUE(*s.Query());
    EXPECT_EQ(x.PeekAt(17), 3);
  });
}

// C50
TEST_F(BlockingCopy, BlockingToHostLeavesTheStreamIdle) {
  InEverySchedule([] {
    Ints x(dev());
    x.PokeAll(4);
    Ints pinned(dev(), Ints::Where::kPinned);
    std::vector<int64_t> pageable(Ints::kCount);
    Stream s = NewStream();
    for (int64_t* to : {pinned.ptr(), pageable.data()}) {
      ASSERT_OK(Spin(s, kLong));
      ASSERT_OK(Copy(s, to, x.ptr(), kBytes));
      EXPECT_TRUE(*s.Query());
      EXPECT_EQ(to[Ints::kCount - 1], 4);
    }
  });
}

// C51
TEST_F(BlockingCopy, BlockingWithinADeviceDoesNotWait) {
  InEverySchedule([] {
    Ints x(dev());
    Ints y(dev());
    x.PokeAll(6);
    Stream s = NewStream();
    Flag gate = NewFlag();
    ASSERT_OK(gate.WaitOn(s));
    ASSERT_OK(Copy(s, y.ptr(), x.ptr(), kBytes));  // would hang otherwise
    EXPECT_FALSE(*s.Query());
    ASSERT_OK(gate.Set());
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(y.PeekAt(0), 6);
  });
}

// C52
TEST_F(BlockingCopy, HostToHostDrainsTheStream) {
  InEverySchedule([] {
    Ints x(dev());
    x.PokeAll(8);
    Ints middle(dev(), Ints::Where::kPinned);
    std::vector<int64_t> out(Ints::kCount, 0);
    Stream s = NewStream();
    ASSERT_OK(Spin(s, kLong));
    ASSERT_OK(CopyAsync(s, middle.ptr(), x.ptr(), kBytes));
    ASSERT_OK(CopyAsync(s, out.data(), middle.ptr(), kBytes));
    EXPECT_EQ(out[0], 8);  // complete on return, though "async"
    EXPECT_EQ(out[Ints::kCount - 1], 8);
  });
}

using PageableCopy = MtiaTest;
// C53
TEST_F(PageableCopy, EveryPageableModeServesACorrectProgram) {
  for (const char* mode : {"sync", "staged", "late", "explore"}) {
    InEverySchedule(
        [] {
          Ints x(dev());
          std::vector<int64_t> in(Ints::kCount, 21);
          std::vector<int64_t> out(Ints::kCount, 0);
          Stream s = NewStream();
          ASSERT_OK(CopyAsync(s, x.ptr(), in.data(), kBytes));
          ASSERT_OK(CopyAsync(s, out.data(), x.ptr(), kBytes));
          ASSERT_OK(s.Synchronize());
          EXPECT_EQ(out[Ints::kCount - 1], 21);
        },
        std::string("pageable=") + mode);
  }
}

// C53
TEST_F(PageableCopy, ExploringReachesEarlyAndLateReads) {
  ExpectOutcomes(
      {1, 2},
      [] {
        Ints x(dev());
        std::vector<int64_t> in(Ints::kCount, 1);
        Stream s = NewStream();
        EXPECT_OK(Spin(s, kLong));
        EXPECT_OK(CopyAsync(s, x.ptr(), in.data(), kBytes));
        in.assign(Ints::kCount, 2);  // too early where the read is late
        EXPECT_OK(s.Synchronize());
        return x.PeekAt(0);
      },
      "pageable=explore");
}

using PinnedCopy = MtiaTest;
// C54
TEST_F(PinnedCopy, PinnedCopiesReturnBeforeCompletion) {
  InEverySchedule([] {
    Ints x(dev());
    Ints host(dev(), Ints::Where::kPinned);
    std::fill_n(host.ptr(), Ints::kCount, 1);
    Stream s = NewStream();
    Flag gate = NewFlag();
    ASSERT_OK(gate.WaitOn(s));
    ASSERT_OK(CopyAsync(s, x.ptr(), host.ptr(), kBytes));
    EXPECT_FALSE(*s.Query());
    host.ptr()[0] = 2;  // even a byte is read late
    ASSERT_OK(gate.Set());
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(x.PeekAt(0), 2);
  });
}

// C55
TEST_F(CopyArguments, EveryKindAgainstEveryPairOfPointers) {
  Ints device(dev());
  Ints device2(dev());
  Ints pinned(dev(), Ints::Where::kPinned);
  std::vector<int64_t> pageable(Ints::kCount);
  Stream s = NewStream();
  struct Side {
    int64_t* ptr;
    bool on_device;
  };
  const Side targets[] = {
      {device.ptr(), true}, {pinned.ptr(), false}, {pageable.data(), false}};
  std::vector<int64_t> pageable2(Ints::kCount);
  const Side sources[] = {{device2.ptr(), true}, {pageable2.data(), false}};
  for (const Side& to : targets) {
    for (const Side& from : sources) {
      const CopyKind right = to.on_device
                                 ? (from.on_device ? CopyKind::kDeviceToDevice
                                                   : CopyKind::kHostToDevice)
                                 : (from.on_device ? CopyKind::kDeviceToHost
                                                   : CopyKind::kHostToHost);
      for (CopyKind kind :
           {CopyKind::kInfer, CopyKind::kHostToDevice, CopyKind::kDeviceToHost,
            CopyKind::kDeviceToDevice, CopyKind::kHostToHost}) {
        absl::Status status = CopyAsync(s, to.ptr, from.ptr, kBytes, kind);
        if (kind == right || kind == CopyKind::kInfer) {
          EXPECT_OK(status);
        } else {
          EXPECT_STATUS(status, kInvalidArgument, "copy is said to be ");
        }
      }
    }
  }
  EXPECT_STATUS(
      CopyAsync(s, device.ptr(), device2.ptr(), 8, static_cast<CopyKind>(9)),
      kInvalidArgument, "copy kind 9 does not exist");
  ASSERT_OK(s.Synchronize());
}

// C55
TEST_F(CopyArguments, RangesThatLeaveAnAllocation) {
  Ints x(dev());
  std::vector<int64_t> host(2 * Ints::kCount);
  Stream s = NewStream();
  EXPECT_STATUS(CopyAsync(s, x.ptr(), host.data(), kBytes + 1),
                kInvalidArgument,
                "; pass at most that many bytes, or allocate more");
  EXPECT_STATUS(CopyAsync(s, host.data(), x.ptr() + 1, kBytes),
                kInvalidArgument, "leaves its allocation");
  EXPECT_STATUS(FillAsync(s, x.ptr() + 1, 0, kBytes), kInvalidArgument,
                "leaves its allocation");
  EXPECT_STATUS(CopyAsync(s, nullptr, host.data(), 8), kInvalidArgument,
                "copy: target [0x0, +8) is null: pass memory, or 0 bytes");
  EXPECT_STATUS(FillAsync(s, nullptr, 0, 8), kInvalidArgument,
                "fill: target [0x0, +8) is null: pass memory, or 0 bytes");
  EXPECT_STATUS(CopyAsync(s, x.ptr(), host.data(), ~uint64_t{0} - 4),
                kInvalidArgument, "");
  EXPECT_TRUE(*s.Query());  // nothing was submitted
}

// C55
TEST_F(CopyArguments, FreedMemoryIsNoTarget) {
  void* gone = nullptr;
  {
    Ints x(dev());
    gone = x.ptr();
  }
  Stream s = NewStream();
  int64_t host = 1;
  EXPECT_EQ(CopyAsync(s, gone, &host, 8).code(),
            absl::StatusCode::kInvalidArgument);
}

// C56
TEST_F(CopyArguments, OverlapIsAnError) {
  Ints x(dev());
  Stream s = NewStream();
  char* p = reinterpret_cast<char*>(x.ptr());
  for (auto [to, from] :
       {std::pair(p + 1, p), std::pair(p, p + 1), std::pair(p, p)}) {
    EXPECT_STATUS(CopyAsync(s, to, from, 64), kInvalidArgument, "overlap");
  }
  EXPECT_OK(CopyAsync(s, p + 64, p, 64));  // neighbours do not
  ASSERT_OK(s.Synchronize());
}

using PeerCopy = MtiaTest;
// C57
TEST_F(PeerCopy, ConsumerOnTheOtherDeviceSeesTheData) {
  InEverySchedule([] {
    Ints x(dev(0));
    Ints y(dev(1));
    x.PokeAll(31);
    Stream s = NewStream(dev(0));
    Stream t = NewStream(dev(1));
    ASSERT_OK(Spin(s, kLong));
    ASSERT_OK(CopyAsync(s, y.ptr(), x.ptr(), kBytes));
    ASSERT_OK(t.Wait(s.ref()));
    std::vector<int64_t> out(Ints::kCount);
    ASSERT_OK(Copy(t, out.data(), y.ptr(), kBytes));
    EXPECT_EQ(out[9], 31);
  });
}

// C57
TEST_F(PeerCopy, StreamOfAThirdDeviceIsRefused) {
  Ints x(dev(0));
  Ints y(dev(1));
  Stream s = NewStream(dev(2));
  EXPECT_STATUS(CopyAsync(s, y.ptr(), x.ptr(), kBytes), kInvalidArgument,
                "a stream of mtia:2 cannot copy memory of mtia:1");
}

// C58
TEST_F(PeerCopy, PeerAccessChangesNothingButSpeed) {
  InEverySchedule([] {
    Ints x(dev(0));
    Ints y(dev(1));
    for (bool access : {false, true}) {
      if (access) {
        ASSERT_OK(EnablePeerAccess(dev(0), dev(1)));
      }
      x.PokeAll(access ? 2 : 1);
      Stream s = NewStream(dev(0));
      ASSERT_OK(CopyAsync(s, y.ptr(), x.ptr(), kBytes));
      ASSERT_OK(s.Synchronize());
      EXPECT_EQ(y.PeekAt(3), access ? 2 : 1);
    }
    ASSERT_OK(DisablePeerAccess(dev(0), dev(1)));
  });
}

// C59
TEST_F(CopyArguments, ZeroBytesLookAtNothing) {
  Stream s = NewStream();
  EXPECT_OK(CopyAsync(s, nullptr, nullptr, 0, CopyKind::kHostToDevice));
  EXPECT_OK(Copy(s, nullptr, nullptr, 0));
  EXPECT_OK(FillAsync(s, nullptr, 1, 0));
  EXPECT_TRUE(*s.Query());
  // Handles are validated all the same.
  StreamRef gone = [] { return NewStream().ref(); }();
  EXPECT_STATUS(CopyAsync(gone, nullptr, nullptr, 0), kInvalidArgument,
                "destroyed");
}

using CopyEngines = MtiaTest;
// C60
TEST_F(CopyEngines, EnginesMayOverlapAndMayNot) {
  // 1 when the kernel began before the copy of another stream had ended.
  ExpectOutcomes({0, 1}, [] {
    Ints x(dev());
    Ints host(dev(), Ints::Where::kPinned);
    Stream a = NewStream();
    Stream b = NewStream();
    EXPECT_OK(sim().EnableTimeline(true));
    EXPECT_OK(Spin(b, 200));  // about what a host call takes
    EXPECT_OK(CopyAsync(a, x.ptr(), host.ptr(), kBytes));
    EXPECT_OK(dev().Synchronize());
    auto ops = sim().Timeline();
    EXPECT_OK(ops.status());
    const SimulatedOp* copy = nullptr;
    const SimulatedOp* spin = nullptr;
    for (const SimulatedOp& op : *ops) {
      if (op.kind == SimulatedOp::Kind::kCopy) copy = &op;
      if (op.kind == SimulatedOp::Kind::kKernel) spin = &op;
    }
    if (copy == nullptr || spin == nullptr) return int64_t{-1};
    return int64_t{copy->begin_ns < spin->end_ns &&
                   spin->begin_ns < copy->end_ns};
  });
}

}  // namespace
}  // namespace devrt::testing
