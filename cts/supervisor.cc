// SPDX-License-Identifier: Apache-2.0
//
// Run: hands tests to workers and makes the report of what they say.
#include <sha2.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <new>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/child.h"
#include "cts/cts.h"
#include "devrt/runtime/inspect.h"

namespace devrt::cts {
namespace {

using Outcome = TestResult::Outcome;
using How = TestResult::How;

constexpr int kSlowFactor = 5;

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) / 1e9;
}

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts;
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

absl::Status CheckCaller(const Options& options) {
  const std::filesystem::path path = options.plugin;
  if (!path.is_absolute()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the plugin's path \"", options.plugin, "\" is not absolute"));
  }
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(
        options.plugin, ": ", error ? error.message() : "no such file"));
  }
  size_t threads = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task", error)) {
    (void)entry;
    ++threads;
  }
  if (threads > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("the conformance suite forks, which a process with ",
                     threads, " threads must not do"));
  }
  for (const LoadAttempt& attempt : LoadReport()) {
    if (attempt.result == LoadAttempt::Result::kLoaded) {
      return absl::FailedPreconditionError(
          absl::StrCat("backend \"", attempt.backend,
                       "\" is open in this process: its children cannot use "
                       "any; run the suite first"));
    }
  }
  return absl::OkStatus();
}

void DescribeFile(const std::string& path, Report* report) {
  SHA2_CTX context;
  SHA256Init(&context);
  const PluginReport file = InspectPlugin(path, [&](std::string_view piece) {
    SHA256Update(&context, reinterpret_cast<const uint8_t*>(piece.data()),
                 piece.size());
  });
  char digest[SHA256_DIGEST_STRING_LENGTH];
  SHA256End(&context, digest);
  report->sha256 = digest;
  if (!file.manifest.has_value()) return;
  report->backend = file.manifest->backend;
  report->vendor = file.manifest->vendor;
  report->version = file.manifest->version;
  report->abi_major = file.manifest->abi_major;
  report->abi_minor = file.manifest->abi_minor;
}

// Where the last calls of a worker are, also when it has crashed.
class SharedRing {
 public:
  SharedRing() {
    void* const memory = mmap(nullptr, sizeof(CallRing), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) ring_ = new (memory) CallRing{};
  }
  ~SharedRing() {
    if (ring_ != nullptr) munmap(ring_, sizeof(CallRing));
  }
  CallRing* get() const { return ring_; }

 private:
  CallRing* ring_ = nullptr;
};

class Supervisor {
 public:
  Supervisor(const Options& options, Observer* observer, Report* report,
             std::vector<size_t> chosen)
      : options_(options),
        observer_(observer),
        report_(report),
        chosen_(std::move(chosen)) {}

  absl::Status Run() {
    std::vector<size_t> together, alone;
    for (const size_t index : chosen_) {
      TestResult result;
      result.test = InfoOf(Catalog()[index]);
      result_at_.push_back(report_->results.size());
      report_->results.push_back(std::move(result));
      const TestCase& test = Catalog()[index];
      if (test.run == nullptr || IsWaivedForGood(index)) continue;
      const bool own = (test.flags & (kOwnProcess | kEndsProcess)) != 0;
      (own ? alone : together).push_back(index);
    }
    // At least one, to see the plugin opened.
    DEVRT_RETURN_IF_ERROR(RunBatch(&together));
    while (!together.empty() && !cannot_open_) {
      DEVRT_RETURN_IF_ERROR(RunBatch(&together));
    }
    for (const size_t index : alone) {
      if (cannot_open_) break;
      std::vector<size_t> one = {index};
      DEVRT_RETURN_IF_ERROR(RunBatch(&one));
    }
    Conclude();
    return absl::OkStatus();
  }

 private:
  TestResult& ResultOf(size_t index) {
    const auto found = std::find(chosen_.begin(), chosen_.end(), index);
    return report_
        ->results[result_at_[static_cast<size_t>(found - chosen_.begin())]];
  }

  // Notes it as a result, too.
  bool IsWaivedForGood(size_t index) {
    for (const Waiver& waiver : options_.waivers) {
      if (waiver.kind != Waiver::Kind::kUnsupported ||
          !IsAbout(waiver.what, Catalog()[index])) {
        continue;
      }
      TestResult& result = ResultOf(index);
      result.outcome = Outcome::kUnsupported;
      result.messages = {absl::StrCat("waived: ", waiver.reason)};
      return true;
    }
    return false;
  }

  double TimeFor(size_t index) const {
    const bool slow = (Catalog()[index].flags & kSlow) != 0;
    return options_.timeout_s * (slow ? kSlowFactor : 1);
  }

  // Runs tests from the front of `tests` and takes away what has a result.
  absl::Status RunBatch(std::vector<size_t>* tests);
  // A test's messages up to its end; false when the worker is gone.
  bool FollowTest(Child* child, size_t index);
  void NoteOpened(const std::string& text);
  void NoteNotOpened(const std::string& why);
  void Finish(Child* child, TestResult* result, double begin);
  void NoteEnd(Child* child);
  void Conclude();

  const Options& options_;
  Observer* const observer_;
  Report* const report_;
  const std::vector<size_t> chosen_;
  std::vector<size_t> result_at_;
  SharedRing ring_;
  bool opened_ = false;
  bool cannot_open_ = false;
  std::string not_opened_, bad_end_;
};

void Supervisor::NoteOpened(const std::string& text) {
  if (opened_) return;
  opened_ = true;
  Opened opened = OpenedFromText(text);
  report_->capabilities = opened.capabilities;
  report_->devices = std::move(opened.devices);
}

absl::Status Supervisor::RunBatch(std::vector<size_t>* tests) {
  absl::StatusOr<Child> child = Child::Start(options_, *tests, ring_.get());
  if (!child.ok()) return child.status();
  Child::Event event = child->Next(options_.timeout_s);
  if (event.kind != Child::Event::Kind::kMessage ||
      event.message.kind != MessageKind::kOpened) {
    std::string why = std::move(event.message.text);
    if (event.kind == Child::Event::Kind::kTimeout) {
      child->Kill();
      why =
          absl::StrCat("opening it took more than ", options_.timeout_s, " s");
    } else if (event.kind == Child::Event::Kind::kClosed) {
      child->Wait(options_.timeout_s);
      why = absl::StrCat("the process ended while it was opened: ",
                         child->HowItEnded());
    }
    cannot_open_ = true;
    not_opened_ = std::move(why);
    return absl::OkStatus();
  }
  NoteOpened(event.message.text);
  while (true) {
    event = child->Next(options_.timeout_s);
    if (event.kind != Child::Event::Kind::kMessage ||
        event.message.kind != MessageKind::kBegin) {
      break;  // kLeaving, or the end
    }
    size_t index = 0;
    if (!absl::SimpleAtoi(event.message.text, &index)) break;
    tests->erase(std::remove(tests->begin(), tests->end(), index),
                 tests->end());
    if (!FollowTest(&*child, index)) return absl::OkStatus();
  }
  NoteEnd(&*child);
  return absl::OkStatus();
}

bool Supervisor::FollowTest(Child* child, size_t index) {
  const TestCase& test = Catalog()[index];
  TestResult& result = ResultOf(index);
  observer_->Begin(result.test);
  const double begin = Now();
  const double end = begin + TimeFor(index);
  result.outcome = Outcome::kPassed;
  bool may_die = false;
  bool goes_on = true;
  for (bool running = true; running;) {
    Child::Event event = child->Next(end - Now());
    if (event.kind == Child::Event::Kind::kTimeout) {
      child->Kill();
      result.messages.push_back(absl::StrCat(
          "it did not end within ", TimeFor(index), " s and was ended"));
      if (result.outcome != Outcome::kFailed) result.how = How::kHang;
      result.outcome = Outcome::kFailed;
      running = goes_on = false;
    } else if (event.kind == Child::Event::Kind::kClosed) {
      child->Wait(options_.timeout_s);
      const bool meant = (test.flags & kEndsProcess) != 0 && !child->Died();
      if (!meant && !(may_die && child->BySignal())) {
        if (result.outcome != Outcome::kFailed) {
          result.how = child->BySignal() ? How::kCrash : How::kExit;
        }
        result.outcome = Outcome::kFailed;
        result.messages.push_back(
            absl::StrCat("the process ended: ", child->HowItEnded()));
      }
      running = goes_on = false;
    } else {
      switch (event.message.kind) {
        case MessageKind::kFailure:
          result.outcome = Outcome::kFailed;
          result.messages.push_back(std::move(event.message.text));
          break;
        case MessageKind::kSkipped:
        case MessageKind::kUnsupported:
          if (result.outcome == Outcome::kFailed) break;
          result.outcome = event.message.kind == MessageKind::kSkipped
                               ? Outcome::kSkipped
                               : Outcome::kUnsupported;
          result.messages.push_back(std::move(event.message.text));
          break;
        case MessageKind::kMayDie:
          may_die = true;
          break;
        default:
          running = false;
      }
    }
  }
  Finish(child, &result, begin);
  return goes_on;
}

void Supervisor::Finish(Child* child, TestResult* result, double begin) {
  result->seconds = Now() - begin;
  std::string log = child->TakeLog();
  if (result->outcome == Outcome::kFailed) {
    result->log = std::move(log);
    if (ring_.get() != nullptr) result->calls = ring_.get()->Lines();
  }
  observer_->End(*result);
}

void Supervisor::NoteEnd(Child* child) {
  const bool in_time = child->Wait(options_.timeout_s);
  if (in_time && !child->Died()) return;
  if (!bad_end_.empty()) return;
  bad_end_ = in_time
                 ? absl::StrCat("the process ended with ", child->HowItEnded())
                 : absl::StrCat("the process did not end within ",
                                options_.timeout_s, " s");
}

// What the supervisor itself has seen, and waivers.
void Supervisor::Conclude() {
  for (TestResult& result : report_->results) {
    const bool opens = result.test.name == "load.opens";
    if (!opens && result.test.name != "load.process_ends_well") continue;
    if (result.outcome == Outcome::kUnsupported) continue;  // waived
    const std::string& why = opens ? not_opened_ : bad_end_;
    if (!opens && cannot_open_) continue;
    result.outcome = why.empty() ? Outcome::kPassed : Outcome::kFailed;
    if (!why.empty()) result.messages = {why};
  }
  // Whatever was chosen, a plugin that cannot be opened does not pass.
  if (cannot_open_) {
    for (TestResult& result : report_->results) {
      if (result.outcome == Outcome::kNotRun) {
        result.messages = {"the plugin could not be opened"};
      }
    }
    if (report_->Count(Outcome::kFailed) == 0) {
      TestResult result;
      for (const TestCase& test : Catalog()) {
        if (std::string_view(test.name) == "load.opens") {
          result.test = InfoOf(test);
        }
      }
      result.outcome = Outcome::kFailed;
      result.messages = {not_opened_};
      report_->results.insert(report_->results.begin(), std::move(result));
    }
  }
  for (const Waiver& waiver : options_.waivers) {
    if (waiver.kind != Waiver::Kind::kExpectedFailure) continue;
    std::vector<TestResult*> passed;
    bool failed = false;
    for (TestResult& result : report_->results) {
      const auto& items = result.test.items;
      if (waiver.what != result.test.name &&
          std::find(items.begin(), items.end(), waiver.what) == items.end()) {
        continue;
      }
      if (result.outcome == Outcome::kPassed) passed.push_back(&result);
      if (result.outcome != Outcome::kFailed) continue;
      failed = true;
      result.outcome = Outcome::kExpectedFailure;
    }
    if (failed) continue;
    for (TestResult* const result : passed) {
      result->outcome = Outcome::kUnexpectedPass;
      result->messages = {
          absl::StrCat("line ", waiver.line,
                       " of the waivers expects a failure: ", waiver.reason)};
    }
  }
}

}  // namespace

absl::StatusOr<Report> Run(const Options& options, Observer* observer) {
  DEVRT_RETURN_IF_ERROR(CheckCaller(options));
  DEVRT_ASSIGN_OR_RETURN(std::vector<size_t> chosen, Choose(options));
  Report report;
  report.plugin = options.plugin;
  report.seed = options.seed;
  report.time = UtcNow();
  report.waivers = options.waivers;
  report.verify_waivers = options.verify_waivers;
  DescribeFile(options.plugin, &report);
  const double begin = Now();
  Observer nobody;
  DEVRT_RETURN_IF_ERROR(Supervisor(options,
                                   observer != nullptr ? observer : &nobody,
                                   &report, std::move(chosen))
                            .Run());
  report.seconds = Now() - begin;
  return report;
}

}  // namespace devrt::cts
