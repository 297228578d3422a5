// SPDX-License-Identifier: Apache-2.0
//
// No device that nobody named has a context (C103), and a thread keeps what it
// had, none included (C107): asked of the driver, with everything that a
// program may do on the last device.  One process, in this order.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/hardware/cuda_test.h"

namespace devrt::hardware {
namespace {

using testing::Must;

constexpr uint64_t kSize = 1 << 16;

class ContextAudit : public CudaTest {
 protected:
  // The ordinals of the devices that have a primary context.
  std::vector<int> Contexts() const {
    std::vector<int> ordinals;
    for (const Device device : devices) {
      if (HasPrimaryContext(device.index())) ordinals.push_back(device.index());
    }
    return ordinals;
  }
};

using Ordinals = std::vector<int>;

TEST_F(ContextAudit, LookingMakesNone) {
  for (const Device device : devices) {
    (void)Must(device.Properties());
    EXPECT_OK(device.Health());
    EXPECT_OK(device.Synchronize());
    for (const Device peer : devices) (void)Must(CanAccessPeer(device, peer));
  }
  int local = 0;
  (void)Must(GetPointerInfo(&local));
  (void)Must(CurrentDevice("cuda"));
  (void)AllDevices();
  EXPECT_EQ(CurrentContext(), nullptr);
  EXPECT_EQ(Contexts(), Ordinals());
}

// Some of everything, on one device.
void UseEverything(Device device) {
  std::vector<char> host(kSize, 1);
  void* const memory = Must(Allocate(device, kSize));
  void* const pinned = Must(AllocateHost(device, kSize));
  (void)Must(device.GetMemoryInfo());
  (void)Must(GetPointerInfo(memory));
  {
    const Stream stream = Must(Stream::Create(device));
    const Stream blocking = Must(Stream::Create(device, {0, true}));
    const Event event = Must(Event::Create(device, {true}));
    const Event end = Must(Event::Create(device, {true}));
    Flag flag = Must(Flag::Create(device));
    const StreamGuard guard(stream);
    std::atomic<bool> ran{false};
    EXPECT_OK(event.Record(stream));
    EXPECT_OK(Copy(stream, memory, host.data(), kSize));
    EXPECT_OK(CopyAsync(stream, pinned, memory, kSize));
    EXPECT_OK(FillAsync(DefaultStream(device), memory, 1, kSize));
    EXPECT_OK(FillAsync(Must(PerThreadDefaultStream(device)), memory, 2, 8));
    EXPECT_OK(Spin(stream, 1000));
    EXPECT_OK(flag.SetOn(stream));
    EXPECT_OK(blocking.Wait(stream));
    EXPECT_OK(flag.WaitOn(blocking));
    EXPECT_OK(LaunchHostFunc(
        blocking, [&](const absl::Status& status) { ran = status.ok(); }));
    EXPECT_OK(end.Record(stream));
    EXPECT_OK(end.Synchronize());
    (void)Must(ElapsedMilliseconds(event, end));
    (void)Must(stream.Query());
    EXPECT_OK(device.Synchronize());
    EXPECT_TRUE(ran);
    void* const native = Must(stream.Native());
    EXPECT_OK(Must(Stream::FromNative(device, native)).Synchronize());
  }
  EXPECT_OK(RegisterHost(device, host.data(), kSize));
  EXPECT_OK(UnregisterHost(device, host.data()));
  EXPECT_OK(FreeHost(pinned));
  EXPECT_OK(Free(device, memory));
}

TEST_F(ContextAudit, WorkOnTheLastDeviceMakesItsContextOnly) {
  if (devices.size() < 2) GTEST_SKIP() << "takes two devices";
  const Device last = devices.back();
  UseEverything(last);
  EXPECT_EQ(CurrentContext(), nullptr);
  std::thread([&] {
    UseEverything(last);
    EXPECT_EQ(CurrentContext(), nullptr);
    {
      const DeviceGuard guard(last);
      EXPECT_NE(CurrentContext(), nullptr);
      EXPECT_EQ(Must(CurrentDevice("cuda")), last);
    }
    EXPECT_EQ(CurrentContext(), nullptr);
  }).join();
  EXPECT_EQ(Contexts(), Ordinals{last.index()});
}

// nvidia-smi shows memory of this process on one device only.
TEST_F(ContextAudit, ProcessUsesMemoryOfASingleDevice) {
  if (Contexts().size() != 1) GTEST_SKIP() << "takes two devices";
  std::FILE* const pipe = popen(
      "nvidia-smi --query-compute-apps=pid,gpu_uuid --format=csv,noheader"
      " 2>&1",
      "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  std::array<char, 256> line;
  std::vector<std::string> uuids;
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) {
    text += line.data();
    const std::string mine = std::to_string(getpid()) + ", GPU-";
    const std::string row = line.data();
    if (row.rfind(mine, 0) == 0) {
      uuids.push_back(row.substr(mine.size(), 36));
    }
  }
  if (pclose(pipe) != 0 || uuids.empty()) {
    GTEST_SKIP() << "nvidia-smi does not show this process: " << text;
  }
  const DeviceProperties last = Must(devices.back().Properties());
  EXPECT_EQ(uuids, std::vector<std::string>{last.uuid_string()});
}

// Another library's context, and none, on every path out.
TEST_F(ContextAudit, ThreadKeepsItsForeignContext) {
  const Device last = devices.back();
  const std::vector<int> before = Contexts();
  std::thread([&] {
    const CUcontext foreign = NewContext(devices.front().index());
    UseEverything(last);
    EXPECT_EQ(CurrentContext(), foreign);
    {
      const DeviceGuard guard(last);
      EXPECT_NE(CurrentContext(), foreign);
      const DeviceGuard again(last);
      EXPECT_EQ(Must(CurrentDevice("cuda")), last);
    }
    EXPECT_EQ(CurrentContext(), foreign);
    EXPECT_EQ(Must(CurrentDevice("cuda")), devices.front());
    DRIVER_OK(DRIVER_CALL(cuCtxDestroy)(foreign));
    EXPECT_EQ(CurrentContext(), nullptr);
  }).join();
  if (devices.size() > 1) {
    EXPECT_EQ(Contexts(), before);
  }
}

// Pinned memory takes any context that there is (C103).
TEST_F(ContextAudit, PeerAccessMakesTheContextOfThePeer) {
  if (devices.size() < 2) GTEST_SKIP() << "takes two devices";
  const Device first = devices.front(), last = devices.back();
  EXPECT_FALSE(HasPrimaryContext(first.index()));
  if (!Must(CanAccessPeer(last, first))) {
    GTEST_SKIP() << "these devices do not reach each other";
  }
  EXPECT_OK(EnablePeerAccess(last, first));
  EXPECT_OK(DisablePeerAccess(last, first));
  EXPECT_TRUE(HasPrimaryContext(first.index()));
  EXPECT_EQ(CurrentContext(), nullptr);
}

}  // namespace
}  // namespace devrt::hardware
