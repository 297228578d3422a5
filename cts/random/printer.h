// SPDX-License-Identifier: Apache-2.0
//
// Prints a program as C++ that compiles against an installed devrt and does
// what the runner does.  The C++ program prints a mismatch and exits with 1.

#ifndef DEVRT_CTS_RANDOM_PRINTER_H_
#define DEVRT_CTS_RANDOM_PRINTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cts/random/program.h"

namespace devrt::cts {

// The context of the printed program.
struct Listing {
  std::string plugin;  // loaded unless the first argument names another
  std::vector<uint32_t> devices;  // ordinals of the program's devices
  // The first configuration of the simulator to try; other seeds follow.  Empty
  // without a simulator in virtual mode.
  std::string reset;
  uint64_t gate_timeout_ns = 0;
  std::string finding, replay;  // for the comment at the top, or empty
};

std::string ToCpp(const Program& program, const Listing& listing);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_PRINTER_H_
