// SPDX-License-Identifier: Apache-2.0
#include "tools/cts/progress.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "absl/strings/str_format.h"
#include "tools/common/terminal.h"
#include "tools/cts/reports.h"

namespace devrt::tools {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int kSignalled = 128;

volatile std::sig_atomic_t g_signal = 0;

bool CanRewriteLines() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && kind != nullptr &&
         std::string_view(kind) != "dumb";
}

}  // namespace

Interruption::Interruption() {
  struct sigaction note = {};
  note.sa_handler = [](int number) { g_signal = number; };
  for (size_t i = 0; i < 3; ++i) sigaction(kSignals[i], &note, &before_[i]);
}

Interruption::~Interruption() {
  for (size_t i = 0; i < 3; ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

bool Interruption::WasSignalled() { return g_signal != 0; }

int Interruption::Code() { return kSignalled + g_signal; }

Progress::Progress(bool failures)
    : failures_(failures), terminal_(CanRewriteLines()) {}

void Progress::Begin(const cts::TestInfo& test) {
  if (!terminal_) return;
  Clear();
  absl::FPrintF(stderr, "%d done, %d failed; %s", done_, failed_, test.name);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::End(const cts::TestResult& result) {
  ++done_;
  if (result.outcome != cts::TestResult::Outcome::kFailed) return;
  ++failed_;
  Clear();
  // A test that fails because a slot is not written appears at the end, with
  // that slot.
  if (!failures_ || !result.unwritten.empty()) return;
  Print(FailureText(result));
  std::fflush(stdout);
}

bool Progress::Interrupted() { return Interruption::WasSignalled(); }

void Progress::Clear() {
  if (!shown_) return;
  absl::FPrintF(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace devrt::tools
