// SPDX-License-Identifier: Apache-2.0
//
// The part of PMIx's binary interface that devrt uses.  No header of PMIx is
// needed to build devrt; tests/collectives/pmix_abi_check.cc compares this file
// with an installed pmix.h.

#ifndef DEVRT_COLLECTIVES_BOOTSTRAP_PMIX_ABI_H_
#define DEVRT_COLLECTIVES_BOOTSTRAP_PMIX_ABI_H_

#include <cstddef>
#include <cstdint>

namespace devrt::collectives::internal::pmix {

using Status = int;
inline constexpr Status kSuccess = 0;
inline constexpr Status kTimeout = -24;
inline constexpr Status kNotFound = -46;

inline constexpr uint8_t kGlobal = 3;  // a scope: all ranks may read
inline constexpr uint16_t kUint32 = 14;
inline constexpr uint16_t kByteObject = 27;
inline constexpr uint32_t kWildcard = UINT32_MAX - 1;  // the job as a whole
inline constexpr const char* kJobSize = "pmix.job.size";

// A process: its job, and its rank there.
struct Proc {
  char nspace[256];
  uint32_t rank;
};

// The union has members of 24 bytes, which devrt does not use.
struct Value {
  uint16_t type;
  union {
    uint32_t uint32;
    struct {
      char* bytes;
      size_t size;
    } object;
    uint64_t all[3];
  } data;
};

// Called on a thread of PMIx.  The value is PMIx's.
using ValueFunction = void (*)(Status status, Value* value, void* argument);

struct Functions {
  Status (*init)(Proc* proc, void* info, size_t count);
  Status (*finalize)(const void* info, size_t count);
  Status (*put)(uint8_t scope, const char* key, Value* value);
  Status (*commit)();
  Status (*get)(const Proc* proc, const char* key, const void* info,
                size_t count, Value** value);
  Status (*get_nb)(const Proc* proc, const char* key, const void* info,
                   size_t count, ValueFunction function, void* argument);
  const char* (*error_string)(Status status);
};

}  // namespace devrt::collectives::internal::pmix

#endif  // DEVRT_COLLECTIVES_BOOTSTRAP_PMIX_ABI_H_
