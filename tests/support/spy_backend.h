// SPDX-License-Identifier: Apache-2.0
//
// SpyBackend: a backend "spy" with two devices that is linked into the test.
// All work completes inside the call.  The backend records which slots were
// called for which devices, which devices got a context, and uses of destroyed
// handles.
//
//   SpyBackend& spy = SpyBackend::Get();        // registered and opened
//   spy.Reset();
//   ASSERT_TRUE(stream.Synchronize().ok());
//   EXPECT_EQ(spy.Count("stream_sync", 1), 1);
//   EXPECT_EQ(spy.contexts(), std::set<int>({1}));
//
// Contexts follow the rules of CUDA (C103, C107).  A thread has no context at
// first.  context_enter and work make one on the device that they name;
// queries, destroys and context_exit make none.  Another library may have made
// its own context current.
//
// Threads: any thread may call any function.
#ifndef DEVRT_TESTS_SUPPORT_SPY_BACKEND_H_
#define DEVRT_TESTS_SUPPORT_SPY_BACKEND_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "devrt/devrt.h"

namespace devrt::testing {

class SpyBackend {
 public:
  static constexpr int kDevices = 2;
  // Values of NativeCurrent.
  static constexpr int kNoContext = -1;
  static constexpr int kForeign = 100;  // + device: another library's context

  struct Call {
    std::string slot;
    int device;
    // The result of host->call_site during the call; empty for nullptr.
    std::string file;
    int line;
    std::string label;
  };

  static SpyBackend& Get();

  Device device(int index) const;
  // Forgets calls, contexts, failures, and the thread's current context.
  void Reset();

  // The number of calls of a slot, for one device or for all.
  int Count(std::string_view slot, int device = -1) const;
  // The last call of a slot.  Its line is -1 if there was no call.
  Call Last(std::string_view slot) const;
  std::set<int> contexts() const;
  // The number of uses of handles that were destroyed or never created.
  int bad_handles() const;

  // Makes the `nth` next call of `slot` fail without effect.
  void Fail(std::string_view slot, absl::StatusCode code, int nth = 1);
  // Runs `hook` inside the next call of `slot`, once.
  void OnNext(std::string_view slot, std::function<void()> hook);
  // Sets the memory that each device reports, 1 MiB at first.
  void SetMemory(uint64_t bytes) { memory_ = bytes; }
  uint64_t memory() const { return memory_; }
  // Sets the result of queries.
  void SetBusy(bool busy);

  // The calling thread's current context, as another library sees and sets it.
  static int NativeCurrent();
  static void SetNativeCurrent(int context);

  // Called by the table.  Returns false if the call has to fail.
  bool Enter(const char* slot, int device, bool names_device,
             devrt_status* error);
  void* New(int device);
  // The device of a live object.  Otherwise records a bad handle and returns 0.
  int DeviceOf(const void* object);
  void Delete(void* object);
  bool busy() const;
  void set_host(const devrt_host_v0* host) { host_ = host; }

 private:
  struct Object {
    int device;
    bool live;
  };
  struct Failure {
    std::string slot;
    absl::StatusCode code;
    int nth;
  };

  struct Hook {
    std::string slot;
    std::function<void()> function;
  };

  SpyBackend() = default;
  void RunHook(std::string_view slot);

  const devrt_host_v0* host_ = nullptr;
  mutable std::mutex mu_;
  std::vector<Call> calls_;
  std::set<int> contexts_;
  std::vector<Failure> failures_;
  std::vector<Hook> hooks_;
  std::set<const Object*> objects_;  // never freed, so addresses are not reused
  int bad_handles_ = 0;
  bool busy_ = false;
  std::atomic<uint64_t> memory_{1 << 20};
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SUPPORT_SPY_BACKEND_H_
