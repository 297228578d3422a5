// SPDX-License-Identifier: Apache-2.0
//
// Makes a failing program small.

#ifndef DEVRT_CTS_RANDOM_SHRINK_H_
#define DEVRT_CTS_RANDOM_SHRINK_H_

#include <functional>

#include "cts/random/model.h"
#include "cts/random/program.h"

namespace devrt::cts {

// A part of `failing` that still fails and from which no step can be left out,
// as far as `fails` could be asked before `out_of_time` said true: the last
// program of which `fails` said true, or `failing` where it never did.  Every
// program that is asked about is legal and compact.
Program Shrink(const Program& failing, const Limits& limits,
               const std::function<bool(const Program&)>& fails,
               const std::function<bool()>& out_of_time);

// Without tables' entries that no step uses; threads and devices, too.
Program Compact(const Program& program, const Limits& limits);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_SHRINK_H_
