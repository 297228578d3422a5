// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/common/simulator.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "tests/fakes/common/calls.h"
#include "tests/fakes/common/options.h"
#include "tests/fakes/common/vendor.h"
#include "tests/support/fake_host.h"

DEVRT_STATIC_PLUGIN(mtia);

namespace devrt::fake::engine {
namespace {

bool Says(const std::string& text, const std::string& key) {
  return ("," + text).find("," + key + "=") != std::string::npos;
}

// The simulator's configuration, instead of DEVRT_MTIA.
const std::string& Configuration() {
  static const auto* const configuration = [] {
    const char* const variable = std::getenv("DEVRT_MTIA");
    const std::string user = variable != nullptr ? variable : "";
    std::string text = user;
    const auto add = [&](const std::string& part) {
      if (Says(user, part.substr(0, part.find('=')))) return;
      if (!text.empty()) text += ',';
      text += part;
    };
    for (auto part = kVendor.simulated; *part != nullptr; ++part) add(*part);
    if (TheOptions().devices != 0) {
      add("devices=" + std::to_string(TheOptions().devices));
    }
    return new std::string(text);
  }();
  return *configuration;
}

void Log(void*, int32_t level, const char*, int32_t, const char* text,
         uint64_t size) {
  if (level < DEVRT_LOG_WARNING) return;
  std::fprintf(stderr, "%s: %.*s\n", kVendor.name, static_cast<int>(size),
               text);
}

int32_t LogMinLevel(void*) { return DEVRT_LOG_WARNING; }

Simulator Open() {
  static auto* const host = new test::FakeHost();
  static devrt_host_v0 table = *host->table();
  table.log = &Log;
  table.log_min_level = &LogMinLevel;
  devrt_backend_v0 backend = {};
  backend.struct_size = sizeof backend;
  const test::OwnedStatus status(devrt_plugin_open_v0_mtia(&table, &backend));
  if (!status.ok()) Die("%s", status.text().c_str());
  Simulator sim;
  sim.self = backend.self;
  sim.ops = backend.ops;
  sim.probe = static_cast<const devrt_probe_v0*>(
      sim.ops->get_extension(sim.self, DEVRT_PROBE_EXTENSION));
  sim.launch = static_cast<const devrt_launch_v0*>(
      sim.ops->get_extension(sim.self, DEVRT_LAUNCH_EXTENSION));
  return sim;
}

int NativeCode(const test::OwnedStatus& status) {
  const int code = kVendor.code(status.native_code());
  if (code != 0) return code;
  if (status.code() == DEVRT_INVALID_ARGUMENT) return kVendor.invalid_value;
  if (status.code() == DEVRT_RESOURCE_EXHAUSTED) return kVendor.out_of_memory;
  // A deadlock, most of all: the driver would wait for ever.
  std::fprintf(stderr, "%s: %s\n", kVendor.name, status.text().c_str());
  return kVendor.unknown;
}

}  // namespace

const Simulator& TheSimulator() {
  static const Simulator simulator = Open();
  return simulator;
}

bool IsVirtual() {
  return Configuration().find("mode=threaded") == std::string::npos;
}

int Translate(devrt_status given) {
  if (given == nullptr) return 0;
  const test::OwnedStatus status(given);
  const int code = NativeCode(status);
  if ((status.flags() & DEVRT_ERROR_STICKY) != 0) SetFaultCode(code);
  return code;
}

int LaunchBody(devrt_stream stream, const char* name, KernelBody body) {
  auto* const closure = new KernelBody(std::move(body));
  devrt_launch_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.name = name;
  desc.body = [](void* arg, const devrt_kernel_context_v0* context) {
    (*static_cast<KernelBody*>(arg))(*context);
  };
  desc.destroy = [](void* arg) { delete static_cast<KernelBody*>(arg); };
  desc.arg = closure;
  const Simulator& sim = TheSimulator();
  const int error = Translate(sim.launch->launch(sim.self, stream, &desc));
  if (error != 0) delete closure;
  return error;
}

devrt_pointer_info_v0 LookUp(const void* ptr) {
  devrt_pointer_info_v0 info = {};
  info.struct_size = sizeof info;
  if (Sim<&devrt_ops_v0::pointer_info>(ptr, &info) != 0) {
    Die("the simulator does not tell what %p is", ptr);
  }
  return info;
}

int Fill(devrt_stream stream, void* ptr, uint8_t value, uint64_t size) {
  if (LookUp(ptr).kind != DEVRT_POINTER_PINNED) {
    return Sim<&devrt_ops_v0::fill_async>(stream, ptr, uint32_t{value}, size);
  }
  return LaunchBody(stream, "fill of pinned memory",
                    [=](const devrt_kernel_context_v0& context) {
                      void* const local = context.local(&context, ptr, size,
                                                        DEVRT_ACCESS_WRITE);
                      if (local != nullptr) std::memset(local, value, size);
                    });
}

devrt_device_props_v0 PropsOf(uint32_t sim_device) {
  devrt_device_props_v0 props = {};
  props.struct_size = sizeof props;
  if (Sim<&devrt_ops_v0::device_props>(sim_device, &props) != 0) {
    Die("the simulator has no device %u", sim_device);
  }
  return props;
}

int DefaultStream(uint32_t sim_device, uint32_t kind, devrt_stream* stream) {
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.kind = kind;
  const devrt_stream_desc_v0* const given = &desc;
  return Sim<&devrt_ops_v0::stream_create>(sim_device, given, stream);
}

}  // namespace devrt::fake::engine

// The simulator reads one variable, and the process may hold another copy of it
// that is to see what the user wrote.
extern "C" char* __wrap_secure_getenv(const char* name);
char* __wrap_secure_getenv(const char* name) {
  if (std::string(name) != "DEVRT_MTIA") return std::getenv(name);
  return const_cast<char*>(devrt::fake::engine::Configuration().c_str());
}
