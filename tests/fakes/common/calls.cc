// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/common/calls.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>

#include "tests/fakes/common/flags.h"
#include "tests/fakes/common/options.h"
#include "tests/fakes/common/simulator.h"
#include "tests/fakes/common/vendor.h"

namespace devrt::fake {
namespace {

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

// Returns true if this call is the one that the option `fail` names.
bool Fires(const Failure& failure, const char* name,
           std::atomic<unsigned long>* calls) {
  return failure.name == name && calls->fetch_add(1) + 1 == failure.nth;
}

}  // namespace

int EnterCall(const char* name, unsigned rules) {
  State& state = TheState();
  if (state.forked || !state.initialised) return kVendor.not_initialised;
  if (t_callbacks != 0 && (rules & kInCallback) == 0) {
    return kVendor.not_permitted;
  }
  const Options& options = TheOptions();
  if (Fires(options.fail, name, &state.fail_calls)) return options.fail.code;
  if (Fires(options.lost, name, &state.lost_calls)) state.lost = true;
  if ((rules & kQuiet) != 0) return 0;
  OpenFlags();
  return state.lost ? options.lost.code : FaultCode();
}

CallbackScope::CallbackScope() { ++t_callbacks; }
CallbackScope::~CallbackScope() { --t_callbacks; }
bool InCallback() { return t_callbacks != 0; }

void SetFaultCode(int code) {
  int none = 0;
  TheState().fault.compare_exchange_strong(none, code);
}

int FaultCode() { return TheState().fault; }

// ---- Initialisation ---------------------------------------------------------

int Initialise(Chooser choose) {
  State& state = TheState();
  if (state.forked) return kVendor.not_initialised;
  const std::lock_guard<std::mutex> lock(state.init_mutex);
  if (state.initialised) return 0;
  const Options& options = TheOptions();
  if (options.start == Options::Start::kCrashes) {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
  while (options.start == Options::Start::kHangs) pause();
  if (options.init != 0) return options.init;
  uint32_t count = 0;
  const int error = engine::Sim<&devrt_ops_v0::device_count>(&count);
  if (error != 0) return error;
  state.visible = choose(count);
  if (state.visible.empty()) return kVendor.no_device;
  pthread_atfork(nullptr, nullptr, [] { TheState().forked = true; });
  state.initialised = true;
  return 0;
}

std::vector<uint32_t> VisibleOf(const std::vector<uint32_t>& devices,
                                const std::string& list) {
  std::vector<uint32_t> chosen;
  for (size_t at = 0; at < list.size();) {
    size_t end = list.find(',', at);
    if (end == std::string::npos) end = list.size();
    const std::string word = list.substr(at, end - at);
    at = end + 1;
    char* rest = nullptr;
    const unsigned long number = std::strtoul(word.c_str(), &rest, 10);
    if (word.empty() || *rest != '\0' || number >= devices.size()) break;
    chosen.push_back(devices[number]);
  }
  return chosen;
}

uint32_t DeviceCount() {
  return static_cast<uint32_t>(TheState().visible.size());
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
