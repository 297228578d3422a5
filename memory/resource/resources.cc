// SPDX-License-Identifier: Apache-2.0
//
// The resources of devrt/memory/resources.h without an upstream: the backend's
// allocation, the driver's stream-ordered allocation, functions of a program.

#include "devrt/memory/resources.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"
#include "memory/common/settings_state.h"
#include "memory/resource/block_owners.h"
#include "memory/resource/chosen_resource.h"
#include "runtime/common/text.h"
#include "runtime/common/thread_end.h"
#include "runtime/plugins/host_table.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/raw_memory/out_of_memory.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"
#include "streams/objects/stream_target.h"

namespace devrt {
namespace {

using internal::AllocationRange;
using internal::BlockOwners;
using internal::DeviceRecord;
using internal::OwnedBlock;
using internal::StreamTarget;

// The streams that RecordUse has named, by block.
class RecordedUses {
 public:
  // `pointer` lies in a live block of `resource`.
  void Add(const MemoryResource* resource, const void* pointer,
           StreamRef stream) {
    for (const OwnedBlock& block : BlockOwners::Get().FindAround(pointer)) {
      if (block.resource != resource) continue;
      MutexLock lock(&mutex_);
      uses_[block.base].push_back(stream);
      return;
    }
  }
  std::vector<StreamRef> Remove(void* base) {
    MutexLock lock(&mutex_);
    const auto found = uses_.find(base);
    if (found == uses_.end()) return {};
    std::vector<StreamRef> streams = std::move(found->second);
    uses_.erase(found);
    return streams;
  }

 private:
  Mutex mutex_;
  absl::flat_hash_map<void*, std::vector<StreamRef>> uses_
      DEVRT_GUARDED_BY(mutex_);
};

bool IsAlive(StreamRef stream) {
  return internal::CheckStream(stream, "Deallocate").ok();
}

// Returns nullopt if the block is not in the table.
std::optional<AllocationRange> RemoveFromTable(const MemoryReturn& r) {
  auto range = internal::AllocationTable::Get().Find(r.pointer);
  if (range.has_value() && range->base == r.pointer &&
      internal::AllocationTable::Get().Remove(*range, r.site)) {
    return range;
  }
  return std::nullopt;
}

// ---- Raw --------------------------------------------------------------------

class Raw final : public MemoryResource {
 public:
  explicit Raw(Device device) : MemoryResource(device) {}

  MemoryProperties properties() const override {
    MemoryProperties p;
    p.name = "raw";
    p.stream_ordered = false;
    p.tracks_uses = true;
    p.alignment = 1;  // that of the device
    return p;
  }

 private:
  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    return devrt::Allocate(device(), r.bytes, r.alignment, r.site);
  }
  absl::Status DoDeallocate(const MemoryReturn& r) override {
    std::vector<StreamRef> streams = uses_.Remove(r.pointer);
    streams.push_back(r.stream);
    for (const StreamRef stream : streams) {
      // An error of earlier work is reported elsewhere.  If the stream was
      // destroyed, its work may still run: wait for the device.
      if (stream.Synchronize(r.site).ok()) continue;
      device().Synchronize(r.site).IgnoreError();
      if (stream.device() != device()) {
        stream.device().Synchronize(r.site).IgnoreError();
      }
    }
    const absl::Status status = devrt::Free(device(), r.pointer, r.site);
    // The entry in BlockOwners is gone, so nobody can free the block again.  A
    // block whose free the backend refused does not make Shutdown fail.
    if (!status.ok() && RemoveFromTable(r).has_value()) {
      device().record()->live_allocations.fetch_sub(1);
    }
    return status;
  }
  absl::Status DoRecordUse(const void* pointer, StreamRef stream,
                           CallSite) override {
    uses_.Add(this, pointer, stream);
    return absl::OkStatus();
  }

  RecordedUses uses_;
};

// ---- The driver's stream-ordered allocator ----------------------------------

absl::Status CheckDriver(Device device) {
  if (device.backend().Has(DEVRT_CAP_ASYNC_ALLOC)) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("backend \"", device.backend().name(),
                   "\" has no stream-ordered allocator of its own "
                   "(ASYNC_ALLOC): use CachingResource, backend:caching"));
}

class Driver final : public MemoryResource {
 public:
  explicit Driver(Device device) : MemoryResource(device) {}

  MemoryProperties properties() const override {
    MemoryProperties p;
    p.name = "driver";
    p.tracks_uses = true;
    p.alignment = 1;
    return p;
  }

 private:
  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    internal::LiveCount live(device().record());
    DEVRT_RETURN_IF_ERROR(CheckDriver(device()));
    StreamTarget t;
    DEVRT_RETURN_IF_ERROR(
        internal::ResolveStreamForWork(r.stream, "allocation", r.site, &t));
    void* pointer = nullptr;
    const absl::Status status = FromPlugin(
        t.device,
        t.ops().alloc_async(t.self(), t.handle, r.bytes, r.alignment, &pointer),
        "allocation");
    if (absl::IsResourceExhausted(status)) return NoRoom(r, status);
    DEVRT_RETURN_IF_ERROR(status);
    t.MarkDirty();
    return internal::RecordBlock({t.device,
                                  PointerKind::kDevice,
                                  false,
                                  pointer,
                                  r.bytes,
                                  0,
                                  r.site,
                                  {},
                                  true},
                                 &live);
  }

  // The entry in BlockOwners is gone already.  So the block counts as freed
  // even if the free fails, and does not make Shutdown fail.
  absl::Status DoDeallocate(const MemoryReturn& r) override {
    const StreamRef stream = OrderForFree(r);
    // The table has the blocks as cached, so that a raw free cannot free them.
    const std::optional<AllocationRange> range = RemoveFromTable(r);
    if (!range.has_value()) {
      return absl::InternalError(absl::StrCat(
          "Deallocate: the driver's block at ", internal::Hex(r.pointer),
          " of ", device().name(), " is in no table of devrt's"));
    }
    if (internal::IsLost(range->device)) {
      return internal::SettleFree(*range, nullptr, "free");
    }
    StreamTarget t;
    absl::Status status =
        internal::ResolveStreamForWork(stream, "free", r.site, &t);
    if (status.ok()) {
      status = internal::SettleFree(
          *range, t.ops().dealloc_async(t.self(), t.handle, r.pointer, r.bytes),
          "free");
      t.MarkDirty();
      // The table keeps a block whose free the driver refused: remove it.
      if (status.ok() || !RemoveFromTable(r).has_value()) return status;
    }
    range->device->live_allocations.fetch_sub(1);
    return status;
  }

  absl::Status DoRecordUse(const void* pointer, StreamRef stream,
                           CallSite) override {
    uses_.Add(this, pointer, stream);
    return absl::OkStatus();
  }

  // Returns a stream behind which all uses are ordered.  The host waits only if
  // no event can do that: a stream was destroyed meanwhile, or accepts no
  // waits.
  StreamRef OrderForFree(const MemoryReturn& r) {
    const std::vector<StreamRef> uses = uses_.Remove(r.pointer);
    if (internal::IsLost(device().record())) return r.stream;
    bool wait = !IsAlive(r.stream);
    const StreamRef stream = wait ? DefaultStream(device()) : r.stream;
    for (const StreamRef use : uses) {
      if (use == stream || stream.Wait(use, r.site).ok()) continue;
      // On a lost device no work runs, and the call returns at once.
      wait = true;
      if (use.device() != device()) {
        use.device().Synchronize(r.site).IgnoreError();
      }
    }
    if (wait) device().Synchronize(r.site).IgnoreError();
    return stream;
  }

  absl::Status NoRoom(const MemoryRequest& r, const absl::Status& status) {
    DeviceRecord* record = device().record();
    OutOfMemoryInfo info;
    info.requested = r.bytes;
    internal::DestroyError(record->ops->mem_info(record->self, record->ordinal,
                                                 &info.free, &info.total));
    return internal::OutOfMemoryError(record, info, status);
  }

  RecordedUses uses_;
};

// ---- Functions of a program -------------------------------------------------

class Callback final : public MemoryResource {
 public:
  Callback(Device device, const MemoryCallbacks& callbacks)
      : MemoryResource(device), callbacks_(callbacks) {}
  ~Callback() override {
    if (callbacks_.destroy == nullptr) return;
    try {
      if (internal::RunToItsEnd(
              [this] { callbacks_.destroy(callbacks_.context); })) {
        return;
      }
      DEVRT_LOG(kError,
                "`destroy` of a callback resource called pthread_exit, which "
                "a destructor cannot pass on: return from it instead");
    } catch (...) {
      DEVRT_LOG(kError,
                "`destroy` of a callback resource threw an exception, which "
                "ends here");
    }
  }

  MemoryProperties properties() const override {
    MemoryProperties p;
    p.name = "callback";
    return p;
  }

 private:
  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    const uint64_t alignment = properties().alignment;
    if (r.alignment > alignment) {
      return absl::UnimplementedError(absl::StrCat(
          "resource \"callback\" of ", device().name(), " cannot align to ",
          r.alignment, " bytes: its functions are not told; ", alignment,
          " are the most"));
    }
    DEVRT_ASSIGN_OR_RETURN(void* native, r.stream.Native());
    return callbacks_.allocate(callbacks_.context, r.bytes, device().index(),
                               native);
  }

  absl::Status DoDeallocate(const MemoryReturn& r) override {
    void* native = nullptr;  // also on a lost device, where no work runs
    if (!internal::IsLost(device().record())) {
      StreamRef stream = r.stream;
      if (!IsAlive(stream)) {
        // The handle may belong to another stream by now.
        device().Synchronize(r.site).IgnoreError();
        stream = DefaultStream(device());
      }
      DEVRT_ASSIGN_OR_RETURN(native, stream.Native());
    }
    callbacks_.deallocate(callbacks_.context, r.pointer, r.bytes,
                          device().index(), native);
    return absl::OkStatus();
  }

  const MemoryCallbacks callbacks_;
};

// One resource for each device; never destroyed.
template <typename R>
std::shared_ptr<MemoryResource> ResourceOfDevice(Device device) {
  struct Known {
    Mutex mutex;
    std::map<DeviceRecord*, std::shared_ptr<MemoryResource>> resources
        DEVRT_GUARDED_BY(mutex);
  };
  if (internal::IsForkedChild()) return std::make_shared<R>(device);
  static Known* const known = new Known;
  MutexLock lock(&known->mutex);
  std::shared_ptr<MemoryResource>& resource = known->resources[device.record()];
  if (resource == nullptr) resource = std::make_shared<R>(device);
  return resource;
}

}  // namespace

std::shared_ptr<MemoryResource> RawResource(Device device) {
  return ResourceOfDevice<Raw>(device);
}

absl::StatusOr<std::shared_ptr<MemoryResource>> DriverResource(Device device) {
  DEVRT_RETURN_IF_ERROR(CheckDriver(device));
  return ResourceOfDevice<Driver>(device);
}

absl::StatusOr<std::shared_ptr<MemoryResource>> CallbackResource(
    Device device, const MemoryCallbacks& callbacks) {
  if (callbacks.allocate == nullptr || callbacks.deallocate == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("CallbackResource of ", device.name(),
                     " needs `allocate` and "
                     "`deallocate`, but `",
                     callbacks.allocate == nullptr ? "allocate" : "deallocate",
                     "` is null"));
  }
  return std::make_shared<Callback>(device, callbacks);
}

namespace internal {

std::shared_ptr<MemoryResource> SourceResource(Device device) {
  switch (CurrentSettings().source) {
    case AllocatorSettings::Source::kDriver:
      return ResourceOfDevice<Driver>(device);
    case AllocatorSettings::Source::kRaw:
      return ResourceOfDevice<Raw>(device);
    case AllocatorSettings::Source::kCaching:
      break;
  }
  return CachingResource(device);
}

}  // namespace internal

}  // namespace devrt
