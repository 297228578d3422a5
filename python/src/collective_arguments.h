// SPDX-License-Identifier: Apache-2.0
//
// Arguments of devrt.collectives.  The functions need the GIL, and throw the
// Python exception that names the argument and its value: TypeError for a
// value of another type, InvalidArgumentError for one out of range.

#ifndef DEVRT_PYTHON_SRC_COLLECTIVE_ARGUMENTS_H_
#define DEVRT_PYTHON_SRC_COLLECTIVE_ARGUMENTS_H_

#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "devrt/arrays/array.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/operation.h"
#include "python/src/bindings.h"

namespace devrt::python {

// An int of Python or NumPy, but no bool.
int Int32Of(nb::handle object, const char* what);
std::vector<int> Int32sOf(nb::handle objects, const char* what);

// The text lives as long as `object`.
std::string_view TextOf(nb::handle object, const char* what);

// A number of seconds from now; None: no limit.
absl::Time DeadlineOf(nb::handle seconds);

collectives::OpKind KindOf(std::string_view name);
collectives::Reduction ReductionOf(nb::handle name);

// (name, provider, init_timeout, timeout, on_failure, shared_device,
// order_across_communicators, allow_mixed_versions, check_signatures,
// exchange_records, watch)
collectives::Options OptionsOf(nb::handle values);

// TypeError for what is no array, None too.
const Array& ArrayArgument(nb::handle object);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_COLLECTIVE_ARGUMENTS_H_
