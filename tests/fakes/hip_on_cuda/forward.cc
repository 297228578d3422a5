// SPDX-License-Identifier: Apache-2.0
//
// The driver, its codes, the thread's device.
#include "tests/fakes/hip_on_cuda/forward.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>

#include "backends/cuda/device_count.h"

namespace devrt::hip_on_cuda {
namespace {

constexpr size_t kMostDevices = 64;

struct Device {
  CUdevice native = 0;
  std::atomic<CUcontext> context{nullptr};
};

struct State {
  std::mutex mutex;  // guards what follows, until is_ready
  std::unique_ptr<Api> api;
  std::atomic<bool> is_ready{false};
  int count = 0;
  std::array<Device, kMostDevices> devices;
};

State& TheState() {
  static auto* const state = new State();
  return *state;
}

thread_local int t_device = 0;

// Under the state's mutex.
CUresult Load(State* state) {
  if (state->api != nullptr) return CUDA_SUCCESS;
  std::string why;
  state->api = Api::Load(&why);
  if (state->api != nullptr) return CUDA_SUCCESS;
  std::fprintf(stderr, "HIP on CUDA: %s\n", why.c_str());
  return CUDA_ERROR_NO_DEVICE;
}

// Under the state's mutex.
CUresult Start(State* state) {
  CUresult error = Load(state);
  if (error == CUDA_SUCCESS) error = state->api->Init();
  if (error == CUDA_SUCCESS) error = state->api->Count(&state->count);
  for (int i = 0; i < state->count && error == CUDA_SUCCESS; ++i) {
    error = state->api->GetDevice(
        i, &state->devices.at(static_cast<size_t>(i)).native);
  }
  return error;
}

Device& TheDevice(int device) {
  return TheState().devices.at(static_cast<size_t>(device));
}

}  // namespace

hipError_t Translate(CUresult error) {
  switch (static_cast<int>(error)) {
    case 46:   // devices unavailable
    case 802:  // system not ready
    case 803:  // driver mismatch
      return hipErrorNoDevice;
    case 714:  // faults that HIP has no number for
    case 715:
    case 716:
    case 717:
    case 718:
    case 721:
      return hipErrorLaunchFailure;
    case 800:  // not permitted
      return hipErrorNotSupported;
    case 911:  // other things to HIP
    case 912:
      return hipErrorUnknown;
    default:
      return static_cast<hipError_t>(error);
  }
}

const Api* Driver(hipError_t* error) {
  State& state = TheState();
  if (!state.is_ready.load(std::memory_order_acquire)) {
    const std::lock_guard<std::mutex> lock(state.mutex);
    if (!state.is_ready.load(std::memory_order_relaxed)) {
      *error = Translate(Start(&state));
      if (*error != hipSuccess) return nullptr;
      state.is_ready.store(true, std::memory_order_release);
    }
  }
  return state.api.get();
}

// ---- Devices ----------------------------------------------------------------

// Counting devices must not initialise CUDA: that starts threads, and the
// plugin's open function may start none.
hipError_t CountDevices(int* count) {
  State& state = TheState();
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    const CUresult error = Load(&state);
    if (error != CUDA_SUCCESS) {
      return fake::RememberLast(Translate(error), false);
    }
    *count = state.api->CountWithoutInit();
  }
  if (*count == 0) return fake::RememberLast(hipErrorNoDevice, false);
  if (*count != devrt::cuda::kUnknownCount) return hipSuccess;
  return Call([&](const Api& driver) { return driver.Count(count); });
}

int CurrentDevice() { return t_device; }

CUresult SetCurrentDevice(int device) {
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  t_device = device;
  return CUDA_SUCCESS;
}

bool IsDevice(int device) { return device >= 0 && device < TheState().count; }

CUresult ContextOf(const Api& driver, int device, CUcontext* context) {
  Device& mine = TheDevice(device);
  *context = mine.context.load(std::memory_order_acquire);
  if (*context != nullptr) return CUDA_SUCCESS;
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  *context = mine.context.load(std::memory_order_relaxed);
  if (*context != nullptr) return CUDA_SUCCESS;
  const CUresult error = driver.Retain(mine.native, context);
  if (error == CUDA_SUCCESS) {
    mine.context.store(*context, std::memory_order_release);
  }
  return error;
}

int DeviceOf(CUcontext context) {
  for (int i = 0; i < TheState().count; ++i) {
    if (TheDevice(i).context.load(std::memory_order_acquire) == context) {
      return i;
    }
  }
  return -1;
}

Scope::Scope(const Api& driver, int device) : driver_(driver) {
  CUcontext context = nullptr;
  error_ = ContextOf(driver, device, &context);
  if (error_ == CUDA_SUCCESS) error_ = driver.Current(&previous_);
  if (error_ != CUDA_SUCCESS || previous_ == context) return;
  error_ = driver.SetCurrent(context);
  switched_ = error_ == CUDA_SUCCESS;
}

Scope::~Scope() {
  if (switched_) (void)driver_.SetCurrent(previous_);
}

}  // namespace devrt::hip_on_cuda
