// SPDX-License-Identifier: Apache-2.0
//
// Makes a failing program smaller.

#ifndef DEVRT_CTS_RANDOM_SHRINK_H_
#define DEVRT_CTS_RANDOM_SHRINK_H_

#include <functional>

#include "cts/random/model.h"
#include "cts/random/program.h"

namespace devrt::cts {

// Returns a part of `failing` that still fails and that has no step to spare.
// If `out_of_time` returns true earlier, returns the smallest program so far
// for which `fails` returned true, or `failing`.  `fails` gets only legal and
// compact programs.
Program Shrink(const Program& failing, const Limits& limits,
               const std::function<bool(const Program&)>& fails,
               const std::function<bool()>& out_of_time);

// Removes objects, threads and devices that no step uses.
Program Compact(const Program& program, const Limits& limits);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_SHRINK_H_
