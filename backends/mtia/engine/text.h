// SPDX-License-Identifier: Apache-2.0
//
// Numbers in messages.

#ifndef DEVRT_BACKENDS_MTIA_TEXT_H_
#define DEVRT_BACKENDS_MTIA_TEXT_H_

#include <cstdint>
#include <string>

namespace devrt::mtia {

inline std::string Bytes(uint64_t n) {
  return std::to_string(n) + (n == 1 ? " byte" : " bytes");
}

inline std::string Hex(uint64_t n) {
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr unsigned kDigitBits = 4;
  std::string reversed;
  do {
    reversed += kDigits[n & 0xF];
    n >>= kDigitBits;
  } while (n != 0);
  return "0x" + std::string(reversed.rbegin(), reversed.rend());
}

inline std::string Hex(const void* pointer) {
  return Hex(reinterpret_cast<uintptr_t>(pointer));
}

// "mtia:1"
inline std::string DeviceName(uint32_t device) {
  return "mtia:" + std::to_string(device);
}

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_TEXT_H_
