// SPDX-License-Identifier: Apache-2.0
//
// SpyBackend: a backend "spy" of two devices that is linked into the test.  It
// finishes everything at the call and keeps a record: which slot was called
// for which device, which devices got a context, and whether a handle was used
// after its destruction.
//
//   SpyBackend& spy = SpyBackend::Get();        // registered and opened
//   spy.Reset();
//   ASSERT_TRUE(stream.Synchronize().ok());
//   EXPECT_EQ(spy.Count("stream_sync", 1), 1);
//   EXPECT_EQ(spy.contexts(), std::set<int>({1}));
//
// Contexts follow CUDA's rule of C103 and C107: each thread has none at first,
// context_enter and work make one on the device they name, queries, destroys
// and context_exit make none, and another library may have made its own
// current.
//
// Threads: everything may be called from any thread.
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
    // host->call_site at the call; empty for nullptr.
    std::string file;
    int line;
    std::string label;
  };

  static SpyBackend& Get();

  Device device(int index) const;
  // Forgets calls, contexts, failures, and what is current in this thread.
  void Reset();

  // Calls of a slot; of one device, or of all.
  int Count(std::string_view slot, int device = -1) const;
  // The last call of a slot; line -1 if there was none.
  Call Last(std::string_view slot) const;
  std::set<int> contexts() const;
  // Uses of handles that were destroyed or never made.
  int bad_handles() const;

  // The `nth` next call of `slot` fails and changes nothing.
  void Fail(std::string_view slot, absl::StatusCode code, int nth = 1);
  // Runs `hook` inside the next call of `slot`, once.
  void OnNext(std::string_view slot, std::function<void()> hook);
  // What each device has, as it says; at first 1 MiB.
  void SetMemory(uint64_t bytes) { memory_ = bytes; }
  uint64_t memory() const { return memory_; }
  // What queries answer.
  void SetBusy(bool busy);

  // The calling thread's current context, as another library sees and sets it.
  static int NativeCurrent();
  static void SetNativeCurrent(int context);

  // For the table.  False when the call has to fail.
  bool Enter(const char* slot, int device, bool names_device,
             devrt_status* error);
  void* New(int device);
  // The device of a live object; notes a bad handle and answers 0 otherwise.
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
  std::set<const Object*> objects_;  // never freed: numbers are not reused
  int bad_handles_ = 0;
  bool busy_ = false;
  std::atomic<uint64_t> memory_{1 << 20};
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SUPPORT_SPY_BACKEND_H_
