// SPDX-License-Identifier: Apache-2.0
//
// devrt's own allocators, events, streams and arrays in many schedules: what a
// program computes with them does not depend on the schedule.
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "devrt/sim/explore_gtest.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

constexpr uint64_t kBytes = 4096;

Device Mtia(int index) {
  return Must(GetDevice(index == 0 ? "mtia:0" : "mtia:1"));
}

// Runs the body, with GoogleTest's assertions, in 200 schedules.  `in_order`:
// each two operations that use one memory have an order, so that all schedules
// count as one.
void ExpectInEverySchedule(void (*body)(), const char* config = "",
                           bool in_order = false) {
  sim::Options options;
  options.config = config;
  options.runs = 200;
  options.seed = 1;
  options.check_every = 1;  // each run twice
  const sim::Result result = sim::Explore(options, sim::Checked(body));
  EXPECT_TRUE(result.ok()) << result.text();
  EXPECT_EQ(result.schedules, 200u);
  if (in_order) {
    EXPECT_EQ(result.distinct, 1u);
  } else {
    EXPECT_GT(result.distinct, 1u);
  }
}

void Set(StreamRef stream, void* block, uint8_t value) {
  Must(FillAsync(stream, block, value, kBytes));
}

// Copies the first byte of the block when the stream comes to it.
void Read(StreamRef stream, const void* block, uint8_t* to) {
  Must(CopyAsync(stream, to, block, 1));
}

// The result of reads, in memory that no allocator reuses.
class Results {
 public:
  explicit Results(Device device)
      : memory_(static_cast<uint8_t*>(Must(AllocatePinned(device, 64)))) {}
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results() { FreePinned(memory_).IgnoreError(); }
  uint8_t* at(int i) const { return memory_ + i; }

 private:
  uint8_t* const memory_;
};

// ---- the device allocator ----

TEST(OwnParts, ABlockThatAStreamUsesIsNotHandedOut) {
  ExpectInEverySchedule([] {
    const Stream writer = Must(Stream::Create(Mtia(0)));
    const Stream reader = Must(Stream::Create(Mtia(0)));
    const Results results(Mtia(0));
    for (int i = 0; i < 3; ++i) {
      void* const block = Must(AllocateMemory(writer, kBytes));
      Set(writer, block, static_cast<uint8_t>(i + 1));
      Must(reader.Wait(writer));
      Must(RecordStream(block, reader));
      Read(reader, block, results.at(i));
      Must(FreeMemory(block));
    }
    Must(Mtia(0).Synchronize());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(*results.at(i), i + 1);
  });
}

TEST(OwnParts, ABlockPassesFromStreamToStreamBehindItsWork) {
  ExpectInEverySchedule(
      [] {
        const Results results(Mtia(0));
        std::vector<Stream> streams;
        for (int i = 0; i < 4; ++i) {
          streams.push_back(Must(Stream::Create(Mtia(0))));
        }
        for (int i = 0; i < 8; ++i) {
          const StreamRef stream = streams[static_cast<size_t>(i) % 4];
          // Most of the memory, so that the streams need each other's blocks.
          constexpr uint64_t kLarge = uint64_t{24} << 20;
          void* const block = Must(AllocateMemory(stream, kLarge));
          Set(stream, block, static_cast<uint8_t>(i + 1));
          Read(stream, block, results.at(i));
          Must(FreeMemory(block));
        }
        Must(Mtia(0).Synchronize());
        for (int i = 0; i < 8; ++i) EXPECT_EQ(*results.at(i), i + 1);
      },
      "memory=64MiB");
}

TEST(OwnParts, ABlockOutlivesTheStreamThatItsWorkIsOn) {
  ExpectInEverySchedule([] {
    const Results results(Mtia(0));
    for (int i = 0; i < 3; ++i) {
      const Stream stream = Must(Stream::Create(Mtia(0)));
      void* const block = Must(AllocateMemory(stream, kBytes));
      Set(stream, block, static_cast<uint8_t>(i + 1));
      Read(stream, block, results.at(i));
      Must(FreeMemory(block));
    }
    Must(Mtia(0).Synchronize());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(*results.at(i), i + 1);
  });
}

TEST(OwnParts, AFreeOnAnotherStreamWaitsForThatStream) {
  ExpectInEverySchedule([] {
    const Stream home = Must(Stream::Create(Mtia(0)));
    const Stream other = Must(Stream::Create(Mtia(0)));
    const Results results(Mtia(0));
    void* const block = Must(AllocateMemory(home, kBytes));
    Set(home, block, 1);
    Must(other.Wait(home));
    Read(other, block, results.at(0));
    Must(FreeMemory(block, other));
    void* const next = Must(AllocateMemory(home, kBytes));
    Set(home, next, 2);
    Read(home, next, results.at(1));
    Must(FreeMemory(next));
    Must(Mtia(0).Synchronize());
    EXPECT_EQ(*results.at(0), 1);
    EXPECT_EQ(*results.at(1), 2);
  });
}

// ---- the pinned allocator ----

TEST(OwnParts, PinnedMemoryOfACopyIsNotHandedOut) {
  ExpectInEverySchedule([] {
    const Stream stream = Must(Stream::Create(Mtia(0)));
    const Results results(Mtia(0));
    void* const block = Must(AllocateMemory(stream, kBytes));
    for (int i = 0; i < 3; ++i) {
      void* const staging = Must(AllocatePinned(Mtia(0), kBytes));
      std::memset(staging, i + 1, kBytes);
      Must(CopyAsync(stream, block, staging, kBytes));
      Must(RecordPinnedUse(staging, stream));
      Must(FreePinned(staging));
      Read(stream, block, results.at(i));
    }
    Must(stream.Synchronize());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(*results.at(i), i + 1);
    Must(FreeMemory(block));
  });
}

// ---- streams and events ----

TEST(OwnParts, AnEventThatIsMadeAnewLeavesEarlierWaitsAsTheyAre) {
  ExpectInEverySchedule([] {
    const Stream a = Must(Stream::Create(Mtia(0)));
    const Stream b = Must(Stream::Create(Mtia(0)));
    const Results results(Mtia(0));
    void* const block = Must(AllocateMemory(a, kBytes));
    for (int i = 0; i < 3; ++i) {
      Set(a, block, static_cast<uint8_t>(i + 1));
      const Event written = Must(Event::Create(Mtia(0)));
      Must(written.Record(a));
      Must(b.Wait(written));
      Read(b, block, results.at(i));
      const Event read = Must(Event::Create(Mtia(0)));
      Must(read.Record(b));
      Must(a.Wait(read));
    }
    Must(Mtia(0).Synchronize());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(*results.at(i), i + 1);
    Must(FreeMemory(block));
  });
}

TEST(OwnParts, AStreamThatIsUsedAgainHasNoOrderOfItsFormerUse) {
  ExpectInEverySchedule([] {
    const Results results(Mtia(0));
    void* const block = Must(AllocateMemory(Mtia(0), kBytes));
    for (int i = 0; i < 4; ++i) {
      const Stream writer = Must(Stream::Create(Mtia(0)));
      Set(writer, block, static_cast<uint8_t>(i + 1));
      const Stream reader = Must(Stream::Create(Mtia(0)));
      Must(reader.Wait(writer));
      Read(reader, block, results.at(i));
      Must(DefaultStream(Mtia(0)).Wait(reader));
      Must(DefaultStream(Mtia(0)).Synchronize());
    }
    for (int i = 0; i < 4; ++i) EXPECT_EQ(*results.at(i), i + 1);
    Must(FreeMemory(block));
  });
}

TEST(OwnParts, HostFunctionsRunInTheOrderOfTheirStream) {
  ExpectInEverySchedule([] {
    const Stream a = Must(Stream::Create(Mtia(0)));
    const Stream b = Must(Stream::Create(Mtia(1)));
    std::vector<int> ran;
    for (int i = 0; i < 3; ++i) {
      Must(
          LaunchHostFunc(a, [&ran, i](absl::Status) { ran.push_back(2 * i); }));
      Must(b.Wait(a));
      Must(LaunchHostFunc(
          b, [&ran, i](absl::Status) { ran.push_back(2 * i + 1); }));
      Must(a.Wait(b));
    }
    Must(a.Synchronize());
    Must(b.Synchronize());
    EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  });
}

// ---- arrays ----

int64_t ItemOf(const Array& array) {
  return Must(array.Item()).Value<int64_t>();
}

TEST(OwnParts, ArraysOfSeveralStreamsAreInOrder) {
  ExpectInEverySchedule(
      [] {
        const Stream a = Must(Stream::Create(Mtia(0)));
        const Stream b = Must(Stream::Create(Mtia(0)));
        Array x = Must(Array::Full({}, kInt64, 3, Mtia(0)));
        Array y = x;
        {
          const StreamGuard on(a);
          y = Must(Apply(BinaryOp::kMul, x, x));
        }
        {
          const StreamGuard on(b);
          Must(ApplyInto(BinaryOp::kAdd, x, x, y));  // y is of the other stream
        }
        {
          const StreamGuard on(a);
          y = Must(Apply(BinaryOp::kAdd, x, y));  // the first y ends here
        }
        EXPECT_EQ(ItemOf(y), 21);
        EXPECT_EQ(ItemOf(x), 12);
      },
      "", true);
}

TEST(OwnParts, ArraysOfTwoDevicesAreInOrder) {
  ExpectInEverySchedule([] {
    Array far = Must(Array::Zeros({}, kInt64, Mtia(1)));
    for (int i = 1; i <= 3; ++i) {
      const Array near = Must(Array::Full({}, kInt64, i, Mtia(0)));
      Must(ApplyInto(BinaryOp::kAdd, far, far, Must(near.To(Mtia(1)))));
    }
    EXPECT_EQ(ItemOf(far), 6);
  });
}

TEST(OwnParts, ArraysOfPinnedMemoryAreReadyForTheHost) {
  ExpectInEverySchedule([] {
    Array host = Must(Array::Zeros({1}, kInt64, Place::Pinned(Mtia(0))));
    Array device = Must(Array::Zeros({1}, kInt64, Mtia(0)));
    for (int64_t i = 1; i <= 3; ++i) {
      Must(host.Ready());
      *host.data_as<int64_t>() += i;
      Must(device.CopyFrom(host, true));
      Must(ApplyInto(BinaryOp::kAdd, device, device, device));
      Must(host.CopyFrom(device, true));
    }
    Must(host.Ready());
    EXPECT_EQ(*host.data_as<int64_t>(), 22);  // ((1 * 2 + 2) * 2 + 3) * 2
  });
}

}  // namespace
}  // namespace devrt::testing
