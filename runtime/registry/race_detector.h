// SPDX-License-Identifier: Apache-2.0
//
// FindRaceDetector: the race detector that watches a backend (devrt_race.h).

#ifndef DEVRT_RUNTIME_REGISTRY_RACE_DETECTOR_H_
#define DEVRT_RUNTIME_REGISTRY_RACE_DETECTOR_H_

#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_race.h"
#include "devrt/runtime/backend.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

// NOT_FOUND if no detector watches the backend.  The table, a devrt_race_v0,
// has all functions up to witness_enable.  The caller tests for a later one
// with DEVRT_HAS_FIELD, since the detector may be older than devrt.
inline absl::StatusOr<Extension> FindRaceDetector(BackendRecord* backend) {
  return BackendRecord::Wrap(backend).GetExtension(
      DEVRT_RACE_EXTENSION, DEVRT_SIZE_THROUGH(devrt_race_v0, witness_enable));
}

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_RACE_DETECTOR_H_
