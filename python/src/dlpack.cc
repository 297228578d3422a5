// SPDX-License-Identifier: Apache-2.0
//
// What the files about DLPack share.

#include "python/src/dlpack.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/place.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/external_stream.h"

namespace devrt::python {
namespace {

// The devices that were found before, as far as there is room.  Entries never
// change, and readers take no lock.  Never destroyed: threads that outlive main
// may ask for exports.
class KnownDevices {
 public:
  std::optional<Device> Find(DLDevice name) const {
    const size_t count = count_.load(std::memory_order_acquire);
    for (size_t i = 0; i < count; ++i) {
      const Entry& entry = entries_[i];
      if (entry.name.device_type == name.device_type &&
          entry.name.device_id == name.device_id) {
        return entry.device;
      }
    }
    return std::nullopt;
  }

  void Add(DLDevice name, Device device) DEVRT_EXCLUDES(mutex_) {
    const MutexLock lock(&mutex_);
    const size_t count = count_.load(std::memory_order_relaxed);
    if (count == entries_.size() || Find(name).has_value()) return;
    entries_[count] = {name, device};
    count_.store(count + 1, std::memory_order_release);
  }

 private:
  struct Entry {
    DLDevice name{};
    std::optional<Device> device;
  };

  Mutex mutex_;  // for writers
  std::array<Entry, 64> entries_;
  std::atomic<size_t> count_{0};
};

KnownDevices* Known() {
  static KnownDevices* known = new KnownDevices;
  return known;
}

}  // namespace

std::optional<Device> KnownDLPackDevice(DLDevice device) {
  return Known()->Find(device);
}

std::optional<Device> FindDLPackDevice(DLDevice device) {
  KnownDevices* known = Known();
  if (auto found = known->Find(device)) return found;
  std::optional<Device> result;
  for (const Device candidate : AllDevices()) {
    const DLDevice own = DLPackDevice(Place(candidate));
    const DLDevice managed = DLPackDevice(Place::Managed(candidate));
    const bool is_own = own.device_type == device.device_type &&
                        own.device_id == device.device_id;
    const bool is_managed = managed.device_type == device.device_type &&
                            candidate.index() == device.device_id;
    if (!is_own && !is_managed) continue;
    result = candidate;
    break;
  }
  if (result.has_value()) known->Add(device, *result);
  return result;
}

absl::StatusOr<int64_t> StreamNumber(StreamRef stream) {
  const bool cuda = stream.device().backend().name() == "cuda";
  if (stream.kind() == StreamKind::kDefault) return cuda ? 1 : 0;
  if (stream.kind() == StreamKind::kPerThread && cuda) return 2;
  DEVRT_ASSIGN_OR_RETURN(void* const native, stream.Native());
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(native));
}

absl::Status OrderAfterNative(StreamRef stream, void* native, CallSite site) {
  // The default stream, or a stream of devrt, which needs no adoption.
  // Native() is called only when needed: afterwards the handle's holder may
  // capture the stream, so every operation has to ask the driver about
  // captures.
  if (native == nullptr) {
    if (stream.kind() == StreamKind::kDefault) return absl::OkStatus();
  } else {
    const absl::StatusOr<void*> own = stream.Native();
    if (own.ok() && *own == native) return absl::OkStatus();
  }
  AdoptOptions options;
  options.device = stream.device();
  DEVRT_ASSIGN_OR_RETURN(
      const ExternalStream source,
      AdoptNativeStream(
          static_cast<int64_t>(reinterpret_cast<intptr_t>(native)),
          std::move(options)));
  if (source.ref() == stream) return absl::OkStatus();
  return stream.Wait(source.ref(), site);
}

}  // namespace devrt::python
