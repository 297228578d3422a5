// SPDX-License-Identifier: Apache-2.0
//
// How the driver is found: cuGetProcAddress, and what its codes are called.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstring>
#include <type_traits>

#include "tests/fakes/common/options.h"

namespace devrt::fake {
namespace {

// The plugin calls each entry by the type of the newest header and asks for it
// as of one version: those two must be the same function.
#define DEVRT_CUDA_ENTRY(name, version, required)                         \
  static_assert(std::is_same_v<PFN_##name##_v##version, decltype(&name)>, \
                #name " of " #version " has another signature");
#include "backends/cuda/entries.inc"
#undef DEVRT_CUDA_ENTRY

struct Entry {
  const char* name;
  int since;
  void* function;
};

const Entry kEntries[] = {
#define DEVRT_CUDA_ENTRY(name, version, required) \
  {#name, version, reinterpret_cast<void*>(&name)},
#include "backends/cuda/entries.inc"
#undef DEVRT_CUDA_ENTRY
};

struct ErrorName {
  CUresult code;
  const char* name;
};

constexpr ErrorName kErrorNames[] = {
#define DEVRT_CUDA_ERROR(name) {name, #name},
#include "cuda_errors.inc"
#undef DEVRT_CUDA_ERROR
};

const ErrorName* Find(CUresult code) {
  for (const ErrorName& row : kErrorNames) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

}  // namespace
}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

CUresult cuGetErrorName(CUresult error, const char** name) {
  const ErrorName* const row = Find(error);
  *name = row != nullptr ? row->name : nullptr;
  return row != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  const ErrorName* const row = Find(error);
  *text = row != nullptr ? "the text of the driver" : nullptr;
  return row != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress(const char* name, void** function, int version,
                          cuuint64_t flags,
                          CUdriverProcAddressQueryResult* result) {
  if (flags != CU_GET_PROC_ADDRESS_DEFAULT) {
    Die("cuGetProcAddress: %s with flags %llu is not known here", name,
        static_cast<unsigned long long>(flags));
  }
  *function = nullptr;
  if (TheOptions().IsMissing(name)) {
    *result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
  }
  for (const Entry& entry : kEntries) {
    if (std::strcmp(entry.name, name) != 0) continue;
    if (version < entry.since) {
      Die("cuGetProcAddress: %s as of %d is older than the one known here, "
          "as of %d",
          name, version, entry.since);
    }
    *function = entry.function;
    *result = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
  }
  Die("cuGetProcAddress: there is no %s here; implement it in "
      "tests/fakes/cuda",
      name);
}
