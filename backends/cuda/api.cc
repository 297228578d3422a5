// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/api.h"

#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/device_count.h"
#include "backends/gpu/pointer_info.h"

namespace devrt::cuda {
namespace {

constexpr int kDriverOfGetProcAddress = 12000;
using GetProcAddress = decltype(&::cuGetProcAddress);

template <typename Function>
bool Find(GetProcAddress get, const char* name, int version,
          Function* function) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult result;
  if (get(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &result) !=
          CUDA_SUCCESS ||
      result != CU_GET_PROC_ADDRESS_SUCCESS) {
    return false;
  }
  *function = reinterpret_cast<Function>(found);
  return *function != nullptr;
}

}  // namespace

std::unique_ptr<Api> Api::Load(std::string* why) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *why = std::string("there is no CUDA driver: ") + dlerror();
    return nullptr;
  }
  const auto version = reinterpret_cast<decltype(&::cuDriverGetVersion)>(
      dlsym(library, "cuDriverGetVersion"));
  int number = 0;
  if (version == nullptr || version(&number) != CUDA_SUCCESS) {
    *why = "libcuda.so.1 does not tell its version";
    return nullptr;
  }
  const auto get =
      reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (number < kOldestDriver || get == nullptr) {
    char text[128];
    std::snprintf(text, sizeof text,
                  "the driver is for CUDA %d.%d; this needs one for %d.%d or "
                  "later",
                  number / 1000, number % 1000 / 10, kOldestDriver / 1000,
                  kOldestDriver % 1000 / 10);
    *why = text;
    return nullptr;
  }
  static_assert(kDriverOfGetProcAddress <= kOldestDriver);
  std::unique_ptr<Api> api(new Api);
#define DEVRT_CUDA_ENTRY(name, since, required)              \
  if (!Find(get, #name, since, &api->name##_) && required) { \
    *why = "the driver has no " #name;                       \
    return nullptr;                                          \
  }
#include "backends/cuda/entries.inc"
#undef DEVRT_CUDA_ENTRY
  return api;
}

// Only an initialised driver tells whether a device has pools.
uint64_t Api::MissingCapabilities() const {
  const bool has_pools =
      cuMemPoolCreate_ != nullptr && cuMemPoolDestroy_ != nullptr &&
      cuMemPoolSetAccess_ != nullptr && cuMemPoolSetAttribute_ != nullptr &&
      cuMemPoolTrimTo_ != nullptr && cuMemAllocFromPoolAsync_ != nullptr &&
      cuMemFreeAsync_ != nullptr;
  return has_pools ? 0 : DEVRT_CAP_ASYNC_ALLOC;
}

int Api::CountWithoutInit() const {
  std::vector<std::string> uuids;
  if (!ReadDevices("", &uuids)) return kUnknownCount;
  return CountVisible(uuids, std::getenv("CUDA_VISIBLE_DEVICES"));
}

const char* Api::ErrorName(Error error) const {
  const char* name = nullptr;
  return cuGetErrorName_(error, &name) == CUDA_SUCCESS && name != nullptr
             ? name
             : "CUDA_ERROR_?";
}

const char* Api::ErrorText(Error error) const {
  const char* text = nullptr;
  return cuGetErrorString_(error, &text) == CUDA_SUCCESS && text != nullptr
             ? text
             : "an error that the driver does not know";
}

CUresult Api::Describe(Device device, devrt_device_props_v0* props) const {
  CUresult error = cuDeviceGetName_(props->name, sizeof props->name, device);
  if (error != CUDA_SUCCESS) return error;
  CUuuid uuid;
  error = cuDeviceGetUuid_(&uuid, device);
  if (error != CUDA_SUCCESS) return error;
  std::memcpy(props->uuid, uuid.bytes, sizeof props->uuid);
  size_t total = 0;
  error = cuDeviceTotalMem_(&total, device);
  if (error != CUDA_SUCCESS) return error;
  props->total_memory = total;
  const auto get = [&](CUdevice_attribute attribute, uint32_t* to) {
    int value = 0;
    if (error != CUDA_SUCCESS) return;
    error = cuDeviceGetAttribute_(&value, attribute, device);
    *to = static_cast<uint32_t>(value);
  };
  get(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &props->pci_domain);
  get(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &props->pci_bus);
  get(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &props->pci_device);
  get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &props->compute_major);
  get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &props->compute_minor);
  get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &props->multiprocessors);
  get(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, &props->copy_engines);
  if (props->copy_engines == 0) props->copy_engines = 1;
  std::snprintf(props->arch, sizeof props->arch, "sm_%u%u",
                props->compute_major, props->compute_minor);
  // Asking for the range needs a context, and the driver clamps priorities
  // anyway.
  props->priority_least = 0;
  props->priority_greatest = -5;
  props->elapsed_resolution_ns = 500;
  return error;
}

CUresult Api::Inspect(const void* ptr, devrt_pointer_info_v0* info) const {
  unsigned type = 0, managed = 0;
  int ordinal = -1;
  CUdeviceptr base = 0;
  size_t size = 0;
  unsigned long long id = 0;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                 CU_POINTER_ATTRIBUTE_BUFFER_ID};
  void* values[] = {&type, &managed, &ordinal, &base, &size, &id};
  const CUresult error =
      cuPointerGetAttributes_(6, names, values, Address(ptr));
  gpu::SetUnregistered(info);
  if (error != CUDA_SUCCESS || type == 0) return error;
  const uint32_t kind = managed != 0                   ? DEVRT_POINTER_MANAGED
                        : type == CU_MEMORYTYPE_DEVICE ? DEVRT_POINTER_DEVICE
                                                       : DEVRT_POINTER_PINNED;
  gpu::SetAllocation(kind, ordinal, reinterpret_cast<void*>(base), size, id,
                     info);
  return error;
}

namespace {

CUmemAllocationProp MemoryOf(CUdevice device) {
  CUmemAllocationProp what{};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  what.location.id = device;
  return what;
}

}  // namespace

CUresult Api::ChunkGranularity(Device device, uint64_t* bytes) const {
  const CUmemAllocationProp what = MemoryOf(device);
  size_t granularity = 0;
  const CUresult error = cuMemGetAllocationGranularity_(
      &granularity, &what, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  *bytes = granularity;
  return error;
}

CUresult Api::CreateChunk(Device device, size_t size, uint64_t* chunk) const {
  const CUmemAllocationProp what = MemoryOf(device);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult error = cuMemCreate_(&handle, size, &what, 0);
  *chunk = handle;
  return error;
}

CUresult Api::HasPools(Device device, bool* has) const {
  int value = 0;
  const CUresult error = cuDeviceGetAttribute_(
      &value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);
  *has = value != 0;
  return error;
}

CUresult Api::CreatePool(Device device, uint64_t keeps, Pool* pool) const {
  CUmemPoolProps what{};
  what.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  what.location.id = device;
  CUresult error = cuMemPoolCreate_(pool, &what);
  if (error != CUDA_SUCCESS) return error;
  cuuint64_t threshold = keeps;
  error = cuMemPoolSetAttribute_(*pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                 &threshold);
  int no = 0;
  if (error == CUDA_SUCCESS) {
    error = cuMemPoolSetAttribute_(
        *pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no);
  }
  return error;
}

CUresult Api::AllowPoolAccess(Pool pool, Device device, bool allow) const {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = allow ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                       : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return cuMemPoolSetAccess_(pool, &access, 1);
}

CUresult Api::AllowAccess(void* at, size_t size, Device device,
                          bool allow) const {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = allow ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                       : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return cuMemSetAccess_(Address(at), size, &access, 1);
}

CUresult Api::Copy(void* dst, const void* src, size_t size, uint32_t kind,
                   Stream stream) const {
  switch (kind) {
    case DEVRT_COPY_H2D:
      return cuMemcpyHtoDAsync_(Address(dst), src, size, stream);
    case DEVRT_COPY_D2H:
      return cuMemcpyDtoHAsync_(dst, Address(src), size, stream);
    case DEVRT_COPY_D2D:
      return cuMemcpyDtoDAsync_(Address(dst), Address(src), size, stream);
    default:
      return cuMemcpyAsync_(Address(dst), Address(src), size, stream);
  }
}

CUresult Api::CaptureOf(Stream stream, uint64_t* id, Graph* graph) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t number = 0;
#if CUDA_VERSION >= 12030
  const CUresult error = cuStreamGetCaptureInfo_(
      stream, &status, &number, graph, nullptr, nullptr, nullptr);
#else
  const CUresult error = cuStreamGetCaptureInfo_(stream, &status, &number,
                                                 graph, nullptr, nullptr);
#endif
  *id = number;
  if (error != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    return error;
  }
  return status == CU_STREAM_CAPTURE_STATUS_INVALIDATED
             ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
             : CUDA_ERROR_ILLEGAL_STATE;
}

CUresult Api::HoldGraph(Graph graph, void (*release)(void* arg),
                        void* arg) const {
  CUuserObject object = nullptr;
  const CUresult error = cuUserObjectCreate_(&object, arg, release, 1,
                                             CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (error != CUDA_SUCCESS) return error;
  // If no graph takes the object it is leaked, as destroying it would call
  // release.
  return cuGraphRetainUserObject_(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
}

CUresult Api::ExchangeThreadMode(uint32_t* mode) const {
  static_assert(CU_STREAM_CAPTURE_MODE_GLOBAL == DEVRT_CAPTURE_GLOBAL &&
                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ==
                    DEVRT_CAPTURE_THREAD_LOCAL &&
                CU_STREAM_CAPTURE_MODE_RELAXED == DEVRT_CAPTURE_RELAXED);
  auto native = static_cast<CUstreamCaptureMode>(*mode);
  const CUresult error = cuThreadExchangeStreamCaptureMode_(&native);
  *mode = static_cast<uint32_t>(native);
  return error;
}

CUresult Api::CreateEvent(bool timing, bool blocking_sync, bool ipc,
                          Event* event) const {
  unsigned flags = CU_EVENT_DEFAULT;
  if (!timing) flags |= CU_EVENT_DISABLE_TIMING;
  if (blocking_sync) flags |= CU_EVENT_BLOCKING_SYNC;
  if (ipc) flags |= CU_EVENT_INTERPROCESS;
  return cuEventCreate_(event, flags);
}

CUresult Api::ExportEvent(Event event, devrt_event_handle_v0* name) const {
  CUipcEventHandle handle;
  static_assert(sizeof handle == sizeof name->bytes);
  const CUresult error = cuIpcGetEventHandle_(&handle, event);
  if (error == CUDA_SUCCESS) std::memcpy(name->bytes, &handle, sizeof handle);
  return error;
}

CUresult Api::OpenEvent(const devrt_event_handle_v0& name, Event* event) const {
  CUipcEventHandle handle;
  std::memcpy(&handle, name.bytes, sizeof handle);
  return cuIpcOpenEventHandle_(event, handle);
}

CUresult Api::Elapsed(Event begin, Event end, int64_t* nanoseconds) const {
  float milliseconds = 0;
  const CUresult error = cuEventElapsedTime_(&milliseconds, begin, end);
  if (error == CUDA_SUCCESS) {
    *nanoseconds = std::llround(static_cast<double>(milliseconds) * 1e6);
  }
  return error;
}

CUresult Api::LoadFunction(Module module, const char* name,
                           Function* function) const {
  const CUresult error = cuModuleGetFunction_(function, module, name);
  if (error != CUDA_SUCCESS) return error;
  int bytes = 0;
  return cuFuncGetAttribute_(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                             *function);
}

}  // namespace devrt::cuda
