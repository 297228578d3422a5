// SPDX-License-Identifier: Apache-2.0
//
// Small programs with a mistake in the order of host threads.

#ifndef DEVRT_TESTS_SIM_THREAD_MISTAKES_H_
#define DEVRT_TESTS_SIM_THREAD_MISTAKES_H_

#include <vector>

#include "absl/status/status.h"

namespace devrt::testing {

struct ThreadMistake {
  const char* name;
  const char* text;  // a part of the status of a run that shows it
  // With `mended` the program is right.
  absl::Status (*run)(bool mended);
  bool has_locks_of_std = false;
};

const std::vector<ThreadMistake>& LockMistakes();
const std::vector<ThreadMistake>& OrderMistakes();

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SIM_THREAD_MISTAKES_H_
