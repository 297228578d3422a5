// SPDX-License-Identifier: Apache-2.0
//
// What classes that nanobind makes have in common.

#ifndef DEVRT_PYTHON_SRC_PUBLIC_CLASS_H_
#define DEVRT_PYTHON_SRC_PUBLIC_CLASS_H_

#include "python/src/bindings.h"

namespace devrt::python {

// Programs know the class as one of `module`.  It cannot be pickled or copied:
// `refusal`, static, says what can be done instead.
template <typename Class>
void MakePublic(Class& made, const char* module, const char* refusal) {
  made.attr("__module__") = module;
  made.def("__reduce_ex__", [refusal](nb::handle, nb::handle) -> nb::object {
    throw nb::type_error(refusal);
  });
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_PUBLIC_CLASS_H_
