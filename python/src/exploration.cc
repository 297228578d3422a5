// SPDX-License-Identifier: Apache-2.0
//
// Exploration of schedules and sweeps of faults, for devrt.testing.

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/sim/explore.h"
#include "devrt/sim/faults.h"
#include "python/src/bindings.h"
#include "python/src/bridge.h"
#include "python/src/call_site.h"
#include "python/src/public_class.h"

namespace devrt::python {
namespace {

using sim::Result;

// Lets operations have their lines of the program for one exploration.
class WithLines {
 public:
  WithLines() { SetSiteReader(SiteReader::kTimeline, true); }
  WithLines(const WithLines&) = delete;
  WithLines& operator=(const WithLines&) = delete;
  ~WithLines() { SetSiteReader(SiteReader::kTimeline, false); }
};

// Calls Python functions from an exploration, and keeps the exception that one
// of them raised, which ends the exploration.
class Calls {
 public:
  Calls(nb::handle before, nb::handle body) : before_(before), body_(body) {}

  absl::Status Before() {
    EndBridges();
    return Call([&] {
      Returned(before_);
      return absl::OkStatus();
    });
  }
  // The body returns None, or a text and a key for what has failed.
  absl::Status Body() {
    return Call([&]() -> absl::Status {
      const nb::object failure = Returned(body_);
      if (failure.is_none()) return absl::OkStatus();
      const auto texts = nb::cast<std::pair<std::string, std::string>>(failure);
      absl::Status status = absl::UnknownError(texts.first);
      sim::SetFailureKey(texts.second, &status);
      return status;
    });
  }
  void Rethrow() const {
    if (raised_ != nullptr) std::rethrow_exception(raised_);
  }

 private:
  template <typename F>
  absl::Status Call(F call) {
    const Locked lock;
    try {
      return call();
    } catch (const std::exception&) {
      raised_ = std::current_exception();
      return absl::CancelledError("Python raised an exception");
    }
  }
  static nb::object Returned(nb::handle function) {
    PyObject* const returned = CallPython(function.ptr(), nullptr);
    if (returned == nullptr) ThrowPythonError();
    return nb::steal(returned);
  }

  const nb::handle before_, body_;
  std::exception_ptr raised_;
};

std::chrono::nanoseconds ToTime(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

Result Explore(const std::string& what, const std::string& config,
               uint64_t runs, uint64_t seed,
               const std::vector<std::string>& strategies, uint64_t check_every,
               double seconds, const std::string& token, nb::object before,
               nb::object body) {
  Calls calls(before, body);
  sim::Options options;
  options.config = config;
  options.runs = runs;
  options.seed = seed;
  options.strategies = strategies;
  options.check_every = check_every;
  options.time_limit = ToTime(seconds);
  options.before_run = [&calls] { return calls.Before(); };
  const sim::Body run = [&calls] { return calls.Body(); };
  const WithLines lines;
  Result result = WithoutLock([&] {
    if (what == "enumerate") return sim::Enumerate(options, run);
    if (what == "shrink") return sim::Shrink(options, token, run);
    return sim::Explore(options, run);
  });
  calls.Rethrow();
  if (result.verdict == Result::Verdict::kNotStarted) Check(result.status);
  return result;
}

sim::SweepResult SweepFaults(const std::string& config,
                             const std::vector<std::string>& classes,
                             uint64_t most_points, double seconds,
                             const std::string& rule, const std::string& token,
                             nb::object around, nb::object body) {
  Calls calls(around, body);
  sim::SweepOptions options;
  options.rule = rule;
  options.token = token;
  options.config = config;
  options.classes = classes;
  options.most_points = most_points;
  options.time_limit = ToTime(seconds);
  options.around_run = [&calls] { return calls.Before(); };
  const sim::Body run = [&calls] { return calls.Body(); };
  const WithLines lines;
  sim::SweepResult result =
      WithoutLock([&] { return sim::FaultSweep(options, run); });
  calls.Rethrow();
  if (result.failures.empty()) Check(result.status);
  return result;
}

nb::list FailuresOf(const sim::SweepResult& result) {
  nb::list failures;
  for (const sim::SweepFailure& failure : result.failures) {
    nb::dict entry;
    entry["what"] = ToText(failure.what);
    entry["call"] = ToText(failure.call);
    entry["index"] = failure.index;
    entry["file"] = ToText(failure.file);
    entry["line"] = failure.line;
    entry["fault"] = ToText(failure.fault);
    entry["rule"] = ToText(failure.rule);
    entry["token"] = ToText(failure.token);
    failures.append(entry);
  }
  return failures;
}

const char* VerdictOf(const Result& result) {
  switch (result.verdict) {
    case Result::Verdict::kPassed:
      return "passed";
    case Result::Verdict::kFailed:
      return "failed";
    case Result::Verdict::kUncertain:
      return "uncertain";
    case Result::Verdict::kNotStarted:
      break;
  }
  return "not started";
}

// Without the newline at the end, which print() adds.
nb::object Lines(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return ToText(text);
}

nb::object TextOf(const Result& result) { return Lines(result.text()); }

}  // namespace

void BindExploration(nb::module_& module) {
  nb::class_<Result> result(
      module, "Exploration",
      "What the runs of an exploration have shown.  str() is the report.");
  MakePublic(result, "devrt.testing",
             "a devrt.testing.Exploration cannot be pickled or copied: keep "
             "its text");
  result.def("__str__", &TextOf)
      .def("__repr__", &TextOf)
      .def_prop_ro(
          "ok", [](const Result& self) { return self.ok(); },
          "True if no run failed and equal runs were equal.")
      .def_prop_ro("verdict", &VerdictOf,
                   "'passed', 'failed', or 'uncertain' if equal runs were not "
                   "equal.")
      .def_prop_ro(
          "token", [](const Result& self) { return ToText(self.token()); },
          "Repeats the smallest failing run, by --sim-replay; '' if none "
          "failed.")
      .def_ro("seed", &Result::seed, "The seed of the first run.")
      .def_ro("schedules", &Result::schedules,
              "How many runs were made, without repeated ones.")
      .def_ro("distinct", &Result::distinct,
              "How many of them differ in the order of operations that use one "
              "memory.")
      .def_ro("exhaustive", &Result::exhaustive,
              "True if no other schedule exists.")
      .def(
          "details", [](const Result& self) { return Lines(self.details()); },
          "Returns which decisions a failure needs, a failing and a passing "
          "run side\n"
          "by side, and what was covered.")
      .def(
          "svg", [](const Result& self) { return ToText(self.svg()); },
          "Draws the failing and a passing run, as the text of an SVG file; '' "
          "if no\n"
          "run failed.");
  nb::class_<sim::SweepResult> sweep(
      module, "FaultSweep",
      "What became of a function whose calls were made to fail.  str() is the "
      "report.");
  MakePublic(sweep, "devrt.testing",
             "a devrt.testing.FaultSweep cannot be pickled or copied: keep its "
             "text");
  sweep
      .def("__str__",
           [](const sim::SweepResult& self) { return Lines(self.text()); })
      .def("__repr__",
           [](const sim::SweepResult& self) { return Lines(self.text()); })
      .def_prop_ro(
          "ok", [](const sim::SweepResult& self) { return self.ok(); },
          "True if every fault was handled rightly.")
      .def_ro("points", &sim::SweepResult::points,
              "How many calls and operations can fail.")
      .def_ro("faults", &sim::SweepResult::faults, "How many runs had a fault.")
      .def_ro("reported", &sim::SweepResult::reported,
              "How many of them the body has raised.")
      .def_ro("handled", &sim::SweepResult::handled,
              "With how many of them the body succeeded.")
      .def_ro("missed", &sim::SweepResult::missed,
              "How many never came, because the runs differed.")
      .def_prop_ro("failures", &FailuresOf,
                   "The faults that were handled wrongly, a dict each.");
  module.def("_sweep_faults", &SweepFaults, nb::arg("config"),
             nb::arg("classes"), nb::arg("most_points"), nb::arg("seconds"),
             nb::arg("rule"), nb::arg("token"), nb::arg("around"),
             nb::arg("body"));
  module.def("_enable_faults",
             [] { Check(WithoutLock([] { return sim::EnableFaults(); })); });
  module.def(
      "_set_faults",
      [](const std::string& rules, const std::string& backend) {
        Check(WithoutLock([&] { return sim::SetFaults(rules, backend); }));
      },
      nb::arg("rules"), nb::arg("backend"));
  module.def("_explore", &Explore, nb::arg("what"), nb::arg("config"),
             nb::arg("runs"), nb::arg("seed"), nb::arg("strategies"),
             nb::arg("check_every"), nb::arg("seconds"), nb::arg("token"),
             nb::arg("before"), nb::arg("body"));
}

}  // namespace devrt::python
