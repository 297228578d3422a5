// SPDX-License-Identifier: Apache-2.0
//
// The place that the backends' answer about a pointer means.
//
//   DEVRT_ASSIGN_OR_RETURN(const PointerInfo info, GetPointerInfo(data));
//   const Place place = PlaceOf(info);

#ifndef DEVRT_ARRAYS_STORAGE_POINTER_PLACE_H_
#define DEVRT_ARRAYS_STORAGE_POINTER_PLACE_H_

#include "devrt/arrays/place.h"
#include "devrt/runtime/raw_memory.h"

namespace devrt::internal {

// Plain host memory for an address that no backend knows.
inline Place PlaceOf(const PointerInfo& info) {
  switch (info.kind) {
    case PointerKind::kDevice:
      return Place(*info.device);
    case PointerKind::kPinned:
      return Place::Pinned(*info.device);
    case PointerKind::kManaged:
      return Place::Managed(*info.device);
    case PointerKind::kUnregistered:
      break;
  }
  return Place::Host();
}

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_POINTER_PLACE_H_
