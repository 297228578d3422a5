// SPDX-License-Identifier: Apache-2.0
//
// The seed's tests of pinned memory, to the letter (docs/reference/semantics.md
// 3.2 and 3.3).

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/hardware/beside.h"
#include "tests/hardware/memory_test.h"

namespace devrt::hardware {
namespace {

class MemoryPinned : public MemoryTest {
 protected:
  void TearDown() override {
    EXPECT_OK(SetAllocatorSettings(
        "pinned_use_cuda_host_register:False,pinned_num_register_threads:1"));
    MemoryTest::TearDown();
  }
};

// In a process of their own: the first pinned allocation decides, and figures
// begin at 0.
void RunAlone(const std::string& what, const std::string& settings) {
  const testing::ProcessResult result =
      StartBeside("memory_program", {what, BackendName()},
                  {{"DEVRT_ALLOC_CONF", settings}});
  EXPECT_EQ(result.exit_code, 0) << result;
}

TEST_F(MemoryPinned, HostMemoryStats) { RunAlone("host_memory_stats", ""); }

TEST_F(MemoryPinned, PinnedMemoryUseBackgroundThreads) {
  RunAlone("one_allocation", "pinned_use_background_threads:True");
}

void RegisterBody(Device device) {
  EXPECT_OK(SetAllocatorSettings(
      "pinned_use_cuda_host_register:True,pinned_num_register_threads:8"));
  const std::vector<float> pageable(20);
  EXPECT_THAT(IsPinned(pageable.data()), IsOkAndHolds(false));
  for (const uint64_t elements : {uint64_t{1} << 21, uint64_t{1} << 24}) {
    const uint64_t bytes = elements * sizeof(float);
    void* const block = Must(AllocatePinned(device, bytes));
    std::memset(block, 7, bytes);
    EXPECT_THAT(IsPinned(block), IsOkAndHolds(true));
    EXPECT_OK(FreePinned(block));
  }
  EXPECT_OK(SetAllocatorSettings("pinned_use_cuda_host_register:False"));
}

TEST_F(MemoryPinned, PinnedMemoryWithCudaregister) { RegisterBody(dev()); }

TEST_F(MemoryPinned, PinnedMemoryWithCudaregisterMultithread) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] { RegisterBody(dev()); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(MemoryPinned, PinnedMemoryEmptyCache) {
  for (const char* mode : {"True", "False"}) {
    ASSERT_OK(SetAllocatorSettings(
        std::string("pinned_use_cuda_host_register:") + mode));
    char* block = NewPinned((uint64_t{1} << 20) * sizeof(float));
    EXPECT_THAT(IsPinned(block), IsOkAndHolds(true));
    EXPECT_OK(FreePinned(block));
    EXPECT_OK(EmptyPinnedCache(dev().backend()));
  }
}

TEST_F(MemoryPinned, RegisteredHostMemoryIsPinned) {
  alignas(4096) static char memory[4096];
  ASSERT_OK(RegisterHost(dev(), memory, 80));
  EXPECT_THAT(IsPinned(memory), IsOkAndHolds(true));
  EXPECT_THAT(IsPinned(memory + 40), IsOkAndHolds(true));
  ASSERT_OK(UnregisterHost(dev(), memory));
  EXPECT_THAT(IsPinned(memory), IsOkAndHolds(false));
}

TEST_F(MemoryPinned, CachingPinnedMemory) {
  const Stream s = NewStream();
  char* block = NewPinned(4);
  ASSERT_OK(FreePinned(block));
  ASSERT_EQ(NewPinned(4), block);

  char* x = New(s, 4);
  std::memset(block, 1, 4);
  Gate gate(dev());
  gate.Hold(s);
  ASSERT_OK(CopyAsync(s, x, block, 4));
  ASSERT_OK(FreePinned(block));
  char* other = NewPinned(4);
  EXPECT_NE(other, block);
  std::memset(other, 2, 4);
  EXPECT_EQ(ReadPinned().active_requests.current, 2);
  gate.Release();
  EXPECT_EQ(NewPinned(4), block);
  EXPECT_OK(FreePinned(block));
  EXPECT_EQ(Contents(s, x, 4), std::string(4, '\1'));
  EXPECT_OK(FreePinned(other));
  EXPECT_OK(FreeMemory(x));
}

TEST_F(MemoryPinned, CopyNonBlocking) {
  constexpr uint64_t kBytes = 10'000'000;
  const Stream s = NewStream();
  char* there = New(s, kBytes);
  char* from = NewPinned(kBytes);
  char* back = NewPinned(kBytes);
  for (uint64_t i = 0; i < kBytes; ++i) from[i] = static_cast<char>(i * 7);
  std::memset(back, 0, kBytes);
  const Event copied = Must(Event::Create(dev()));
  ASSERT_OK(CopyAsync(s, there, from, kBytes));
  ASSERT_OK(CopyAsync(s, back, there, kBytes));
  ASSERT_OK(copied.Record(s));
  ASSERT_OK(copied.Synchronize());
  EXPECT_EQ(std::memcmp(from, back, kBytes), 0);

  // A view of it: the copy marks the block that it lies in.
  EXPECT_THAT(IsPinned(from + 1), IsOkAndHolds(true));
  Gate gate(dev());
  gate.Hold(s);
  ASSERT_OK(CopyAsync(s, there, from + 1, kBytes - 1));
  ASSERT_OK(FreePinned(from));
  EXPECT_GE(ReadPinned().active_requests.current, 2) << "from, and back";
  EXPECT_TRUE(gate.Holds());
  gate.Release();
  EXPECT_OK(FreePinned(back));
  EXPECT_OK(FreeMemory(there));
}

}  // namespace
}  // namespace devrt::hardware
