// SPDX-License-Identifier: Apache-2.0
//
// Arrays on streams that another library captures into a graph (E44,
// E45): the driver itself says whether the capture stayed valid.

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/hardware/arrays_test.h"
#include "tests/hardware/capture.h"

namespace devrt::hardware {
namespace {

using ::testing::HasSubstr;

class ArraysCapture : public ArraysTest {
 protected:
  void SetUp() override {
    ArraysTest::SetUp();
    if (IsSkipped()) return;
    if (BackendName() != "cuda") GTEST_SKIP() << "captures are CUDA's";
    Must(Add(Ints(1), Ints(2)));  // kernels are loaded
  }
  static int First(const Array& x) {
    const Array host = Must(x.To(Place::Host()));
    return *host.data_as<int32_t>();
  }
  Array Ints(int value) const {
    const Array x = Must(Array::Full({64}, kInt32, value, dev()));
    Must(x.Ready());
    return x;
  }
};

TEST_F(ArraysCapture, CompleteWorkBeforeTheCaptureIsIgnored) {
  const Stream stream = Must(Stream::Create(dev()));
  const Array x = Ints(1);
  const Array y = Ints(2);
  const StreamGuard on(stream);
  Capture capture(stream);
  EXPECT_OK(x.Fill(3));
  EXPECT_OK(y.CopyFrom(x));
  EXPECT_OK(AddInto(y, x, x));
  EXPECT_TRUE(capture.End());
}

TEST_F(ArraysCapture, PendingWorkBeforeTheCaptureIsRefused) {
  const Stream stuck = Must(Stream::Create(dev()));
  const Stream reader = Must(Stream::Create(dev()));
  const Stream stream = Must(Stream::Create(dev()));
  const Array x = Ints(1);
  const Array y = Ints(2);
  Gate gate(dev());
  gate.Hold(stuck);
  {
    const StreamGuard on(stuck);
    ASSERT_OK(x.Fill(3));
  }
  {
    // With an event that could be asked.
    const StreamGuard on(reader);
    ASSERT_OK(y.CopyFrom(x));
  }
  const StreamGuard on(stream);
  Capture capture(stream);
  EXPECT_THAT(x.Fill(4),
              testing::StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("is capturing")));
  EXPECT_TRUE(capture.End());
  EXPECT_TRUE(gate.Holds());
  gate.Release();
}

// E44.
TEST_F(ArraysCapture, HostWaitForCapturedWorkIsRefused) {
  const Stream stream = Must(Stream::Create(dev()));
  const Array x = Ints(1);
  const StreamGuard on(stream);
  ASSERT_OK(x.Fill(2));
  Capture capture(stream);
  for (const absl::Status& status :
       {x.Ready(), x.IsReady().status(), x.To(Place::Host()).status()}) {
    EXPECT_THAT(status, testing::StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr("is capturing")));
  }
  EXPECT_TRUE(capture.End());
  EXPECT_OK(x.Ready());
}

// E45: it is asked whether work of before is complete, in relaxed mode.
TEST_F(ArraysCapture, FinishedWorkIsQueriedAndDropped) {
  const Stream other = Must(Stream::Create(dev()));
  const Stream stream = Must(Stream::Create(dev()));
  const Array x = Ints(1);
  const auto native = static_cast<CUstream>(Must(other.Native()));
  {
    const StreamGuard on(other);
    ASSERT_OK(x.Fill(2));
  }
  // devrt does not see this call.
  DRIVER_OK(DRIVER_CALL(cuStreamSynchronize)(native));
  const StreamGuard on(stream);
  Capture capture(stream);
  EXPECT_OK(x.Fill(3));
  EXPECT_TRUE(capture.End());
}

// devrt's internal queries do not disturb a capture of any thread.
TEST_F(ArraysCapture, PollsKeepTheCaptureValid) {
  const Stream stream = Must(Stream::Create(dev()));
  const Stream stuck = Must(Stream::Create(dev()));
  const Array memory = Ints(1);
  const Array plain = Must(Array::Zeros({4}, kInt32, Place::Host()));
  auto owner = std::make_shared<int>(0);
  Gate gate(dev());
  gate.Hold(stuck);
  {
    PointerOptions options;
    options.owner = owner;
    const StreamGuard on(stuck);
    const Array x = Must(
        Array::FromPointer(memory.data(), memory.shape(), kInt32, options));
    ASSERT_OK(x.Fill(2));
  }
  Capture capture(stream);
  std::thread([&] {
    for (int i = 0; i < 4; ++i) EXPECT_OK(plain.Fill(i));
    EXPECT_OK(memory.IsReady().status());
  }).join();
  EXPECT_TRUE(capture.End());
  EXPECT_EQ(owner.use_count(), 2);
  gate.Release();
  EXPECT_OK(stuck.Synchronize());
  EXPECT_OK(plain.Fill(5));
  EXPECT_EQ(owner.use_count(), 1);
}

TEST_F(ArraysCapture, UsesWithinACaptureBecomeEdges) {
  const Stream a = Must(Stream::Create(dev()));
  const Stream b = Must(Stream::Create(dev()));
  const Array x = Ints(1);
  const Array y = Ints(0);
  Capture capture(a);
  capture.Take(b);
  {
    const StreamGuard on(a);
    EXPECT_OK(x.Fill(3));
  }
  {
    const StreamGuard on(b);
    EXPECT_OK(y.CopyFrom(x));
  }
  capture.Join(b);
  const StreamGuard on(a);  // to make a graph runnable takes a context
  const Graph graph(capture);
  graph.Run();
  EXPECT_EQ(First(y), 3);
}

// An edge between two makes both invalid (C84).
TEST_F(ArraysCapture, UsesOfOtherCapturesAreNone) {
  const Stream a = Must(Stream::Create(dev()));
  const Stream b = Must(Stream::Create(dev()));
  const Array x = Ints(1);
  {
    const StreamGuard on(a);
    Capture first(a);
    EXPECT_OK(x.Fill(2));
    EXPECT_TRUE(first.End());
  }
  Capture second(a);
  Capture third(b);
  {
    const StreamGuard on(b);
    EXPECT_OK(x.Fill(3));
  }
  {
    const StreamGuard on(a);
    EXPECT_OK(x.Fill(4));
  }
  EXPECT_TRUE(third.End());
  EXPECT_TRUE(second.End());
}

// A graph keeps addresses, also of what an operation needs for itself.
TEST_F(ArraysCapture, ItsMemoryIsTheGraphs) {
  constexpr int kOthers = 512;
  const Stream stream = Must(Stream::Create(dev()));
  const StreamGuard on(stream);
  const auto blocks = [this] {
    return GetMemoryStatistics(dev()).allocation.all.current;
  };
  const Array x = Ints(1);
  const Array out = Ints(0);
  // Memory for it is in the stream's cache.
  ASSERT_OK(AddInto(out, x, 2));
  ASSERT_OK(out.Fill(0));
  ASSERT_OK(out.Ready());
  const int64_t before = blocks();
  {
    Capture capture(stream);
    ASSERT_OK(AddInto(out, x, 2));
    const Graph graph(capture);
    EXPECT_EQ(blocks(), before + 1);
    std::vector<Array> others;
    for (int i = 0; i < kOthers; ++i) {
      others.push_back(Must(Array::Full({}, kInt32, 7, dev())));
    }
    ASSERT_OK(stream.Synchronize());
    for (int i = 0; i < 3; ++i) graph.Run();
    EXPECT_EQ(First(out), 3);
    for (const Array& other : others) ASSERT_EQ(First(other), 7);
    others.clear();
    EXPECT_EQ(blocks(), before + 1);
  }
  // With the graph gone the next operation gives it back.  The driver may take
  // its time to tell.
  for (int i = 0; i < 1000; ++i) {
    ASSERT_OK(out.Fill(0));
    if (blocks() == before) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(blocks(), before);
}

}  // namespace
}  // namespace devrt::hardware
