// SPDX-License-Identifier: Apache-2.0
#include "tools/check/witness.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/text/witness_runs.h"
#include "devrt/runtime/status.h"
#include "nlohmann/json.hpp"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

using Result = CheckedWitness::Result;

// A directed run may take this many times the ordinary run, and at least:
constexpr int kMostTimes = 10;
constexpr std::chrono::milliseconds kLeastLimit{10'000};

constexpr char kMachine[] = "DEVRT_MTIA";
constexpr char kReplay[] = "DEVRT_SIM_REPLAY";

std::string Seconds(std::chrono::milliseconds time) {
  return absl::StrFormat("%.0f s", std::chrono::duration<double>(time).count());
}

std::string CommandLine(const std::vector<std::string>& words) {
  return absl::StrJoin(words, " ",
                       [](std::string* out, const std::string& word) {
                         out->append(ShellWord(word));
                       });
}

class Search {
 public:
  explicit Search(const WitnessSearch& search)
      : search_(search),
        limit_(std::max(kLeastLimit, search.ordinary * kMostTimes)) {
    const char* const machine = std::getenv(kMachine);
    if (machine != nullptr) machine_ = machine;
  }

  // Sets `why_not_` if no directed run makes sense.
  void MakeReference() {
    reference_ = RunIn(internal::ReferenceRun(machine_));
    if (!why_not_.empty()) return;
    if (reference_.is_late) {
      why_not_ = absl::StrCat(
          "the program did not end within ", Seconds(limit_),
          " in the reference run, where each operation completes at once");
    } else if (reference_.processes != 1) {
      why_not_ = absl::StrFormat(
          "a directed run is for a program with one process on the simulator, "
          "and the reference run had %d",
          reference_.processes);
    } else if (reference_.outcome.restarts != 0) {
      why_not_ =
          "the program restarts the simulator itself, by Simulator::Reset or "
          "the fixture sim, and so chooses its schedules";
    } else if (reference_.outcome.hash.empty()) {
      // Without its values every run would look like the reference run.
      why_not_ =
          "the program ends by _exit or a signal, so its values are not known";
    } else if (Differs(RunIn(internal::ReferenceRun(machine_)))) {
      why_not_ =
          "two runs in one schedule computed different values: the program "
          "depends on time, chance or threads";
    }
  }

  CheckedWitness Try(const CheckedFinding& finding) {
    CheckedWitness witness;
    witness.text = WhyNot(finding);
    while (witness.text.empty() && witness.runs < search_.runs) {
      ++witness.runs;
      const std::string machine =
          internal::DirectedRun(machine_, static_cast<uint64_t>(witness.runs),
                                witness.runs, finding.hold, finding.until);
      const Ended ended = RunIn(machine);
      if (!why_not_.empty()) witness.text = why_not_;
      if (why_not_.empty() && Differs(ended)) Confirm(ended, machine, &witness);
    }
    if (witness.text.empty()) {
      witness.result = Result::kUnconfirmed;
      witness.text = absl::StrCat("unconfirmed in ",
                                  Counted(witness.runs, "directed run"));
    }
    return witness;
  }

 private:
  struct Ended {
    int exit_code = 0;
    bool is_late = false;
    size_t processes = 0;  // on the simulator
    CheckedOutcome outcome;
  };

  bool Differs(const Ended& ended) const {
    return ended.is_late || ended.exit_code != reference_.exit_code ||
           ended.outcome.hash != reference_.outcome.hash;
  }

  std::string WhyNot(const CheckedFinding& finding) const {
    if (!why_not_.empty()) return why_not_;
    if (!finding.IsOfPair()) {
      return "the finding is not about two operations, one of which could be "
             "held";
    }
    if (!finding.LacksOrder()) return "the mistake is in every schedule";
    if (finding.hold.empty()) {
      return "the simulator does not run the earlier operation, and so cannot "
             "hold it";
    }
    if (finding.until.empty()) {
      return "the later operation is not one of the simulator's thread";
    }
    return "";
  }

  // Runs the program on the machine.  An error sets `why_not_`.
  Ended RunIn(const std::string& machine) {
    Ended ended;
    const int file = memfd_create("devrt-check", MFD_CLOEXEC);
    const auto close_file = absl::MakeCleanup([=] { close(file); });
    Variables variables = search_.variables;
    variables.emplace_back("DEVRT_RACE_FILE", PathOfOpenFile(file));
    variables.emplace_back("DEVRT_RACE_STACKS", "off");
    variables.emplace_back("DEVRT_LOG", "off");
    variables.emplace_back(kMachine, machine);
    const absl::StatusOr<EndedProgram> program =
        RunQuietly(search_.words, variables, limit_);
    if (!program.ok()) {
      why_not_ = std::string(program.status().message());
      return ended;
    }
    if (program->is_interrupted) why_not_ = "a signal ended the search";
    const CheckedRun run = ReadFindings(ReadAll(file));
    ended.exit_code = program->exit_code;
    ended.is_late = program->is_late;
    ended.processes = run.simulators;
    if (run.outcomes.size() == 1) ended.outcome = run.outcomes[0];
    return ended;
  }

  void Confirm(const Ended& ended, const std::string& machine,
               CheckedWitness* witness) const {
    witness->token = ended.outcome.token;
    if (witness->token.empty()) {
      witness->variables = {{kMachine, machine}};
    } else {
      witness->variables = {{kReplay, witness->token}};
      if (!machine_.empty()) {
        witness->variables.emplace_back(kMachine,
                                        internal::ReplayedMachine(machine_));
      }
    }
    if (ended.is_late) {
      witness->result = Result::kHang;
      witness->text = absl::StrFormat(
          "the program does not end within %s in directed run %d",
          Seconds(limit_), witness->runs);
    } else if (ended.exit_code != reference_.exit_code) {
      witness->result = Result::kOtherExit;
      witness->text =
          absl::StrFormat("exit code %d in place of %d in directed run %d",
                          ended.exit_code, reference_.exit_code, witness->runs);
    } else {
      witness->result = Result::kWrongValue;
      witness->text =
          absl::StrFormat("wrong value in directed run %d", witness->runs);
    }
    absl::StrAppend(&witness->text, "; repeat it with ",
                    VariablesText(*witness), " ", CommandLine(search_.words));
  }

  const WitnessSearch& search_;
  const std::chrono::milliseconds limit_;
  std::string machine_;  // of the user
  Ended reference_;
  std::string why_not_;  // empty: directed runs make sense
};

const char* NameOf(Result result) {
  switch (result) {
    case Result::kNone:
      return "none";
    case Result::kUnconfirmed:
      return "unconfirmed";
    case Result::kWrongValue:
      return "wrong-value";
    case Result::kOtherExit:
      return "failure";
    case Result::kHang:
      break;
  }
  return "hang";
}

}  // namespace

void FindWitnesses(const WitnessSearch& search, CheckedRun* run) {
  if (run->findings.empty()) return;
  if (run->simulators == 0) {
    CheckedWitness none;
    none.text =
        absl::StrCat("a witness needs the simulator; repeat it there with ",
                     "DEVRT_BACKENDS=mtia devrt check --witness -- ",
                     CommandLine(search.words));
    for (CheckedFinding& finding : run->findings) finding.witness = none;
    return;
  }
  unsetenv(kReplay);  // the search chooses the schedules
  Search directed(search);
  directed.MakeReference();
  for (CheckedFinding& finding : run->findings) {
    finding.witness = directed.Try(finding);
  }
}

std::string VariablesText(const CheckedWitness& witness) {
  return absl::StrJoin(
      witness.variables, " ", [](std::string* out, const auto& variable) {
        absl::StrAppend(out, variable.first, "=", ShellWord(variable.second));
      });
}

std::string WitnessRecord(const CheckedFinding& finding) {
  const CheckedWitness& witness = *finding.witness;
  nlohmann::json record = {{"record", "witness"},
                           {"finding", finding.id},
                           {"result", NameOf(witness.result)},
                           {"runs", witness.runs},
                           {"text", witness.text}};
  if (!witness.token.empty()) record["token"] = witness.token;
  for (const auto& [name, value] : witness.variables) {
    record["variables"][name] = value;
  }
  return record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

}  // namespace devrt::tools
