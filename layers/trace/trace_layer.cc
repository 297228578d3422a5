// SPDX-License-Identifier: Apache-2.0
//
// The trace layer: records every call, and every operation on a device.
//
//   DEVRT_TRACE=FILE             the ring file; without it nothing is traced
//   DEVRT_TRACE_TIMES=events     takes times from events for a simulator too
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>

#include "devrt/backends/abi/devrt_layer_helper.h"
#include "devrt/backends/abi/devrt_stream_number.h"
#include "layers/trace/clock.h"
#include "layers/trace/device_times.h"
#include "layers/trace/recorder.h"

namespace devrt::trace {
namespace {

using layer::CallId;

constexpr uint32_t kDevices = 256;

// ---- Arguments of a call, found by their types ------------------------------

struct Arguments {
  devrt_stream stream = nullptr;
  const void* object = nullptr;  // an event, or the first pointer
  uint64_t bytes = 0;            // the first 64-bit number
  uint32_t device = kDevices;    // the first argument, if it is 32 bits wide
};

inline void Take(Arguments* a, devrt_stream s) { a->stream = s; }
inline void Take(Arguments* a, devrt_event e) { a->object = e; }
inline void Take(Arguments* a, const void* p) {
  if (a->object == nullptr) a->object = p;
}
// The template below would fit a pointer to what may be written better.
inline void Take(Arguments* a, void* p) {
  Take(a, static_cast<const void*>(p));
}
inline void Take(Arguments* a, uint64_t n) {
  if (a->bytes == 0) a->bytes = n;
}
template <typename T>
inline void Take(Arguments*, const T&) {}

template <typename... Args>
Arguments Read(const Args&... args) {
  Arguments a;
  (Take(&a, args), ...);
  if constexpr (sizeof...(Args) > 0) {
    const auto& first = std::get<0>(std::tie(args...));
    if constexpr (std::is_same_v<std::decay_t<decltype(first)>, uint32_t>) {
      a.device = first;
    }
  }
  return a;
}

// The result that a call wrote through its last argument.
template <typename Out>
const void* Answer(Out** out) {
  return *out;
}
template <typename T>
const void* Answer(const T&) {
  return nullptr;
}

// ---- Kinds of calls --------------------------------------------------------

// True if the call queries a stream or only orders the stream's later work.
constexpr bool OnlyAsks(CallId id) {
  return id == CallId::stream_destroy || id == CallId::stream_query ||
         id == CallId::stream_sync || id == CallId::stream_native ||
         id == CallId::stream_wait_event ||
         id == CallId::capture_stream_is_capturing ||
         id == CallId::capture_stream_capture_id ||
         id == CallId::capture_capture_retain;
}

// True if the call submits an operation: its first argument is a stream, and
// OnlyAsks is false.
template <CallId kId, typename... Args>
constexpr bool kIsOp = false;
template <CallId kId, typename... Args>
constexpr bool kIsOp<kId, devrt_stream, Args...> = !OnlyAsks(kId);

constexpr bool Waits(CallId id) {
  return id == CallId::stream_sync || id == CallId::event_sync ||
         id == CallId::device_sync;
}

// Answers through its last argument whether something is complete.
constexpr bool Asks(CallId id) {
  return id == CallId::stream_query || id == CallId::event_query;
}

constexpr bool Makes(CallId id) {
  return id == CallId::alloc || id == CallId::host_alloc ||
         id == CallId::alloc_async || id == CallId::stream_create ||
         id == CallId::event_create;
}

// ---- The layer --------------------------------------------------------------

const devrt_host_v0* g_host = nullptr;
Recorder* g_recorder = nullptr;

// Returns true if DEVRT_TRACE_TIMES asks for times from events.
bool WantsTimesOfEvents() {
  const char* const times = secure_getenv("DEVRT_TRACE_TIMES");
  return times != nullptr && std::strcmp(times, "events") == 0;
}

class Tracer {
 public:
  explicit Tracer(const devrt_next_v0* next) {
    if (g_recorder == nullptr) return;
    backend_ = g_recorder->AddBackend(next->manifest->backend);
    if (g_host->get_extension != nullptr) {
      numbers_ = static_cast<const devrt_stream_number_v0*>(
          g_host->get_extension(g_host->host, DEVRT_STREAM_NUMBER_EXTENSION));
    }
    clock_ = std::make_unique<Clock>(next, g_host);
    if (!WantsTimesOfEvents()) {
      times_ =
          TimesOfSimulator(next, g_host, g_recorder, clock_.get(), backend_);
    }
    if (times_ == nullptr) {
      times_ = TimesOfEvents(next, g_host, g_recorder, clock_.get(), backend_);
    }
  }

  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) noexcept {
    if (g_recorder == nullptr) return call(args...);
    constexpr CallId kId = Call::kId;
    const Arguments a = Read(args...);
    Record r;
    Describe(kId, a, &r);
    if constexpr (kId == CallId::launch_launch) {
      r.name = NameOf(args...);
    }
    constexpr bool kOp = kIsOp<kId, Args...>;
    [[maybe_unused]] OpMark mark;
    if constexpr (kOp) {
      if (times_ != nullptr) mark = times_->BeforeOp(a.stream);
      r.total = mark.number;
    }
    r.begin_ns = clock_->Now();
    devrt_status status = call(args...);
    r.end_ns = clock_->Now();
    if (status != nullptr) {
      r.status = static_cast<uint8_t>(g_host->error_code(g_host->host, status));
    } else {
      Finish<kId>(&r, a, args...);
    }
    g_recorder->Write(r);
    if (times_ == nullptr) return status;
    if constexpr (kOp) {
      status == nullptr ? times_->AfterOp(a.stream, mark, r)
                        : times_->OpFailed(a.stream, mark);
    }
    if (status != nullptr) return status;
    if constexpr (kId == CallId::stream_destroy) times_->StreamGone(a.stream);
    if constexpr (Waits(kId)) times_->Collect();
    // A program may wait by asking again and again.
    if constexpr (Asks(kId)) {
      if (*std::get<sizeof...(args) - 1>(std::tie(args...)) != 0) {
        times_->Collect();
      }
    }
    return status;
  }

  void Shutdown() {
    if (times_ != nullptr) times_->End();
  }

 private:
  // Fills in what is known before the call.
  void Describe(CallId id, const Arguments& a, Record* r) {
    std::memset(r, 0, sizeof *r);
    r->call = static_cast<uint8_t>(id);
    r->backend = backend_;
    r->stream = reinterpret_cast<uint64_t>(a.stream);
    r->object = reinterpret_cast<uint64_t>(a.object);
    r->bytes = a.bytes;
    r->device = static_cast<uint8_t>(a.device < 0xff ? a.device : 0xff);
    if (numbers_ != nullptr && a.stream != nullptr) {
      r->stream_number = NumberField(numbers_->number(g_host->host, a.stream));
    }
    NoteSite(r);
  }

  // The name of a launch comes from its descriptor.
  template <typename Stream, typename Desc>
  static uint32_t NameOf(Stream, Desc desc) {
    return g_recorder->Name(desc->name);
  }

  static void NoteSite(Record* r) {
    const devrt_call_site_v0* const site = g_host->call_site(g_host->host);
    r->file = g_recorder->StaticName(site->file);
    r->line = LineField(site->line);
  }

  template <CallId kId, typename... Args>
  void Finish(Record* r, const Arguments& a, const Args&... args) {
    if constexpr (Makes(kId)) {
      const auto all = std::tie(args...);
      const void* const made = Answer(std::get<sizeof...(Args) - 1>(all));
      if constexpr (kId == CallId::stream_create) {
        r->stream = reinterpret_cast<uint64_t>(made);
        const devrt_stream_desc_v0* const desc = std::get<1>(all);
        r->bytes = desc->kind;
        r->object = reinterpret_cast<uint64_t>(desc->native);
        if (times_ != nullptr) {
          times_->StreamMade(static_cast<devrt_stream>(const_cast<void*>(made)),
                             a.device);
        }
      } else {
        r->object = reinterpret_cast<uint64_t>(made);
      }
    }
    if constexpr (kId == CallId::alloc) {
      r->total = Allocated(a.device, static_cast<int64_t>(a.bytes));
    }
    if constexpr (kId == CallId::dealloc) {
      r->total = Allocated(a.device, -static_cast<int64_t>(a.bytes));
    }
  }

  uint64_t Allocated(uint32_t device, int64_t change) {
    return static_cast<uint64_t>(allocated_[device % kDevices].fetch_add(
                                     change, std::memory_order_relaxed) +
                                 change);
  }

  uint8_t backend_ = 0;
  const devrt_stream_number_v0* numbers_ = nullptr;  // nullptr: older host
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<DeviceTimes> times_;
  std::array<std::atomic<int64_t>, kDevices> allocated_{};
};

void Warn(const std::string& text) {
  g_host->log(g_host->host, DEVRT_LOG_WARNING, __FILE__, __LINE__, text.data(),
              text.size());
}

void CheckTimes() {
  const char* const times = secure_getenv("DEVRT_TRACE_TIMES");
  if (times == nullptr || *times == '\0' || WantsTimesOfEvents()) return;
  Warn("DEVRT_TRACE_TIMES=" + std::string(times) +
       " is not a source of times; expected events");
}

devrt_status OpenLayer(const devrt_host_v0* host, devrt_layer_v0* out) {
  g_host = host;
  CheckTimes();
  if (const char* const path = secure_getenv("DEVRT_TRACE")) {
    std::string error;
    g_recorder = Recorder::Open(path, &error);
    if (g_recorder == nullptr) {
      // A missing trace must not stop the program.
      Warn("no trace: " + error);
    }
  } else {
    Warn(
        "no trace: DEVRT_TRACE names no file; run the program with devrt "
        "trace");
  }
  return layer::internal::Open<Tracer>(host, out);
}

}  // namespace
}  // namespace devrt::trace

extern "C" DEVRT_PLUGIN_EXPORT const devrt_manifest_v0 devrt_layer_manifest_v0 =
    devrt::layer::internal::Manifest("trace", "devrt", DEVRT_VERSION);
extern "C" DEVRT_PLUGIN_EXPORT devrt_status
devrt_layer_open_v0(const devrt_host_v0* host, devrt_layer_v0* layer) {
  return devrt::trace::OpenLayer(host, layer);
}
