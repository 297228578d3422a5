// SPDX-License-Identifier: Apache-2.0
//
// Implementation of devrt_plugin_helper.h, which plugins include instead: finds
// a class's member functions, wraps each as a C function, and stops exceptions.
// Not for programs or plugins: they must not use the names in this file.
#ifndef DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_INTERNAL_H_
#define DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_INTERNAL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>

#if defined(__cpp_exceptions) && defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_plugin_util.h"

// Hidden: the linker would merge the state of two plugins (STB_GNU_UNIQUE).
#pragma GCC visibility push(hidden)
namespace devrt {
namespace plugin {
namespace internal {

// Maps an object to its host; needed only to report an exception.  Not one
// global host, because two copies of the runtime may open a plugin in one
// process.  Nodes are never freed, because another thread may read them.
struct Owner {
  std::atomic<const void*> self;
  const devrt_host_v0* host;
  Owner* next;
};
inline std::atomic<Owner*> owners{nullptr};

// " HOST_FUNC PEER_COPY", for messages.
struct CapabilityNames {
  explicit CapabilityNames(uint64_t capabilities) {
#define DEVRT_CAPABILITY(name)                   \
  if ((capabilities & DEVRT_CAP_##name) != 0) {  \
    std::strcat(text, " " #name);                \
    capabilities &= ~uint64_t{DEVRT_CAP_##name}; \
  }
#include "devrt/backends/abi/devrt_capabilities.inc"
    if (capabilities != 0) std::strcat(text, " bits without a name");
  }
  char text[512] = {};
};

inline void Adopt(const void* self, const devrt_host_v0* host) {
  Owner* const owner = new Owner{{self}, host, owners.load()};
  while (!owners.compare_exchange_weak(owner->next, owner)) {
  }
}

inline void Disown(const void* self) noexcept {
  for (Owner* o = owners.load(); o != nullptr; o = o->next) {
    if (o->self.load() == self) o->self.store(nullptr);
  }
}

inline const devrt_host_v0* HostOf(const void* self) noexcept {
  for (const Owner* o = owners.load(); o != nullptr; o = o->next) {
    if (o->self.load() == self) return o->host;
  }
  std::terminate();  // Open did not make `self`, so no host can report it
}

#ifdef __cpp_exceptions
// Call it in a catch clause: turns the current exception into a status.
[[gnu::cold, gnu::noinline]] inline devrt_status Caught(
    const devrt_host_v0* host, std::string_view function) {
  const int size = static_cast<int>(function.size());
  try {
    throw;
  } catch (const std::bad_alloc& e) {
    return ErrorF(host, DEVRT_RESOURCE_EXHAUSTED, 0,
                  "%.*s: out of host memory (%s)", size, function.data(),
                  e.what());
  } catch (const std::exception& e) {
    return ErrorF(host, DEVRT_INTERNAL, 0, "%.*s: uncaught exception: %s", size,
                  function.data(), e.what());
  } catch (...) {
    return ErrorF(host, DEVRT_INTERNAL, 0,
                  "%.*s: uncaught exception that is no std::exception", size,
                  function.data());
  }
}
#endif

// For every function that Boundary may be inlined into: GCC's UBSan reports the
// reference to a forced unwind, which has no object, as a null reference.
#if defined(__GNUC__) && !defined(__clang__)
#define DEVRT_PLUGIN_BOUNDARY __attribute__((no_sanitize("null")))
#else
#define DEVRT_PLUGIN_BOUNDARY
#endif

// Runs `body` and turns an exception into a status.  Returns the status, or
// logs it if R is not devrt_status.  `host` and `name` are functions, called
// only for an exception.
template <class R, class Host, class Name, class Body>
DEVRT_PLUGIN_BOUNDARY R Boundary(Host host, Name name, Body body) {
#ifdef __cpp_exceptions
  try {
    return body();
#ifdef __GLIBCXX__
  } catch (abi::__forced_unwind&) {
    throw;  // pthread_cancel: not a C++ exception, must not be swallowed
#endif
  } catch (...) {
    const devrt_host_v0* const h = host();
    const devrt_status error = Caught(h, name());
    if constexpr (std::is_same_v<R, devrt_status>) {
      return error;
    } else {
      uint64_t size = 0;
      const char* const text = h->error_text(h->host, error, &size);
      Log(h, DEVRT_LOG_ERROR, __FILE__, __LINE__, {text, size});
      h->error_destroy(h->host, error);
      return R();
    }
  }
#else
  static_cast<void>(host);
  static_cast<void>(name);
  return body();
#endif
}

// One class for each member name that the helper looks for.  A class that
// inherits both T and Decoy has an ambiguous member exactly if T has a member
// with that name, of any kind and access, overloaded or not.
#define DEVRT_PLUGIN_MEMBER(member)                        \
  struct member##_member {                                 \
    static constexpr const char* kName = #member;          \
    struct Decoy {                                         \
      int member;                                          \
    };                                                     \
    template <class C>                                     \
    using Lookup = decltype(&C::member);                   \
    template <class C, class Pointer>                      \
    using As = decltype(static_cast<Pointer>(&C::member)); \
    template <class C, class... A>                         \
    static decltype(auto) Call(C* c, A... a) {             \
      return c->member(a...);                              \
    }                                                      \
  };
#define DEVRT_SLOT(slot, required, capability) DEVRT_PLUGIN_MEMBER(slot)
#include "devrt/backends/abi/devrt_slots.inc"
DEVRT_PLUGIN_MEMBER(shutdown)
DEVRT_PLUGIN_MEMBER(get_extension)
#undef DEVRT_PLUGIN_MEMBER
struct open_member {
  struct Decoy {
    int Open;
  };
  template <class C>
  using Lookup = decltype(&C::Open);
  template <class C, class Pointer>
  using As = decltype(static_cast<Pointer>(&C::Open));
};

template <class T>
struct Heir {
  static_assert(std::is_class_v<T> && !std::is_final_v<T>,
                "a backend must be a class that is not final");
  struct Nothing {};
  using Base = std::conditional_t<std::is_final_v<T>, Nothing, T>;
};
template <class M, class T>
struct Both : Heir<T>::Base, M::Decoy {};

template <class M, class T, class = void>
struct HasMember : std::true_type {};
template <class M, class T>
struct HasMember<M, T, std::void_t<typename M::template Lookup<Both<M, T>>>>
    : std::false_type {};

template <class M, class T, class Pointer, class = void>
struct MemberIs : std::false_type {};
template <class M, class T, class Pointer>
struct MemberIs<M, T, Pointer, std::void_t<typename M::template As<T, Pointer>>>
    : std::true_type {};

// The slot function of type Fn that calls member M of T.
template <class M, class T, class Fn>
struct Slot;
template <class M, class T, class R, class... A>
struct Slot<M, T, R (*)(void*, A...)> {
  static constexpr bool kHas = HasMember<M, T>::value;
  static constexpr bool kFits = MemberIs<M, T, R (T::*)(A...)>::value ||
                                MemberIs<M, T, R (T::*)(A...) const>::value ||
                                MemberIs<M, T, R (*)(A...)>::value;
  DEVRT_PLUGIN_BOUNDARY static R Call(void* self, A... args) {
    return Boundary<R>(
        [self] { return HostOf(self); }, [] { return M::kName; },
        [&]() -> R { return M::Call(static_cast<T*>(self), args...); });
  }
  static constexpr auto Pointer() -> R (*)(void*, A...) {
    if constexpr (kHas && kFits) return &Call;
    return nullptr;
  }
};
template <class M, class T, class Fn>
inline constexpr bool kFitsOrAbsent =
    !Slot<M, T, Fn>::kHas || Slot<M, T, Fn>::kFits;

template <class T>
DEVRT_PLUGIN_BOUNDARY void Shutdown(void* self) {
  using Member = Slot<shutdown_member, T, decltype(devrt_ops_v0::shutdown)>;
  if constexpr (Member::kHas && Member::kFits) Member::Call(self);
  // Before the object is deleted and another one may get its address.
  const devrt_host_v0* const host = HostOf(self);
  Disown(self);
  Boundary<void>([host] { return host; }, [] { return "destructor"; },
                 [self] { delete static_cast<T*>(self); });
}

// Makes the object with Open or a constructor.
template <class T>
std::unique_ptr<T> Make(const devrt_host_v0* host, devrt_status* error,
                        uint64_t* capabilities) {
  static_cast<void>(error);
  static_cast<void>(capabilities);
  if constexpr (HasMember<open_member, T>::value) {
    static_assert(
        MemberIs<open_member, T,
                 std::unique_ptr<T> (*)(const devrt_host_v0*, devrt_status*,
                                        uint64_t*)>::value,
        "Open must be: static std::unique_ptr<Class> Open(const "
        "devrt_host_v0* host, devrt_status* error, uint64_t* capabilities)");
    return T::Open(host, error, capabilities);
  } else if constexpr (std::is_constructible_v<T, const devrt_host_v0*>) {
    return std::unique_ptr<T>(new T(host));
  } else {
    static_assert(std::is_default_constructible_v<T>,
                  "a backend needs Open, a constructor that takes a const "
                  "devrt_host_v0*, or one without arguments");
    return std::unique_ptr<T>(new T());
  }
}

// The name of a member function, taken from the compiler's text of a template
// argument: "... [with auto Member = &acme::Backend::launch]".
template <auto Member>
const char* Spelling() noexcept {
  return __PRETTY_FUNCTION__;
}
inline std::string_view NameIn(std::string_view spelling) noexcept {
  spelling = spelling.substr(0, spelling.find_last_of(']'));
  return spelling.substr(spelling.find_last_of(": &") + 1);
}

// `self` points to a T, which is C or inherits C, the class of the member.
template <auto Member, class T, class C, class R, class... A>
DEVRT_PLUGIN_BOUNDARY R CallMember(void* self, A... args) {
  static_assert(std::is_same_v<R, devrt_status>,
                "a function of an extension table returns devrt_status");
  return Boundary<R>([self] { return HostOf(self); },
                     [] { return NameIn(Spelling<Member>()); },
                     [&]() -> R {
                       C* const object = static_cast<T*>(self);
                       return (object->*Member)(args...);
                     });
}
template <class T, class C>
using SelfOf = std::conditional_t<std::is_void_v<T>, C, T>;
template <auto Member, class T, class C, class R, class... A>
constexpr auto ThunkOf(R (C::*)(A...)) -> R (*)(void*, A...) {
  return &CallMember<Member, SelfOf<T, C>, C, R, A...>;
}
template <auto Member, class T, class C, class R, class... A>
constexpr auto ThunkOf(R (C::*)(A...) const) -> R (*)(void*, A...) {
  return &CallMember<Member, SelfOf<T, C>, C, R, A...>;
}

// Finds at compile time what the loader would refuse.
template <class T, uint64_t capabilities>
constexpr bool IsComplete() {
#define DEVRT_SLOT(slot, required, capability)                               \
  static_assert(                                                             \
      !(required) || HasMember<slot##_member, T>::value,                     \
      "the backend lacks the member function of the required slot: " #slot); \
  static_assert((capabilities & (capability)) == 0 ||                        \
                    HasMember<slot##_member, T>::value,                      \
                "the backend promises " #capability                          \
                " but lacks the member function: " #slot);
#include "devrt/backends/abi/devrt_slots.inc"
  return true;
}

template <size_t N, size_t M>
constexpr void CopyText(char (&to)[N], const char (&from)[M]) {
  static_assert(M <= N, "a text of the manifest is too long");
  for (size_t i = 0; i < M; ++i) to[i] = from[i];
}

// [a-z][a-z0-9_]*
constexpr bool IsName(const char* name) {
  if (*name < 'a' || *name > 'z') return false;
  for (; *name != 0; ++name) {
    const bool letter = *name >= 'a' && *name <= 'z';
    const bool digit = *name >= '0' && *name <= '9';
    if (!letter && !digit && *name != '_') return false;
  }
  return true;
}

}  // namespace internal
}  // namespace plugin
}  // namespace devrt
#pragma GCC visibility pop
#endif  // DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_INTERNAL_H_
