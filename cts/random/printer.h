// SPDX-License-Identifier: Apache-2.0
//
// A program as C++ that compiles against an installed devrt and does what the
// runner does: it exits with 1, and says why, when something is not as it must
// be.

#ifndef DEVRT_CTS_RANDOM_PRINTER_H_
#define DEVRT_CTS_RANDOM_PRINTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cts/random/program.h"

namespace devrt::cts {

// What stands around the program.
struct Listing {
  std::string plugin;  // loaded, unless the first argument says other
  std::vector<uint32_t> devices;  // ordinals of the program's devices
  // The simulator's configuration, which is tried first, with other seeds after
  // it; "": there is no simulator in virtual mode.
  std::string reset;
  uint64_t gate_timeout_ns = 0;
  std::string finding, replay;  // for the comment at the top; may be empty
};

std::string ToCpp(const Program& program, const Listing& listing);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_PRINTER_H_
