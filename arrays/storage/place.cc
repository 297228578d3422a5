// SPDX-License-Identifier: Apache-2.0
#include "devrt/arrays/place.h"

#include <atomic>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/status.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"

namespace devrt {
namespace {

using internal::BackendRecord;

std::atomic<BackendRecord*> chosen{nullptr};

absl::StatusOr<BackendRecord*> ChooseBackend() {
  std::string why;
  for (const std::string& name : BackendNames()) {
    const absl::StatusOr<Backend> backend = GetBackend(name);
    if (backend.ok() && backend->device_count() > 0) {
      return BackendRecord::Of(*backend);
    }
    absl::StrAppend(&why, "; ",
                    backend.ok() ? absl::StrCat("\"", name, "\" has no devices")
                                 : std::string(backend.status().message()));
  }
  return absl::NotFoundError(absl::StrCat(
      "no backend has a device that could be the current place",
      why.empty() ? "; no backend was found" : why,
      "; name a place, or install a backend (devrt list shows what was "
      "found)"));
}

}  // namespace

absl::StatusOr<Place> Place::Current() {
  if (!internal::IsProcessOpen()) return internal::ProcessClosedError();
  BackendRecord* backend = chosen.load(std::memory_order_acquire);
  if (backend == nullptr) {
    DEVRT_ASSIGN_OR_RETURN(BackendRecord * found, ChooseBackend());
    // The first of several threads chooses.
    if (chosen.compare_exchange_strong(backend, found)) backend = found;
  }
  DEVRT_ASSIGN_OR_RETURN(const Device device,
                         CurrentDevice(BackendRecord::Wrap(backend)));
  return Place(device);
}

std::string Place::name() const {
  switch (kind_) {
    case MemoryKind::kHost:
      return "cpu";
    case MemoryKind::kPinned:
      return "pinned memory of " + device_->name();
    case MemoryKind::kManaged:
      return "managed memory of " + device_->name();
    case MemoryKind::kDevice:
      break;
  }
  return device_->name();
}

std::ostream& operator<<(std::ostream& os, const Place& place) {
  return os << place.name();
}

}  // namespace devrt
