// SPDX-License-Identifier: Apache-2.0
//
// Programs whose result shows whether arrays/ joins what it has to: in
// some schedule a join that is left out gives another value.

#ifndef DEVRT_TESTS_ARRAYS_ORDER_LITMUS_H_
#define DEVRT_TESTS_ARRAYS_ORDER_LITMUS_H_

#include <vector>

namespace devrt::testing {

struct Litmus {
  const char* name;
  // Whether the result was right.  Leaves nothing pending.
  bool (*run)();
};

// All there are, those below with them.
const std::vector<Litmus>& AllLitmus();
// Of consumers on adopted streams that end.
const std::vector<Litmus>& AdoptedLitmus();
// Of exchanges.
const std::vector<Litmus>& ExchangeLitmus();
// Of the end of memory, of captures, and of adopted streams.
const std::vector<Litmus>& EndLitmus();

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_ARRAYS_ORDER_LITMUS_H_
