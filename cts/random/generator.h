// SPDX-License-Identifier: Apache-2.0
//
// Makes random programs that are legal and end.
//
//   Shape shape;
//   shape.limits = limits;      // what the backend offers
//   shape.max_devices = 2;
//   Program p = Generate(seed, shape);
//
// Steps are proposed at random, with operands that are likely to depend on
// what was done before; what the model refuses is left out, or ordered by waits
// that are inserted before it.  At the end all is opened, waited for, read and
// compared.
//
// The same seed and shape give the same program on every machine.

#ifndef DEVRT_CTS_RANDOM_GENERATOR_H_
#define DEVRT_CTS_RANDOM_GENERATOR_H_

#include <cstdint>

#include "cts/random/model.h"
#include "cts/random/program.h"

namespace devrt::cts {

struct Shape {
  Limits limits;
  int min_devices = 1;
  int max_devices = 1;
  int max_threads = 1;  // at least 2 of them if more than 1
  // Some of the programs are concurrent; only with threads.
  bool concurrent = false;
};

Program Generate(uint64_t seed, const Shape& shape);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_GENERATOR_H_
