// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/memory_resource.h"

#include <exception>
#include <map>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/memory/resources.h"
#include "devrt/runtime/internal/blocks.h"
#include "devrt/runtime/internal/out_of_memory.h"
#include "devrt/runtime/internal/process_state.h"
#include "devrt/runtime/internal/records.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"

namespace devrt {
namespace {

absl::Status CheckDevice(const MemoryResource& resource, StreamRef stream,
                         const char* call) {
  if (stream.record() != nullptr && stream.device() == resource.device()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(call, " of resource \"", resource.properties().name,
                   "\" needs a stream of ", resource.device().name()));
}

// Nothing that a program's resource throws goes further.
template <typename F>
auto Guarded(const MemoryResource& resource, F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("resource \"", resource.properties().name,
                     "\" has no memory (std::bad_alloc)"));
  } catch (const std::exception& e) {
    return absl::InternalError(
        absl::StrCat("resource \"", resource.properties().name,
                     "\" threw an exception: ", e.what()));
  } catch (...) {
    return absl::InternalError(absl::StrCat(
        "resource \"", resource.properties().name, "\" threw an exception"));
  }
}

// The resources that were set; the others are the caching ones.
struct Chosen {
  Mutex mutex;
  std::map<internal::DeviceRecord*, std::shared_ptr<MemoryResource>> resources
      DEVRT_GUARDED_BY(mutex);

  static Chosen& Get() {
    static Chosen* const chosen = new Chosen;
    return *chosen;
  }
};

}  // namespace

MemoryResource::~MemoryResource() = default;

absl::StatusOr<void*> MemoryResource::Allocate(StreamRef stream, uint64_t bytes,
                                               uint64_t alignment,
                                               CallSite site) {
  DEVRT_RETURN_IF_ERROR(CheckDevice(*this, stream, "Allocate"));
  DEVRT_RETURN_IF_ERROR(
      internal::CheckRequest(device_.record(), bytes, alignment, "Allocate"));
  if (bytes == 0) return nullptr;
  absl::StatusOr<void*> made = Guarded(*this, [&] {
    return DoAllocate({stream, bytes, alignment, site});
  });
  if (made.ok() && *made == nullptr) {
    OutOfMemoryInfo info;
    info.requested = bytes;
    return internal::OutOfMemoryError(device_.record(), info, absl::OkStatus());
  }
  return made;
}

absl::Status MemoryResource::Deallocate(StreamRef stream, void* pointer,
                                        uint64_t bytes, CallSite site) {
  if (!internal::IsProcessOpen()) return internal::ProcessClosedError();
  if (pointer == nullptr) return absl::OkStatus();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("Deallocate");
  }
  DEVRT_RETURN_IF_ERROR(CheckDevice(*this, stream, "Deallocate"));
  return Guarded(*this, [&] {
    return DoDeallocate({pointer, bytes, stream, site});
  });
}

absl::Status MemoryResource::RecordUse(const void* pointer, StreamRef stream,
                                       CallSite site) {
  return Guarded(*this, [&] { return DoRecordUse(pointer, stream, site); });
}

absl::Status MemoryResource::Trim() {
  return Guarded(*this, [&] { return DoTrim(); });
}

absl::Status MemoryResource::DoRecordUse(const void*, StreamRef, CallSite) {
  return absl::UnimplementedError(
      absl::StrCat("resource \"", properties().name, "\" does not track uses"));
}

absl::Status SetMemoryResource(Device device,
                               std::shared_ptr<MemoryResource> resource) {
  if (resource != nullptr && resource->device() != device) {
    return absl::InvalidArgumentError(absl::StrCat(
        "SetMemoryResource: a resource of ", resource->device().name(),
        " cannot serve ", device.name(), ": make one for it"));
  }
  Chosen& chosen = Chosen::Get();
  // The former one may run code of the program as it goes.
  std::shared_ptr<MemoryResource> former = std::move(resource);
  MutexLock lock(&chosen.mutex);
  device.record()->has_resource.store(former != nullptr);
  chosen.resources[device.record()].swap(former);
  return absl::OkStatus();
}

std::shared_ptr<MemoryResource> GetMemoryResource(Device device) {
  Chosen& chosen = Chosen::Get();
  {
    MutexLock lock(&chosen.mutex);
    const auto found = chosen.resources.find(device.record());
    if (found != chosen.resources.end() && found->second != nullptr) {
      return found->second;
    }
  }
  return CachingResource(device);
}

}  // namespace devrt
