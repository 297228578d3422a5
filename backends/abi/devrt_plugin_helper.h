// SPDX-License-Identifier: Apache-2.0
//
// Plugin helper: builds a plugin's table (devrt_ops_v0) and its two exported
// symbols from a C++ class.  Header-only, C++17, standard library only.
//
// A backend is a class.  Its member functions have the names and signatures of
// the slots of devrt_ops_v0, without `void* self`.  An example that loads:
//
//   #include <cstdlib>
//   #include <cstring>
//   #include <mutex>
//   #include "devrt/backends/abi/devrt_plugin_helper.h"
//
//   // One device, host memory, everything done on the spot.
//   class Tiny {
//    public:
//     explicit Tiny(const devrt_host_v0* host) : host_(host) {}
//
//     devrt_status device_count(uint32_t* count) { return Set(count, 1u); }
//     devrt_status device_props(uint32_t, devrt_device_props_v0* props) {
//       devrt_device_props_v0 mine = {};
//       std::strcpy(mine.name, "Tiny");
//       mine.uuid[0] = 1;
//       mine.total_memory = kBytes;
//       mine.alloc_alignment = 64;
//       mine.copy_engines = 1;
//       mine.elapsed_resolution_ns = 1;
//       mine.pageable_async = DEVRT_PAGEABLE_SYNC;
//       devrt::plugin::WriteStruct(props, mine);  // as much as fits
//       return nullptr;
//     }
//     devrt_status mem_info(uint32_t, uint64_t* free_bytes, uint64_t* total) {
//       std::lock_guard<std::mutex> lock(mu_);
//       *total = kBytes;
//       return Set(free_bytes, kBytes - used_);
//     }
//     devrt_status alloc(uint32_t, uint64_t size, uint64_t align, void** ptr) {
//       std::lock_guard<std::mutex> lock(mu_);
//       if (size > kBytes - used_) {
//         return devrt::plugin::ErrorF(host_, DEVRT_RESOURCE_EXHAUSTED, 0,
//                                      "out of memory: %zu bytes", size);
//       }
//       if (align < 64) align = 64;
//       void* p = std::aligned_alloc(align, (size + align - 1) & ~(align - 1));
//       if (p == nullptr) throw std::bad_alloc();  // RESOURCE_EXHAUSTED, too
//       used_ += size;
//       return Set(ptr, p);
//     }
//     devrt_status dealloc(uint32_t, void* ptr, uint64_t size) {
//       std::lock_guard<std::mutex> lock(mu_);
//       used_ -= size;
//       std::free(ptr);
//       return nullptr;
//     }
//
//     devrt_status stream_create(uint32_t, const devrt_stream_desc_v0* desc,
//                                devrt_stream* stream) {
//       switch (desc->kind) {
//         case DEVRT_STREAM_CREATE:
//           return Set(stream, As<devrt_stream>(new char));
//         case DEVRT_STREAM_LEGACY:
//           return Set(stream, As<devrt_stream>(&legacy_));
//         case DEVRT_STREAM_PER_THREAD:
//           return Set(stream, As<devrt_stream>(&per_thread_));
//         default:
//           return Refuse("foreign streams are not supported");
//       }
//     }
//     devrt_status stream_destroy(devrt_stream stream) {
//       char* const handle = reinterpret_cast<char*>(stream);
//       if (handle == &legacy_ || handle == &per_thread_) {
//         return Refuse("a default stream cannot be destroyed");
//       }
//       delete handle;
//       return nullptr;
//     }
//     devrt_status stream_query(devrt_stream, uint32_t* done) {
//       return Set(done, 1u);
//     }
//     devrt_status stream_sync(devrt_stream) { return nullptr; }
//     devrt_status stream_native(devrt_stream stream, void** native) {
//       return Set(native, static_cast<void*>(stream));
//     }
//     devrt_status stream_wait_event(devrt_stream, devrt_event) {
//       return nullptr;
//     }
//     devrt_status event_create(uint32_t, uint32_t, devrt_event* event) {
//       return Set(event, As<devrt_event>(new char));
//     }
//     devrt_status event_destroy(devrt_event event) {
//       delete reinterpret_cast<char*>(event);
//       return nullptr;
//     }
//     devrt_status event_record(devrt_event, devrt_stream) { return nullptr; }
//     devrt_status event_query(devrt_event, uint32_t* done) {
//       return Set(done, 1u);
//     }
//     devrt_status event_sync(devrt_event) { return nullptr; }
//     devrt_status copy_async(devrt_stream, void* dst, const void* src,
//                             uint64_t size, uint32_t) {
//       std::memcpy(dst, src, size);
//       return nullptr;
//     }
//     devrt_status fill_async(devrt_stream, void* dst, uint32_t value,
//                             uint64_t size) {
//       std::memset(dst, static_cast<int>(value & 0xff), size);
//       return nullptr;
//     }
//     devrt_status device_sync(uint32_t) { return nullptr; }
//     devrt_status context_enter(uint32_t, devrt_context*) { return nullptr; }
//     devrt_status context_exit(const devrt_context*) { return nullptr; }
//     devrt_status context_current(uint32_t* device) {
//       return Set(device, 0u);
//     }
//
//    private:
//     static constexpr uint64_t kBytes = uint64_t{1} << 30;
//     template <class T>
//     static devrt_status Set(T* out, T value) {
//       *out = value;
//       return nullptr;
//     }
//     template <class T>
//     static T As(char* handle) {
//       return reinterpret_cast<T>(handle);
//     }
//     devrt_status Refuse(const char* why) {
//       return devrt::plugin::Error(host_, DEVRT_INVALID_ARGUMENT, 0, why);
//     }
//
//     const devrt_host_v0* const host_;
//     char legacy_ = 0;
//     char per_thread_ = 0;
//     std::mutex mu_;
//     uint64_t used_ = 0;
//   };
//
//   DEVRT_DEFINE_PLUGIN(Tiny, "tiny", "Acme Inc.", "1.0");
//
// What it does
//   - A slot without a member function stays NULL.  A member function with a
//     wrong signature, also a private one, is a compile error that names the
//     function.  In DEVRT_DEFINE_PLUGIN, a missing member function of a
//     required slot or of a promised capability is a compile error too.
//   - No exception leaves the plugin: std::bad_alloc becomes
//     RESOURCE_EXHAUSTED, every other exception INTERNAL, with the slot's name
//     and what().  Exceptions of shutdown() and get_extension() are logged.
//   - `self` is the object itself, so a call costs as much as a direct call of
//     the member function.
// What it is not
//   - A base class: a backend derives from no class of the helper, and needs no
//     virtual functions.  Members may be inherited, const, noexcept or static;
//     the class itself must not be final.
//   - A checker: arguments arrive as the host sent them.
//
// Beginning.  devrt_plugin_open_v0 makes the object with the first of these
// that the class has:
//
//   class Tiny {
//    public:
//     static std::unique_ptr<Tiny> Open(const devrt_host_v0* host,
//                                       devrt_status* error,
//                                       uint64_t* capabilities);
//     explicit Tiny(const devrt_host_v0* host);
//     Tiny();
//   };
// In Open, `capabilities` holds the bits of the manifest; clear the bits that
// this machine lacks.  Return nullptr and set *error if the backend cannot work
// here (UNAVAILABLE with the reason).
// End.  The slot `shutdown` calls shutdown(), if the class has it, and then
// deletes the object.
//
// Extension tables.  Give the class a member function get_extension, and make
// the table's functions with Thunk, which also stops exceptions:
//
//   const void* get_extension(const char* name) {
//     static constexpr devrt_launch_v0 kLaunch = {
//         sizeof(devrt_launch_v0), 0, devrt::plugin::Thunk<&Tiny::launch>};
//     return std::strcmp(name, DEVRT_LAUNCH_EXTENSION) ? nullptr : &kLaunch;
//   }
//
// Threads.  The slot's tag in devrt_plugin.h says which threads call: many
// threads at once call most member functions.  The helper takes no lock.
//
// Ownership.  The helper owns the object from Open until shutdown.  The caller
// owns a returned status.  The host stays valid until the process ends.
//
// Linking.  Compile plugins with -fvisibility=hidden.  Link them with
// -Wl,-z,defs,-z,nodelete,--exclude-libs,ALL and a version script that exports
// only the two symbols.  To link the source into a program instead, compile it
// with -DDEVRT_STATIC_PLUGIN_NAME=tiny; the program then has
//
//   DEVRT_STATIC_PLUGIN(tiny);
//
//   absl::Status AddTiny() {
//     return devrt::RegisterBackend(&devrt_plugin_manifest_v0_tiny,
//                                   &devrt_plugin_open_v0_tiny);
//   }
#ifndef DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_HELPER_H_
#define DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_HELPER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_plugin_internal.h"
#include "devrt/backends/abi/devrt_plugin_util.h"

#pragma GCC visibility push(hidden)
namespace devrt {
namespace plugin {

// ---- Tables -----------------------------------------------------------------

// Makes a function of an extension table from a member function.  For an
// inherited member, name the backend too: Thunk<&Backend::launch, Backend>.
template <auto Member, class T = void>
inline constexpr auto Thunk = internal::ThunkOf<Member, T>(Member);

// The table of T.  Slots without a member function are NULL.
template <class T>
constexpr devrt_ops_v0 MakeOps() {
  devrt_ops_v0 ops = {};
  ops.struct_size = sizeof(devrt_ops_v0);
  ops.abi_minor = DEVRT_ABI_MINOR;
#define DEVRT_PLUGIN_SET(slot)                                                 \
  static_assert(internal::kFitsOrAbsent<internal::slot##_member, T,            \
                                        decltype(devrt_ops_v0::slot)>,         \
                "the backend's member is private or has not the signature of " \
                "the slot in devrt_plugin.h: " #slot);                         \
  ops.slot = internal::Slot<internal::slot##_member, T,                        \
                            decltype(devrt_ops_v0::slot)>::Pointer();
#define DEVRT_SLOT(slot, required, capability) DEVRT_PLUGIN_SET(slot)
#include "devrt/backends/abi/devrt_slots.inc"
  DEVRT_PLUGIN_SET(shutdown)
  DEVRT_PLUGIN_SET(get_extension)
#undef DEVRT_PLUGIN_SET
  ops.shutdown = &internal::Shutdown<T>;
  return ops;
}
// The table of T, once in a program.
template <class T>
inline constexpr devrt_ops_v0 kOps = MakeOps<T>();

// `priority`: lower comes first, and the first is the default device.  devrt's
// own backends are below 100.
template <size_t B, size_t V, size_t R>
constexpr devrt_manifest_v0 MakeManifest(const char (&backend)[B],
                                         const char (&vendor)[V],
                                         const char (&version)[R],
                                         uint64_t capabilities = 0,
                                         uint32_t priority = 100) {
  devrt_manifest_v0 manifest = {};
  internal::CopyText(manifest.magic, DEVRT_MANIFEST_MAGIC);
  manifest.struct_size = sizeof(devrt_manifest_v0);
  manifest.abi_major = DEVRT_ABI_MAJOR;
  manifest.abi_minor = DEVRT_ABI_MINOR;
  manifest.priority = priority;
  manifest.capabilities = capabilities;
  internal::CopyText(manifest.backend, backend);
  internal::CopyText(manifest.vendor, vendor);
  internal::CopyText(manifest.version, version);
  return manifest;
}

// The body of devrt_plugin_open_v0.  `promised` has the bits of the manifest.
// An error leaves `backend` unchanged.
template <class T>
DEVRT_PLUGIN_BOUNDARY devrt_status Open(uint64_t promised,
                                        const devrt_host_v0* host,
                                        devrt_backend_v0* backend) {
  if (!DEVRT_HAS_FIELD(host, devrt_host_v0, get_extension) ||
      !DEVRT_HAS_FIELD(backend, devrt_backend_v0, capabilities)) {
    return Error(host, DEVRT_FAILED_PRECONDITION, 0,
                 "the host's structs are shorter than those of version 0.0");
  }
  const auto open = [&]() -> devrt_status {
    devrt_status error = nullptr;
    uint64_t capabilities = promised;
    std::unique_ptr<T> object = internal::Make<T>(host, &error, &capabilities);
    if (error != nullptr) return error;
    if (object == nullptr) {
      return Error(host, DEVRT_INTERNAL, 0,
                   "Open made neither object nor error");
    }
    if ((capabilities & ~promised) != 0) {
      return ErrorF(host, DEVRT_INTERNAL, 0,
                    "Open claims capabilities that the manifest does not "
                    "list:%s",
                    internal::CapabilityNames(capabilities & ~promised).text);
    }
    internal::Adopt(object.get(), host);
    backend->self = object.release();
    backend->ops = &kOps<T>;
    backend->capabilities = capabilities;
    return nullptr;
  };
  return internal::Boundary<devrt_status>(
      [host] { return host; }, [] { return DEVRT_PLUGIN_OPEN_SYMBOL; }, open);
}

}  // namespace plugin
}  // namespace devrt
#pragma GCC visibility pop

// ---- The two symbols --------------------------------------------------------

#define DEVRT_PLUGIN_JOIN2_(a, b) a##b
#define DEVRT_PLUGIN_JOIN_(a, b) DEVRT_PLUGIN_JOIN2_(a, b)

#define DEVRT_PLUGIN_DECLARE_(manifest, open)                              \
  extern "C" {                                                             \
  extern const devrt_manifest_v0 manifest;                                 \
  devrt_status open(const devrt_host_v0* host, devrt_backend_v0* backend); \
  }                                                                        \
  static_assert(true, "")

// Declares the two symbols of a plugin that is linked into the program.  `name`
// may be the name of a macro, such as errno.
#define DEVRT_STATIC_PLUGIN(name)                        \
  DEVRT_PLUGIN_DECLARE_(devrt_plugin_manifest_v0_##name, \
                        devrt_plugin_open_v0_##name)

#define DEVRT_PLUGIN_DEFINE_(manifest, open, attributes, Class, ...)         \
  extern "C" {                                                               \
  attributes constexpr devrt_manifest_v0 manifest =                          \
      devrt::plugin::MakeManifest(__VA_ARGS__);                              \
  attributes devrt_status open(const devrt_host_v0* host,                    \
                               devrt_backend_v0* backend) {                  \
    return devrt::plugin::Open<Class>(manifest.capabilities, host, backend); \
  }                                                                          \
  }                                                                          \
  static_assert(devrt::plugin::internal::IsName(manifest.backend),           \
                "a backend's name is [a-z][a-z0-9_]*");                      \
  static_assert(                                                             \
      devrt::plugin::internal::IsComplete<Class, manifest.capabilities>(), "")

// DEVRT_DEFINE_PLUGIN(Class, backend, vendor, version, capabilities = 0,
//                     priority = 100)
// defines the two symbols.  Use it once in a plugin, at global scope.
#ifdef DEVRT_STATIC_PLUGIN_NAME
#define DEVRT_DEFINE_PLUGIN(Class, ...)                                        \
  DEVRT_PLUGIN_DECLARE_(                                                       \
      DEVRT_PLUGIN_JOIN_(devrt_plugin_manifest_v0_, DEVRT_STATIC_PLUGIN_NAME), \
      DEVRT_PLUGIN_JOIN_(devrt_plugin_open_v0_, DEVRT_STATIC_PLUGIN_NAME));    \
  DEVRT_PLUGIN_DEFINE_(                                                        \
      DEVRT_PLUGIN_JOIN_(devrt_plugin_manifest_v0_, DEVRT_STATIC_PLUGIN_NAME), \
      DEVRT_PLUGIN_JOIN_(devrt_plugin_open_v0_, DEVRT_STATIC_PLUGIN_NAME), ,   \
      Class, __VA_ARGS__)
#else
#define DEVRT_DEFINE_PLUGIN(Class, ...)                                \
  DEVRT_PLUGIN_DEFINE_(devrt_plugin_manifest_v0, devrt_plugin_open_v0, \
                       __attribute__((used)), Class, __VA_ARGS__)
#endif

#endif  // DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_HELPER_H_
