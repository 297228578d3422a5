// SPDX-License-Identifier: Apache-2.0
//
// devrt_layer_helper.h: a layer from a class with one function template.
//
//   class Counter {
//    public:
//     explicit Counter(const devrt_next_v0* next);
//     template <typename Call, typename... Args>
//     devrt_status On(Call call, Args... args) noexcept {
//       ++counts_[static_cast<size_t>(Call::kId)];
//       return call(args...);  // goes on to what is behind
//     }
//    private:
//     std::atomic<uint64_t> counts_[devrt::layer::kCallCount] = {};
//   };
//   DEVRT_LAYER(Counter, "counter", "Example Corp", "1.0");
//
// One object is made for each backend, when it is opened, and lives as long as
// the process.  Every slot of the table and every function of the extensions in
// devrt_extension_slots.inc passes through On, with the arguments behind
// `self`; a slot that a later version adds does too, without a new line here.
// `Call` says which one it is: `Call::kId` (CallId::alloc, CallId::probe_spin),
// `Call::kName` ("alloc", "probe.spin").  `if constexpr (Call::kId ==
// CallId::alloc)` looks at the arguments of one.
//
// A constructor (next, host) gets the host, too: devrt::plugin::Error(host,
// ...) and Log(host, ...) of devrt_plugin_util.h make errors and lines of the
// log.
//
// `void Shutdown() noexcept`, if there is one, is called at devrt::Shutdown().
//
// What it is not: a way to hold back or to repeat a call.  On calls `call` at
// most once; if it does not, it returns an error of its own (next's backend
// must not see half of what belongs together).
//
// Threads: On is called from any thread at any time, also from callbacks, so
// that it must not call devrt.  Exceptions: an exception that leaves On becomes
// an INTERNAL error; On must not throw after it has called `call`.  An On that
// is noexcept costs less: where it only counts, 0.5 ns a call.
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
#include "devrt/backends/abi/devrt_event_ipc.h"
#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_plugin_util.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/backends/abi/devrt_suballocation.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "devrt/backends/abi/devrt_virtual_memory.h"

// Hidden: the layers of two libraries must not share these.
#pragma GCC visibility push(hidden)
namespace devrt {
namespace layer {

// Slots of the table by their names, then functions of extensions.
enum class CallId : uint32_t {
#define DEVRT_SLOT(name, required, capability) name,
#include "devrt/backends/abi/devrt_slots.inc"
#define DEVRT_EXTENSION_SLOT(id, table, function) id##_##function,
#include "devrt/backends/abi/devrt_extension_slots.inc"
  kCount
};

inline constexpr size_t kCallCount = static_cast<size_t>(CallId::kCount);

inline constexpr const char* kCallNames[] = {
#define DEVRT_SLOT(name, required, capability) #name,
#include "devrt/backends/abi/devrt_slots.inc"
#define DEVRT_EXTENSION_SLOT(id, table, function) #id "." #function,
#include "devrt/backends/abi/devrt_extension_slots.inc"
};
static_assert(sizeof kCallNames / sizeof kCallNames[0] == kCallCount);

// One call on its way, bound to what is behind.
template <CallId kTheId, typename Table, auto kSlot>
class Call {
 public:
  static constexpr CallId kId = kTheId;
  static constexpr const char* kName = kCallNames[static_cast<size_t>(kTheId)];

  Call(void* self, const Table* table) : self_(self), table_(table) {}

  // What is behind does not throw; said so, a call on a last line is a jump.
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

// What the host gives back as `self`: the layer's object, and what is behind,
// by value: one look-up less a call.
template <typename Policy, typename Table>
struct Front {
  Policy* policy;
  void* next_self;
  const devrt_host_v0* host;
  Table next;
};

// In a catch (...) clause: pthread_exit and pthread_cancel unwind a thread with
// what is not an exception of C++, and must not be stopped.
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

// As much as both sides know; the rest stays NULL.
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

// An extension's table in front of another one; made once, never freed.
template <typename Policy, typename Table>
struct ExtensionFront {
  Front<Policy, Table> front;
  Table table;
};

// A function that is not behind stays away in front, too.
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
// that is linked into the program, for devrt::RegisterLayer.
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
