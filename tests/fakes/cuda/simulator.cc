// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda/simulator.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "tests/fakes/cuda/driver.h"
#include "tests/support/fake_host.h"

DEVRT_STATIC_PLUGIN(mtia);

namespace devrt::fake {
namespace {

// Hardware as measured, and host threads that nobody orders.  Keys in
// DEVRT_MTIA win.
constexpr const char* kDefaults[] = {"profile=cuda", "queue_depth=1022",
                                     "slots=128", "baton=off", "pin=off"};

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
    for (const char* const part : kDefaults) add(part);
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
  std::fprintf(stderr, "fake CUDA driver: %.*s\n", static_cast<int>(size),
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

// The simulator's numbers are the runtime's; the driver has fewer below 100.
CUresult NativeCode(const test::OwnedStatus& status) {
  const auto native = static_cast<int>(status.native_code());
  for (const int of_the_runtime : {9, 12, 13, 16, 17, 21, 98}) {
    if (native == of_the_runtime) return CUDA_ERROR_INVALID_VALUE;
  }
  if (native != 0) return static_cast<CUresult>(native);
  if (status.code() == DEVRT_INVALID_ARGUMENT) return CUDA_ERROR_INVALID_VALUE;
  if (status.code() == DEVRT_RESOURCE_EXHAUSTED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // A deadlock, most of all: the driver would wait for ever.
  std::fprintf(stderr, "fake CUDA driver: %s\n", status.text().c_str());
  return CUDA_ERROR_UNKNOWN;
}

}  // namespace

const Simulator& TheSimulator() {
  static const Simulator simulator = Open();
  return simulator;
}

bool IsVirtual() {
  return Configuration().find("mode=threaded") == std::string::npos;
}

CUresult Translate(devrt_status given) {
  if (given == nullptr) return CUDA_SUCCESS;
  const test::OwnedStatus status(given);
  const CUresult code = NativeCode(status);
  if ((status.flags() & DEVRT_ERROR_STICKY) != 0) SetFault(code);
  return code;
}

CUresult LaunchBody(devrt_stream stream, const char* name, KernelBody body) {
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
  const CUresult error = Translate(sim.launch->launch(sim.self, stream, &desc));
  if (error != CUDA_SUCCESS) delete closure;
  return error;
}

devrt_pointer_info_v0 LookUp(const void* ptr) {
  devrt_pointer_info_v0 info = {};
  info.struct_size = sizeof info;
  if (Sim<&devrt_ops_v0::pointer_info>(ptr, &info) != CUDA_SUCCESS) {
    Die("the simulator does not tell what %p is", ptr);
  }
  return info;
}

}  // namespace devrt::fake

// The simulator reads one variable, and the process may hold another copy of it
// that is to see what the user wrote.
extern "C" char* __wrap_secure_getenv(const char* name);
char* __wrap_secure_getenv(const char* name) {
  if (std::string(name) != "DEVRT_MTIA") return std::getenv(name);
  return const_cast<char*>(devrt::fake::Configuration().c_str());
}
