// SPDX-License-Identifier: Apache-2.0
//
// Makes random programs that are legal and terminate.
//
//   ProgramShape shape;
//   shape.limits = limits;      // what the backend offers
//   shape.max_devices = 2;
//   Program p = Generate(seed, shape);
//
// The generator proposes random steps, with operands that are likely to depend
// on earlier steps.  A step that the model refuses is left out, or made legal
// by waits that are inserted before it.  At the end the program opens all
// gates, waits for all work, reads all memory and compares it.
//
// A seed and a shape give one program, on every machine alike.

#ifndef DEVRT_CTS_RANDOM_GENERATOR_H_
#define DEVRT_CTS_RANDOM_GENERATOR_H_

#include <cstdint>

#include "cts/random/model.h"
#include "cts/random/program.h"

namespace devrt::cts {

struct ProgramShape {
  Limits limits;
  int min_devices = 1;
  int max_devices = 1;
  int max_threads = 1;  // above 1, a program has at least 2 threads
  // True if some programs are concurrent.  Needs max_threads > 1.
  bool concurrent = false;
};

Program Generate(uint64_t seed, const ProgramShape& shape);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_GENERATOR_H_
