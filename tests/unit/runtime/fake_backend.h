// SPDX-License-Identifier: Apache-2.0
//
// FakeBackend: a backend that is linked into the test and answers what the
// test wants to hear.
//
//   FakeBackend& fake = FakeBackend::Register("fake", 2);
//   FakeFailure lost;
//   lost.flags = DEVRT_ERROR_STICKY | DEVRT_ERROR_ASYNC;
//   fake.Fail("device_sync", lost);         // the next call of that slot
//   EXPECT_EQ(fake.Calls("alloc"), 1);
//
// Device memory is host memory.  Threads: any.

#ifndef DEVRT_TESTS_UNIT_RUNTIME_FAKE_BACKEND_H_
#define DEVRT_TESTS_UNIT_RUNTIME_FAKE_BACKEND_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "devrt/runtime/device.h"

namespace devrt::testing {

struct FakeFailure {
  devrt_code code = DEVRT_INTERNAL;
  std::string text = "an illegal address was met";
  int64_t native_code = 700;
  std::string native_name = "cudaErrorIllegalAddress";
  std::string entry_point = "cuStreamSynchronize";
  uint32_t flags = 0;
  int device = -1;
};

class FakeBackend {
 public:
  static constexpr uint64_t kCapacity = 256ull << 20;
  static constexpr uint64_t kOverhead = 1ull << 20;
  static constexpr uint64_t kCapabilities =
      DEVRT_CAP_PINNED_HOST | DEVRT_CAP_HOST_REGISTER | DEVRT_CAP_POINTER_INFO |
      DEVRT_CAP_PEER_ACCESS;

  // Makes a backend known to devrt; at most eight in a process.
  static FakeBackend& Register(const std::string& name, uint32_t devices,
                               uint64_t capabilities = kCapabilities,
                               uint32_t priority = 100);

  Backend backend() const;
  Device device(int index) const;

  void Fail(const std::string& slot, FakeFailure failure);
  int Calls(const std::string& slot) const;

  // The answer of pointer_info for memory that others allocated.
  devrt_pointer_info_v0 foreign = {};
  // Peer access that another library enabled.
  bool foreign_peers = false;
  uint32_t can_access = 1;
  // The next device allocation returns this block instead of fresh memory.
  std::atomic<void*> next_block{nullptr};
  // `shutdown` throws this text, which no plugin may do.  nullptr: no
  // exception.
  const char* thrown_by_shutdown = nullptr;
  // Called inside each device allocation.
  std::atomic<void (*)()> during_alloc{nullptr};

  // For the table.
  devrt_status Enter(const char* slot);
  uint64_t used(uint32_t device) const;
  bool Use(uint32_t device, uint64_t bytes);
  void Release(uint32_t device, uint64_t bytes);
  uint32_t devices() const { return devices_; }
  devrt_status Open(const devrt_host_v0* host, devrt_backend_v0* backend);

 private:
  FakeBackend() = default;

  std::string name_;
  uint32_t devices_ = 0;
  devrt_manifest_v0 manifest_{};
  const devrt_host_v0* host_ = nullptr;
  mutable std::mutex mutex_;
  std::map<std::string, FakeFailure> failures_;
  std::map<std::string, int> calls_;
  std::vector<uint64_t> used_;
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_UNIT_RUNTIME_FAKE_BACKEND_H_
