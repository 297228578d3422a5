// SPDX-License-Identifier: Apache-2.0
//
// devrt_layer_helper.h: makes a layer from a class with one function template.
//
//   class Counter {
//    public:
//     explicit Counter(const devrt_next_v0* next);
//     template <typename Call, typename... Args>
//     devrt_status On(Call call, Args... args) noexcept {
//       ++counts_[static_cast<size_t>(Call::kId)];
//       return call(args...);  // passes the call on
//     }
//    private:
//     std::atomic<uint64_t> counts_[devrt::layer::kCallCount] = {};
//   };
//   DEVRT_LAYER(Counter, "counter", "Example Corp", "1.0");
//
// The helper makes one object for each backend when the backend is opened; the
// object lives until the process ends.  Every slot of the table, and every
// function of the extensions in devrt_extension_slots.inc, calls On with its
// arguments after `self`.  Slots of later versions do so without a change here.
// `Call` names the slot: `Call::kId` (CallId::alloc, CallId::probe_spin) and
// `Call::kName` ("alloc", "probe.spin").  `if constexpr (Call::kId ==
// CallId::alloc)` gives access to the arguments of one slot.
//
// A constructor with the parameters (next, host) also gets the host; with it,
// devrt::plugin::Error(host, ...) and Log(host, ...) of devrt_plugin_util.h
// make errors and log lines.
//
// If the class has `void Shutdown() noexcept`, devrt::Shutdown() calls it.
//
// What it is not: a way to hold back or repeat a call.  On calls `call` at most
// once.  An On that does not call `call` returns an error of its own, because
// the backend must not see half of a pair of calls.
//
// Threads: On is called from any thread at any time, also from callbacks, so it
// must not call devrt.  Exceptions: an exception that leaves On becomes an
// INTERNAL error; after `call`, On must not throw.  An On that is noexcept
// costs less: 0.5 ns a call if it only counts.
//
// Needs C++17 and nothing but the standard library.
#ifndef DEVRT_BACKENDS_ABI_DEVRT_LAYER_HELPER_H_
#define DEVRT_BACKENDS_ABI_DEVRT_LAYER_HELPER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <type_traits>

#include "devrt/backends/abi/devrt_capture.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/backends/abi/devrt_event_ipc.h"
#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_plugin_util.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/backends/abi/devrt_suballocation.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "devrt/backends/abi/devrt_virtual_memory.h"

// Hidden, so that the layers of two libraries do not share code or state.
#pragma GCC visibility push(hidden)
namespace devrt {
namespace layer {

// The slots of the table by name, then the functions of extensions.
enum class CallId : uint32_t {
#define DEVRT_SLOT(name, required, capability) name,
#include "devrt/backends/abi/devrt_slots.inc"
#define DEVRT_EXTENSION_SLOT(id, table, function) id##_##function,
#include "devrt/backends/abi/devrt_extension_slots.inc"
  kCount
};

// The number of slots and functions.
inline constexpr size_t kCallCount = static_cast<size_t>(CallId::kCount);

inline constexpr const char* kCallNames[] = {
#define DEVRT_SLOT(name, required, capability) #name,
#include "devrt/backends/abi/devrt_slots.inc"
#define DEVRT_EXTENSION_SLOT(id, table, function) #id "." #function,
#include "devrt/backends/abi/devrt_extension_slots.inc"
};
static_assert(sizeof kCallNames / sizeof kCallNames[0] == kCallCount);

// One call, bound to the next {self, table} pair.
template <CallId kTheId, typename Table, auto kSlot>
class Call {
 public:
  // The slot, and its name in texts, "alloc" or "probe.spin":
  static constexpr CallId kId = kTheId;
  static constexpr const char* kName = kCallNames[static_cast<size_t>(kTheId)];

  // For the helper's own code: the pair behind the layer.
  Call(void* self, const Table* table) : self_(self), table_(table) {}

  // noexcept, because table functions never throw: a tail call is then a jump.
  template <typename... Args>
  devrt_status operator()(Args... args) const noexcept {
    using Function = devrt_status (*)(void*, Args...) noexcept;
    return reinterpret_cast<Function>(table_->*kSlot)(self_, args...);
  }

 private:
  void* self_;
  const Table* table_;
};

namespace internal {

// `self` of the layer's table: the layer's object, and a copy of the next
// table, which saves one indirection a call.
template <typename Policy, typename Table>
struct Front {
  Policy* policy;
  void* next_self;
  const devrt_host_v0* host;
  Table next;
};

// Call it in a catch (...) clause: rethrows the unwinding of pthread_exit and
// pthread_cancel, which is not a C++ exception and must not be stopped.
inline void PassThreadEnd() {
  if (std::current_exception() == nullptr) throw;
}

[[gnu::cold, gnu::noinline]] inline devrt_status Uncaught(
    const devrt_host_v0* host, const char* call) {
  char text[256] = "a layer threw an exception in ";
  std::strncat(text, call, 64);
  try {
    throw;
  } catch (const std::exception& e) {
    std::strcat(text, ": ");
    std::strncat(text, e.what(), 128);
  } catch (...) {
  }
  return host->error_create(host->host, DEVRT_INTERNAL, 0, text,
                            std::strlen(text));
}

// Copies the fields that both versions have; the rest stays NULL.
template <typename Table>
void CopyTable(Table* to, const void* from) {
  uint32_t size = 0;
  std::memcpy(&size, from, sizeof size);
  if (size > sizeof(Table)) size = sizeof(Table);
  std::memcpy(to, from, size);
  to->struct_size = size;
}

template <typename Policy, typename Table, CallId kId, auto kSlot,
          typename... Args>
devrt_status Enter(void* self, Args... args) {
  auto* const front = static_cast<Front<Policy, Table>*>(self);
  const Call<kId, Table, kSlot> call(front->next_self, &front->next);
  if constexpr (noexcept(front->policy->On(call, args...))) {
    return front->policy->On(call, args...);
  } else {
    try {
      return front->policy->On(call, args...);
    } catch (...) {
      PassThreadEnd();
      return Uncaught(front->host, call.kName);
    }
  }
}

template <typename Policy, typename Table, CallId kId, auto kSlot,
          typename... Args>
void Set(devrt_status (**slot)(void*, Args...)) {
  *slot = &Enter<Policy, Table, kId, kSlot, Args...>;
}

template <typename Policy, typename = void>
inline constexpr bool kHasShutdown = false;
template <typename Policy>
inline constexpr bool
    kHasShutdown<Policy, std::void_t<decltype(&Policy::Shutdown)>> = true;

template <typename Policy>
void EndPolicy(void* self) {
  static_cast<Front<Policy, devrt_ops_v0>*>(self)->policy->Shutdown();
}

template <typename Policy>
const devrt_ops_v0* MakeTable() {
  static devrt_ops_v0 ops = [] {
    devrt_ops_v0 t = {};
    t.struct_size = sizeof t;
    if constexpr (kHasShutdown<Policy>) t.shutdown = &EndPolicy<Policy>;
#define DEVRT_SLOT(name, required, capability) \
  Set<Policy, devrt_ops_v0, CallId::name, &devrt_ops_v0::name>(&t.name);
#include "devrt/backends/abi/devrt_slots.inc"
    return t;
  }();
  return &ops;
}

// A layer's table for an extension; made once, never freed.
template <typename Policy, typename Table>
struct ExtensionFront {
  Front<Policy, Table> front;
  Table table;
};

// Functions that the next table does not have stay NULL.
template <typename Policy, typename Table>
void Interpose(Table* table) {
#define DEVRT_EXTENSION_SLOT(id, type, function)                     \
  if constexpr (std::is_same_v<Table, type>) {                       \
    if (table->function != nullptr) {                                \
      Set<Policy, Table, CallId::id##_##function, &Table::function>( \
          &table->function);                                         \
    }                                                                \
  }
#include "devrt/backends/abi/devrt_extension_slots.inc"
}

template <typename Policy, typename Table>
const void* MakeExtension(const Front<Policy, devrt_ops_v0>& base,
                          void* next_self, const void* next, void** self_out) {
  auto* const made = new ExtensionFront<Policy, Table>{};
  CopyTable(&made->table, next);
  made->front = {base.policy, next_self, base.host, made->table};
  Interpose<Policy>(&made->table);
  *self_out = &made->front;
  return &made->table;
}

template <typename Policy>
const void* AttachExtension(void* self, const char* name, void* next_self,
                            const void* next, void** self_out) {
  const auto& base = *static_cast<Front<Policy, devrt_ops_v0>*>(self);
#define DEVRT_EXTENSION(id, type, extension)                             \
  if (std::strcmp(name, extension) == 0) {                               \
    return MakeExtension<Policy, type>(base, next_self, next, self_out); \
  }
#include "devrt/backends/abi/devrt_extension_slots.inc"
  return nullptr;
}

template <typename Policy>
devrt_status Attach(void* layer, const devrt_next_v0* next,
                    devrt_backend_v0* front) {
  const auto* const host = static_cast<const devrt_host_v0*>(layer);
  try {
    auto* const made = new Front<Policy, devrt_ops_v0>{};
    if constexpr (std::is_constructible_v<Policy, const devrt_next_v0*,
                                          const devrt_host_v0*>) {
      made->policy = new Policy(next, host);
    } else {
      made->policy = new Policy(next);
    }
    made->next_self = next->self;
    made->host = host;
    CopyTable(&made->next, next->ops);
    front->self = made;
    front->ops = MakeTable<Policy>();
    return nullptr;
  } catch (...) {
    PassThreadEnd();
    return Uncaught(host, "attach");
  }
}

template <typename Policy>
devrt_status Open(const devrt_host_v0* host, devrt_layer_v0* layer) {
  layer->layer = const_cast<devrt_host_v0*>(host);
  layer->attach = &Attach<Policy>;
  layer->attach_extension = &AttachExtension<Policy>;
  return nullptr;
}

constexpr devrt_manifest_v0 Manifest(const char* name, const char* vendor,
                                     const char* version) {
  devrt_manifest_v0 m = {};
  const auto copy = [](char* to, const char* from) {
    while (*from != '\0') *to++ = *from++;
  };
  copy(m.magic, DEVRT_LAYER_MANIFEST_MAGIC);
  m.struct_size = sizeof m;
  m.abi_major = DEVRT_ABI_MAJOR;
  m.abi_minor = DEVRT_ABI_MINOR;
  copy(m.backend, name);
  copy(m.vendor, vendor);
  copy(m.version, version);
  return m;
}

}  // namespace internal
}  // namespace layer
}  // namespace devrt
#pragma GCC visibility pop

// Defines the manifest `NAME_manifest` and the function `NAME_open` of a layer
// that is linked into the program; pass both to devrt::RegisterLayer.
#define DEVRT_STATIC_LAYER(Policy, symbol, name, vendor, version) \
  constexpr devrt_manifest_v0 symbol##_manifest =                 \
      ::devrt::layer::internal::Manifest(name, vendor, version);  \
  inline devrt_status symbol##_open(const devrt_host_v0* host,    \
                                    devrt_layer_v0* layer) {      \
    return ::devrt::layer::internal::Open<Policy>(host, layer);   \
  }                                                               \
  static_assert(true, "a semicolon follows")

// Defines the two symbols of a shared library with one layer.
#define DEVRT_LAYER(Policy, name, vendor, version)                   \
  extern "C" DEVRT_PLUGIN_EXPORT const devrt_manifest_v0             \
      devrt_layer_manifest_v0 =                                      \
          ::devrt::layer::internal::Manifest(name, vendor, version); \
  extern "C" DEVRT_PLUGIN_EXPORT devrt_status devrt_layer_open_v0(   \
      const devrt_host_v0* host, devrt_layer_v0* layer) {            \
    return ::devrt::layer::internal::Open<Policy>(host, layer);      \
  }                                                                  \
  static_assert(true, "a semicolon follows")

#endif  // DEVRT_BACKENDS_ABI_DEVRT_LAYER_HELPER_H_
