// SPDX-License-Identifier: Apache-2.0
//
// The witness of each race of the corpus: a directed run in which the program
// computes something else.  At least 95 of 100 races have one within 64 runs.

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/layers/validate_corpus.h"
#include "tests/layers/validate_findings.h"

namespace devrt::testing {
namespace {

using nlohmann::json;

constexpr double kLeastShare = 0.95;

// Races that have no witness, each with the reason.
const std::map<std::string, std::string>& Unconfirmed() {
  static const auto* const known = new std::map<std::string, std::string>{
      {"AKernelUsesMemoryOfAnotherDevice",
       "the kernel faults in every schedule, for want of peer access"},
      {"PeerAccessEndsBeforeTheKernel", "as above"},
      {"PeerAccessOfTheOtherDirection", "as above"},
  };
  return *known;
}

using Body = std::function<void(Program&)>;

void RunProgram(const Body& body, bool mended) {
  {
    Program program(mended);
    body(program);
  }
  for (const char* const name : {"mtia:0", "mtia:1"}) {
    EXPECT_OK(EmptyCache(Must(GetDevice(name))));
  }
  EXPECT_OK(EmptyPinnedCache(Must(GetBackend("mtia"))));
}

// Runs the program; its failed expectations are an error, and no failure here.
absl::Status RunFaulty(const Mistake& mistake) {
  ::testing::TestPartResultArray failures;
  {
    const ::testing::ScopedFakeTestPartResultReporter intercept(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS,
        &failures);
    RunProgram(mistake.body, false);
  }
  return failures.size() == 0
             ? absl::OkStatus()
             : absl::InternalError(failures.GetTestPartResult(0).message());
}

bool IsRace(const validate::Finding& finding) {
  return finding.kind != "use-after-free" && finding.kind != "wrong-device";
}

// Writes a line for each race of the program.
void FindWitnesses(const Mistake& mistake, const std::string& path) {
  std::ofstream lines(path, std::ios::app);
  const auto write = [&](const std::string& kind, const std::string& result,
                         int runs, const std::string& text) {
    lines << json({{"name", mistake.name},
                   {"kind", kind},
                   {"result", result},
                   {"runs", runs},
                   {"text", text}})
          << "\n";
  };
  const absl::StatusOr<sim::Witness> witness =
      sim::Witness::Create(Must(Simulator::Get()),
                           [&] { return RunFaulty(mistake); }, {"devices=2"});
  if (!witness.ok()) {
    return write("", "error", 0, std::string(witness.status().message()));
  }
  for (const validate::Finding& finding : witness->findings()) {
    if (!IsRace(finding)) {
      write(finding.kind, "no race", 0, "");
      continue;
    }
    const absl::StatusOr<sim::WitnessResult> result = witness->Try(finding);
    if (!result.ok()) {
      write(finding.kind,
            absl::IsInvalidArgument(result.status()) ? "unseen" : "error", 0,
            std::string(result.status().message()));
    } else {
      write(finding.kind, result->confirmed ? "confirmed" : "unconfirmed",
            result->runs, result->text);
    }
  }
}

class Races {
 public:
  void Add(const Mistake& mistake) {
    const std::string path =
        ::testing::TempDir() + "witness." + std::to_string(getpid()) + ".jsonl";
    std::filesystem::remove(path);
    const FindingsFile findings;
    const ProcessResult ended =
        findings.RunInChild([&] { FindWitnesses(mistake, path); });
    EXPECT_EQ(ended.exit_code, 0) << mistake.name << ": " << ended;
    std::ifstream lines(path);
    for (std::string line; std::getline(lines, line);) Count(json::parse(line));
    std::filesystem::remove(path);
  }

  int of(const std::string& result) const {
    const auto found = counts_.find(result);
    return found == counts_.end() ? 0 : found->second;
  }
  const std::vector<json>& rest() const { return rest_; }
  int first() const { return first_; }
  int most() const { return most_; }

 private:
  void Count(const json& race) {
    const std::string result = race.at("result");
    ++counts_[result];
    if (result == "confirmed") {
      const int runs = race.at("runs");
      first_ += runs == 1 ? 1 : 0;
      most_ = std::max(most_, runs);
    } else if (result != "no race") {
      rest_.push_back(race);
    }
  }

  std::map<std::string, int> counts_;
  std::vector<json> rest_;
  int first_ = 0;
  int most_ = 0;
};

TEST(ValidateWitness, TheRacesOfTheCorpusBecomeWrongValues) {
  Races races;
  for (const Mistake& mistake : AllMistakes()) races.Add(mistake);
  const int confirmed = races.of("confirmed");
  const int all = confirmed + races.of("unconfirmed") + races.of("error");
  std::printf(
      "%d of %d races confirmed, %d of them in the first directed run, the "
      "slowest in run %d; %d races of work that the simulator does not run; %d "
      "mistakes that are no races\n",
      confirmed, all, races.first(), races.most(), races.of("unseen"),
      races.of("no race"));
  for (const json& race : races.rest()) {
    std::printf("  %s\n", race.dump().c_str());
    if (race.at("result") == "unseen") continue;
    const auto reason = Unconfirmed().find(race.at("name"));
    ASSERT_NE(reason, Unconfirmed().end()) << race;
    std::printf("    %s\n", reason->second.c_str());
  }
  EXPECT_GE(confirmed, kLeastShare * all);
}

uint64_t OutcomeOfMended(const Body& body, const std::string& schedule) {
  const Simulator simulator = Must(Simulator::Get());
  EXPECT_OK(simulator.Reset("devices=2,outcome=on," + schedule));
  RunProgram(body, true);
  return Must(simulator.Outcome());
}

// A wrong value is one that no schedule of the right program has.
void ExpectOneOutcome(const char* name, const Body& body) {
  constexpr int kSchedules = 20;
  const FindingsFile findings;
  const ProcessResult ended = findings.RunInChild([&] {
    setenv("DEVRT_RACE", "witness", 1);
    const uint64_t reference = OutcomeOfMended(body, "strategy=asap");
    for (int seed = 1; seed <= kSchedules; ++seed) {
      EXPECT_EQ(
          OutcomeOfMended(body, "strategy=random,seed=" + std::to_string(seed)),
          reference)
          << "in schedule " << seed;
    }
  });
  EXPECT_EQ(ended.exit_code, 0) << name << ": " << ended;
}

TEST(ValidateWitness, MendedProgramsComputeOneValue) {
  for (const Mistake& mistake : AllMistakes()) {
    ExpectOneOutcome(mistake.name, mistake.body);
  }
  for (const RightProgram& program : RightPrograms()) {
    ExpectOneOutcome(program.name, program.body);
  }
}

}  // namespace
}  // namespace devrt::testing
