// SPDX-License-Identifier: Apache-2.0
//
// The result of a call through the C table.

#ifndef DEVRT_CTS_RESULT_H_
#define DEVRT_CTS_RESULT_H_

#include <cstdint>
#include <string>

#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::cts {

// A value; the error object is destroyed.
struct Result {
  devrt_code code = DEVRT_OK;
  std::string text;  // "" for success

  bool ok() const { return code == DEVRT_OK; }
};

// "INVALID_ARGUMENT".
const char* CodeName(devrt_code code);
// "OK", or "INVALID_ARGUMENT: the text".
std::string ToString(const Result& result);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RESULT_H_
