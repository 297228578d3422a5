// SPDX-License-Identifier: Apache-2.0
#include "cts/supervisor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cts/catalog.h"
#include "cts/clock.h"
#include "cts/waived.h"
#include "devrt/runtime/status.h"

namespace devrt::cts {
namespace {

using Outcome = TestResult::Outcome;
using How = TestResult::How;
using Kind = Child::Event::Kind;

constexpr int kSlowFactor = 5;
// After this many tests that did not end, each further one halves the time
// limit of the rest, so that a run ends although every test hangs.
constexpr int kPatientHangs = 3;
constexpr double kLeastSeconds = 2;
constexpr size_t kMostChecks = 20;  // checks of one test that a report shows

}  // namespace

SharedRing::SharedRing() {
  void* const memory = mmap(nullptr, sizeof(CallRing), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) ring_ = new (memory) CallRing{};
}

SharedRing::~SharedRing() {
  if (ring_ != nullptr) munmap(ring_, sizeof(CallRing));
}

std::vector<std::string> SharedRing::Lines() const {
  if (ring_ == nullptr) return {};
  return ring_->Lines();
}

void SharedRing::Clear() {
  if (ring_ != nullptr) ring_->Clear();
}

// One test while it runs.
struct Supervisor::Running {
  const TestCase& test;
  TestResult* result;
  double allowed;
  bool may_die = false;
  bool over = false;
  std::vector<UnwrittenSlot> unwritten = {};

  void Fail(How how, std::string why) {
    // The first reason counts.
    if (result->outcome != Outcome::kFailed) result->how = how;
    result->outcome = Outcome::kFailed;
    result->messages.push_back(std::move(why));
  }
};

Supervisor::Supervisor(const Options& options, Observer* observer,
                       Report* report, std::vector<size_t> chosen)
    : options_(options),
      observer_(observer),
      report_(report),
      chosen_(std::move(chosen)) {}

absl::Status Supervisor::Run() {
  std::vector<size_t> together, alone;
  for (const size_t index : chosen_) {
    const TestCase& test = Catalog()[index];
    TestResult result;
    result.test = InfoOf(test);
    const Waiver* const waiver =
        WaiverOf(result.test, Waiver::Kind::kUnsupported);
    if (waiver != nullptr) {
      result.outcome = Outcome::kUnsupported;
      result.messages = {absl::StrCat("waived: ", waiver->reason)};
    }
    position_[test.name] = report_->results.size();
    report_->results.push_back(std::move(result));
    if (test.run == nullptr || waiver != nullptr) continue;
    const bool own = (test.flags & (kOwnProcess | kEndsProcess)) != 0;
    (own ? alone : together).push_back(index);
  }
  // At least one worker, so that the plugin is opened once.
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

absl::Status Supervisor::RunBatch(std::vector<size_t>* tests) {
  ring_.Clear();
  DEVRT_ASSIGN_OR_RETURN(
      Child child, Child::Start(options_, *tests, ring_.get(),
                                [this] { return observer_->Interrupted(); }));
  DEVRT_ASSIGN_OR_RETURN(const bool opened, FollowOpening(&child));
  if (!opened) return absl::OkStatus();
  const size_t all = tests->size();
  std::string last;
  while (true) {
    const Child::Event event = child.Next(options_.timeout_s);
    if (event.kind == Kind::kInterrupted) return Cancelled(last);
    size_t index = 0;
    if (event.kind != Kind::kMessage ||
        event.message.kind != MessageKind::kBegin ||
        !absl::SimpleAtoi(event.message.text, &index)) {
      break;  // kLeaving, or the end
    }
    const auto found = std::find(tests->begin(), tests->end(), index);
    if (found == tests->end()) break;  // not written by the worker
    tests->erase(found);
    last = Catalog()[index].name;
    DEVRT_ASSIGN_OR_RETURN(const bool goes_on, FollowTest(&child, index));
    if (!goes_on) return absl::OkStatus();
  }
  const size_t ran = all - tests->size();
  if (ran == 0 && all != 0) {
    // Another worker would fail in the same way.
    Seen seen;
    NoteProcess(&child, &seen);
    CannotOpen(
        &child, seen.how,
        absl::StrCat("once it was open, before any test: ", seen.message));
    return absl::OkStatus();
  }
  FollowEnding(&child, ran, last);
  return absl::OkStatus();
}

absl::StatusOr<bool> Supervisor::FollowOpening(Child* child) {
  const double begin = Now();
  Child::Event event = child->Next(options_.timeout_s);
  if (!opened_) opening_.seconds = Now() - begin;
  switch (event.kind) {
    case Kind::kInterrupted:
      return Cancelled("opening the plugin");
    case Kind::kTimeout:
      child->Kill();
      CannotOpen(child, How::kHang,
                 absl::StrCat("opening it took more than ", options_.timeout_s,
                              " s, and its process was ended"));
      return false;
    case Kind::kClosed: {
      Seen seen;
      NoteProcess(child, &seen);
      CannotOpen(child, seen.how, std::move(seen.message));
      return false;
    }
    case Kind::kMessage:
      break;
  }
  switch (event.message.kind) {
    case MessageKind::kNoDevice:
      return absl::InvalidArgumentError(event.message.text);
    case MessageKind::kAbsent:
      if (!opened_) absent_ = event.message.text;
      [[fallthrough]];
    case MessageKind::kNotOpened:
      CannotOpen(child, How::kCheck, std::move(event.message.text));
      return false;
    default:
      break;
  }
  if (opened_) return true;
  opened_ = true;
  Opened opened = OpenedFromText(event.message.text);
  report_->capabilities = opened.capabilities;
  report_->deterministic = opened.is_virtual;
  report_->devices = std::move(opened.devices);
  return true;
}

void Supervisor::CannotOpen(Child* child, How how, std::string why) {
  cannot_open_ = true;
  opening_.failed = true;
  opening_.how = how;
  opening_.message =
      opened_ ? absl::StrCat("not by a later process: ", why) : why;
  opening_.calls = ring_.Lines();
  opening_.log = child->ReadLog();
}

absl::StatusOr<bool> Supervisor::FollowTest(Child* child, size_t index) {
  const TestCase& test = Catalog()[index];
  TestResult* const result = ResultOf(test.name);
  Running running = {test, result, TimeFor(test)};
  observer_->Begin(result->test);
  result->outcome = Outcome::kPassed;
  const double begin = Now();
  bool worker_is_there = true;
  while (!running.over) {
    Child::Event event = child->Next(begin + running.allowed - Now());
    switch (event.kind) {
      case Kind::kInterrupted:
        return Cancelled(test.name);
      case Kind::kMessage:
        Handle(std::move(event.message), &running);
        continue;
      case Kind::kTimeout:
        NoteHang(child, &running);
        break;
      case Kind::kClosed:
        NoteDeath(child, &running);
        break;
    }
    worker_is_there = false;
    running.over = true;
  }
  result->seconds = Now() - begin;
  if (result->outcome == Outcome::kFailed) {
    result->log = child->ReadLog();
    result->calls = ring_.Lines();
    NoteUnwritten(running, result);
    worker_is_there = false;
    Expect(result);
  }
  observer_->End(*result);
  return worker_is_there;
}

void Supervisor::Handle(Message message, Running* running) {
  TestResult* const result = running->result;
  switch (message.kind) {
    case MessageKind::kFailure:
      if (result->messages.size() == kMostChecks) {
        message.text = "... and more checks failed";
      }
      if (result->messages.size() > kMostChecks) break;
      running->Fail(How::kCheck, std::move(message.text));
      break;
    case MessageKind::kSkipped:
    case MessageKind::kUnsupported:
      if (result->outcome == Outcome::kFailed) break;
      result->outcome = message.kind == MessageKind::kSkipped
                            ? Outcome::kSkipped
                            : Outcome::kUnsupported;
      result->messages.push_back(std::move(message.text));
      break;
    case MessageKind::kMayDie:
      running->may_die = true;
      break;
    case MessageKind::kUnwritten: {
      std::vector<std::string> parts =
          absl::StrSplit(message.text, absl::MaxSplits('\n', 1));
      running->unwritten.push_back(
          {std::move(parts.front()), std::move(parts.back())});
      break;
    }
    case MessageKind::kCalled:
      for (const absl::string_view slot : absl::StrSplit(message.text, ' ')) {
        called_.emplace(slot);
      }
      break;
    default:
      running->over = true;
  }
}

// A test that met an unimplemented slot says nothing about the other slots.
void Supervisor::NoteUnwritten(const Running& running, TestResult* result) {
  if (running.unwritten.empty() || result->how != How::kCheck) return;
  for (const UnwrittenSlot& slot : running.unwritten) {
    result->unwritten.push_back(slot.slot);
    unwritten_.try_emplace(slot.slot, slot.answer);
  }
  result->messages.push_back(absl::StrCat(
      absl::StrJoin(result->unwritten, ", "),
      " answered UNIMPLEMENTED: the test says nothing of the rest"));
}

void Supervisor::NoteHang(Child* child, Running* running) {
  child->Kill();
  const bool shorter = hangs_ >= kPatientHangs;
  ++hangs_;
  running->Fail(
      How::kHang,
      absl::StrCat("it did not end within ", running->allowed, " s",
                   shorter ? " (less than others, since so many hung)" : "",
                   ", and its process was ended"));
}

void Supervisor::NoteDeath(Child* child, Running* running) {
  Seen seen;
  NoteProcess(child, &seen);
  const bool ended = (running->test.flags & kEndsProcess) != 0;
  if (seen.how == How::kExit && ended && !child->Died()) return;
  if (seen.how == How::kCrash && running->may_die) return;
  running->Fail(seen.how, std::move(seen.message));
}

void Supervisor::NoteProcess(Child* child, Seen* seen) {
  seen->failed = true;
  if (!child->Wait(options_.timeout_s)) {
    seen->how = How::kHang;
    seen->message =
        absl::StrCat("the process closed its pipe, did not end within ",
                     options_.timeout_s, " s, and was ended");
    return;
  }
  seen->how = child->BySignal() ? How::kCrash : How::kExit;
  seen->message = absl::StrCat("the process ended: ", child->HowItEnded());
}

void Supervisor::FollowEnding(Child* child, size_t ran,
                              const std::string& last) {
  // One is enough: each further one may take as long.
  if (ending_.failed) return;
  const double begin = Now();
  Seen seen;
  NoteProcess(child, &seen);
  ending_.seconds = std::max(ending_.seconds, Now() - begin);
  if (seen.how == How::kExit && !child->Died()) return;
  seen.seconds = ending_.seconds;
  seen.message = absl::StrCat(
      "after ",
      ran == 0
          ? "no test"
          : absl::StrCat(ran, ran == 1 ? " test, " : " tests, at last ", last),
      ": ", seen.message);
  seen.log = child->ReadLog();
  ending_ = std::move(seen);
}

double Supervisor::TimeFor(const TestCase& test) const {
  const double time =
      options_.timeout_s * ((test.flags & kSlow) != 0 ? kSlowFactor : 1);
  if (hangs_ < kPatientHangs) return time;
  const double less = std::ldexp(time, kPatientHangs - 1 - hangs_);
  return std::min(time, std::max(less, kLeastSeconds));
}

TestResult* Supervisor::ResultOf(std::string_view name) {
  const auto found = position_.find(name);
  return found == position_.end() ? nullptr : &report_->results[found->second];
}

const Waiver* Supervisor::WaiverOf(const TestInfo& test,
                                   Waiver::Kind kind) const {
  for (const Waiver& waiver : options_.waivers) {
    if (waiver.kind == kind && IsWaivedBy(waiver.what, test)) return &waiver;
  }
  return nullptr;
}

absl::Status Supervisor::Cancelled(std::string_view where) const {
  return absl::CancelledError(
      absl::StrCat("interrupted", where.empty() ? "" : " in ",
                   absl::string_view(where.data(), where.size()),
                   "; the process that ran the plugin was ended"));
}

}  // namespace devrt::cts
