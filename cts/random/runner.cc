// SPDX-License-Identifier: Apache-2.0
#include "cts/random/runner.h"

#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cts/random/run_state.h"
#include "cts/random/turns.h"

namespace devrt::cts {
namespace {

// The host threads of a running program; thread 0 is the caller.
class Crew {
 public:
  Crew(const Program& program, const Venue& venue, RunState* state)
      : program_(program),
        state_(state),
        turns_(venue.simulator,
               [this] {
                 state_->Fail(SIZE_MAX, "a call has not come back");
                 state_->OpenGates();
               }),
        started_(static_cast<size_t>(program.threads)) {}

  void Run() {
    program_.concurrent ? RunTogether() : RunInTurn();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  // A thread starts at its first step and ends after its last step.  Its end
  // also lets the next thread run under a simulator.
  void RunInTurn() {
    StartThreadOf(0);
    turns_.Pass(0);
    TakeTurns(0);
    turns_.Await(static_cast<int>(program_.steps.size()));
  }

  void StartThreadOf(size_t step) {
    if (step == program_.steps.size()) return;
    const int thread = program_.steps[step].thread;
    if (thread == 0 || started_[static_cast<size_t>(thread)]) return;
    started_[static_cast<size_t>(thread)] = true;
    threads_.emplace_back([this, thread] { TakeTurns(thread); });
  }

  void TakeTurns(int thread) {
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      if (program_.steps[i].thread != thread) continue;
      turns_.Await(static_cast<int>(i));
      state_->Do(i);
      StartThreadOf(i + 1);
      turns_.Pass(static_cast<int>(i) + 1);
    }
  }

  void RunTogether() {
    for (int t = 1; t < program_.threads; ++t) {
      threads_.emplace_back([this, t] { Between(t); });
    }
    Between(0);
  }

  void Between(int thread) {
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      if (program_.steps[i].act == Act::kBarrier) {
        turns_.Meet(program_.threads);
      } else if (program_.steps[i].thread == thread) {
        state_->Do(i);
      }
    }
  }

  const Program& program_;
  RunState* const state_;
  Turns turns_;
  std::vector<bool> started_;  // used only by the thread with the turn
  std::vector<std::thread> threads_;
};

}  // namespace

std::optional<Mismatch> RunProgram(const Program& program, const Venue& venue) {
  const auto state = std::make_shared<RunState>(program, venue);
  Crew(program, venue, state.get()).Run();
  state->GiveUp();
  return state->mismatch();
}

}  // namespace devrt::cts
