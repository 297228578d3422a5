// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/resources.h"

#include "devrt/memory/internal/unimplemented.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"

namespace devrt {
namespace {

class Raw final : public MemoryResource {
 public:
  Raw(Device device, const char* name) : MemoryResource(device), name_(name) {}

  MemoryProperties properties() const override {
    MemoryProperties p;
    p.name = name_;
    p.stream_ordered = false;
    return p;
  }

 private:
  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    return devrt::Allocate(device(), r.bytes, r.alignment, r.site);
  }
  absl::Status DoDeallocate(const MemoryReturn& r) override {
    DEVRT_RETURN_IF_ERROR(r.stream.Synchronize(r.site));
    return devrt::Free(device(), r.pointer, r.site);
  }
  bool IsEqual(const MemoryResource& other) const override {
    return dynamic_cast<const Raw*>(&other) != nullptr &&
           other.device() == device();
  }

  const char* const name_;
};

}  // namespace

std::shared_ptr<MemoryResource> RawResource(Device device) {
  return std::make_shared<Raw>(device, "raw");
}

absl::StatusOr<std::shared_ptr<MemoryResource>> DriverResource(Device) {
  return internal::NotBuilt("DriverResource");
}

absl::StatusOr<std::shared_ptr<MemoryResource>> CallbackResource(
    Device, const MemoryCallbacks&) {
  return internal::NotBuilt("CallbackResource");
}

}  // namespace devrt
