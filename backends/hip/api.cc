// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/api.h"

#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string>

#include "backends/gpu/pointer_info.h"

namespace devrt::hip {
namespace {

constexpr int kOldestMajor = 5;
constexpr int kNewestMajor = 7;

// Numbers that headers before the named version lack, or number differently.
constexpr auto kWallClockRate =
    static_cast<hipDeviceAttribute_t>(10017);  // 5.3
struct MemoryTypes {
  int device, managed;
};
// hipMemoryType has other numbers since HIP 6.
constexpr MemoryTypes TypesOf(int major) {
  return major < 6 ? MemoryTypes{1, 4} : MemoryTypes{2, 3};
}
static_assert(TypesOf(HIP_VERSION_MAJOR).device == hipMemoryTypeDevice);

// The numbers that the backend assumes for all versions.
static_assert(hipDeviceAttributeFineGrainSupport == kWallClockRate - 1);
static_assert(HIP_POINTER_ATTRIBUTE_MEMORY_TYPE == 2 &&
              HIP_POINTER_ATTRIBUTE_BUFFER_ID == 7 &&
              HIP_POINTER_ATTRIBUTE_IS_MANAGED == 8 &&
              HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL == 9 &&
              HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR == 11 &&
              HIP_POINTER_ATTRIBUTE_RANGE_SIZE == 12);
static_assert(hipMemcpyHostToDevice == 1 && hipMemcpyDeviceToHost == 2 &&
              hipMemcpyDeviceToDevice == 3 && hipMemcpyDefault == 4);
static_assert(hipStreamDefault == 0 && hipStreamNonBlocking == 1);
static_assert(hipEventBlockingSync == 1 && hipEventDisableTiming == 2 &&
              hipEventInterprocess == 4 &&
              hipEventReleaseToSystem == 0x80000000);
static_assert(hipHostMallocPortable == 1 &&
              hipHostMallocCoherent == 0x40000000 &&
              hipHostRegisterPortable == 1);
static_assert(sizeof(hipUUID) == 16 && sizeof(hipIpcEventHandle_t) == 64);

void* OpenLibrary(std::string* name, std::string* why) {
  for (int major = kNewestMajor; major >= kOldestMajor; --major) {
    *name = "libamdhip64.so." + std::to_string(major);
    if (void* const library = dlopen(name->c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return library;
    }
    const char* const text = dlerror();
    // The error of a library that exists but does not load is more useful.
    if (why->empty() || std::strstr(text, "No such file") == nullptr) {
      *why = std::string("there is no HIP runtime: ") + text;
    }
  }
  return nullptr;
}

// Formats the version of docs/reference/semantics.md 2.2: MAJOR * 10,000,000 +
// MINOR * 100,000 + PATCH.
std::string VersionText(int number) {
  return std::to_string(number / 10000000) + "." +
         std::to_string(number % 10000000 / 100000);
}

}  // namespace

std::unique_ptr<Api> Api::Load(std::string* why) {
  std::string name;
  void* const library = OpenLibrary(&name, why);
  if (library == nullptr) return nullptr;
  constexpr uint64_t kAlways = ~uint64_t{0};
  constexpr uint64_t kNever = 0;
  std::unique_ptr<Api> api(new Api);
  const auto find = [&](const char* entry, uint64_t needed_by) {
    void* const found = dlsym(library, entry);
    if (found != nullptr) return found;
    if (needed_by != kAlways) {
      api->missing_ |= needed_by;
    } else if (why->empty()) {
      *why = name + " has no " + entry;
    }
    return found;
  };
  why->clear();
#define DEVRT_HIP_ENTRY(name, needed_by) \
  api->name##_ = reinterpret_cast<decltype(&::name)>(find(#name, needed_by));
#include "backends/hip/entries.inc"
#undef DEVRT_HIP_ENTRY
  if (!why->empty()) return nullptr;
  int number = 0;
  if (api->hipRuntimeGetVersion_(&number) != hipSuccess) {
    *why = name + " does not tell its version";
    return nullptr;
  }
  api->major_ = number / 10000000;
  if (api->major_ < kOldestMajor || api->major_ > kNewestMajor) {
    *why = name + " is HIP " + VersionText(number) +
           "; this backend is for HIP " + std::to_string(kOldestMajor) +
           " to " + std::to_string(kNewestMajor);
    return nullptr;
  }
  return api;
}

void Api::CleanSlot(Error error) const {
  if (hipPeekAtLastError_() == error) (void)hipGetLastError_();
}

hipError_t Api::Count(int* count) const {
  const Error error = Call(hipGetDeviceCount_, count);
  if (!MeansNoDevice(error)) return error;
  *count = 0;
  return hipSuccess;
}

hipError_t Api::Describe(Device device, devrt_device_props_v0* props) const {
  Error error = Call(hipDeviceGetName_, props->name,
                     static_cast<int>(sizeof props->name), device);
  if (error != hipSuccess) return error;
  size_t total = 0;
  error = Call(hipDeviceTotalMem_, &total, device);
  if (error != hipSuccess) return error;
  props->total_memory = total;
  const auto get = [&](hipDeviceAttribute_t attribute, uint32_t* to) {
    int value = 0;
    if (error != hipSuccess) return;
    error = Call(hipDeviceGetAttribute_, &value, attribute, int{device});
    *to = static_cast<uint32_t>(value);
  };
  get(hipDeviceAttributePciDomainID, &props->pci_domain);
  get(hipDeviceAttributePciBusId, &props->pci_bus);
  get(hipDeviceAttributePciDeviceId, &props->pci_device);
  get(hipDeviceAttributeComputeCapabilityMajor, &props->compute_major);
  get(hipDeviceAttributeComputeCapabilityMinor, &props->compute_minor);
  get(hipDeviceAttributeMultiprocessorCount, &props->multiprocessors);
  if (error != hipSuccess) return error;
  props->copy_engines = 1;  // only CUDA reports a number
  // No attribute tells the stepping, as in gfx90a.
  std::snprintf(props->arch, sizeof props->arch, "gfx%u%ux",
                props->compute_major, props->compute_minor);
  hipUUID uuid = {};
  if (Call(hipDeviceGetUuid_, &uuid, device) == hipSuccess) {
    std::memcpy(props->uuid, uuid.bytes, sizeof props->uuid);
  } else {  // the location tells them apart
    std::snprintf(reinterpret_cast<char*>(props->uuid), sizeof props->uuid,
                  "%04x:%02x:%02x", props->pci_domain & 0xffff,
                  props->pci_bus & 0xff, props->pci_device & 0xff);
  }
  int least = 0, greatest = 0;
  if (Call(hipDeviceGetStreamPriorityRange_, &least, &greatest) == hipSuccess) {
    props->priority_least = least;
    props->priority_greatest = greatest;
  }
  props->elapsed_resolution_ns = 1000;
  return hipSuccess;
}

hipError_t Api::Ticks(Device device, uint64_t nanoseconds,
                      uint64_t* ticks) const {
  int kilohertz = 0;
  // HIP before 5.3 does not tell the rate.  It is 100 MHz from gfx908 on.
  // Older devices have a lower rate, so that spins there last longer.
  if (Call(hipDeviceGetAttribute_, &kilohertz, kWallClockRate, int{device}) !=
          hipSuccess ||
      kilohertz <= 0) {
    kilohertz = 100000;
  }
  const auto rate = static_cast<uint64_t>(kilohertz);
  *ticks =
      nanoseconds / 1000000 * rate + nanoseconds % 1000000 * rate / 1000000;
  if (*ticks == 0 && nanoseconds != 0) *ticks = 1;
  return hipSuccess;
}

// Some versions know a pointer only while its device is current (C71).
hipError_t Api::FindOwner(const void* ptr, int* owner) const {
  Error error = ReadAttribute(HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr, owner);
  int count = 0, before = 0;
  if (error == hipSuccess || Count(&count) != hipSuccess || count < 2 ||
      Call(hipGetDevice_, &before) != hipSuccess) {
    return error;
  }
  for (int i = 0; i < count && error != hipSuccess; ++i) {
    if (i == before || Call(hipSetDevice_, i) != hipSuccess) continue;
    error = ReadAttribute(HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr, owner);
  }
  (void)Call(hipSetDevice_, before);
  return error;
}

hipError_t Api::Inspect(const void* ptr, devrt_pointer_info_v0* info) const {
  gpu::SetUnregistered(info);
  int owner = -1;
  // HIP returns an error for an unknown pointer.
  if (FindOwner(ptr, &owner) != hipSuccess || owner < 0) return hipSuccess;
  int before = 0;
  Error error = Call(hipGetDevice_, &before);
  if (error == hipSuccess && before != owner) {
    error = Call(hipSetDevice_, owner);
  }
  if (error != hipSuccess) return error;
  int type = 0;
  unsigned managed = 0;
  void* base = nullptr;
  size_t size = 0;
  unsigned long long id = 0;
  error = ReadAttribute(HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr, &type);
  (void)ReadAttribute(HIP_POINTER_ATTRIBUTE_IS_MANAGED, ptr, &managed);
  (void)ReadAttribute(HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, ptr, &base);
  // The attribute for the size has only 32 bits.
  void* whole = nullptr;
  if (Call(hipMemGetAddressRange_, &whole, &size, const_cast<void*>(ptr)) !=
      hipSuccess) {
    size = 0;
    (void)ReadAttribute(HIP_POINTER_ATTRIBUTE_RANGE_SIZE, ptr, &size);
  }
  (void)ReadAttribute(HIP_POINTER_ATTRIBUTE_BUFFER_ID, ptr, &id);
  if (before != owner) (void)Call(hipSetDevice_, before);
  // The memory was freed between the two questions, or its type is
  // "unregistered".
  if (error != hipSuccess || (major_ >= 6 && type == 0)) return hipSuccess;
  const MemoryTypes types = TypesOf(major_);
  const uint32_t kind = managed != 0 || type == types.managed
                            ? DEVRT_POINTER_MANAGED
                        : type == types.device ? DEVRT_POINTER_DEVICE
                                               : DEVRT_POINTER_PINNED;
  gpu::SetAllocation(kind, owner, base, size, id, info);
  return hipSuccess;
}

hipError_t Api::Copy(void* dst, const void* src, size_t size, uint32_t kind,
                     Stream stream) const {
  hipMemcpyKind native = hipMemcpyDefault;
  if (kind == DEVRT_COPY_H2D) native = hipMemcpyHostToDevice;
  if (kind == DEVRT_COPY_D2H) native = hipMemcpyDeviceToHost;
  if (kind == DEVRT_COPY_D2D) native = hipMemcpyDeviceToDevice;
  return Call(hipMemcpyAsync_, dst, src, size, native, stream);
}

hipError_t Api::ContextOf(Stream stream, Context* context) const {
  if (hipGetStreamDeviceId_ == nullptr) return hipErrorNotSupported;
  const int device = hipGetStreamDeviceId_(stream);
  if (device < 0) return hipErrorInvalidHandle;
  *context = static_cast<Context>(device) + 1;
  return hipSuccess;
}

hipError_t Api::CreateEvent(bool timing, bool blocking_sync, bool ipc,
                            Event* event) const {
  // The host must see all writes before a record that it sees as complete
  // (C37).
  unsigned flags = ipc ? hipEventInterprocess : hipEventReleaseToSystem;
  if (!timing) flags |= hipEventDisableTiming;
  if (blocking_sync) flags |= hipEventBlockingSync;
  return Call(hipEventCreateWithFlags_, event, flags);
}

hipError_t Api::ExportEvent(Event event, devrt_event_handle_v0* name) const {
  hipIpcEventHandle_t handle;
  static_assert(sizeof handle == sizeof name->bytes);
  const Error error = Call(hipIpcGetEventHandle_, &handle, event);
  if (error == hipSuccess) std::memcpy(name->bytes, &handle, sizeof handle);
  return error;
}

hipError_t Api::OpenEvent(const devrt_event_handle_v0& name,
                          Event* event) const {
  hipIpcEventHandle_t handle;
  std::memcpy(&handle, name.bytes, sizeof handle);
  return Call(hipIpcOpenEventHandle_, event, handle);
}

hipError_t Api::Elapsed(Event begin, Event end, int64_t* nanoseconds) const {
  float milliseconds = 0;
  const Error error = Call(hipEventElapsedTime_, &milliseconds, begin, end);
  if (error == hipSuccess) {
    *nanoseconds = std::llround(static_cast<double>(milliseconds) * 1e6);
  }
  return error;
}

}  // namespace devrt::hip
