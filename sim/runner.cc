// SPDX-License-Identifier: Apache-2.0
#include "sim/runner.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "backends/text/settings.h"
#include "devrt/backends/abi/devrt_race.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/validate.h"
#include "runtime/common/text.h"
#include "runtime/registry/registry.h"
#include "streams/objects/device_streams.h"

namespace devrt::sim {
namespace {

constexpr char kKeyUrl[] = "devrt/sim/failure-key";
constexpr char kStepLimit[] = "step_limit=1000000";

// Returns true if reports of a race detector had call stacks before.
bool SetStacks(const Simulator& simulator, bool wanted) {
  internal::DeviceRecord* const device =
      internal::BackendRecord::Of(simulator.backend())->devices[0];
  const auto& race = internal::DeviceStreams::Of(device)->race;
  if (race.table == nullptr ||
      !DEVRT_HAS_FIELD(race.table, devrt_race_v0, set_stacks)) {
    return false;
  }
  return race.table->set_stacks(race.self, wanted ? 1 : 0) != 0;
}

// ---- a body that ends the process or its thread ----

// The run that is made now, for an end in the middle of it.  The text stays
// when the thread that set it ends.
char g_run[2000];
std::atomic<pid_t> g_process_of_run{0};  // 0: no body runs

void NameTheRun(const char* what) {
  // A child that the body forks ends on its own.
  if (g_process_of_run.load() != getpid()) return;
  std::fprintf(stderr, "devrt: the body %s in the run with %s\n", what, g_run);
}

void NameTheRunAtExit() { NameTheRun("called exit()"); }
void NameTheRunAtQuickExit() { NameTheRun("called quick_exit()"); }

// ---- abort() ----

int g_abort_watches = 0;
struct sigaction g_before_abort {};  // the handler of others

void Write(const char* text) {
  const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(written);
}

void OnAbort(int signal) {
  // The report of a time limit has the run already.
  if (g_process_of_run.exchange(0) == getpid() && !RunLimit::HasExpired()) {
    Write("devrt: the body called abort() in the run with ");
    Write(g_run);
    Write("\n");
  }
  // It comes again when this handler returns.  A handler that a body has set
  // may hand it back to this one, as Python's faulthandler does.
  sigaction(signal, &g_before_abort, nullptr);
  g_before_abort = {};
  raise(signal);
}

bool IsOnAbort(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == &OnAbort;
}

class RunNow {
 public:
  explicit RunNow(const std::string& name) {
    static const int registered = std::atexit(&NameTheRunAtExit) +
                                  std::at_quick_exit(&NameTheRunAtQuickExit);
    static_cast<void>(registered);
    std::snprintf(g_run, sizeof g_run, "%s", name.c_str());
    g_process_of_run = getpid();
  }
  RunNow(const RunNow&) = delete;
  RunNow& operator=(const RunNow&) = delete;
  ~RunNow() { g_process_of_run = 0; }
};

std::atomic<const char*> g_holder_of_turn{nullptr};

// ---- failures ----

std::string NameOfException() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an exception";
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &failed), &std::free);
  return name != nullptr ? name.get() : type->name();
}

absl::Status ExceptionError(const std::string& text) {
  return absl::UnknownError(absl::StrCat("the body threw ", NameOfException(),
                                         text.empty() ? "" : ": ", text));
}

// The text without its numbers, which differ between runs of one failure.
std::string WithoutNumbers(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) {
      out += text[i];
      continue;
    }
    out += '#';
    while (i + 1 < text.size() &&
           std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0) {
      ++i;
    }
    if (text.substr(i + 1, 1) == "x") ++i;
  }
  return out;
}

absl::Status FindingsError(const std::vector<validate::Finding>& findings) {
  std::set<std::string> ids;
  std::string text;
  for (const validate::Finding& finding : findings) {
    ids.insert(finding.id);
    absl::StrAppend(&text, text.empty() ? "" : "\n", finding.text);
  }
  absl::Status status = absl::FailedPreconditionError(text);
  std::string key = "race";
  for (const std::string& id : ids) absl::StrAppend(&key, " ", id);
  SetFailureKey(key, &status);
  return status;
}

absl::Status CheckKeys(const std::string& config) {
  DEVRT_RETURN_IF_ERROR(CheckMode(config, "Options::config"));
  internal::SettingsReader reader(config, '=');
  while (const std::optional<internal::Setting> setting = reader.Next()) {
    if (setting->key != "seed" && setting->key != "strategy") continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "Options::config has the key ", internal::Quoted(setting->key),
        ", which changes from run to run: set Options::seed or "
        "Options::strategies"));
  }
  return absl::OkStatus();
}

}  // namespace

bool HasKey(const std::string& config, std::string_view key) {
  internal::SettingsReader reader(config, '=');
  while (const std::optional<internal::Setting> setting = reader.Next()) {
    if (setting->key == key) return true;
  }
  return false;
}

absl::Status CheckMode(const std::string& config, const char* option) {
  internal::SettingsReader reader(config, '=');
  while (const std::optional<internal::Setting> setting = reader.Next()) {
    if (setting->key != "mode" || setting->value != "threaded") continue;
    return absl::InvalidArgumentError(
        absl::StrCat(option,
                     " has mode=threaded, in which nobody chooses the "
                     "schedule: leave the mode out"));
  }
  return absl::OkStatus();
}

void SetFailureKey(std::string_view key, absl::Status* status) {
  status->SetPayload(kKeyUrl, absl::Cord(internal::ToAbsl(key)));
}

std::string FailureKey(const absl::Status& status) {
  if (status.ok()) return std::string();
  if (const auto key = status.GetPayload(kKeyUrl)) return std::string(*key);
  return absl::StrCat(static_cast<int>(status.code()), " ",
                      WithoutNumbers(internal::ToStd(status.message())));
}

AbortWatch::AbortWatch() {
  if (g_abort_watches++ != 0) return;
  struct sigaction action {};
  action.sa_handler = &OnAbort;
  sigemptyset(&action.sa_mask);
  sigaction(SIGABRT, &action, &g_before_abort);
  // A handler that a body has set may have put this one back when it left.
  if (IsOnAbort(g_before_abort)) g_before_abort = {};
}

AbortWatch::~AbortWatch() {
  if (--g_abort_watches != 0) return;
  struct sigaction now {};
  sigaction(SIGABRT, nullptr, &now);
  // The body may have set one of its own.
  if (IsOnAbort(now)) {
    sigaction(SIGABRT, &g_before_abort, nullptr);
  }
}

absl::Status CheckOutsideBody() {
  if (g_process_of_run.load() == 0) return absl::OkStatus();
  const char* const holder = g_holder_of_turn.load();
  return absl::FailedPreconditionError(absl::StrCat(
      holder != nullptr ? holder : "a witness",
      " runs already: explore, sweep faults and seek witnesses outside of a "
      "body, one after another"));
}

absl::Status Turn::Take(const char* holder) {
  DEVRT_RETURN_IF_ERROR(CheckOutsideBody());
  const char* other = nullptr;
  if (!g_holder_of_turn.compare_exchange_strong(other, holder)) {
    return absl::FailedPreconditionError(absl::StrCat(
        other, " runs already: explore and sweep faults one after another"));
  }
  has_it_ = true;
  watch_.emplace();
  return absl::OkStatus();
}

Turn::~Turn() {
  watch_.reset();
  if (has_it_) g_holder_of_turn = nullptr;
}

Runner::Runner(Simulator simulator, const Options* options, const Body* body)
    : simulator_(simulator), options_(*options), body_(*body) {}

Runner::~Runner() {
  // Without it the record is that of an exploration around this one.
  if (keeps_decisions_) simulator_.KeepDecisions(false).IgnoreError();
  if (had_stacks_) SetStacks(simulator_, true);
}

absl::Status Runner::Open(bool limits) {
  DEVRT_RETURN_IF_ERROR(turn_.Take("an exploration"));
  DEVRT_RETURN_IF_ERROR(CheckKeys(options_.config));
  if (options_.time_limit < std::chrono::nanoseconds(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Options::time_limit is ", options_.time_limit.count(),
                     " ns: 0 for no limit, or above"));
  }
  if (limits && options_.time_limit.count() != 0) {
    limit_.emplace(options_.time_limit);
    DEVRT_RETURN_IF_ERROR(limit_->Open());
  }
  config_ = options_.config;
  if (!HasKey(config_, "step_limit")) {
    config_ =
        config_.empty() ? kStepLimit : absl::StrCat(kStepLimit, ",", config_);
  }
  had_stacks_ = SetStacks(simulator_, false);
  return KeepDecisions(true);
}

absl::Status Runner::KeepDecisions(bool on) {
  if (on == keeps_decisions_) return absl::OkStatus();
  DEVRT_RETURN_IF_ERROR(simulator_.KeepDecisions(on));
  keeps_decisions_ = on;
  return absl::OkStatus();
}

absl::Status Runner::BeforeRun() const {
  return options_.before_run ? options_.before_run() : absl::OkStatus();
}

absl::Status Runner::Reset(const std::string& settings) {
  is_reset_ = false;
  DEVRT_RETURN_IF_ERROR(internal::WithPrefix(
      runs_ == 0
          ? ""
          : absl::StrCat("after ", internal::Counted(runs_, "run"), ": "),
      simulator_.Reset(settings)));
  is_reset_ = true;
  return absl::OkStatus();
}

absl::StatusOr<Run> Runner::Start(std::string_view strategy, uint64_t seed) {
  DEVRT_RETURN_IF_ERROR(BeforeRun());
  const std::string name =
      absl::StrCat("strategy=", internal::ToAbsl(strategy), ",seed=", seed);
  DEVRT_RETURN_IF_ERROR(Reset(absl::StrCat(config_, ",", name)));
  DEVRT_RETURN_IF_ERROR(KeepDecisions(false));
  return Make(name);
}

absl::StatusOr<Run> Runner::Replay(std::string_view token) {
  DEVRT_RETURN_IF_ERROR(BeforeRun());
  if (!is_reset_) {
    DEVRT_RETURN_IF_ERROR(Reset(config_));
  }
  DEVRT_RETURN_IF_ERROR(KeepDecisions(true));
  DEVRT_RETURN_IF_ERROR(simulator_.Replay(token));
  return Make(absl::StrCat("the token ", internal::ToAbsl(token)));
}

absl::StatusOr<std::string> Runner::EmptyToken() {
  DEVRT_RETURN_IF_ERROR(BeforeRun());
  DEVRT_RETURN_IF_ERROR(Reset(absl::StrCat(config_, ",strategy=alap")));
  return simulator_.Token();
}

absl::StatusOr<Run> Runner::Make(const std::string& name) {
  ++runs_;
  DEVRT_RETURN_IF_ERROR(simulator_.EnableTimeline(true));
  const bool has_detector = options_.race && validate::IsActive();
  Run run;
  {
    std::optional<validate::Scope> scope;
    if (has_detector) scope.emplace();
    run.status = CallBody([this] { return CallInLimit(); }, name);
    if (absl::IsCancelled(run.status)) return run.status;
    if (scope.has_value()) {
      run.findings = scope->Findings();
      if (run.status.ok() && !run.findings.empty()) {
        run.status = FindingsError(run.findings);
      }
    }
  }
  // A long run has no token; it is explored all the same.
  const Quiet quiet;  // about what a token leaves to the operating system
  absl::StatusOr<std::string> token = simulator_.Token();
  if (token.ok()) run.token = *std::move(token);
  DEVRT_ASSIGN_OR_RETURN(const SimulatorStats stats, simulator_.Stats());
  run.uncontrolled = stats.uncontrolled;
  DEVRT_ASSIGN_OR_RETURN(run.trace, simulator_.TraceHash());
  DEVRT_ASSIGN_OR_RETURN(run.operations, simulator_.Timeline());
  if (keeps_decisions_) {
    DEVRT_ASSIGN_OR_RETURN(run.decisions, simulator_.Decisions());
  }
  return run;
}

absl::Status Runner::CallInLimit() {
  std::optional<RunLimit::Part> part;
  if (limit_.has_value()) {
    part.emplace(&*limit_,
                 absl::StrCat("devrt: a run of the exploration takes longer "
                              "than its time limit. The run is the one with ",
                              g_run, "\n", found_));
  }
  return body_();
}

void Runner::NoteFailure(const Run& run) {
  found_ = absl::StrCat(
      "A run failed before that: the one with ",
      run.token.empty() ? "no token" : absl::StrCat("the token ", run.token),
      ": ", StatusText(run.status), "\n");
}

absl::Status CallBody(const Body& body, const std::string& name) {
  const RunNow now(name);
  try {
    return body();
  } catch (const std::exception& error) {
    return ExceptionError(error.what());
  } catch (...) {
    // The end of the thread is no exception, and must go on.
    if (std::current_exception() == nullptr) {
      NameTheRun("ended its thread");
      throw;
    }
    return ExceptionError("");
  }
}

}  // namespace devrt::sim
