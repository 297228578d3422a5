// SPDX-License-Identifier: Apache-2.0
//
// The faults layer: makes calls fail by rules.
//
//   DEVRT_FAULTS='oom:nth=2+api_error:call=copy_async'   rules, JSON, or a path
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "devrt/backends/abi/devrt_faults.h"
#include "devrt/backends/abi/devrt_layer_helper.h"
#include "layers/faults/entries.h"
#include "layers/faults/injector.h"
#include "layers/faults/rules.h"

namespace devrt::faults {
namespace {

const devrt_host_v0* g_host = nullptr;
// Of DEVRT_FAULTS, for each backend; never freed.
const std::vector<internal::FaultRule>* g_rules = nullptr;

// ---- Arguments of a call, found by their types ------------------------------

inline void Take(Facts* f, devrt_stream s) { f->object = s; }
inline void Take(Facts* f, devrt_event e) {
  if (f->object == nullptr) f->object = e;
}
inline void Take(Facts* f, devrt_flag flag) {
  if (f->object == nullptr) f->object = flag;
}
inline void Take(Facts* f, uint64_t n) {
  if (f->bytes == 0) f->bytes = n;
}
template <typename T>
inline void Take(Facts*, const T&) {}

template <CallId kId, typename... Args>
Facts Read(const Args&... args) {
  Facts facts{kId};
  (Take(&facts, args), ...);
  if constexpr (sizeof...(Args) > 0) {
    const auto& first = std::get<0>(std::tie(args...));
    if constexpr (BeginsWithDevice(kId) &&
                  std::is_same_v<std::decay_t<decltype(first)>, uint32_t>) {
      facts.device = static_cast<int32_t>(first);
    }
  }
  return facts;
}

template <typename Out>
const void* Answer(Out** out) {
  return *out;
}
template <typename T>
const void* Answer(const T&) {
  return nullptr;
}

// ---- The layer --------------------------------------------------------------

devrt_status Fail(CallId id, const Verdict& verdict) {
  devrt_status error =
      g_host->error_create(g_host->host, verdict.code, verdict.native,
                           verdict.text.data(), verdict.text.size());
  devrt_error_origin_v0 origin = {};
  origin.struct_size = sizeof origin;
  origin.flags = verdict.late ? DEVRT_ERROR_ASYNC : 0;
  origin.native_code = verdict.native;
  origin.device = verdict.device;
  origin.entry_point = layer::kCallNames[static_cast<size_t>(id)];
  g_host->error_set_origin(g_host->host, error, &origin);
  return error;
}

class Layer {
 public:
  explicit Layer(const devrt_next_v0* next)
      : injector_(next->manifest->backend) {
    injector_.Set(*g_rules);
  }

  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) {
    constexpr CallId kId = Call::kId;
    if constexpr (EntryOf(kId).does == Does::kExcluded) {
      return call(args...);
    } else {
      const Facts facts = Read<kId>(args...);
      Verdict verdict;
      if (injector_.is_active()) {
        verdict = injector_.Judge(facts, *g_host->call_site(g_host->host));
      }
      if (verdict.fails && !verdict.late) return Fail(kId, verdict);
      devrt_status status = nullptr;
      if constexpr (EntryOf(kId).object == Object::kNone) {
        status = call(args...);
      } else if constexpr (EntryOf(kId).does == Does::kEnds) {
        status = End(call, Ended(facts, args...), args...);
      } else {
        status = call(args...);
        if (status == nullptr) NoteMade<kId>(facts, args...);
      }
      if (status != nullptr) return status;
      return verdict.late ? Fail(kId, verdict) : nullptr;
    }
  }

  Injector* injector() { return &injector_; }

 private:
  // The object that a call ends.
  template <typename... Args>
  static const void* Ended(const Facts& facts, const Args&... args) {
    const auto& first = std::get<0>(std::tie(args...));
    if constexpr (std::is_pointer_v<std::decay_t<decltype(first)>>) {
      return first;
    } else {
      return facts.object;
    }
  }

  template <typename Call, typename... Args>
  devrt_status End(Call call, const void* object, Args... args) {
    const std::optional<int32_t> device = injector_.ForgetDevice(object);
    devrt_status status = call(args...);
    if (status == nullptr) {
      injector_.NoteEnded(Call::kId);
    } else if (device) {
      injector_.NoteDevice(object, *device);
    }
    return status;
  }

  template <CallId kId, typename... Args>
  void NoteMade(const Facts& facts, const Args&... args) {
    const auto all = std::tie(args...);
    if constexpr (kId == CallId::stream_create) {
      const void* const stream = Answer(std::get<2>(all));
      const uint32_t kind = std::get<1>(all)->kind;
      // Default streams are made once and stay.
      if (kind != DEVRT_STREAM_CREATE && kind != DEVRT_STREAM_ADOPT) {
        injector_.NoteDevice(stream, facts.device);
        return;
      }
      injector_.NoteMade(kId, stream, facts.device);
    } else {
      injector_.NoteMade(kId, Answer(std::get<sizeof...(Args) - 1>(all)),
                         facts.device);
    }
  }

  Injector injector_;
};

// ---- devrt.faults/0 ---------------------------------------------------------

Injector* Of(void* self) { return static_cast<Injector*>(self); }

constexpr devrt_faults_v0 kTable = {
    sizeof(devrt_faults_v0),
    0,
    [](void* self, const char* text, uint64_t size) -> devrt_status {
      std::vector<internal::FaultRule> rules;
      std::string error;
      if (!ReadRules({text, size}, &rules, &error)) {
        return plugin::Error(g_host, DEVRT_INVALID_ARGUMENT, 0, error);
      }
      Of(self)->Set(rules);
      return nullptr;
    },
    [](void* self, uint32_t on) -> devrt_status {
      Of(self)->Record(on != 0);
      return nullptr;
    },
    [](void* self, void (*visit)(void*, const devrt_fault_point_v0*),
       void* arg) -> devrt_status {
      for (const devrt_fault_point_v0& point : Of(self)->Points()) {
        visit(arg, &point);
      }
      return nullptr;
    },
    [](void* self, uint64_t* count,
       devrt_fault_point_v0* last) -> devrt_status {
      devrt_fault_point_v0 point = {};
      *count = Of(self)->Fired(&point);
      if (*count != 0) plugin::WriteStruct(last, point);
      return nullptr;
    },
    [](void* self, devrt_fault_live_v0* live) -> devrt_status {
      plugin::WriteStruct(live, Of(self)->Live());
      return nullptr;
    },
    [](void* self, char* buffer, uint64_t capacity,
       uint64_t* size) -> devrt_status {
      const std::string text = Of(self)->Rules();
      *size = text.size();
      const uint64_t copied = std::min<uint64_t>(capacity, text.size());
      if (copied != 0) std::memcpy(buffer, text.data(), copied);
      return nullptr;
    },
};

const void* AddExtension(void* self, const char* name, void** self_out) {
  if (std::strcmp(name, DEVRT_FAULTS_EXTENSION) != 0) return nullptr;
  *self_out = static_cast<layer::internal::Front<Layer, devrt_ops_v0>*>(self)
                  ->policy->injector();
  return &kTable;
}

devrt_status OpenLayer(const devrt_host_v0* host, devrt_layer_v0* out) {
  g_host = host;
  std::vector<internal::FaultRule> rules;
  const char* const text = secure_getenv("DEVRT_FAULTS");
  std::string error;
  if (text != nullptr && !ReadRules(text, &rules, &error)) {
    return plugin::Error(host, DEVRT_INVALID_ARGUMENT, 0,
                         "DEVRT_FAULTS: " + error);
  }
  g_rules = new std::vector<internal::FaultRule>(std::move(rules));
  devrt_status status = layer::internal::Open<Layer>(host, out);
  // A host of before add_extension has a shorter struct.
  if (DEVRT_HAS_FIELD(out, devrt_layer_v0, add_extension)) {
    out->add_extension = &AddExtension;
  }
  return status;
}

}  // namespace
}  // namespace devrt::faults

extern "C" DEVRT_PLUGIN_EXPORT const devrt_manifest_v0 devrt_layer_manifest_v0 =
    devrt::layer::internal::Manifest("faults", "devrt", DEVRT_VERSION);
extern "C" DEVRT_PLUGIN_EXPORT devrt_status
devrt_layer_open_v0(const devrt_host_v0* host, devrt_layer_v0* layer) {
  return devrt::faults::OpenLayer(host, layer);
}
