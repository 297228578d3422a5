// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so.1 without a GPU: the driver's contracts over the simulator's
// engine, for the real plugin's tests.  What an entry point promises is CUDA's
// (handles, contexts, CUresult), what happens on the device is mtia's, and
// DEVRT_MTIA configures that.  Not installed.
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
#include <unordered_set>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"
#include "tests/fakes/cuda/options.h"

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
  // With bare_records or early_reads: behind all but records.
  devrt_event last_work = nullptr;
};

struct CUevent_st {
  CUcontext context = nullptr;
  unsigned long long context_id = 0;
  devrt_event sim = nullptr;
  bool timing = false;
  bool interprocess = false;
  std::atomic<bool> recorded{false};
};

namespace devrt::fake {

// ---- Every call -------------------------------------------------------------

// What holds for an entry point.
inline constexpr unsigned kDeviceCall = 0;  // reports what has happened before
inline constexpr unsigned kQuiet = 1;       // reports no earlier fault
inline constexpr unsigned kInCallback = 2;  // works in a stream's callback

// First of all: whether the call may go on.
CUresult Enter(const char* name, unsigned rules = kDeviceCall);

// While a callback of the user's runs on this thread.
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
};
bool InCallback();

// The process has a fault: every call of every context tells of it.
void SetFault(CUresult code);
CUresult TheFault();

// ---- Live handles -----------------------------------------------------------

template <typename T>
class Registry {
 public:
  void Add(T* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    live_.insert(handle);
  }
  bool Has(T* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return live_.count(handle) != 0;
  }
  bool Remove(T* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return live_.erase(handle) != 0;
  }
  // Ends the process: the driver would have crashed, or worse.
  void Check(T* handle, const char* call, const char* what) {
    if (!Has(handle)) {
      Die("%s: %p is no live %s; the driver would crash", call,
          static_cast<void*>(handle), what);
    }
  }

 private:
  std::mutex mutex_;
  std::unordered_set<T*> live_;
};

Registry<CUctx_st>& Contexts();
Registry<CUstream_st>& Streams();
Registry<CUevent_st>& Events();

// ---- Devices and contexts ---------------------------------------------------

// Of a device of the driver; the simulator's number of it.
uint32_t SimDevice(uint32_t device);
// The driver's number; -1 where CUDA_VISIBLE_DEVICES hides it.
int DriverDevice(uint32_t sim_device);

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
// What was made in it before it was reset: the driver may crash.
template <typename T>
void CheckOwner(const T* object, const char* call, const char* what) {
  if (object->context_id != object->context->id) {
    Die("%s: the %s went with its context; the driver would crash", call, what);
  }
}

// ---- Streams ----------------------------------------------------------------

// What a CUstream means for the calling thread.
struct Target {
  CUcontext context = nullptr;
  uint32_t sim_device = 0;
  devrt_stream sim = nullptr;
  CUstream_st* own = nullptr;  // not of default streams
};
CUresult Resolve(const char* call, CUstream stream, Target* target);
// Behind every submission that is no record; gives `result` back.
CUresult Submitted(const Target& target, CUresult result);

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_CUDA_DRIVER_H_
