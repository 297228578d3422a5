// SPDX-License-Identifier: Apache-2.0
//
// What classes that nanobind makes have in common.

#ifndef DEVRT_PYTHON_SRC_PUBLIC_CLASS_H_
#define DEVRT_PYTHON_SRC_PUBLIC_CLASS_H_

#include "python/src/bindings.h"

namespace devrt::python {

// Shows the class as one of `module`.  Pickling and copying raise TypeError
// with the static text `refusal`, which says what to do instead.
template <typename Class>
void MakePublic(Class& made, const char* module, const char* refusal) {
  made.attr("__module__") = module;
  made.def("__reduce_ex__", [refusal](nb::handle, nb::handle) -> nb::object {
    throw nb::type_error(refusal);
  });
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_PUBLIC_CLASS_H_
