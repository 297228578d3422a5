// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/open.h"

#include <dlfcn.h>

#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "devrt/runtime/turns.h"
#include "runtime/common/text.h"
#include "runtime/common/thread_end.h"
#include "runtime/loader/library.h"
#include "runtime/loader/open_watch.h"
#include "runtime/loader/plugin_file.h"
#include "runtime/plugins/host_table.h"
#include "runtime/plugins/table.h"
#include "runtime/registry/call_faults.h"

namespace devrt::internal {
namespace {

// No machine has more devices; a higher number is a damaged answer.
constexpr uint32_t kMostDevices = 1u << 16;

bool IsSameManifest(const void* a, const devrt_manifest_v0& b) {
  return std::memcmp(a, &b, DEVRT_SIZE_THROUGH(devrt_manifest_v0, version)) ==
         0;
}

absl::Status TakeOpenError(const std::string& backend, devrt_status error,
                           const char* call) {
  absl::Status status(ToStatusCode(error->code),
                      absl::StrCat(call, " failed: ", DescribeError(*error)));
  SetErrorInfo(&status, InfoOf(*error, backend));
  DestroyError(error);
  return status;
}

absl::StatusOr<uint32_t> CountDevices(const BackendRecord& backend) {
  uint32_t count = 0;
  DEVRT_RETURN_IF_ERROR(CallPlugin(backend.name, "device count", [&] {
    return backend.ops.device_count(backend.self, &count);
  }));
  if (count > kMostDevices) {
    return absl::InternalError(
        absl::StrCat("it claims to have ", count, " devices"));
  }
  return count;
}

// Calls shutdown of a plugin that is refused after its open; returns `why`.
absl::Status Close(const BackendRecord& backend, absl::Status why) {
  if (backend.ops.shutdown == nullptr) return why;
  CallPlugin(backend.name, "shutdown", [&]() -> devrt_status {
    backend.ops.shutdown(backend.self);
    return nullptr;
  }).IgnoreError();
  return why;
}

absl::Status AttachLayers(const std::vector<const Layer*>& layers,
                          BackendRecord* backend) {
  backend->chain = std::make_unique<LayerChain>(
      &backend->manifest, backend->self, &backend->ops, backend->capabilities);
  LayerChain& chain = *backend->chain;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    absl::Status refusal = chain.Attach(*layer);
    if (refusal.ok()) continue;
    chain.Shutdown().IgnoreError();
    return refusal;
  }
  backend->ops = chain.ops();
  backend->self = chain.self();
  backend->capabilities = chain.capabilities();
  return absl::OkStatus();
}

}  // namespace

void AttachTurns(const BackendRecord& backend) {
  const Extension found = backend.chain->FindExtension(DEVRT_SIM_EXTENSION);
  const auto* const table = static_cast<const devrt_sim_v1*>(found.table);
  if (table == nullptr || backend.devices.empty() ||
      !DEVRT_HAS_FIELD(table, devrt_sim_v1, await_change)) {
    return;
  }
  static Turns turns;  // there is one simulator
  if (g_had_turns.exchange(true)) return;
  turns = {table, found.self, backend.devices[0]};
  g_turns.store(&turns, std::memory_order_release);
}

namespace {

void AddDevices(BackendRecord* backend, uint32_t count, uint32_t first_index) {
  for (uint32_t i = 0; i < count; ++i) {
    DeviceRecord* device = new DeviceRecord;
    device->ops = &backend->ops;
    device->self = backend->self;
    device->ordinal = i;
    device->index = first_index + i;
    device->backend = backend;
    backend->devices.push_back(device);
  }
}

}  // namespace

absl::StatusOr<void*> LoadLibrary(const std::string& path,
                                  const devrt_manifest_v0& manifest,
                                  const LibraryKind& kind) {
  // Inspects the file again, because it may have changed since discovery.
  const PluginFile file = OpenPluginFile(path, kind, Purpose::kLoad);
  DEVRT_RETURN_IF_ERROR(file.status());
  if (!IsSameManifest(&*file.contents.manifest, manifest)) {
    return absl::FailedPreconditionError(absl::StrCat(
        PathText(path),
        ": its manifest is not the one that was found there before"));
  }
  const Opening loading("loading", kind.noun, path);
  DEVRT_ASSIGN_OR_RETURN(void* const library, LoadPluginFile(file));
  const void* loaded = dlsym(library, kind.manifest_symbol);
  void* open = dlsym(library, kind.open_symbol);
  if (loaded == nullptr || open == nullptr) {
    return absl::InvalidArgumentError(
        "the dynamic linker does not find the symbols that are in its file");
  }
  if (!IsSameManifest(loaded, manifest)) {
    return absl::FailedPreconditionError(
        "its manifest in memory differs from the one in its file");
  }
  return open;
}

absl::Status CallPlugin(const std::string& plugin, const char* call,
                        absl::FunctionRef<devrt_status()> function) {
  std::string what = "an exception that is not a std::exception";
  try {
    devrt_status error = function();
    return error == nullptr ? absl::OkStatus()
                            : TakeOpenError(plugin, error, call);
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {
    PassThreadEnd();
  }
  return absl::InternalError(
      absl::StrCat(call, " threw ", what, "; plugins must not throw"));
}

absl::StatusOr<BackendRecord*> OpenPlugin(
    const devrt_manifest_v0& manifest, const std::string& path,
    devrt_plugin_open_fn_v0 open, const std::vector<const Layer*>& layers,
    uint32_t first_index) {
  auto backend = std::make_unique<BackendRecord>();
  backend->name = manifest.backend;
  backend->path = path;
  backend->manifest = manifest;
  devrt_backend_v0 given = {};
  given.struct_size = sizeof given;
  const OpenWatch watch;
  const absl::Status opened = [&] {
    const Opening opening("opening", kPluginLibrary.noun,
                          path.empty() ? backend->name : path);
    return CallPlugin(backend->name, "open",
                      [&] { return open(HostTable(), &given); });
  }();
  for (const std::string& finding : watch.Findings()) {
    DEVRT_LOG(kWarning, absl::StrCat("the open of backend \"", backend->name,
                                     "\" ", finding));
  }
  DEVRT_RETURN_IF_ERROR(opened);
  backend->self = given.self;
  absl::Status refusal =
      CompleteTable(given, manifest, &backend->ops, &backend->capabilities);
  if (!refusal.ok()) return Close(*backend, std::move(refusal));
  absl::StatusOr<uint32_t> count = CountDevices(*backend);
  if (!count.ok()) return Close(*backend, count.status());
  DEVRT_RETURN_IF_ERROR(AttachLayers(layers, backend.get()));
  absl::Status followed = FollowTokenOfEnvironment(*backend);
  if (!followed.ok()) {
    backend->chain->Shutdown().IgnoreError();
    return followed;
  }
  AddDevices(backend.get(), *count, first_index);
  return backend.release();
}

}  // namespace devrt::internal
