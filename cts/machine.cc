// SPDX-License-Identifier: Apache-2.0
#include "cts/machine.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cts/recorder.h"
#include "cts/standard_output.h"

namespace devrt::cts {
namespace {

std::vector<std::string>& Findings() {
  static auto* const all = new std::vector<std::string>;
  return *all;
}

// The loader's watch reports only through the log.
void CollectFindings(LogLevel, const char*, int, std::string_view text) {
  if (text.find("(contract P") != std::string_view::npos) {
    Findings().emplace_back(text);
  } else {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  }
}

absl::StatusOr<Backend> LoadAndWatch(const std::string& plugin) {
  const LogLevel level = GetLogLevel();
  SetLogLevel(std::min(level, LogLevel::kWarning));
  SetLogSink(&CollectFindings);
  // The watch counts what is written to standard output, and stderr may be the
  // same file.
  const StandardOutput output;
  absl::StatusOr<Backend> backend = LoadBackend(plugin);
  SetLogSink(nullptr);
  SetLogLevel(level);
  return backend;
}

// Tests call these functions without a look at them.  `fault` may be NULL:
// tests that need it are unsupported then.
absl::Status CheckProbe(const devrt_probe_v0& probe) {
  const std::pair<const char*, bool> functions[] = {
      {"spin", probe.spin != nullptr},
      {"flag_create", probe.flag_create != nullptr},
      {"flag_destroy", probe.flag_destroy != nullptr},
      {"flag_wait", probe.flag_wait != nullptr},
      {"flag_set", probe.flag_set != nullptr},
      {"flag_set_async", probe.flag_set_async != nullptr}};
  for (const auto& [name, exists] : functions) {
    if (exists) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the table of " DEVRT_PROBE_EXTENSION " has NULL for ", name,
        "; the backend must have the function, or not "
        "offer the extension"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Machine*> Machine::Open(const std::string& plugin) {
  DEVRT_RETURN_IF_ERROR(RegisterLayer(&kRecorderManifest, &OpenRecorder));
  // Innermost, so that the calls that a layer of the user makes are recorded,
  // too.
  std::vector<std::string> layers = Layers();
  layers.push_back(kRecorderManifest.backend);
  DEVRT_RETURN_IF_ERROR(SetLayers(layers));
  DEVRT_ASSIGN_OR_RETURN(Backend backend, LoadAndWatch(plugin));
  // Reachable, so that a leak checker does not report it.
  static Machine* machine;
  machine = new Machine(backend);
  machine->findings_ = Findings();
  DEVRT_RETURN_IF_ERROR(machine->Inspect());
  return machine;
}

absl::Status Machine::Choose(const std::vector<int>& ordinals) {
  const size_t count = props_.size();
  devices_.clear();
  for (const int ordinal : ordinals) {
    if (ordinal < 0 || static_cast<size_t>(ordinal) >= count) {
      return absl::InvalidArgumentError(absl::StrCat(
          "device ", ordinal, " does not exist: backend \"", backend_.name(),
          "\" has ",
          count == 0   ? "none"
          : count == 1 ? "one, device 0"
                       : absl::StrCat(count, ", 0 to ", count - 1)));
    }
    devices_.push_back(static_cast<uint32_t>(ordinal));
  }
  return absl::OkStatus();
}

absl::Status Machine::Inspect() {
  const Front front = FrontOf(backend_.name());
  if (front.ops == nullptr) {
    return absl::InternalError("the recorder was not asked to stand in front");
  }
  host_ = front.host;
  ops_ = front.ops;
  self_ = front.self;
  capabilities_ = front.capabilities;
  const int count = backend_.device_count();
  for (int i = 0; i < count; ++i) {
    devrt_device_props_v0 props = {};
    props.struct_size = sizeof props;
    const Result result =
        Call<&devrt_ops_v0::device_props>(static_cast<uint32_t>(i), &props);
    if (!result.ok()) {
      return absl::InternalError(absl::StrCat(
          "device_props of ", backend_.name(), ":", i, ": ", ToString(result)));
    }
    props_.push_back(props);
    // The plugin may have written any bytes; the report needs text.
    props_.back().name[sizeof props_.back().name - 1] = '\0';
    devices_.push_back(static_cast<uint32_t>(i));
  }
  auto probe =
      backend_.GetExtension(DEVRT_PROBE_EXTENSION, sizeof(devrt_probe_v0));
  if (probe.ok()) {
    probe_ = static_cast<const devrt_probe_v0*>(probe->table);
    probe_self_ = probe->self;
    DEVRT_RETURN_IF_ERROR(CheckProbe(*probe_));
  }
  auto simulator = Simulator::Get(backend_);
  if (!simulator.ok()) return absl::OkStatus();
  simulator_ = *simulator;
  DEVRT_ASSIGN_OR_RETURN(config_, simulator_->Config());
  is_virtual_ = absl::StrCat(",", config_, ",").find(",mode=virtual,") !=
                std::string::npos;
  return absl::OkStatus();
}

Result Machine::ToResult(devrt_status status) {
  Result result;
  if (status == nullptr) return result;
  result.code = host_->error_code(host_->host, status);
  uint64_t size = 0;
  const char* const text = host_->error_text(host_->host, status, &size);
  result.text.assign(text, size);
  host_->error_destroy(host_->host, status);
  return result;
}

Result Machine::Reset(const std::string& more) {
  // A configuration may have each key only once.
  std::vector<std::string> all = absl::StrSplit(more, ',', absl::SkipEmpty());
  const auto key = [](const std::string& s) {
    return s.substr(0, s.find('='));
  };
  std::set<std::string> given;
  for (const std::string& setting : all) given.insert(key(setting));
  for (const absl::string_view setting : absl::StrSplit(config_, ',')) {
    if (given.count(key(std::string(setting))) == 0) all.emplace_back(setting);
  }
  const absl::Status status = simulator_->Reset(absl::StrJoin(all, ","));
  if (status.ok()) return {};
  return {static_cast<devrt_code>(status.code()),
          std::string(status.message())};
}

}  // namespace devrt::cts
