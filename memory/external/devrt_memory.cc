// SPDX-License-Identifier: Apache-2.0
//
// devrt_memory.h: the C functions.

#include "devrt/memory/devrt_memory.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/statistics.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/stream.h"
#include "memory/api/adopted_streams.h"
#include "memory/api/captured_blocks.h"
#include "memory/external/graph_pool.h"
#include "runtime/common/text.h"
#include "runtime/common/thread_end.h"
#include "runtime/raw_memory/allocation_table.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/registry/process_state.h"

namespace devrt {
namespace {

static_assert(static_cast<int>(absl::StatusCode::kResourceExhausted) ==
                  DEVRT_RESOURCE_EXHAUSTED,
              "codes are the same numbers");

using internal::StreamByHandle;

absl::StatusOr<Device> DeviceNamed(const char* name) {
  if (name == nullptr) {
    return absl::InvalidArgumentError(
        "the device is null: pass a name like \"cuda:0\"");
  }
  return GetDevice(name);
}

// The live block of device memory that `pointer` lies in, its end included
// (F17).
absl::StatusOr<internal::AllocationRange> RangeOf(const void* pointer,
                                                  const char* call) {
  if (!internal::IsProcessOpen()) return internal::ProcessClosedError();
  std::optional<internal::AllocationRange> range;
  if (pointer != nullptr) {
    range = internal::FindAllocation(pointer);
    if (!range.has_value()) {
      range = internal::FindAllocation(static_cast<const char*>(pointer) - 1);
    }
  }
  if (range.has_value() && range->kind == PointerKind::kDevice) return *range;
  return absl::InvalidArgumentError(
      absl::StrCat(call, " needs a live block of device memory, but ",
                   internal::DescribePointer(pointer)));
}

absl::StatusOr<Device> DeviceOf(const void* pointer, const char* call) {
  DEVRT_ASSIGN_OR_RETURN(const internal::AllocationRange range,
                         RangeOf(pointer, call));
  return Device(range.device);
}

// The stream on `device`, or else on another device of the backend.
absl::StatusOr<StreamRef> StreamNear(Device device, void* native) {
  absl::StatusOr<StreamRef> found = StreamByHandle(device, native);
  if (!absl::IsInvalidArgument(found.status())) return found;
  for (const Device other : device.backend().devices()) {
    if (other == device) continue;
    const absl::StatusOr<StreamRef> theirs = StreamByHandle(other, native);
    if (theirs.ok()) return theirs;
  }
  return found;
}

absl::Status RecordUse(const void* pointer, const char* device, void* native) {
  if (device != nullptr) {
    DEVRT_ASSIGN_OR_RETURN(const Device d, DeviceNamed(device));
    DEVRT_ASSIGN_OR_RETURN(const StreamRef stream, StreamByHandle(d, native));
    return internal::RecordOutside(pointer, stream, CallSite{});
  }
  DEVRT_ASSIGN_OR_RETURN(const Device d,
                         DeviceOf(pointer, "devrt_memory_record_stream"));
  DEVRT_ASSIGN_OR_RETURN(const StreamRef stream, StreamNear(d, native));
  return internal::RecordOutside(pointer, stream, CallSite{});
}

absl::Status FindBase(const void* pointer, void** base, uint64_t* size) {
  if (base == nullptr || size == nullptr) {
    return absl::InvalidArgumentError(
        "devrt_memory_base: `base` or `size` is null: they are where the "
        "answer goes");
  }
  DEVRT_ASSIGN_OR_RETURN(const internal::AllocationRange block,
                         RangeOf(pointer, "devrt_memory_base"));
  // The table has memory that came from the driver through devrt.  A resource
  // of the program may have other memory.
  const internal::AllocationRange range =
      internal::AllocationTable::Get().Find(block.base).value_or(block);
  *base = const_cast<void*>(range.base);
  *size = range.size;
  return absl::OkStatus();
}

// The last error of the calling thread.  On the heap, because the thread-local
// data of a library that is opened late must fit into some hundred bytes.
constexpr size_t kMostText = 2048;
struct ErrorText {
  char* text = nullptr;
  // Destructors of other libraries may still ask at the end of the thread.
  ~ErrorText() { delete[] std::exchange(text, nullptr); }
};
thread_local ErrorText t_error;

int32_t Answer(const absl::Status& status) {
  if (status.ok()) return DEVRT_OK;
  if (t_error.text == nullptr)
    t_error.text = new (std::nothrow) char[kMostText];
  if (t_error.text == nullptr) return static_cast<int32_t>(status.code());
  const absl::string_view text = status.message();
  const size_t size = std::min(text.size(), kMostText - 1);
  std::memcpy(t_error.text, text.data(), size);
  t_error.text[size] = '\0';
  return static_cast<int32_t>(status.code());
}

const char* LastError() { return t_error.text == nullptr ? "" : t_error.text; }

// The status with the names that the functions have in C.
absl::Status NamedForC(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrReplaceAll(status.message(),
                          {{"AllocateMemory", "devrt_memory_alloc"},
                           {"FreeMemory", "devrt_memory_free"},
                           {"RecordStream", "devrt_memory_record_stream"}}));
}

// Runs the body of a C function.  No exception leaves it, but a callback of the
// program may end the thread.
template <typename F>
int32_t Call(F f) {
  try {
    return Answer(NamedForC(f()));
  } catch (const std::bad_alloc&) {
    return Answer(absl::ResourceExhaustedError("no host memory"));
  } catch (...) {
    internal::PassThreadEnd();
    return Answer(absl::InternalError("an exception was thrown inside devrt"));
  }
}

absl::Status AllocateFor(const char* device_name, uint64_t size, void* native,
                         void** ptr) {
  if (ptr == nullptr) {
    return absl::InvalidArgumentError(
        "devrt_memory_alloc: `ptr` is null: it is where the block goes");
  }
  *ptr = nullptr;
  DEVRT_ASSIGN_OR_RETURN(const Device device, DeviceNamed(device_name));
  DEVRT_ASSIGN_OR_RETURN(const StreamRef stream,
                         StreamByHandle(device, native));
  DEVRT_ASSIGN_OR_RETURN(*ptr,
                         internal::AllocateOutside(stream, size, CallSite{}));
  return absl::OkStatus();
}

absl::Status ReadStats(const char* device_name, devrt_memory_stats_v0* stats) {
  constexpr size_t kHead = offsetof(devrt_memory_stats_v0, allocated_bytes);
  if (stats == nullptr || stats->struct_size < kHead) {
    return absl::InvalidArgumentError(absl::StrCat(
        "devrt_memory_stats_read: `stats` is ",
        stats == nullptr ? std::string("null")
                         : absl::StrCat("of ", stats->struct_size, " bytes"),
        ": set struct_size to sizeof(devrt_memory_stats_v0) first"));
  }
  DEVRT_ASSIGN_OR_RETURN(const Device device, DeviceNamed(device_name));
  internal::RunDeferredCaptureEnds();
  const MemoryStatistics s = GetMemoryStatistics(device);
  devrt_memory_stats_v0 full{};
  full.struct_size = stats->struct_size;
  full.allocated_bytes = s.allocated_bytes.all.current;
  full.allocated_bytes_peak = s.allocated_bytes.all.peak;
  full.active_bytes = s.active_bytes.all.current;
  full.active_bytes_peak = s.active_bytes.all.peak;
  full.reserved_bytes = s.reserved_bytes.all.current;
  full.reserved_bytes_peak = s.reserved_bytes.all.peak;
  full.requested_bytes = s.requested_bytes.all.current;
  full.allocations = s.allocation.all.current;
  full.alloc_retries = s.num_alloc_retries;
  full.ooms = s.num_ooms;
  std::memcpy(stats, &full, std::min<size_t>(stats->struct_size, sizeof full));
  return absl::OkStatus();
}

}  // namespace
}  // namespace devrt

struct devrt_memory_pool_v0 {
  std::shared_ptr<devrt::internal::GraphPool> pool;
};

namespace devrt {
namespace {

absl::Status MakePool(const char* device_name, devrt_memory_pool_v0** pool) {
  if (pool == nullptr) {
    return absl::InvalidArgumentError(
        "devrt_memory_pool_create: `pool` is null: it is where the pool goes");
  }
  *pool = nullptr;
  DEVRT_ASSIGN_OR_RETURN(const Device device, DeviceNamed(device_name));
  DEVRT_ASSIGN_OR_RETURN(auto made, internal::GraphPool::Make(device));
  *pool = new devrt_memory_pool_v0{std::move(made)};
  return absl::OkStatus();
}

absl::Status AllocateFrom(devrt_memory_pool_v0* pool, uint64_t size,
                          void* native, void** ptr) {
  if (pool == nullptr || ptr == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "devrt_memory_pool_alloc: `", pool == nullptr ? "pool" : "ptr",
        "` is null: pass a pool of devrt_memory_pool_create, and where the "
        "block goes"));
  }
  *ptr = nullptr;
  DEVRT_ASSIGN_OR_RETURN(const StreamRef stream,
                         StreamByHandle(pool->pool->device(), native));
  DEVRT_ASSIGN_OR_RETURN(*ptr, pool->pool->Allocate(stream, size, CallSite{}));
  return absl::OkStatus();
}

}  // namespace
}  // namespace devrt

extern "C" {

int32_t devrt_memory_alloc_v0(const char* device, uint64_t size, void* stream,
                              void** ptr) {
  return devrt::Call(
      [=] { return devrt::AllocateFor(device, size, stream, ptr); });
}

int32_t devrt_memory_free_v0(void* ptr) {
  return devrt::Call([=] {
    return devrt::internal::FreeOutside(ptr, nullptr, devrt::CallSite{});
  });
}

int32_t devrt_memory_free_on_v0(void* ptr, void* stream) {
  return devrt::Call([=]() -> absl::Status {
    if (ptr == nullptr && devrt::internal::IsProcessOpen()) {
      return absl::OkStatus();
    }
    DEVRT_ASSIGN_OR_RETURN(const devrt::Device device,
                           devrt::DeviceOf(ptr, "devrt_memory_free_on"));
    DEVRT_ASSIGN_OR_RETURN(const devrt::StreamRef ref,
                           devrt::StreamByHandle(device, stream));
    return devrt::internal::FreeOutside(ptr, &ref, devrt::CallSite{});
  });
}

int32_t devrt_memory_record_stream_v0(const void* ptr, const char* device,
                                      void* stream) {
  return devrt::Call([=] { return devrt::RecordUse(ptr, device, stream); });
}

int32_t devrt_memory_stream_ends_v0(const char* device, void* stream) {
  return devrt::Call([=]() -> absl::Status {
    DEVRT_ASSIGN_OR_RETURN(const devrt::Device d, devrt::DeviceNamed(device));
    devrt::internal::AdoptedStreams::Get().End(d, stream);
    return absl::OkStatus();
  });
}

int32_t devrt_memory_empty_cache_v0(const char* device) {
  return devrt::Call([=]() -> absl::Status {
    DEVRT_ASSIGN_OR_RETURN(const devrt::Device d, devrt::DeviceNamed(device));
    devrt::internal::RunDeferredCaptureEnds();
    return devrt::EmptyCache(d);
  });
}

int32_t devrt_memory_set_fraction_v0(const char* device, double fraction) {
  return devrt::Call([=]() -> absl::Status {
    DEVRT_ASSIGN_OR_RETURN(const devrt::Device d, devrt::DeviceNamed(device));
    return devrt::SetMemoryFraction(d, fraction);
  });
}

int32_t devrt_memory_base_v0(const void* ptr, void** base, uint64_t* size) {
  return devrt::Call([=] { return devrt::FindBase(ptr, base, size); });
}

int32_t devrt_memory_pool_create_v0(const char* device,
                                    devrt_memory_pool_v0** pool) {
  return devrt::Call([=] { return devrt::MakePool(device, pool); });
}

int32_t devrt_memory_pool_alloc_v0(devrt_memory_pool_v0* pool, uint64_t size,
                                   void* stream, void** ptr) {
  return devrt::Call(
      [=] { return devrt::AllocateFrom(pool, size, stream, ptr); });
}

int32_t devrt_memory_pool_release_v0(devrt_memory_pool_v0* pool) {
  return devrt::Call([=]() -> absl::Status {
    delete pool;
    devrt::internal::RunDeferredCaptureEnds();
    return absl::OkStatus();
  });
}

int32_t devrt_memory_stats_read_v0(const char* device,
                                   devrt_memory_stats_v0* stats) {
  return devrt::Call([=] { return devrt::ReadStats(device, stats); });
}

const char* devrt_memory_last_error_v0(void) { return devrt::LastError(); }
}
