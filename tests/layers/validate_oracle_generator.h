// SPDX-License-Identifier: Apache-2.0
//
// Random small programs for the proof of the validation layer.
//
// A correct program has no race: before a step that would race, the generator
// adds waits.  A wild program has random steps, for comparisons of the order.
//
// A seed gives one program, on every machine alike.

#ifndef DEVRT_TESTS_LAYERS_VALIDATE_ORACLE_GENERATOR_H_
#define DEVRT_TESTS_LAYERS_VALIDATE_ORACLE_GENERATOR_H_

#include <cstdint>

#include "tests/layers/validate_oracle_program.h"

namespace devrt::race::oracle {

Program CorrectProgram(uint64_t seed);
Program WildProgram(uint64_t seed);

// A program of the generator of the conformance suite (cts/random), which is
// correct by a model of its own.
Program ProgramOfCts(uint64_t seed);

}  // namespace devrt::race::oracle

#endif  // DEVRT_TESTS_LAYERS_VALIDATE_ORACLE_GENERATOR_H_
