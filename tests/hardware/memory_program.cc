// SPDX-License-Identifier: Apache-2.0
//
//   memory_program host_memory_stats|one_allocation BACKEND
//
// The seed's operations in a fresh process.  With exit code 1, stderr has the
// fault.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "devrt/devrt.h"

namespace {

using devrt::Device;

template <typename T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::exit(1);
}
void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// Counts, but for times.
std::map<std::string, int64_t> Keys(Device device) {
  std::map<std::string, int64_t> keys;
  for (const auto& [key, value] :
       ToKeys(devrt::GetPinnedStatistics(device.backend()))) {
    const bool is_time = key.find("_time.") != key.npos;
    if (!is_time || key.find(".count") != key.npos) keys[key] = value;
  }
  return keys;
}

class HostMemoryStats {
 public:
  explicit HostMemoryStats(Device device)
      : device_(device), expected_(Keys(device)) {}

  int Run() {
    Must(EmptyPinnedCache(device_.backend()));
    Expect(expected_.size() == 20, "20 keys");
    for (auto& [key, value] : expected_) value = 0;
    Check("in a fresh process");
    void* const first = Must(AllocatePinned(device_, 10 * 1024 * 4));
    Grow(65536);
    Check("with the first block");
    void* const second = Must(AllocatePinned(device_, 20 * 1024 * 4));
    Grow(131072);
    Check("with both");
    Must(EmptyPinnedCache(device_.backend()));
    Check("after emptying the cache");
    ResetPeakPinnedStatistics(device_.backend());
    ResetAccumulatedPinnedStatistics(device_.backend());
    Expect(Keys(device_)["allocated_bytes.current"] == 65536 + 131072,
           "resets leave what there is");
    Must(devrt::FreePinned(first));
    Must(devrt::FreePinned(second));
    std::map<std::string, int64_t> keys = Keys(device_);
    Expect(keys["active_requests.freed"] == 2, "two blocks are free");
    Expect(keys["allocations.freed"] == 0, "the cache has them");
    Must(EmptyPinnedCache(device_.backend()));
    keys = Keys(device_);
    Expect(keys["num_host_free"] == 2, "the driver has them back");
    Expect(keys["allocated_bytes.freed"] == 65536 + 131072, "all bytes");
    return failures_ == 0 ? 0 : 1;
  }

 private:
  void Expect(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "expected: %s\n", what);
    ++failures_;
  }
  void Grow(int64_t bytes) {
    for (const char* what : {".allocated", ".current", ".peak"}) {
      for (const char* count : {"allocations", "active_requests"}) {
        expected_[std::string(count) + what] += 1;
      }
      for (const char* size : {"allocated_bytes", "active_bytes"}) {
        expected_[std::string(size) + what] += bytes;
      }
    }
    expected_["num_host_alloc"] += 1;
    expected_["host_alloc_time.count"] += 1;
  }
  void Check(const char* when) {
    const std::map<std::string, int64_t> now = Keys(device_);
    for (const auto& [key, value] : expected_) {
      const auto found = now.find(key);
      if (found != now.end() && found->second == value) continue;
      std::fprintf(
          stderr, "%s: %s is %lld, expected %lld\n", when, key.c_str(),
          static_cast<long long>(found == now.end() ? -1 : found->second),
          static_cast<long long>(value));
      ++failures_;
    }
  }

  Device device_;
  std::map<std::string, int64_t> expected_;
  int failures_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: memory_program WHAT BACKEND\n", stderr);
    return 2;
  }
  const Device device = Must(devrt::GetDevice(argv[2], 0));
  if (argv[1] == std::string("host_memory_stats")) {
    return HostMemoryStats(device).Run();
  }
  // Its end is what is looked at.
  Must(devrt::AllocatePinned(device, 20));
  return 0;
}
