// SPDX-License-Identifier: Apache-2.0
//
// dlpack_abi.h behind a header of DLPack's own, of version 1.0: its structs
// count, and what it lacks is added.  It has passed when it compiles.

#include <cstddef>
#include <cstdint>

#define DLPACK_DLPACK_H_
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 0

// As much of that header as ours stands on.
struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};
enum DLDeviceType : int32_t { kDLCPU = 1 };
struct DLTensor;
struct DLManagedTensorVersioned {
  int theirs;
};

#include "devrt/arrays/dlpack_abi.h"

static_assert(sizeof(DLManagedTensorVersioned) == sizeof(int));
static_assert(sizeof(DLPackExchangeAPI) == 56);
static_assert(offsetof(DLPackExchangeAPI, current_work_stream) == 48);

int main() { return 0; }
