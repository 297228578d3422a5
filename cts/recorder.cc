// SPDX-License-Identifier: Apache-2.0
#include "cts/recorder.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <unordered_map>

#include "cts/result.h"
#include "devrt/backends/abi/devrt_layer_helper.h"

namespace devrt::cts {
namespace {

std::atomic<CallRing*> g_ring{nullptr};
std::atomic<void (*)(const char*)> g_watcher{nullptr};

// Numbers handles in the order in which they are first seen.
class Names {
 public:
  uint64_t Of(char kind, const void* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Kind& k = kinds_[kind];
    const auto [found, is_new] = k.numbers.try_emplace(handle, k.last + 1);
    if (is_new) ++k.last;
    return found->second;
  }
  // A handle that a plugin hands out again is a new object.
  void Forget(char kind, const void* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    kinds_[kind].numbers.erase(handle);
  }
  void Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    kinds_.clear();
  }

 private:
  struct Kind {
    std::unordered_map<const void*, uint64_t> numbers;
    uint64_t last = 0;
  };
  std::mutex mutex_;
  std::map<char, Kind> kinds_;
};

Names& names() {
  static auto* const all = new Names;
  return *all;
}

// A line of limited length; the rest is cut off.
class Line {
 public:
  void Put(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    va_list args;
    va_start(args, format);
    const int n =
        std::vsnprintf(text_ + size_, sizeof text_ - size_, format, args);
    va_end(args);
    if (n > 0)
      size_ = std::min(sizeof text_ - 1, size_ + static_cast<size_t>(n));
  }
  const char* text() const { return text_; }

 private:
  char text_[CallRing::kWidth] = {};
  size_t size_ = 0;
};

void ShowHandle(Line* line, const char* what, const void* handle) {
  if (handle == nullptr) return line->Put("%s NULL", what);
  line->Put("%s %llu", what,
            static_cast<unsigned long long>(names().Of(what[0], handle)));
}
void Show(Line* line, devrt_stream s) { ShowHandle(line, "stream", s); }
void Show(Line* line, devrt_event e) { ShowHandle(line, "event", e); }
void Show(Line* line, devrt_flag f) { ShowHandle(line, "flag", f); }
void Show(Line* line, const devrt_stream_desc_v0* d) {
  static constexpr const char* kKinds[] = {"create", "legacy", "per_thread",
                                           "adopt"};
  line->Put("{%s", d->kind < 4 ? kKinds[d->kind] : "?");
  if (d->flags != 0) line->Put(" flags=%u", d->flags);
  if (d->priority != 0) line->Put(" priority=%d", d->priority);
  line->Put("}");
}
template <typename T>
void Show(Line* line, T value) {
  if constexpr (std::is_integral_v<T>) {
    line->Put("%lld", static_cast<long long>(value));
  } else if constexpr (std::is_pointer_v<T>) {
    line->Put("%p", reinterpret_cast<const void*>(value));
  } else {
    line->Put("?");
  }
}

template <typename T>
constexpr bool kIsOut =
    std::is_same_v<T, devrt_stream*> || std::is_same_v<T, devrt_event*> ||
    std::is_same_v<T, devrt_flag*> || std::is_same_v<T, uint32_t*> ||
    std::is_same_v<T, int64_t*> || std::is_same_v<T, void**>;

// "event_record(event 1, stream 2)".
template <typename... Args>
void ShowCall(Line* line, const char* name, Args... args) {
  line->Put("%s(", name);
  const char* separator = "";
  const auto in = [&](auto arg) {
    if constexpr (!kIsOut<decltype(arg)>) {
      line->Put("%s", separator);
      separator = ", ";
      Show(line, arg);
    }
  };
  (in(args), ...);
  line->Put(")");
}

// " -> event 1" for an argument that the call set, "" for others.
template <typename T>
void ShowAnswer(Line* line, T arg) {
  if constexpr (kIsOut<T>) {
    if (arg == nullptr) return;
    line->Put(" -> ");
    Show(line, *arg);
  }
}

const devrt_host_v0* g_host = nullptr;

// Indexed by CallId.  The functions of extensions follow; they are no slots.
struct Slot {
  const char* name;
  bool required;
  uint64_t capability;
};
constexpr Slot kSlots[] = {
#define DEVRT_SLOT(name, required, capability) {#name, required, capability},
#include "devrt/backends/abi/devrt_slots.inc"
};
constexpr size_t kSlotCount = sizeof kSlots / sizeof kSlots[0];
std::atomic<bool> g_called[kSlotCount];

// Slots that returned UNIMPLEMENTED, each with its first message.
class Unwritten {
 public:
  void Add(size_t slot, devrt_status status) {
    uint64_t size = 0;
    const char* const text = g_host->error_text(g_host->host, status, &size);
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_.try_emplace(slot, text, size);
  }
  std::vector<UnwrittenSlot> All() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<UnwrittenSlot> all;
    for (const auto& [slot, answer] : answers_) {
      all.push_back({kSlots[slot].name, answer});
    }
    return all;
  }
  void Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<size_t, std::string> answers_;
};

Unwritten& unwritten() {
  static auto* const all = new Unwritten;
  return *all;
}

// Slots that may return UNIMPLEMENTED if their capability is not promised.
bool IsOptional(const devrt_stream_desc_v0* desc) {
  return desc->kind == DEVRT_STREAM_ADOPT;
}
template <typename T>
bool IsOptional(T) {
  return false;
}

std::map<std::string, Front>& fronts() {
  static auto* const all = new std::map<std::string, Front>;
  return *all;
}

class Recorder {
 public:
  explicit Recorder(const devrt_next_v0* next)
      : promised_(next->capabilities) {}

  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) noexcept {
    if (auto* const watcher = g_watcher.load()) watcher(Call::kName);
    constexpr auto kId = static_cast<size_t>(Call::kId);
    if constexpr (kId < kSlotCount) {
      g_called[kId].store(true, std::memory_order_relaxed);
    }
    CallRing* const ring = g_ring.load(std::memory_order_acquire);
    if (ring == nullptr) return call(args...);
    const uint64_t number = ring->ReserveLine();
    Line line;
    ShowCall(&line, Call::kName, args...);
    // Written before the call, because a call may never return.
    Line waiting = line;
    waiting.Put(" has not returned");
    ring->Write(number, waiting.text());
    // Before the call, because another object may get the handle at once.
    ForgetDestroyed<Call>(args...);
    const devrt_status status = call(args...);
    if (status == nullptr) {
      (ShowAnswer(&line, args), ...);
    } else {
      const devrt_code code = g_host->error_code(g_host->host, status);
      line.Put(": %s", CodeName(code));
      if (code == DEVRT_UNIMPLEMENTED) NoteUnwritten<Call>(status, args...);
    }
    ring->Finish(number, line.text());
    return status;
  }

 private:
  template <typename Call, typename... Args>
  static void ForgetDestroyed(Args... args) {
    if constexpr (Call::kId == layer::CallId::stream_destroy) {
      (names().Forget('s', args), ...);
    }
    if constexpr (Call::kId == layer::CallId::event_destroy) {
      (names().Forget('e', args), ...);
    }
  }

  template <typename Call, typename... Args>
  void NoteUnwritten(devrt_status status, Args... args) const {
    constexpr auto kId = static_cast<size_t>(Call::kId);
    if constexpr (kId < kSlotCount) {
      if (IsOwed<Call>(args...)) unwritten().Add(kId, status);
    }
  }

  template <typename Call, typename... Args>
  bool IsOwed(Args... args) const {
    const Slot& slot = kSlots[static_cast<size_t>(Call::kId)];
    if (!slot.required && (slot.capability & promised_) == 0) return false;
    if constexpr (Call::kId == layer::CallId::event_create) {
      const uint32_t flags = std::get<1>(std::make_tuple(args...));
      return (flags & DEVRT_EVENT_IPC) == 0;
    }
    return !(IsOptional(args) || ...);
  }

  const uint64_t promised_;
};

using Attach = devrt_status (*)(void*, const devrt_next_v0*, devrt_backend_v0*);
Attach g_attach = nullptr;

// Like the helper's function, and remembers what it returned.
devrt_status AttachAndRemember(void* layer, const devrt_next_v0* next,
                               devrt_backend_v0* front) {
  const devrt_status status = g_attach(layer, next, front);
  if (status == nullptr) {
    // Tests do not call a slot that the helper does not know.
    fronts()[next->manifest->backend] = {front->self, front->ops,
                                         front->capabilities, g_host};
  }
  return status;
}

}  // namespace

constexpr devrt_manifest_v0 kManifest =
    layer::internal::Manifest("devrt_cts", "devrt", DEVRT_VERSION);
const devrt_manifest_v0 kRecorderManifest = kManifest;

devrt_status OpenRecorder(const devrt_host_v0* host, devrt_layer_v0* out) {
  g_host = host;
  const devrt_status status = layer::internal::Open<Recorder>(host, out);
  if (status != nullptr) return status;
  g_attach = out->attach;
  out->attach = &AttachAndRemember;
  return nullptr;
}

void SetCallRing(CallRing* ring) {
  g_ring.store(ring, std::memory_order_release);
}

void WatchCalls(void (*watcher)(const char* call)) { g_watcher.store(watcher); }

void ForgetTest() {
  names().Clear();
  unwritten().Clear();
  if (CallRing* const ring = g_ring.load()) ring->Clear();
}

std::vector<UnwrittenSlot> UnwrittenSlots() { return unwritten().All(); }

std::vector<std::string> CalledSlots() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kSlotCount; ++i) {
    if (g_called[i].load(std::memory_order_relaxed)) {
      names.emplace_back(kSlots[i].name);
    }
  }
  return names;
}

std::vector<std::string> RequiredSlots() {
  std::vector<std::string> names;
  for (const Slot& slot : kSlots) {
    if (slot.required) names.emplace_back(slot.name);
  }
  return names;
}

Front FrontOf(const std::string& backend) {
  const auto found = fronts().find(backend);
  return found == fronts().end() ? Front{} : found->second;
}

}  // namespace devrt::cts
