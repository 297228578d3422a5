// SPDX-License-Identifier: Apache-2.0
//
// Wrong calls return a status and change nothing.  After each test the device
// still works, and at the end nothing is left alive.
#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/hardware/beside.h"
#include "tests/hardware/cuda_test.h"

namespace devrt::hardware {
namespace {

using testing::Must;

constexpr uint64_t kSize = 4096;

class BadInput : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    first.emplace(devices.front());
    last.emplace(devices.back());
    memory = Must(Allocate(*first, kSize));
    stream.emplace(Must(Stream::Create(*first)));
  }
  void TearDown() override {
    if (memory == nullptr) return;
    std::vector<uint8_t> host(kSize);
    EXPECT_OK(FillAsync(*stream, memory, 9, kSize));
    EXPECT_OK(Copy(*stream, host.data(), memory, kSize));
    EXPECT_EQ(host, std::vector<uint8_t>(kSize, 9));
    EXPECT_OK(Free(*first, memory));
    EXPECT_OK(first->Health());
    EXPECT_EQ(CurrentContext(), nullptr);
  }
  bool HasTwo() const { return devices.size() > 1; }

  std::optional<Device> first, last;
  void* memory = nullptr;
  std::optional<Stream> stream;
};

TEST_F(BadInput, DeviceNames) {
  for (const char* name : {"cuda:99", "cuda:-1", "cuda:01", "cuda:", "cuda:0x0",
                           "cuda: 0", "cuda:4294967296"}) {
    EXPECT_STATUS(GetDevice(name), kInvalidArgument, "") << name;
  }
  EXPECT_STATUS(GetDevice("cuda", -1), kInvalidArgument, "out of index range");
}

TEST_F(BadInput, EventOfAnotherDevice) {
  if (!HasTwo()) GTEST_SKIP() << "takes two devices";
  const Event event = Must(Event::Create(*last));
  EXPECT_STATUS(event.Record(*stream), kInvalidArgument, last->name());
  EXPECT_EQ(event.id(), 0u);
  EXPECT_TRUE(Must(event.Query()));
}

TEST_F(BadInput, EventsWithoutATime) {
  const Event plain = Must(Event::Create(*first));
  const Event timed = Must(Event::Create(*first, {true}));
  EXPECT_STATUS(ElapsedMilliseconds(timed, plain), kInvalidArgument, "timing");
  EXPECT_STATUS(ElapsedMilliseconds(timed, timed), kInvalidArgument,
                "recorded");
  Flag gate = Must(Flag::Create(*first));
  EXPECT_OK(gate.WaitOn(*stream));
  EXPECT_OK(timed.Record(*stream));
  const Event later = Must(Event::Create(*first, {true}));
  EXPECT_OK(later.Record(*stream));
  EXPECT_STATUS(ElapsedMilliseconds(timed, later), kFailedPrecondition, "");
  EXPECT_OK(gate.Set());
  EXPECT_OK(stream->Synchronize());
  EXPECT_GE(Must(ElapsedMilliseconds(timed, later)), 0);
}

TEST_F(BadInput, DestroyedStream) {
  StreamRef gone = *stream;
  {
    const Stream shortly = Must(Stream::Create(*first));
    gone = shortly;
  }
  EXPECT_STATUS(gone.Synchronize(), kInvalidArgument, "");
  EXPECT_STATUS(FillAsync(gone, memory, 1, kSize), kInvalidArgument, "");
  EXPECT_STATUS(SetCurrentStream(gone), kInvalidArgument, "");
}

TEST_F(BadInput, HostMemoryWhereDeviceMemoryBelongs) {
  std::vector<char> host(kSize);
  EXPECT_STATUS(FillAsync(*stream, host.data(), 1, kSize), kInvalidArgument,
                "");
  EXPECT_STATUS(Free(*first, host.data()), kInvalidArgument, "");
  EXPECT_STATUS(
      CopyAsync(*stream, host.data(), memory, kSize, CopyKind::kDeviceToDevice),
      kInvalidArgument, "");
  EXPECT_STATUS(
      CopyAsync(*stream, memory, host.data(), kSize, CopyKind::kDeviceToHost),
      kInvalidArgument, "");
  EXPECT_STATUS(RegisterHost(*first, memory, kSize), kInvalidArgument, "");
  EXPECT_STATUS(FreeHost(memory), kInvalidArgument, "");
  EXPECT_EQ(host, std::vector<char>(kSize));
}

TEST_F(BadInput, MemoryOfAnotherDevice) {
  if (!HasTwo()) GTEST_SKIP() << "takes two devices";
  void* const far = Must(Allocate(*last, kSize));
  EXPECT_STATUS(FillAsync(*stream, far, 1, kSize), kInvalidArgument,
                last->name());
  EXPECT_STATUS(Free(*first, far), kInvalidArgument, last->name());
  EXPECT_OK(Free(*last, far));
}

TEST_F(BadInput, RangesThatAreNone) {
  char* const bytes = static_cast<char*>(memory);
  EXPECT_STATUS(FillAsync(*stream, bytes + 1, 1, kSize), kInvalidArgument, "");
  EXPECT_STATUS(FillAsync(*stream, nullptr, 1, 1), kInvalidArgument, "");
  EXPECT_STATUS(CopyAsync(*stream, bytes + 8, bytes, kSize - 8),
                kInvalidArgument, "");
  EXPECT_STATUS(CopyAsync(*stream, bytes, bytes + 8,
                          std::numeric_limits<uint64_t>::max()),
                kInvalidArgument, "");
  EXPECT_STATUS(Free(*first, bytes + 256), kInvalidArgument, "");
}

TEST_F(BadInput, FreedTwice) {
  void* const once = Must(Allocate(*first, kSize));
  EXPECT_OK(Free(*first, once));
  EXPECT_STATUS(Free(*first, once), kInvalidArgument, "");
  EXPECT_STATUS(FillAsync(*stream, once, 1, kSize), kInvalidArgument, "");
}

TEST_F(BadInput, MoreMemoryThanThereIs) {
  const MemoryInfo before = Must(first->GetMemoryInfo());
  for (const uint64_t bytes :
       {before.total_bytes + 1, uint64_t{1} << 50, uint64_t{1} << 60,
        std::numeric_limits<uint64_t>::max()}) {
    EXPECT_STATUS(Allocate(*first, bytes), kResourceExhausted, "");
  }
  EXPECT_STATUS(Allocate(*first, kSize, 3), kInvalidArgument, "");
  EXPECT_EQ(Must(first->GetMemoryInfo()).free_bytes, before.free_bytes);
}

TEST_F(BadInput, PeerAccessToItselfAndTwice) {
  EXPECT_FALSE(Must(CanAccessPeer(*first, *first)));
  EXPECT_FALSE(EnablePeerAccess(*first, *first).ok());
  if (!HasTwo()) return;
  EXPECT_STATUS(DisablePeerAccess(*first, *last), kFailedPrecondition, "");
  if (!Must(CanAccessPeer(*first, *last))) return;
  EXPECT_OK(EnablePeerAccess(*first, *last));
  EXPECT_STATUS(EnablePeerAccess(*first, *last), kAlreadyExists, "");
  EXPECT_OK(DisablePeerAccess(*first, *last));
}

TEST_F(BadInput, CallsInsideAHostFunction) {
  std::atomic<int> refused{0};
  EXPECT_OK(LaunchHostFunc(*stream, [&](const absl::Status&) {
    const absl::Status statuses[] = {FillAsync(*stream, memory, 1, kSize),
                                     stream->Synchronize(),
                                     Allocate(*first, kSize).status(),
                                     Stream::Create(*first).status(),
                                     first->Synchronize(),
                                     SetCurrentDevice(*first),
                                     DeviceGuard(*first).status()};
    for (const absl::Status& status : statuses) {
      if (absl::IsFailedPrecondition(status)) ++refused;
    }
  }));
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(refused, 7);
}

// Streams that the driver made for somebody else.
TEST_F(BadInput, NativeStreams) {
  for (const uintptr_t number : {0, 1, 2}) {
    EXPECT_STATUS(Stream::FromNative(*first, reinterpret_cast<void*>(number)),
                  kInvalidArgument, "default stream");
  }
  const CUcontext foreign = NewContext(last->index());
  CUstream native = nullptr;
  DRIVER_OK(DRIVER_CALL(cuStreamCreateWithPriority)(&native,
                                                    CU_STREAM_NON_BLOCKING, 0));
  if (HasTwo()) {
    EXPECT_STATUS(Stream::FromNative(*first, native), kInvalidArgument,
                  "belongs to " + last->name());
  }
  {
    const Stream adopted = Must(Stream::FromNative(*last, native));
    EXPECT_STATUS(Spin(adopted, 1000), kUnimplemented, "foreign contexts");
    const Event event = Must(Event::Create(*last));
    EXPECT_OK(event.Record(adopted));
    EXPECT_OK(event.Synchronize());
    EXPECT_OK(adopted.Synchronize());
  }
  DRIVER_OK(DRIVER_CALL(cuStreamDestroy)(native));
  DRIVER_OK(DRIVER_CALL(cuCtxDestroy)(foreign));
}

// The driver cannot be asked: a dead handle crashes it, or is the next one's.
TEST_F(BadInput, DeadNativeStreams) {
  for (const char* which : {"adopt", "use"}) {
    const testing::ProcessResult result =
        StartBeside("dead_stream_program", {which});
    EXPECT_FALSE(result.timed_out) << result;
    EXPECT_TRUE(result.signal != 0 || result.exit_code == 0) << result;
    std::printf("%s a destroyed native stream: signal %d\n%s", which,
                result.signal, result.output.c_str());
  }
}

// Last: refused while anything is alive.
TEST_F(BadInput, ZLeavesNothingAlive) {
  EXPECT_STATUS(Shutdown(), kFailedPrecondition, "1 allocation");
  EXPECT_OK(Free(*first, memory));
  memory = nullptr;
  stream.reset();
  EXPECT_OK(Shutdown());
}

}  // namespace
}  // namespace devrt::hardware
