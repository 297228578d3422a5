// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so.1 without a GPU: the driver's contracts over the simulator's
// engine, for the real plugin's tests.  What an entry point promises is CUDA's
// (handles, contexts, CUresult), what happens on the device is mtia's, and
// DEVRT_MTIA configures that.  DEVRT_FAKE_CUDA is
// tests/fakes/common/options.h's, with these quirks:
//
//   bare_records   query and synchronise of blocking streams do not see a
//                  record behind legacy work, as measured (semantics C19)
//   early_reads    a small copy from pinned memory on a blocking stream
//                  that has nothing to do itself reads its source at once, as
//                  measured (docs/decisions/0010); the default streams of the
//                  real driver do so too
//
// Not installed.
//
//   LD_LIBRARY_PATH=<build>/tests/fakes/cuda devrt list
//
// A contract that the driver leaves to a crash (a dead handle) ends the process
// with a message, and so does an entry point that this does not have.

#ifndef DEVRT_TESTS_FAKES_CUDA_DRIVER_H_
#define DEVRT_TESTS_FAKES_CUDA_DRIVER_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"
#include "tests/fakes/common/calls.h"
#include "tests/fakes/common/options.h"
#include "tests/fakes/common/registry.h"
#include "tests/fakes/common/simulator.h"
#include "tests/fakes/common/work.h"

// ---- What handles point to --------------------------------------------------

struct CUctx_st {
  uint32_t device = 0;  // of the driver
  std::mutex mutex;     // guards the next one
  unsigned retained = 0;
  std::atomic<bool> alive{false};
  std::atomic<unsigned long long> id{0};  // changes when it is made again
};

struct CUstream_st {
  CUcontext context = nullptr;
  unsigned long long context_id = 0;
  devrt_stream sim = nullptr;
  unsigned flags = 0;
  int priority = 0;
  // With bare_records or early_reads: an event after all work except records.
  devrt_event last_work = nullptr;
  std::atomic<CUstreamCaptureStatus> capture{CU_STREAM_CAPTURE_STATUS_NONE};
  std::atomic<unsigned long long> capture_id{0};  // 0: of none
};

struct CUevent_st {
  CUcontext context = nullptr;
  unsigned long long context_id = 0;
  devrt_event sim = nullptr;
  bool timing = false;
  bool interprocess = false;
  std::atomic<bool> recorded{false};
  std::atomic<unsigned long long> capture_id{0};  // recorded there; 0: in none
};

namespace devrt::fake {

enum Quirk : unsigned { kBareRecords, kEarlyReads };

// First of all: whether the call may go on.
inline CUresult Enter(const char* name, unsigned rules = kDeviceCall) {
  return static_cast<CUresult>(EnterCall(name, rules));
}
// The fault of the process, which every call tells of.
inline CUresult TheFault() { return static_cast<CUresult>(FaultCode()); }

template <auto kSlot, typename... Args>
CUresult Sim(Args... args) {
  return static_cast<CUresult>(engine::Sim<kSlot>(args...));
}

// ---- Live handles -----------------------------------------------------------

Registry<CUctx_st>& Contexts();
Registry<CUstream_st>& Streams();
Registry<CUevent_st>& Events();

// ---- Devices and contexts ---------------------------------------------------

// A thread's contexts, the last one current.  Nothing to destroy: a thread may
// ask while it ends.
class Stack {
 public:
  bool empty() const { return count_ == 0; }
  CUcontext& back() { return contexts_[count_ - 1]; }
  CUcontext back() const { return contexts_[count_ - 1]; }
  void push_back(CUcontext context) {
    if (count_ == kMost) Die("a thread has more than %d contexts", kMost);
    contexts_[count_++] = context;
  }
  void pop_back() { --count_; }

 private:
  static constexpr int kMost = 64;
  CUcontext contexts_[kMost] = {};
  int count_ = 0;
};
Stack& ContextStack();
// The current context, usable: 201 without one, 709 if it is gone.
CUresult NeedContext(CUcontext* context);
CUresult CheckAlive(CUcontext context);
// Ends the process if the object's context was reset after the object was made:
// the driver may crash there.
template <typename T>
void CheckOwner(const T* object, const char* call, const char* what) {
  if (object->context_id != object->context->id) {
    Die("%s: the %s went with its context; the driver would crash", call, what);
  }
}

// ---- Streams ----------------------------------------------------------------

// The stream that a CUstream names for the calling thread.
struct Target : Work {
  CUcontext context = nullptr;
  CUstream_st* own = nullptr;  // not of default streams
};
CUresult Resolve(const char* call, CUstream stream, Target* target);
// Called after every submission except records.  Returns `result`.
CUresult Submitted(const Target& target, CUresult result);

// ---- Captures ---------------------------------------------------------------

// Called by each call that is unsafe during a capture.  Invalidates all
// captures whose mode forbids such calls to the calling thread, and returns the
// code for that, or CUDA_SUCCESS if there are none.
CUresult BreakCaptures();
// Called by waits for a whole context.  Invalidates all captures of streams of
// the context, in every mode.
CUresult BreakCapturesIn(const CUctx_st* context);
// Called by queries of a stream or an event.  Invalidates the capture that it
// belongs to, in every mode.
CUresult BreakCaptureOf(const CUstream_st* stream);
CUresult BreakCaptureOf(const CUevent_st* event);
// Called before a record and before a wait.  `stream` is nullptr for a default
// stream.
CUresult RecordInCapture(CUevent event, const CUstream_st* stream);
CUresult WaitInCapture(CUstream stream, const CUevent_st* event);

// ---- Virtual memory ---------------------------------------------------------

// kClosed: the device of the mapping has no access yet.
enum class Mapped { kNot, kClosed, kOpen };
Mapped StateOf(const void* ptr);

// ---- Memory pools -----------------------------------------------------------

// Returns true if `ptr` lies in a pool of another device that gives `device` no
// access.  Peer access of contexts does not cover pools (C79).
bool IsForbidden(const void* ptr, uint32_t device);

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_CUDA_DRIVER_H_
