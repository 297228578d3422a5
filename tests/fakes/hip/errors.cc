// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/hip/errors.h"

namespace devrt::fake {
namespace {

thread_local hipError_t t_last = hipSuccess;

struct ErrorName {
  hipError_t code;
  const char* name;
};

constexpr ErrorName kErrorNames[] = {
#define DEVRT_HIP_ERROR(name) {name, #name},
#include "hip_errors.inc"
#undef DEVRT_HIP_ERROR
};

const char* NameOf(hipError_t error) {
  for (const ErrorName& row : kErrorNames) {
    if (row.code == error) return row.name;
  }
  return nullptr;
}

}  // namespace

hipError_t RememberLast(hipError_t error, bool takes_all) {
  const bool is_error = error != hipSuccess && error != hipErrorNotReady;
  if (is_error || takes_all) t_last = error;
  return error;
}

}  // namespace devrt::fake

using devrt::fake::NameOf;
using devrt::fake::t_last;

hipError_t hipGetLastError() {
  const hipError_t last = t_last;
  t_last = hipSuccess;
  return last;
}

hipError_t hipPeekAtLastError() { return t_last; }

const char* hipGetErrorName(hipError_t error) {
  const char* const name = NameOf(error);
  return name != nullptr ? name : "hipErrorUnknown";
}

const char* hipGetErrorString(hipError_t error) {
  return NameOf(error) != nullptr ? "the text of HIP" : "unknown error";
}
