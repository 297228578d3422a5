// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/registry.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/loader/elf_manifest.h"
#include "runtime/loader/keep_loaded.h"
#include "runtime/loader/selection.h"
#include "runtime/registry/discovery.h"
#include "runtime/registry/layers.h"
#include "runtime/registry/load_report.h"
#include "runtime/registry/open.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/shutdown.h"

namespace devrt::internal {
namespace {

using Result = LoadAttempt::Result;
using BackendList = std::vector<BackendRecord*>;

constexpr uint32_t kUsualPriority = 100;

// The list is replaced as a whole.  The registry keeps old lists, because a
// reader may still use one.
std::atomic<const BackendList*> opened{nullptr};
// True once plugin code has run; then a forked child must not use backends.
std::atomic<bool> any_opened{false};
// The thread that holds the registry's lock, and may run plugin code; 0: none.
std::atomic<pid_t> inside{0};

// A thread id that is unique among living threads.  Costs a system call.
pid_t ThisThread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

bool IsInside() {
  return inside.load(std::memory_order_relaxed) == ThisThread();
}

// The error for a plugin that calls the registry while the registry opens it.
absl::Status InsideError(const char* call) {
  return absl::FailedPreconditionError(absl::StrCat(
      call,
      " was called by a plugin or a layer while it is opened: call it "
      "later"));
}

// A finding, and the backend that was made from it.
struct Entry {
  Finding finding;
  devrt_plugin_open_fn_v0 open = nullptr;  // of a linked-in backend
  BackendRecord* record = nullptr;
  bool chosen = false;  // the entry that wins for its backend name

  LoadAttempt& attempt() { return finding.attempt; }
  const std::string& name() const { return finding.attempt.backend; }
  // False: LoadBackend may replace the entry.
  bool IsFixed() const { return record != nullptr || open != nullptr; }
};

// "DEVRT_PLUGINS: why"; does not repeat a source that begins the reason.
std::string WithSource(const LoadAttempt& attempt) {
  const absl::string_view why = attempt.status.message();
  if (absl::StartsWith(why, attempt.source)) return std::string(why);
  return absl::StrCat(attempt.source, ": ", why);
}

// A global, because a fork may happen before a function-local one is made.
Mutex registry_mutex;

class Registry {
 public:
  static Registry& Get() {
    MutexLock lock(&registry_mutex);
    static Registry* registry = nullptr;
    if (registry == nullptr) registry = new Registry;
    return *registry;
  }

  absl::StatusOr<BackendRecord*> Find(std::string_view name);
  absl::StatusOr<BackendRecord*> Load(const std::string& path);
  absl::Status Register(const devrt_manifest_v0* manifest,
                        devrt_plugin_open_fn_v0 open);
  std::vector<std::string> Names();
  std::vector<LoadAttempt> Attempts();
  absl::Status SetLayers(const std::vector<std::string>& names);
  absl::StatusOr<std::vector<std::string>> Layers();
  absl::Status RegisterLayer(const devrt_manifest_v0* manifest,
                             devrt_layer_open_fn_v0 open);
  absl::Status Shutdown();

 private:
  class Lock;

  Registry() = default;

  void ReadSettings();
  void DiscoverOnce();
  Entry* Chosen(std::string_view name);
  Entry* Add(Finding finding);
  absl::Status Choose(Entry* entry);
  absl::StatusOr<BackendRecord*> Open(Entry* entry);
  absl::StatusOr<BackendRecord*> TryOpen(const Entry& entry);
  void Publish(BackendRecord* record);
  const absl::StatusOr<LayerSet::Choice>& ChosenLayers();

  std::optional<Environment> environment_;
  absl::StatusOr<Selection> selection_ = Selection();
  bool discovered_ = false;
  std::vector<std::unique_ptr<Entry>> entries_;  // in the report's order
  std::vector<std::unique_ptr<const BackendList>> lists_;
  LayerSet layers_;
};

class Registry::Lock {
 public:
  Lock() : lock_(&registry_mutex) {
    inside.store(ThisThread(), std::memory_order_relaxed);
  }
  ~Lock() { inside.store(0, std::memory_order_relaxed); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  MutexLock lock_;
};

// Holds the lock during a fork, so that the child finds the registry in a
// consistent state.  A plugin that forks while it is opened holds the lock
// already.  Clang's analysis cannot follow a lock across functions.
void BeforeFork() DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  if (!IsInside()) registry_mutex.LockOutOfTurn();
}

void AfterFork() DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  if (!IsInside()) registry_mutex.Unlock();
}

void InForkedChild() DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  // Not IsInside(), because the child's thread has another id.
  if (inside.load() != 0) {
    any_opened.store(true);
  } else {
    registry_mutex.Unlock();
  }
  // Atomics only: a thread that does not exist here may hold any other lock.
  if (!any_opened.load()) return;
  process_state.fetch_or(kForkedChild);
  for (BackendRecord* backend : OpenedBackends()) {
    for (DeviceRecord* device : backend->devices) {
      device->state.fetch_or(kForkedChild);
    }
  }
}

__attribute__((constructor)) void WatchForks() {
  pthread_atfork(&BeforeFork, &AfterFork, &InForkedChild);
}

void Registry::ReadSettings() {
  if (environment_.has_value()) return;
  environment_ = ReadEnvironment();
  GetLogLevel();  // reports a mistake in DEVRT_LOG
  selection_ = Selection::Parse(environment_->backends);
  if (selection_.ok()) return;
  DEVRT_LOG(kError, std::string(ToStd(selection_.status().message())));
}

void Registry::DiscoverOnce() {
  ReadSettings();
  if (std::exchange(discovered_, true)) return;
  for (Finding& finding : Discover(*environment_)) {
    Entry* entry = Add(std::move(finding));
    if (entry->attempt().result == Result::kFound) {
      Choose(entry).IgnoreError();  // the report has the reason
    }
    const LoadAttempt& attempt = entry->attempt();
    // The user named the file, so a line in the report is not enough.
    if (attempt.source == kSourcePlugins && !attempt.status.ok()) {
      DEVRT_LOG(kError, WithSource(attempt));
    }
  }
}

Entry* Registry::Add(Finding finding) {
  entries_.push_back(std::make_unique<Entry>());
  entries_.back()->finding = std::move(finding);
  return entries_.back().get();
}

Entry* Registry::Chosen(std::string_view name) {
  for (const std::unique_ptr<Entry>& entry : entries_) {
    if (entry->chosen && entry->name() == name) return entry.get();
  }
  return nullptr;
}

// Chooses `entry` for its backend name, unless another entry is chosen.
absl::Status Registry::Choose(Entry* entry) {
  LoadAttempt& attempt = entry->attempt();
  Entry* earlier = Chosen(entry->name());
  const bool explicitly =
      attempt.source == kSourceLoad || attempt.source == kSourceRegister;
  if (earlier != nullptr && (!explicitly || earlier->IsFixed())) {
    MarkShadowed(earlier->attempt(), &attempt);
    return attempt.status;
  }
  if (earlier != nullptr) {
    earlier->chosen = false;
    if (earlier->attempt().result == Result::kFound) {
      MarkShadowed(attempt, &earlier->attempt());
    }
  }
  entry->chosen = true;
  if (!selection_.ok() || selection_->Selects(entry->name())) {
    return absl::OkStatus();
  }
  attempt.result = Result::kExcluded;
  attempt.status = absl::FailedPreconditionError(absl::StrCat(
      "backend ", Quoted(entry->name()),
      " is excluded by DEVRT_BACKENDS=", Quoted(environment_->backends)));
  return absl::OkStatus();
}

absl::StatusOr<BackendRecord*> Registry::TryOpen(const Entry& entry) {
  devrt_plugin_open_fn_v0 open = entry.open;
  if (open == nullptr) {
    DEVRT_ASSIGN_OR_RETURN(void* const function,
                           LoadLibrary(entry.finding.attempt.path,
                                       entry.finding.manifest, kPluginLibrary));
    open = reinterpret_cast<devrt_plugin_open_fn_v0>(function);
  }
  any_opened.store(true);
  uint32_t devices = 0;
  for (BackendRecord* backend : OpenedBackends()) {
    devices += static_cast<uint32_t>(backend->devices.size());
  }
  return OpenPlugin(entry.finding.manifest, entry.finding.attempt.path, open,
                    *ChosenLayers(), devices);
}

// Opens a plugin once; a failure is the result of all later calls.
absl::StatusOr<BackendRecord*> Registry::Open(Entry* entry) {
  if (entry->record != nullptr) return entry->record;
  LoadAttempt& attempt = entry->attempt();
  if (!attempt.status.ok()) return attempt.status;
  // Without an effect on `entry`: with other layers the plugin may open.
  DEVRT_RETURN_IF_ERROR(ChosenLayers().status());
  absl::StatusOr<BackendRecord*> record = TryOpen(*entry);
  if (!record.ok()) {
    attempt.result = Result::kRefused;
    attempt.status =
        WithPrefix(absl::StrCat("backend ", Quoted(entry->name()),
                                " cannot be loaded from ",
                                attempt.path.empty() ? "the program itself"
                                                     : PathText(attempt.path),
                                " (", attempt.source, "): "),
                   record.status());
    return attempt.status;
  }
  attempt.result = Result::kLoaded;
  entry->record = *record;
  Publish(*record);
  return *record;
}

void Registry::Publish(BackendRecord* record) {
  const auto before = OpenedBackends();
  auto list = std::make_unique<BackendList>(before.begin(), before.end());
  list->push_back(record);
  opened.store(list.get(), std::memory_order_release);
  lists_.push_back(std::move(list));
}

absl::StatusOr<BackendRecord*> Registry::Find(std::string_view name) {
  Lock lock;
  if (!IsProcessOpen()) return ProcessClosedError();
  DiscoverOnce();
  if (!selection_.ok()) return selection_.status();
  Entry* chosen = Chosen(name);
  if (chosen != nullptr) {
    absl::StatusOr<BackendRecord*> record = Open(chosen);
    if (record.ok() || chosen->attempt().result != Result::kRefused) {
      return record;
    }
  }
  std::vector<LoadAttempt> attempts;
  for (const auto& entry : entries_) attempts.push_back(entry->attempt());
  if (chosen == nullptr) return NotFoundError(name, attempts);
  return WithOtherPaths(chosen->attempt().status, chosen->attempt(), attempts);
}

absl::StatusOr<BackendRecord*> Registry::Load(const std::string& path) {
  Lock lock;
  if (!IsProcessOpen()) return ProcessClosedError();
  ReadSettings();
  if (!selection_.ok()) return selection_.status();
  Finding finding = Examine(kSourceLoad, path);
  if (finding.attempt.result == Result::kFound) {
    Entry* earlier = Chosen(finding.attempt.backend);
    const bool same_file =
        earlier != nullptr && earlier->finding.canonical == finding.canonical;
    if (same_file) return Open(earlier);
  }
  Entry* entry = Add(std::move(finding));
  if (!entry->attempt().status.ok()) return entry->attempt().status;
  DEVRT_RETURN_IF_ERROR(Choose(entry));
  return Open(entry);
}

absl::Status Registry::Register(const devrt_manifest_v0* manifest,
                                devrt_plugin_open_fn_v0 open) {
  if (manifest == nullptr || open == nullptr) {
    return absl::InvalidArgumentError(
        "RegisterBackend needs a manifest and an open function");
  }
  DEVRT_RETURN_IF_ERROR(
      WithPrefix("RegisterBackend: ", CheckManifest(*manifest)));
  KeepLoaded(reinterpret_cast<const void*>(open));  // contract P14
  Lock lock;
  ReadSettings();
  Finding finding;
  finding.attempt.source = kSourceRegister;
  finding.attempt.backend = manifest->backend;
  finding.attempt.version = manifest->version;
  finding.manifest = *manifest;
  Entry* entry = Add(std::move(finding));
  entry->open = open;
  return Choose(entry);
}

std::vector<std::string> Registry::Names() {
  Lock lock;
  DiscoverOnce();
  if (!selection_.ok()) return {};
  std::vector<std::pair<uint32_t, std::string>> found;
  for (const auto& entry : entries_) {
    if (!entry->chosen || entry->attempt().result == Result::kExcluded) {
      continue;
    }
    // 0 means that the plugin's author set no priority.
    const uint32_t priority = entry->finding.manifest.priority;
    found.emplace_back(priority != 0 ? priority : kUsualPriority,
                       entry->name());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (const auto& [priority, name] : found) names.push_back(name);
  return names;
}

std::vector<LoadAttempt> Registry::Attempts() {
  Lock lock;
  DiscoverOnce();
  std::vector<LoadAttempt> attempts;
  if (!selection_.ok()) {
    LoadAttempt bad;
    bad.source = "DEVRT_BACKENDS";
    bad.result = Result::kRefused;
    bad.status = selection_.status();
    attempts.push_back(std::move(bad));
  }
  for (const auto& entry : entries_) attempts.push_back(entry->attempt());
  return attempts;
}

const absl::StatusOr<LayerSet::Choice>& Registry::ChosenLayers() {
  std::vector<Finding> findings;
  const auto& chosen = layers_.Chosen(*environment_, &findings);
  for (Finding& finding : findings) Add(std::move(finding));
  if (layers_.any_opened()) any_opened.store(true);
  return chosen;
}

absl::Status Registry::SetLayers(const std::vector<std::string>& names) {
  Lock lock;
  if (!IsProcessOpen()) return ProcessClosedError();
  if (!OpenedBackends().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "SetLayers: backend ", Quoted(OpenedBackends().front()->name),
        " is open already; choose layers before the first use of a backend"));
  }
  ReadSettings();
  std::vector<Finding> findings;
  absl::Status status = layers_.Choose(names, *environment_, &findings);
  for (Finding& finding : findings) Add(std::move(finding));
  if (layers_.any_opened()) any_opened.store(true);
  return status;
}

absl::StatusOr<std::vector<std::string>> Registry::Layers() {
  Lock lock;
  ReadSettings();
  const auto& chosen = ChosenLayers();
  DEVRT_RETURN_IF_ERROR(chosen.status());
  std::vector<std::string> names;
  for (const Layer* layer : *chosen) names.push_back(layer->name);
  return names;
}

absl::Status Registry::RegisterLayer(const devrt_manifest_v0* manifest,
                                     devrt_layer_open_fn_v0 open) {
  KeepLoaded(reinterpret_cast<const void*>(open));
  Lock lock;
  return layers_.Register(manifest, open);
}

absl::Status Registry::Shutdown() {
  Lock lock;
  if (!IsProcessOpen()) return ProcessClosedError();
  return CloseBackends(OpenedBackends());
}

}  // namespace

absl::Span<BackendRecord* const> OpenedBackends() {
  const BackendList* list = opened.load(std::memory_order_acquire);
  if (list == nullptr) return {};
  return *list;
}

absl::StatusOr<BackendRecord*> GetBackendRecord(std::string_view name) {
  if (!IsProcessOpen()) return ProcessClosedError();
  for (BackendRecord* backend : OpenedBackends()) {
    if (backend->name == name) return backend;
  }
  if (IsInside()) return InsideError("GetBackend");
  return Registry::Get().Find(name);
}

absl::StatusOr<BackendRecord*> LoadBackendRecord(const std::string& path) {
  if (!IsProcessOpen()) return ProcessClosedError();
  if (IsInside()) return InsideError("LoadBackend");
  return Registry::Get().Load(path);
}

absl::Status RegisterBackendRecord(const devrt_manifest_v0* manifest,
                                   devrt_plugin_open_fn_v0 open) {
  if (!IsProcessOpen()) return ProcessClosedError();
  if (IsInside()) return InsideError("RegisterBackend");
  return Registry::Get().Register(manifest, open);
}

std::vector<std::string> FoundBackendNames() {
  if (!IsProcessOpen() || IsInside()) return {};
  return Registry::Get().Names();
}

std::vector<LoadAttempt> Attempts() {
  // The report stays readable after Shutdown; a forked child takes no lock.
  if ((process_state.load() & kForkedChild) != 0 || IsInside()) return {};
  return Registry::Get().Attempts();
}

absl::Status SetLayerNames(const std::vector<std::string>& names) {
  if (!IsProcessOpen()) return ProcessClosedError();
  if (IsInside()) return InsideError("SetLayers");
  return Registry::Get().SetLayers(names);
}

absl::StatusOr<std::vector<std::string>> LayerNames() {
  if (!IsProcessOpen()) return ProcessClosedError();
  if (IsInside()) return InsideError("Layers");
  return Registry::Get().Layers();
}

absl::Status RegisterLayerRecord(const devrt_manifest_v0* manifest,
                                 devrt_layer_open_fn_v0 open) {
  if (!IsProcessOpen()) return ProcessClosedError();
  if (IsInside()) return InsideError("RegisterLayer");
  return Registry::Get().RegisterLayer(manifest, open);
}

absl::Status ShutdownAll() {
  if (!IsProcessOpen()) return ProcessClosedError();
  if (InHostFunction()) return HostFunctionError("Shutdown");
  if (IsInside()) return InsideError("Shutdown");
  return Registry::Get().Shutdown();
}

}  // namespace devrt::internal
