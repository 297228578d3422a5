// SPDX-License-Identifier: Apache-2.0
//
// Translates the library's messages for Python programs.

#ifndef DEVRT_PYTHON_SRC_ERROR_TEXT_H_
#define DEVRT_PYTHON_SRC_ERROR_TEXT_H_

#include <string>

#include "absl/status/status.h"

namespace devrt::python {

// Returns the text of an error with Python's names in its advice: "use astype"
// for "use Cast".  Quoted parts belong to the program and stay as they are.
std::string ErrorText(const absl::Status& status);

// Returns a text of the library, such as a report, with Python's names.
std::string PythonText(std::string text);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_ERROR_TEXT_H_
