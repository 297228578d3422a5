// SPDX-License-Identifier: Apache-2.0
//
// Names and texts of CUDA's error numbers that come from outside a backend.

#include <cstdint>

#include "python/src/bindings.h"

namespace devrt::python {
namespace {

constexpr bool kLocal = false;
constexpr bool kSticky = true;

constexpr struct {
  int64_t number;
  const char* status;
  bool sticky;
  const char* name;
} kCodes[] = {
#define DEVRT_CUDA_CODE(number, status, lasting, name) \
  {number, #status, lasting, #name},
#include "backends/cuda_codes.inc"
#undef DEVRT_CUDA_CODE
};

nb::tuple Describe(nb::int_ code) {
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(code.ptr(), &overflow);
  for (const auto& known : kCodes) {
    if (overflow == 0 && known.number == number) {
      return nb::make_tuple(known.name, known.status, known.sticky);
    }
  }
  return nb::make_tuple(nb::none(), "INTERNAL", false);
}

}  // namespace

void BindCudaCodes(nb::module_& module) {
  module.def("_cuda_code", &Describe, nb::arg("code"),
             "(name or None, status, sticky) of a cudaError_t.");
}

}  // namespace devrt::python
