// SPDX-License-Identifier: Apache-2.0
//
// The allocators by their public functions alone, on the first device of the
// backend that DEVRT_TEST_BACKEND names (cuda).  The tests run on a GPU, over a
// fake driver and on mtia.  docs/evidence/seed-tests.md describes them.

#ifndef DEVRT_TESTS_HARDWARE_MEMORY_TEST_H_
#define DEVRT_TESTS_HARDWARE_MEMORY_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"

namespace devrt::hardware {

using testing::IsOkAndHolds;
using testing::Must;

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

inline std::string BackendName() {
  const char* const name = std::getenv("DEVRT_TEST_BACKEND");
  return name != nullptr ? name : "cuda";
}

class MemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<std::vector<Device>> found = Devices(BackendName());
    if (absl::IsUnavailable(found.status())) GTEST_SKIP() << found.status();
    ASSERT_OK(found);
    device_ = found->front();
    ASSERT_OK(EmptyCache(dev()));
  }
  void TearDown() override {
    if (!device_) return;
    EXPECT_OK(SetMemoryFraction(dev(), 1.0));
    EXPECT_OK(dev().Synchronize());
    EXPECT_OK(EmptyCache(dev()));
    EXPECT_OK(EmptyPinnedCache(dev().backend()));
    const MemoryStatistics left = Read();
    EXPECT_EQ(left.allocation.all.current, 0);
    EXPECT_EQ(left.active_bytes.all.current, 0);
    EXPECT_EQ(left.reserved_bytes.all.current, 0);
    EXPECT_EQ(ReadPinned().active_requests.current, 0);
  }

  Device dev() const { return *device_; }
  MemoryStatistics Read() const { return GetMemoryStatistics(dev()); }
  PinnedStatistics ReadPinned() const {
    return GetPinnedStatistics(dev().backend());
  }
  Stream NewStream() const { return Must(Stream::Create(dev())); }
  static char* New(StreamRef stream, uint64_t bytes) {
    return static_cast<char*>(Must(AllocateMemory(stream, bytes)));
  }
  char* NewPinned(uint64_t bytes) const {
    return static_cast<char*>(Must(AllocatePinned(dev(), bytes)));
  }
  // The block, through pinned memory, once `stream` got there.
  std::string Contents(StreamRef stream, const void* block,
                       uint64_t bytes) const {
    char* const host = NewPinned(bytes);
    Must(CopyAsync(stream, host, block, bytes));
    Must(stream.Synchronize());
    std::string contents(host, bytes);
    Must(FreePinned(host));
    return contents;
  }
  // Returns the total memory of the device if half of it is free, else nullopt.
  std::optional<double> TotalIfHalfIsFree() const {
    const MemoryInfo memory = Must(dev().GetMemoryInfo());
    if (memory.free_bytes < memory.total_bytes / 2 + 64 * kMiB) return {};
    return static_cast<double>(Must(dev().Properties()).total_memory);
  }

 private:
  std::optional<Device> device_;
};

// Holds streams by kernels that spin until Release.  They spin for some seconds
// at most, so that a call that waits for them fails and does not hang.  The
// next Hold closes the gate again.
class Gate {
 public:
  explicit Gate(Device device)
      : device_(device), flag_(Must(Flag::Create(device))) {}
  ~Gate() { Release(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void Hold(StreamRef stream) {
    if (is_open_) flag_ = Must(Flag::Create(device_));
    is_open_ = false;
    Must(flag_.WaitOn(stream, kMost));
    held_.push_back(stream);
  }
  // Returns true if the flag still holds every stream.
  bool Holds() const {
    for (const StreamRef stream : held_) {
      if (Must(stream.Query())) return false;
    }
    return true;
  }
  // Opens the gate, and returns when no stream uses the flag any more.
  void Release() {
    EXPECT_OK(flag_.Set());
    for (const StreamRef stream : held_) EXPECT_OK(stream.Synchronize());
    held_.clear();
    is_open_ = true;
  }

 private:
  static constexpr uint64_t kMost = 10'000'000'000;
  const Device device_;
  Flag flag_;
  bool is_open_ = false;
  std::vector<StreamRef> held_;
};

}  // namespace devrt::hardware

#endif  // DEVRT_TESTS_HARDWARE_MEMORY_TEST_H_
