// SPDX-License-Identifier: Apache-2.0
//
// Programs that find joins missing in arrays/: without one of the joins, some
// schedule gives another result.

#ifndef DEVRT_TESTS_ARRAYS_ORDER_LITMUS_H_
#define DEVRT_TESTS_ARRAYS_ORDER_LITMUS_H_

#include <vector>

namespace devrt::testing {

struct Litmus {
  const char* name;
  // Runs the program, and waits for all its work.  Returns true if the result
  // was right.
  bool (*run)();
};

// All programs, with those of the functions below.
const std::vector<Litmus>& AllLitmus();
// Programs with consumers on adopted streams that end.
const std::vector<Litmus>& AdoptedLitmus();
// Programs that exchange arrays.
const std::vector<Litmus>& ExchangeLitmus();
// Programs about the end of memory, captures, and adopted streams.
const std::vector<Litmus>& EndLitmus();

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_ARRAYS_ORDER_LITMUS_H_
