// SPDX-License-Identifier: Apache-2.0
#include "tests/support/spy_backend.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace devrt::testing {
namespace {

thread_local int t_current = SpyBackend::kNoContext;

int DeviceOfContext(int context) {
  if (context == SpyBackend::kNoContext) return 0;
  return context >= SpyBackend::kForeign ? context - SpyBackend::kForeign
                                         : context;
}

SpyBackend& Spy(void* self) { return *static_cast<SpyBackend*>(self); }

template <typename Handle>
Handle NewHandle(void* self, int device) {
  return reinterpret_cast<Handle>(Spy(self).New(device));
}

// The first lines of each slot for a device, or for an object of a device.
#define SPY_ENTER(slot, device, names_device)                     \
  devrt_status spy_error = nullptr;                               \
  if (!Spy(self).Enter(slot, device, names_device, &spy_error)) { \
    return spy_error;                                             \
  }

constexpr bool kNames = true;     // the slot makes a context
constexpr bool kLooksAt = false;  // the slot makes none

int Of(void* self, const void* object) { return Spy(self).DeviceOf(object); }

void Shutdown(void*) {}

devrt_status DeviceCount(void* self, uint32_t* count) {
  SPY_ENTER("device_count", 0, kLooksAt);
  *count = SpyBackend::kDevices;
  return nullptr;
}

devrt_status DeviceProps(void* self, uint32_t device,
                         devrt_device_props_v0* props) {
  SPY_ENTER("device_props", static_cast<int>(device), kLooksAt);
  const uint32_t size = props->struct_size;
  devrt_device_props_v0 all = {};
  all.struct_size = size;
  all.ordinal = device;
  std::snprintf(all.name, sizeof all.name, "spy device %u", device);
  std::snprintf(all.arch, sizeof all.arch, "spy");
  all.uuid[0] = 's';
  all.uuid[15] = static_cast<uint8_t>(device);
  all.total_memory = Spy(self).memory();
  all.alloc_alignment = 256;
  all.copy_engines = 1;
  all.priority_greatest = -2;
  all.pageable_async = DEVRT_PAGEABLE_SYNC;
  std::memcpy(props, &all, std::min<size_t>(size, sizeof all));
  return nullptr;
}

devrt_status MemInfo(void* self, uint32_t device, uint64_t* free_bytes,
                     uint64_t* total_bytes) {
  SPY_ENTER("mem_info", static_cast<int>(device), kLooksAt);
  *free_bytes = *total_bytes = Spy(self).memory();
  return nullptr;
}

devrt_status Alloc(void* self, uint32_t device, uint64_t size, uint64_t align,
                   void** ptr) {
  SPY_ENTER("alloc", static_cast<int>(device), kNames);
  align = std::max<uint64_t>(align, 256);
  *ptr = std::aligned_alloc(align, (size + align - 1) / align * align);
  return nullptr;
}

devrt_status Dealloc(void* self, uint32_t device, void* ptr, uint64_t) {
  SPY_ENTER("dealloc", static_cast<int>(device), kLooksAt);
  std::free(ptr);
  return nullptr;
}

devrt_status StreamCreate(void* self, uint32_t device,
                          const devrt_stream_desc_v0* desc,
                          devrt_stream* stream) {
  static constexpr const char* kSlots[] = {"stream_create", "stream_legacy",
                                           "stream_per_thread", "stream_adopt"};
  SPY_ENTER(kSlots[desc->kind], static_cast<int>(device), kNames);
  *stream = NewHandle<devrt_stream>(self, static_cast<int>(device));
  return nullptr;
}

devrt_status StreamDestroy(void* self, devrt_stream stream) {
  SPY_ENTER("stream_destroy", Of(self, stream), kLooksAt);
  Spy(self).Delete(stream);
  return nullptr;
}

devrt_status StreamQuery(void* self, devrt_stream stream, uint32_t* done) {
  SPY_ENTER("stream_query", Of(self, stream), kLooksAt);
  *done = Spy(self).busy() ? 0 : 1;
  return nullptr;
}

devrt_status StreamSync(void* self, devrt_stream stream) {
  SPY_ENTER("stream_sync", Of(self, stream), kLooksAt);
  return nullptr;
}

devrt_status StreamNative(void* self, devrt_stream stream, void** native) {
  SPY_ENTER("stream_native", Of(self, stream), kLooksAt);
  *native = stream;
  return nullptr;
}

devrt_status StreamWaitEvent(void* self, devrt_stream stream,
                             devrt_event event) {
  SPY_ENTER("stream_wait_event", Of(self, stream), kNames);
  Of(self, event);
  return nullptr;
}

devrt_status EventCreate(void* self, uint32_t device, uint32_t,
                         devrt_event* event) {
  SPY_ENTER("event_create", static_cast<int>(device), kNames);
  *event = NewHandle<devrt_event>(self, static_cast<int>(device));
  return nullptr;
}

devrt_status EventDestroy(void* self, devrt_event event) {
  SPY_ENTER("event_destroy", Of(self, event), kLooksAt);
  Spy(self).Delete(event);
  return nullptr;
}

devrt_status EventRecord(void* self, devrt_event event, devrt_stream stream) {
  SPY_ENTER("event_record", Of(self, stream), kNames);
  Of(self, event);
  return nullptr;
}

devrt_status EventQuery(void* self, devrt_event event, uint32_t* done) {
  SPY_ENTER("event_query", Of(self, event), kLooksAt);
  *done = Spy(self).busy() ? 0 : 1;
  return nullptr;
}

devrt_status EventSync(void* self, devrt_event event) {
  SPY_ENTER("event_sync", Of(self, event), kLooksAt);
  return nullptr;
}

devrt_status EventElapsed(void* self, devrt_event begin, devrt_event end,
                          int64_t* nanoseconds) {
  SPY_ENTER("event_elapsed_ns", Of(self, begin), kLooksAt);
  Of(self, end);
  *nanoseconds = 1'000'000;
  return nullptr;
}

devrt_status CopyAsync(void* self, devrt_stream stream, void* dst,
                       const void* src, uint64_t size, uint32_t) {
  SPY_ENTER("copy_async", Of(self, stream), kNames);
  std::memcpy(dst, src, size);
  return nullptr;
}

devrt_status FillAsync(void* self, devrt_stream stream, void* dst,
                       uint32_t value, uint64_t size) {
  SPY_ENTER("fill_async", Of(self, stream), kNames);
  std::memset(dst, static_cast<int>(value & 0xff), size);
  return nullptr;
}

devrt_status DeviceSync(void* self, uint32_t device) {
  SPY_ENTER("device_sync", static_cast<int>(device), kLooksAt);
  return nullptr;
}

devrt_status ContextEnter(void* self, uint32_t device,
                          devrt_context* previous) {
  SPY_ENTER("context_enter", static_cast<int>(device), kNames);
  if (previous != nullptr) {
    previous->state[0] = static_cast<uint64_t>(int64_t{t_current});
    previous->state[1] = 0x5057;
  }
  t_current = static_cast<int>(device);
  return nullptr;
}

devrt_status ContextExit(void* self, const devrt_context* previous) {
  SPY_ENTER("context_exit", 0, kLooksAt);
  t_current = static_cast<int>(static_cast<int64_t>(previous->state[0]));
  return nullptr;
}

devrt_status ContextCurrent(void* self, uint32_t* device) {
  SPY_ENTER("context_current", 0, kLooksAt);
  *device = static_cast<uint32_t>(DeviceOfContext(t_current));
  return nullptr;
}

devrt_status HostFunc(void* self, devrt_stream stream,
                      void (*fn)(void*, devrt_status), void* arg) {
  SPY_ENTER("host_func", Of(self, stream), kNames);
  fn(arg, nullptr);
  return nullptr;
}

#undef SPY_ENTER

devrt_ops_v0 MakeOps() {
  devrt_ops_v0 ops = {};
  ops.struct_size = sizeof ops;
  ops.abi_minor = DEVRT_ABI_MINOR;
  ops.shutdown = &Shutdown;
  ops.device_count = &DeviceCount;
  ops.device_props = &DeviceProps;
  ops.mem_info = &MemInfo;
  ops.alloc = &Alloc;
  ops.dealloc = &Dealloc;
  ops.stream_create = &StreamCreate;
  ops.stream_destroy = &StreamDestroy;
  ops.stream_query = &StreamQuery;
  ops.stream_sync = &StreamSync;
  ops.stream_native = &StreamNative;
  ops.stream_wait_event = &StreamWaitEvent;
  ops.event_create = &EventCreate;
  ops.event_destroy = &EventDestroy;
  ops.event_record = &EventRecord;
  ops.event_query = &EventQuery;
  ops.event_sync = &EventSync;
  ops.event_elapsed_ns = &EventElapsed;
  ops.copy_async = &CopyAsync;
  ops.fill_async = &FillAsync;
  ops.device_sync = &DeviceSync;
  ops.context_enter = &ContextEnter;
  ops.context_exit = &ContextExit;
  ops.context_current = &ContextCurrent;
  ops.host_func = &HostFunc;
  return ops;
}

constexpr uint64_t kCapabilities =
    DEVRT_CAP_EVENT_TIMING | DEVRT_CAP_EVENT_IPC | DEVRT_CAP_HOST_FUNC |
    DEVRT_CAP_STREAM_PRIORITY | DEVRT_CAP_STREAM_EXTERNAL;

constexpr devrt_manifest_v0 kManifest = {DEVRT_MANIFEST_MAGIC,
                                         sizeof(devrt_manifest_v0),
                                         DEVRT_ABI_MAJOR,
                                         DEVRT_ABI_MINOR,
                                         900,
                                         kCapabilities,
                                         "spy",
                                         "devrt tests",
                                         "1.0"};

devrt_status Open(const devrt_host_v0* host, devrt_backend_v0* backend) {
  static const devrt_ops_v0 ops = MakeOps();
  SpyBackend& spy = SpyBackend::Get();
  spy.set_host(host);
  backend->self = &spy;
  backend->ops = &ops;
  backend->capabilities = kCapabilities;
  return nullptr;
}

}  // namespace

SpyBackend& SpyBackend::Get() {
  static SpyBackend* const spy = [] {
    absl::Status status = RegisterBackend(&kManifest, &Open);
    if (!status.ok()) {
      std::fprintf(stderr, "SpyBackend: %s\n", status.ToString().c_str());
      std::abort();
    }
    return new SpyBackend;
  }();
  return *spy;
}

Device SpyBackend::device(int index) const {
  absl::StatusOr<Device> device = GetDevice("spy", index);
  if (!device.ok()) {
    std::fprintf(stderr, "SpyBackend: %s\n",
                 device.status().ToString().c_str());
    std::abort();
  }
  return *device;
}

void SpyBackend::Reset() {
  std::lock_guard<std::mutex> lock(mu_);
  calls_.clear();
  contexts_.clear();
  failures_.clear();
  hooks_.clear();
  bad_handles_ = 0;
  busy_ = false;
  t_current = kNoContext;
}

int SpyBackend::Count(std::string_view slot, int device) const {
  std::lock_guard<std::mutex> lock(mu_);
  return static_cast<int>(
      std::count_if(calls_.begin(), calls_.end(), [&](const Call& call) {
        return call.slot == slot && (device < 0 || call.device == device);
      }));
}

SpyBackend::Call SpyBackend::Last(std::string_view slot) const {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it =
      std::find_if(calls_.rbegin(), calls_.rend(),
                   [&](const Call& call) { return call.slot == slot; });
  return it != calls_.rend() ? *it : Call{"never called", -1, "", -1, ""};
}

std::set<int> SpyBackend::contexts() const {
  std::lock_guard<std::mutex> lock(mu_);
  return contexts_;
}

int SpyBackend::bad_handles() const {
  std::lock_guard<std::mutex> lock(mu_);
  return bad_handles_;
}

void SpyBackend::Fail(std::string_view slot, absl::StatusCode code, int nth) {
  std::lock_guard<std::mutex> lock(mu_);
  failures_.push_back({std::string(slot), code, nth});
}

void SpyBackend::SetBusy(bool busy) {
  std::lock_guard<std::mutex> lock(mu_);
  busy_ = busy;
}

bool SpyBackend::busy() const {
  std::lock_guard<std::mutex> lock(mu_);
  return busy_;
}

int SpyBackend::NativeCurrent() { return t_current; }
void SpyBackend::SetNativeCurrent(int context) { t_current = context; }

void SpyBackend::OnNext(std::string_view slot, std::function<void()> hook) {
  std::lock_guard<std::mutex> lock(mu_);
  hooks_.push_back({std::string(slot), std::move(hook)});
}

void SpyBackend::RunHook(std::string_view slot) {
  std::function<void()> hook;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = std::find_if(hooks_.begin(), hooks_.end(),
                                 [&](const Hook& h) { return h.slot == slot; });
    if (it == hooks_.end()) return;
    hook = std::move(it->function);
    hooks_.erase(it);
  }
  hook();
}

bool SpyBackend::Enter(const char* slot, int device, bool names_device,
                       devrt_status* error) {
  RunHook(slot);
  std::lock_guard<std::mutex> lock(mu_);
  const devrt_call_site_v0* const site = host_->call_site(host_->host);
  const auto copy = [](const char* s) { return std::string(s ? s : ""); };
  calls_.push_back(
      {slot, device, copy(site->file), site->line, copy(site->label)});
  for (auto it = failures_.begin(); it != failures_.end(); ++it) {
    if (it->slot != slot || --it->nth != 0) continue;
    const std::string text = std::string("spy refuses ") + slot;
    *error = host_->error_create(host_->host, static_cast<devrt_code>(it->code),
                                 7, text.data(), text.size());
    failures_.erase(it);
    return false;
  }
  if (names_device) contexts_.insert(device);
  return true;
}

void* SpyBackend::New(int device) {
  std::lock_guard<std::mutex> lock(mu_);
  auto* object = new Object{device, true};
  objects_.insert(object);
  return object;
}

int SpyBackend::DeviceOf(const void* object) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto* known = static_cast<const Object*>(object);
  if (objects_.count(known) != 0 && known->live) return known->device;
  ++bad_handles_;
  return 0;
}

void SpyBackend::Delete(void* object) {
  std::lock_guard<std::mutex> lock(mu_);
  static_cast<Object*>(object)->live = false;
}

}  // namespace devrt::testing
