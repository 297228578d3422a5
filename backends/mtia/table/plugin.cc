// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "backends/mtia/drivers/threaded_driver.h"
#include "backends/mtia/drivers/virtual_driver.h"
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/engine/replay_token.h"
#include "backends/mtia/table/backend.h"
#include "backends/mtia/table/call.h"
#include "backends/mtia/threads/host_threads.h"
#include "devrt/backends/abi/devrt_dlpack.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

struct Extension {
  const char* name;
  const void* table;
};

// DLPack has no number for it; pinned memory is the host's to any consumer.
constexpr devrt_dlpack_v0 kDlpackTable = {sizeof kDlpackTable, 12, 1, 0};

constexpr Extension kExtensions[] = {
    {DEVRT_DLPACK_EXTENSION, &kDlpackTable},
    {DEVRT_COLLECTIVES_EXTENSION, &kCollectivesTable},
    {DEVRT_LAUNCH_EXTENSION, &kLaunchTable},
    {DEVRT_PINNED_GUARD_EXTENSION, &kPinnedGuardTable},
    {DEVRT_PROBE_EXTENSION, &kProbeTable},
    {DEVRT_ELEMENTWISE_EXTENSION, &kElementwiseTable},
    {DEVRT_REDUCE_EXTENSION, &kReduceTable},
    {DEVRT_SIM_EXTENSION, &kSimTable},
    {DEVRT_VIRTUAL_MEMORY_EXTENSION, &kVirtualMemoryTable},
};

// Makes the first machine of the process.  It repeats the run of the token in
// DEVRT_SIM_REPLAY, if there is one.
devrt_status StartFirst(Config config) {
  const char* const text = secure_getenv("DEVRT_SIM_REPLAY");
  const bool replays = text != nullptr && *text != '\0';
  Token token;
  std::string error;
  if (replays && (!ParseToken(text, &token, &error) ||
                  !AdoptToken(token, ConfigHash(config), &config, &error))) {
    return InvalidArgument("DEVRT_SIM_REPLAY: " + error);
  }
  g_machine = new Machine(TheVirtualDriver(), TheThreadedDriver());
  g_threads = new HostThreads();
  g_machine->Start(config);
  if (replays) {
    g_machine->decisions.StartReplay(config.seed, std::move(token.log),
                                     /*warns=*/true);
  }
  g_threads->Configure(config.baton, config.pins(), config.watchdog);
  return nullptr;
}

}  // namespace

std::unique_ptr<Backend> Backend::Open(const devrt_host_v0* host,
                                       devrt_status* error,
                                       uint64_t* capabilities) {
  static_cast<void>(capabilities);
  const devrt_host_v0* const previous = g_host;
  g_host = host;
  HostStreamNumber(nullptr);  // the host counts streams from the first query on
  Config config;
  std::string text;
  const char* const variable = secure_getenv("DEVRT_MTIA");
  if (variable != nullptr && !ParseConfig(variable, &config, &text)) {
    *error = InvalidArgument("DEVRT_MTIA: " + text);
    if (previous != nullptr) g_host = previous;
    return nullptr;
  }
  auto backend = std::make_unique<Backend>();
  // If the plugin was opened before, its machine ends.
  *error = g_machine == nullptr ? StartFirst(config) : backend->Reopen(config);
  if (*error == nullptr) return backend;
  if (previous != nullptr) g_host = previous;
  return nullptr;
}

// No work runs afterwards.  Errors that the caller still holds belong to the
// host and stay valid.
void Backend::shutdown() {
  devrt_status error = Reopen(g_machine->config);
  if (error != nullptr) g_host->error_destroy(g_host->host, error);
}

const void* Backend::get_extension(const char* name) {
  // The extension costs a call for every allocation, so it has to be asked for.
  const Config& config = g_machine->config;
  if ((config.suballocation || config.outcome) &&
      std::strcmp(name, DEVRT_SUBALLOCATION_EXTENSION) == 0) {
    return &kSuballocationTable;
  }
  for (const Extension& extension : kExtensions) {
    if (std::strcmp(extension.name, name) == 0) return extension.table;
  }
  return nullptr;
}

}  // namespace devrt::mtia

using MtiaBackend = devrt::mtia::Backend;

DEVRT_DEFINE_PLUGIN(MtiaBackend, "mtia", "devrt", "0.1.0",
                    DEVRT_CAP_EVENT_TIMING | DEVRT_CAP_HOST_FUNC |
                        DEVRT_CAP_STREAM_PRIORITY | DEVRT_CAP_STREAM_EXTERNAL |
                        DEVRT_CAP_PINNED_HOST | DEVRT_CAP_HOST_REGISTER |
                        DEVRT_CAP_POINTER_INFO | DEVRT_CAP_PEER_COPY |
                        DEVRT_CAP_PEER_ACCESS | DEVRT_CAP_ASYNC_ALLOC,
                    20);
