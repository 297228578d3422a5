// SPDX-License-Identifier: Apache-2.0
//
// Runs a program again in directed schedules of the simulator, so that each
// finding shows what it does to the program's values.

#ifndef DEVRT_TOOLS_CHECK_WITNESS_H_
#define DEVRT_TOOLS_CHECK_WITNESS_H_

#include <chrono>
#include <string>
#include <vector>

#include "tools/common/program.h"
#include "tools/timeline/findings_file.h"

namespace devrt::tools {

struct WitnessSearch {
  std::vector<std::string> words;  // the program's command line
  Variables variables;             // of the ordinary run
  int runs = 0;                    // directed runs for each finding, at most
  std::chrono::milliseconds ordinary{};  // how long the ordinary run took
};

// Sets the witness of each finding.  The program's output is left out.
void FindWitnesses(const WitnessSearch& search, CheckedRun* run);

// "DEVRT_SIM_REPLAY=dvs1:...", for a shell.
std::string VariablesText(const CheckedWitness& witness);

// A line of JSON for the finding's witness.
std::string WitnessRecord(const CheckedFinding& finding);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_CHECK_WITNESS_H_
