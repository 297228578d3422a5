// SPDX-License-Identifier: Apache-2.0
//
// The host's side of the plugin ABI, made of plain structs, for tests that link
// a plugin's sources without the runtime.
//
//   FakeHost host;
//   g_host = host.table();
//   {
//     OwnedStatus status(SomethingThatFails());
//     EXPECT_EQ(status.code(), DEVRT_INVALID_ARGUMENT) << status.text();
//   }
//   EXPECT_EQ(host.live_errors(), 0);
//
// Thread-safe, except set_extension.

#ifndef DEVRT_TESTS_SUPPORT_FAKE_HOST_H_
#define DEVRT_TESTS_SUPPORT_FAKE_HOST_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::test {

struct FakeError;

class FakeHost {
 public:
  FakeHost();
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  const devrt_host_v0* table() const { return &table_; }

  // The number of errors that were created and not destroyed.
  int64_t live_errors() const { return live_errors_.load(); }
  // All lines of the log so far, as "level text".
  std::vector<std::string> logs() const;
  // Sets the result of get_extension for `name`.
  void set_extension(const std::string& name, const void* extension);

 private:
  friend struct FakeError;
  struct Calls;

  devrt_host_v0 table_;
  std::atomic<int64_t> live_errors_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> logs_;
  std::map<std::string, const void*> extensions_;
};

// Sets the result of host->call_site on this thread, until the end of the
// scope.
class ScopedCallSite {
 public:
  ScopedCallSite(const char* file, int32_t line, const char* label = nullptr);
  ~ScopedCallSite();
  ScopedCallSite(const ScopedCallSite&) = delete;
  ScopedCallSite& operator=(const ScopedCallSite&) = delete;

 private:
  devrt_call_site_v0 previous_;
};

// A status of a FakeHost, destroyed at the end of the scope.
class OwnedStatus {
 public:
  OwnedStatus(devrt_status status) : status_(status) {}  // NOLINT: implicit
  ~OwnedStatus();
  OwnedStatus(OwnedStatus&& other) noexcept;
  OwnedStatus& operator=(OwnedStatus&& other) noexcept;

  bool ok() const { return status_ == nullptr; }
  devrt_code code() const;
  std::string text() const;
  int64_t native_code() const;
  // The origin from error_set_origin; zero, -1 and "" without one.
  uint32_t flags() const;
  int32_t device() const;
  std::string native_name() const;
  std::string entry_point() const;

 private:
  devrt_status status_;
};

}  // namespace devrt::test

#endif  // DEVRT_TESTS_SUPPORT_FAKE_HOST_H_
