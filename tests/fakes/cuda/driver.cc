// SPDX-License-Identifier: Apache-2.0
//
// What holds for every call: initialisation, faults, callbacks, handles.
#include "tests/fakes/cuda/driver.h"

#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/fakes/cuda/flags.h"
#include "tests/fakes/cuda/simulator.h"

namespace devrt::fake {
namespace {

constexpr int kForked = CUDA_ERROR_NOT_INITIALIZED;

struct State {
  std::mutex init_mutex;
  std::atomic<bool> initialised{false};
  std::atomic<bool> forked{false};
  std::atomic<int> fault{0};
  std::atomic<bool> lost{false};
  std::atomic<unsigned long> fail_calls{0}, lost_calls{0};
  std::vector<uint32_t> visible;  // the simulator's numbers, by the driver's
};

State& TheState() {
  static auto* const state = new State();
  return *state;
}

thread_local int t_callbacks = 0;

// Whether this is the call that the switch names.
bool Fires(const Failure& failure, const char* name,
           std::atomic<unsigned long>* calls) {
  return failure.name == name && calls->fetch_add(1) + 1 == failure.nth;
}

// CUDA_VISIBLE_DEVICES: numbers and UUIDs, up to the first that is none.
std::vector<uint32_t> VisibleOf(uint32_t count) {
  std::vector<uint32_t> all, chosen;
  for (uint32_t i = 0; i < count; ++i) all.push_back(i);
  const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (variable == nullptr) return all;
  const std::string text = variable;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find(',', at);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    char* rest = nullptr;
    const unsigned long number = std::strtoul(word.c_str(), &rest, 10);
    if (word.empty() || *rest != '\0' || number >= count) break;
    chosen.push_back(static_cast<uint32_t>(number));
  }
  return chosen;
}

}  // namespace

CUresult Enter(const char* name, unsigned rules) {
  State& state = TheState();
  if (state.forked) return static_cast<CUresult>(kForked);
  if (!state.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (t_callbacks != 0 && (rules & kInCallback) == 0) {
    return CUDA_ERROR_NOT_PERMITTED;
  }
  const Options& options = TheOptions();
  if (Fires(options.fail, name, &state.fail_calls)) {
    return static_cast<CUresult>(options.fail.code);
  }
  if (Fires(options.lost, name, &state.lost_calls)) state.lost = true;
  if ((rules & kQuiet) != 0) return CUDA_SUCCESS;
  OpenFlags();
  if (state.lost) return static_cast<CUresult>(options.lost.code);
  return TheFault();
}

CallbackScope::CallbackScope() { ++t_callbacks; }
CallbackScope::~CallbackScope() { --t_callbacks; }
bool InCallback() { return t_callbacks != 0; }

void SetFault(CUresult code) {
  int none = 0;
  TheState().fault.compare_exchange_strong(none, code);
}

CUresult TheFault() { return static_cast<CUresult>(TheState().fault.load()); }

Registry<CUctx_st>& Contexts() {
  static auto* const contexts = new Registry<CUctx_st>();
  return *contexts;
}
Registry<CUstream_st>& Streams() {
  static auto* const streams = new Registry<CUstream_st>();
  return *streams;
}
Registry<CUevent_st>& Events() {
  static auto* const events = new Registry<CUevent_st>();
  return *events;
}

uint32_t SimDevice(uint32_t device) { return TheState().visible.at(device); }

int DriverDevice(uint32_t sim_device) {
  const std::vector<uint32_t>& visible = TheState().visible;
  for (size_t i = 0; i < visible.size(); ++i) {
    if (visible[i] == sim_device) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace devrt::fake

using devrt::fake::Enter;
using devrt::fake::TheOptions;
using devrt::fake::TheState;

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  auto& state = TheState();
  if (state.forked) return static_cast<CUresult>(devrt::fake::kForked);
  const std::lock_guard<std::mutex> lock(state.init_mutex);
  if (state.initialised) return CUDA_SUCCESS;
  if (TheOptions().init != 0) return static_cast<CUresult>(TheOptions().init);
  uint32_t count = 0;
  const CUresult error = devrt::fake::Sim<&devrt_ops_v0::device_count>(&count);
  if (error != CUDA_SUCCESS) return error;
  state.visible = devrt::fake::VisibleOf(count);
  if (state.visible.empty()) return CUDA_ERROR_NO_DEVICE;
  pthread_atfork(nullptr, nullptr, [] { TheState().forked = true; });
  state.initialised = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int said = TheOptions().version;
  *version = said != 0 ? said : CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  const CUresult error = Enter("cuDeviceGetCount", devrt::fake::kQuiet);
  if (error != CUDA_SUCCESS) return error;
  *count = static_cast<int>(TheState().visible.size());
  return CUDA_SUCCESS;
}
