// SPDX-License-Identifier: Apache-2.0
//
// A libamdhip64.so without a GPU: HIP's contracts over the simulator's engine,
// for the real plugin's tests.  What an entry point promises is HIP's (handles,
// the thread's device, the last error, hipError_t), what happens on the device
// is mtia's, and DEVRT_MTIA configures that.  DEVRT_FAKE_HIP is
// tests/fakes/common/options.h's, with these quirks, each named after the item
// of semantics.md that says what HIP leaves open:
//
//   c9_missing_waits    a wait on a blocking stream, or a record, does not wait
//                       for the legacy stream; one in the legacy stream is
//                       nothing that later work of others waits for
//   c15_needs_device    a launch wants the stream's device to be current
//   c16_needs_device    and so does a copy or a fill
//   c17_drops_work      hipStreamDestroy of a stream that has work left ends
//                       the process: HIP may drop what is left
//   c18_forgets_stream  an event is complete once its stream is destroyed
//   c20_slot            before ROCm 7: the thread's last error also holds
//                       hipSuccess and hipErrorNotReady
//   c27_pending_record  recording an event again while it is pending ends the
//                       process: that is undefined
//   c37_stale           a true query does not show the host what was copied to
//                       pinned memory without hipHostMallocCoherent; that of an
//                       event with hipEventReleaseToSystem does, and waiting
//   c71_needs_device    a pointer is known only where its device is current
//
// DEVRT_MTIA sets the effect of a fault (C92 to C95): fault_delivery=abort.
// Not installed.
//
//   LD_LIBRARY_PATH=<build>/tests/fakes/hip devrt list
//
// A contract that HIP leaves to a crash (a dead handle) ends the process with a
// message.  The dynamic linker finds the functions: one that this does not have
// is missing.

#ifndef DEVRT_TESTS_FAKES_HIP_DRIVER_H_
#define DEVRT_TESTS_FAKES_HIP_DRIVER_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "devrt/backends/abi/devrt_plugin.h"
#include "tests/fakes/common/calls.h"
#include "tests/fakes/common/options.h"
#include "tests/fakes/common/registry.h"
#include "tests/fakes/common/simulator.h"
#include "tests/fakes/common/work.h"
#include "tests/fakes/hip/errors.h"

// ---- What handles point to --------------------------------------------------

struct ihipStream_t {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  devrt_stream sim = nullptr;
  // With c9_missing_waits, of what takes part in the legacy stream's rules:
  std::mutex mutex;             // a submission is several of the simulator's
  devrt_stream bare = nullptr;  // for waits and records, outside those rules
  devrt_event ahead = nullptr;  // behind what `bare` has
  devrt_event work = nullptr;   // behind what `sim` has
};

struct ihipEvent_t {
  int device = 0;
  devrt_event sim = nullptr;
  bool timing = false;
  bool interprocess = false;
  bool releases = false;  // hipEventReleaseToSystem
  std::atomic<bool> recorded{false};
  std::atomic<ihipStream_t*> stream{nullptr};  // of the newest record
};

namespace devrt::fake {

enum Quirk : unsigned {
  kC9MissingWaits,
  kC15NeedsDevice,
  kC16NeedsDevice,
  kC17DropsWork,
  kC18ForgetsStream,
  kC20Slot,
  kC27PendingRecord,
  kC37Stale,
  kC71NeedsDevice,
};

// ---- Every call -------------------------------------------------------------

// Returns hipSuccess if the call may go on.  The first call of the process
// initialises HIP.
hipError_t Enter(const char* name, unsigned rules);
// Updates the thread's last error after a call that ended with `error`.
// Returns `error`.
hipError_t Remember(hipError_t error);

// An entry point: `body` if it may go on.
template <typename Body>
hipError_t Call(const char* name, unsigned rules, const Body& body) {
  const hipError_t error = Enter(name, rules);
  return Remember(error == hipSuccess ? body() : error);
}

template <auto kSlot, typename... Args>
hipError_t Sim(Args... args) {
  return static_cast<hipError_t>(engine::Sim<kSlot>(args...));
}

Registry<ihipStream_t>& Streams();
Registry<ihipEvent_t>& Events();

// ---- Devices ----------------------------------------------------------------

hipError_t CheckDevice(int device);
// The calling thread's current device.
int CurrentDevice();
// The current device, which from now on counts as used: it has a primary
// context.
int UseCurrentDevice();
inline uint32_t SimOf(int device) {
  return SimDevice(static_cast<uint32_t>(device));
}

// ---- Streams ----------------------------------------------------------------

// The stream that a hipStream_t names for the calling thread.
struct Target : Work {
  int device = 0;
  ihipStream_t* own = nullptr;
  bool is_legacy = false;
};
hipError_t Resolve(const char* call, hipStream_t stream, Target* target);

// Encloses the submission of an operation other than a wait or a record.
class Submission {
 public:
  explicit Submission(const Target& target);
  // Returns `error`, the result of the operation.
  hipError_t End(hipError_t error);

 private:
  const Target& target_;
  std::unique_lock<std::mutex> lock_;
};
template <typename Operation>
hipError_t Submit(const Target& target, const Operation& operation) {
  Submission submission(target);
  return submission.End(static_cast<hipError_t>(operation()));
}

// The simulated stream that waits and records of `target` go to, and that is
// asked for its end.
enum class Bare { kWait, kRecord, kEnd };
hipError_t BareOf(const Target& target, Bare use, devrt_stream* bare);

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_HIP_DRIVER_H_
