// SPDX-License-Identifier: Apache-2.0
//
// A Memory on a fake host, whose calls carry made-up sites "test.cc:LINE".

#ifndef DEVRT_TESTS_MTIA_MEMORY_FIXTURE_H_
#define DEVRT_TESTS_MTIA_MEMORY_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "backends/mtia/common/error.h"
#include "backends/mtia/config/config.h"
#include "backends/mtia/memory/memory.h"
#include "tests/support/fake_host.h"

namespace devrt::mtia {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;

// Returns true if each of the `size` bytes is `value`.
inline bool All(const std::byte* bytes, uint64_t size, int value) {
  return bytes[0] == std::byte(value) &&
         std::memcmp(bytes, bytes + 1, size - 1) == 0;
}

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() { g_host = host_.table(); }
  ~MemoryTest() override { EXPECT_EQ(host_.live_errors(), 0); }

  static Config Parse(const std::string& text) {
    Config config;
    std::string error;
    EXPECT_TRUE(ParseConfig(text, &config, &error)) << error;
    return config;
  }

  // Two devices of 3 MiB, unless `text` says otherwise.
  void Make(const std::string& text = "memory=4MiB,overhead=1MiB") {
    std::string error;
    memory_ = Memory::Create(Parse(text), &error);
    ASSERT_NE(memory_, nullptr) << error;
  }

  static devrt_call_site_v0 Site(int line) {
    return {"test.cc", line, 0, nullptr};
  }

  test::OwnedStatus TryAlloc(uint32_t device, uint64_t size, void** ptr,
                             uint64_t alignment = 0, int line = 1) {
    return memory_->Alloc(device, size, alignment, Site(line), ptr);
  }
  std::byte* Alloc(uint32_t device, uint64_t size, int line = 1) {
    void* ptr = nullptr;
    const test::OwnedStatus status = TryAlloc(device, size, &ptr, 0, line);
    EXPECT_TRUE(status.ok()) << status.text();
    return static_cast<std::byte*>(ptr);
  }
  std::byte* HostAlloc(uint32_t device, uint64_t size, int line = 1) {
    void* ptr = nullptr;
    const test::OwnedStatus status =
        memory_->HostAlloc(device, size, 0, Site(line), &ptr);
    EXPECT_TRUE(status.ok()) << status.text();
    return static_cast<std::byte*>(ptr);
  }
  test::OwnedStatus Free(uint32_t device, void* ptr, int line = 2) {
    return memory_->Free(device, ptr, Site(line));
  }
  test::OwnedStatus HostFree(void* ptr, int line = 2) {
    return memory_->HostFree(ptr, Site(line));
  }
  uint64_t FreeBytes(uint32_t device) {
    uint64_t free_bytes = 0;
    uint64_t total = 0;
    memory_->Info(device, &free_bytes, &total);
    return free_bytes;
  }
  // Returns the address at which operations access [ptr, ptr + size).  Fails
  // the test if the range is not accessible.
  std::byte* Local(uint32_t device, const void* ptr, uint64_t size) {
    std::string why;
    std::byte* local = memory_->Local(device, ptr, size, &why);
    EXPECT_NE(local, nullptr) << why;
    return local;
  }
  std::string WhyNot(uint32_t device, const void* ptr, uint64_t size) {
    std::string why;
    EXPECT_EQ(memory_->Local(device, ptr, size, &why), nullptr);
    return why;
  }

  test::FakeHost host_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_TESTS_MTIA_MEMORY_FIXTURE_H_
