// SPDX-License-Identifier: Apache-2.0
//
// Numbers in messages.

#ifndef DEVRT_BACKENDS_MTIA_COMMON_TEXT_H_
#define DEVRT_BACKENDS_MTIA_COMMON_TEXT_H_

#include <cstdint>
#include <string>

#include "backends/text/text.h"

namespace devrt::mtia {

inline std::string Bytes(uint64_t n) {
  return std::to_string(n) + (n == 1 ? " byte" : " bytes");
}

using internal::Hex;

// "mtia:1"
inline std::string DeviceName(uint32_t device) {
  return "mtia:" + std::to_string(device);
}

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_COMMON_TEXT_H_
