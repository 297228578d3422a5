// SPDX-License-Identifier: Apache-2.0
//
// The validate layer: its settings, and what devrt opens.
//
//   DEVRT_RACE=report|throw|witness|off
//   DEVRT_RACE_HOST_ORDER=observed|exact
//   DEVRT_RACE_LEAKS=shutdown|on
//   DEVRT_RACE_FILE, DEVRT_RACE_SUPPRESSIONS  (findings.h)
//   DEVRT_RACE_FOREIGN=unseen|declared
//   DEVRT_RACE_STACKS=off|on
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>

#include "devrt/backends/abi/devrt_layer_helper.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "layers/validate/layer_state.h"
#include "layers/validate/watcher.h"

namespace devrt::race {
namespace {

pid_t g_process = 0;  // that loaded the layer

Watcher* WatcherOf(void* self) {
  return static_cast<layer::internal::Front<Watcher, devrt_ops_v0>*>(self)
      ->policy;
}

const void* AddExtension(void* self, const char* name, void** self_out) {
  *self_out = WatcherOf(self)->captures();
  return OwnExtension(name);
}

// ---- The simulator's restarts -----------------------------------------------

// The simulator's own table, behind the one that the host gets.
const devrt_sim_v1* g_sim = nullptr;
DeviceKey g_sim_device0 = 0;

devrt_status Restarted(devrt_status status) {
  if (status != nullptr) return status;
  g_layer.validator->Restart(g_sim_device0);
  g_layer.run->Restart();
  return nullptr;
}

// A restart makes all handles and all memory invalid.  The other functions are
// the simulator's, with its `self`: calls that control it pass no layer.
const void* AttachSimulator(const Watcher& watcher, const void* table) {
  static devrt_sim_v1 front;
  g_sim = static_cast<const devrt_sim_v1*>(table);
  g_sim_device0 = watcher.device0();
  layer::internal::CopyTable(&front, table);
  front.reset = [](void* self, const char* config, uint64_t size) {
    return Restarted(g_sim->reset(self, config, size));
  };
  front.replay = [](void* self, const char* token, uint64_t size) {
    return Restarted(g_sim->replay(self, token, size));
  };
  if (DEVRT_HAS_FIELD(g_sim, devrt_sim_v1, outcome)) {
    front.outcome = [](void* self, uint64_t* hash) -> devrt_status {
      if (g_layer.witnessed == nullptr) return g_sim->outcome(self, hash);
      JudgeTouches();
      return g_layer.run->Outcome(hash);
    };
  }
  return &front;
}

const void* AttachExtension(void* self, const char* name, void* table_self,
                            const void* table, void** self_out) {
  if (g_layer.validator != nullptr &&
      std::strcmp(name, DEVRT_SIM_EXTENSION) == 0) {
    *self_out = table_self;
    return AttachSimulator(*WatcherOf(self), table);
  }
  return layer::internal::AttachExtension<Watcher>(self, name, table_self,
                                                   table, self_out);
}

devrt_status WrongSetting(const std::string& text) {
  return plugin::Error(g_layer.host, DEVRT_INVALID_ARGUMENT, 0, text);
}

void Log(const std::string& text) {
  plugin::Log(g_layer.host, DEVRT_LOG_WARNING, __FILE__, __LINE__, text);
}

// The end of the program; most programs end without devrt::Shutdown().
void End() {
  // A forked child has the parent's counts, and maybe a locked mutex whose
  // thread exists in the parent alone.
  if (getpid() != g_process) return;
  // Touches after the program's last call of devrt.
  if (!g_layer.validator->IsBusy()) JudgeTouches();
  EndRun();
  if (g_layer.tells_leaks && !g_layer.has_told_leaks &&
      !g_layer.validator->IsBusy()) {
    g_layer.validator->AddLeaks();
  }
  const std::string summary = g_layer.validator->End();
  if (summary.empty()) return;
  Log(summary);
}

// Returns the first variable that looks like a setting of the layer and is
// none, or "".
std::string UnknownSetting() {
  constexpr std::string_view kPrefix = "DEVRT_RACE";
  constexpr std::string_view kRest[] = {
      "",        "_FILE",        "_FOREIGN", "_LEAKS", "_HOST_ORDER",
      "_STACKS", "_SUPPRESSIONS"};
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view name =
        std::string_view(*at).substr(0, std::string_view(*at).find('='));
    if (name.substr(0, kPrefix.size()) != kPrefix) continue;
    const std::string_view rest = name.substr(kPrefix.size());
    if (std::find(std::begin(kRest), std::end(kRest), rest) ==
        std::end(kRest)) {
      return std::string(name);
    }
  }
  return "";
}

// The variable's value; nullptr if it is not set, or empty.
const char* ReadSetting(const char* name) {
  const char* const value = secure_getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

// Sets `chosen` to the variable's value, one of `values`, or to the first of
// them if the variable is not set.
devrt_status ReadChoice(const char* name,
                        std::initializer_list<std::string_view> values,
                        std::string* chosen) {
  const char* const value = ReadSetting(name);
  *chosen = value == nullptr ? *values.begin() : value;
  std::string expected;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string_view known = values.begin()[i];
    if (*chosen == known) return nullptr;
    if (!expected.empty()) expected += i + 1 == values.size() ? " or " : ", ";
    expected += known;
  }
  return WrongSetting(std::string(name) + "=" + *chosen + "; expected " +
                      expected);
}

// Reads the settings.
devrt_status Configure() {
  g_process = getpid();
  const std::string unknown = UnknownSetting();
  if (!unknown.empty()) {
    return WrongSetting(unknown +
                        " is no setting; expected DEVRT_RACE, or DEVRT_RACE_ "
                        "with FILE, FOREIGN, HOST_ORDER, LEAKS, STACKS or "
                        "SUPPRESSIONS");
  }
  std::string mode;
  std::string foreign;
  std::string leaks;
  std::string host_order;
  std::string stacks;
  devrt_status wrong =
      ReadChoice("DEVRT_RACE", {"report", "throw", "witness", "off"}, &mode);
  if (wrong != nullptr || mode == "off") return wrong;
  wrong = ReadChoice("DEVRT_RACE_FOREIGN", {"unseen", "declared"}, &foreign);
  if (wrong != nullptr) return wrong;
  wrong = ReadChoice("DEVRT_RACE_LEAKS", {"shutdown", "on"}, &leaks);
  if (wrong != nullptr) return wrong;
  wrong =
      ReadChoice("DEVRT_RACE_HOST_ORDER", {"observed", "exact"}, &host_order);
  if (wrong != nullptr) return wrong;
  wrong = ReadChoice("DEVRT_RACE_STACKS", {"", "off", "on"}, &stacks);
  if (wrong != nullptr) return wrong;
  g_layer.throws = mode == "throw";
  g_layer.wants_witness = mode == "witness";
  g_layer.tells_leaks = leaks == "on";
  g_layer.never_takes_stacks = stacks == "off";
  g_layer.findings = new Findings([](const std::string& text) {
    g_layer.validator == nullptr ? Log(text)
                                 : g_layer.validator->LogLater(text);
  });
  if (const char* const path = ReadSetting("DEVRT_RACE_FILE")) {
    const std::string mistake = g_layer.findings->OpenFile(path);
    if (!mistake.empty()) return WrongSetting("DEVRT_RACE_FILE: " + mistake);
  }
  if (const char* const path = ReadSetting("DEVRT_RACE_SUPPRESSIONS")) {
    const std::string mistake = g_layer.findings->ReadSuppressions(path);
    if (!mistake.empty()) {
      return WrongSetting("DEVRT_RACE_SUPPRESSIONS: " + mistake);
    }
  }
  g_layer.validator =
      new Validator(g_layer.findings, foreign == "declared", &Log);
  g_layer.places = new CodePlaces;
  g_layer.all_stacks = new CallStacks(g_layer.host, g_layer.places);
  g_layer.validator->KeepStacks(g_layer.all_stacks);
  SetStacks(stacks == "on");
  g_layer.validator->SetExactHostOrder(host_order == "exact");
  std::atexit(&End);
  return nullptr;
}

devrt_status OpenLayer(const devrt_host_v0* host, devrt_layer_v0* out) {
  g_layer.host = host;
  if (devrt_status wrong = Configure()) return wrong;
  devrt_status status = layer::internal::Open<Watcher>(host, out);
  out->attach_extension = &AttachExtension;
  // A host of before add_extension has a shorter struct.
  if (DEVRT_HAS_FIELD(out, devrt_layer_v0, add_extension)) {
    out->add_extension = &AddExtension;
  }
  return status;
}

}  // namespace
}  // namespace devrt::race

extern "C" DEVRT_PLUGIN_EXPORT const devrt_manifest_v0 devrt_layer_manifest_v0 =
    devrt::layer::internal::Manifest("validate", "devrt", DEVRT_VERSION);
extern "C" DEVRT_PLUGIN_EXPORT devrt_status
devrt_layer_open_v0(const devrt_host_v0* host, devrt_layer_v0* layer) {
  return devrt::race::OpenLayer(host, layer);
}
