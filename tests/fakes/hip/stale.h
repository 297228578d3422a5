// SPDX-License-Identifier: Apache-2.0
//
// With c37_stale: data that a device has written to pinned memory without the
// coherence flag, and that the host does not see yet.

#ifndef DEVRT_TESTS_FAKES_HIP_STALE_H_
#define DEVRT_TESTS_FAKES_HIP_STALE_H_

#include "tests/fakes/hip/driver.h"

namespace devrt::fake {

// Pinned memory that begins at `base` is not coherent; it is gone.
void AddIncoherent(const void* base);
void RemoveIncoherent(const void* base);
bool IsIncoherent(const void* base);

// Copies to such memory.
hipError_t CopyUnseen(const Target& target, void* dst, const void* src,
                      size_t size);
// The host sees all that was written so far.
void ShowWrites();

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_HIP_STALE_H_
