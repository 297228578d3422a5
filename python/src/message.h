// SPDX-License-Identifier: Apache-2.0
//
// The library's messages in Python's words.

#ifndef DEVRT_PYTHON_SRC_MESSAGE_H_
#define DEVRT_PYTHON_SRC_MESSAGE_H_

#include <string>

#include "absl/status/status.h"

namespace devrt::python {

// The text of an error, with Python's names of what it advises: "use astype"
// for "use Cast".  What is quoted is the program's, and stays.
std::string MessageOf(const absl::Status& status);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_MESSAGE_H_
