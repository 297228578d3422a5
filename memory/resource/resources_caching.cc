// SPDX-License-Identifier: Apache-2.0
//
// CachingResource and PrivateCachingResource of devrt/memory/resources.h.

#include <map>

#include "absl/strings/str_cat.h"
#include "devrt/memory/resources.h"
#include "memory/device/address_map.h"
#include "memory/device/device_allocator.h"
#include "memory/device/use_notes.h"
#include "memory/resource/block_owners.h"
#include "runtime/common/text.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/registry/process_state.h"

namespace devrt {
namespace {

using internal::AddressMap;
using internal::DeviceAllocator;
using internal::Segment;

class Caching final : public MemoryResource, public internal::KnownByAddress {
 public:
  Caching(Device device, DeviceAllocator* own)
      : MemoryResource(device), own_(own) {}
  ~Caching() override {
    if (own_ != nullptr) own_->family().EndPrivate(own_);
  }

  MemoryProperties properties() const override {
    MemoryProperties p;
    p.name = own_ != nullptr ? "private" : "caching";
    p.tracks_uses = true;
    p.has_statistics = true;
    p.alignment = internal::kGranule;
    return p;
  }

  const DeviceAllocator* KnownAllocator() const override { return allocator(); }

 private:
  DeviceAllocator* allocator() const {
    return own_ != nullptr ? own_ : DeviceAllocator::Of(device().record());
  }

  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    if (r.alignment > internal::kGranule) {
      return absl::UnimplementedError(absl::StrCat(
          "resource \"", properties().name, "\" of ", device().name(),
          " aligns blocks to ", internal::kGranule, " bytes, but ", r.alignment,
          " were asked for: take them from RawResource"));
    }
    return allocator()->Allocate(r);
  }

  absl::Status DoDeallocate(const MemoryReturn& r) override {
    DEVRT_ASSIGN_OR_RETURN(Segment * segment, Find(r.pointer, "Deallocate"));
    return segment->allocator->Free(segment, r.pointer, &r.stream, r.site);
  }

  absl::Status DoRecordUse(const void* pointer, StreamRef stream,
                           CallSite) override {
    DEVRT_ASSIGN_OR_RETURN(Segment * segment, Find(pointer, "RecordUse"));
    return internal::RecordUse(segment, pointer, stream);
  }

  absl::Status DoTrim() override { return allocator()->EmptyCache(); }

  absl::StatusOr<Segment*> Find(const void* pointer, const char* call) const {
    Segment* segment = AddressMap::Get().Find(pointer);
    // The end of a segment's last block counts for uses (F17).
    if (segment == nullptr) {
      segment = AddressMap::Get().Find(static_cast<const char*>(pointer) - 1);
    }
    if (segment != nullptr && segment->allocator == allocator()) {
      return segment;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        call, " of resource \"", properties().name, "\" of ", device().name(),
        " needs a block of its own, but ", internal::DescribePointer(pointer)));
  }

  DeviceAllocator* const own_;  // nullptr: the device's
};

struct Known {
  Mutex mutex;
  std::map<internal::DeviceRecord*, std::shared_ptr<MemoryResource>> resources
      DEVRT_GUARDED_BY(mutex);

  static Known& Get() {
    static Known* const known = new Known;
    return *known;
  }
};

}  // namespace

std::shared_ptr<MemoryResource> CachingResource(Device device) {
  if (internal::IsForkedChild()) {
    return std::make_shared<Caching>(device, nullptr);  // refuses all calls
  }
  Known& known = Known::Get();
  MutexLock lock(&known.mutex);
  std::shared_ptr<MemoryResource>& resource = known.resources[device.record()];
  if (resource == nullptr) {
    resource = std::make_shared<Caching>(device, nullptr);
  }
  return resource;
}

std::shared_ptr<MemoryResource> PrivateCachingResource(Device device) {
  if (internal::IsForkedChild()) return CachingResource(device);
  return std::make_shared<Caching>(
      device, DeviceAllocator::Of(device.record())->family().MakePrivate());
}

}  // namespace devrt
