// SPDX-License-Identifier: Apache-2.0
//
// Shows how two runs differ.

#ifndef DEVRT_SIM_COMPARE_H_
#define DEVRT_SIM_COMPARE_H_

#include <string>
#include <vector>

#include "devrt/sim/explore.h"

namespace devrt::sim {

// The steps of both runs in two columns, equal ones in one row; '|' marks rows
// that differ.
std::string SideBySide(const Run& left, const Run& right);

// The first step at which the runs differ, in words; empty if nothing is known.
std::string FirstDifference(const Run& first, const Run& second);

// A line for each decision of the run that is not the default.
std::vector<std::string> DecisionTexts(const Run& run);

// A line for each two operations that conflict and whose order differs.
std::vector<std::string> TurnedTexts(const Run& failing, const Run& passing);

// A picture of both runs.
std::string PictureOf(const Run& failing, const Run& passing);

}  // namespace devrt::sim

#endif  // DEVRT_SIM_COMPARE_H_
