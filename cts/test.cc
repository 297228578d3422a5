// SPDX-License-Identifier: Apache-2.0
#include "cts/test.h"

#include <ctime>

#include "absl/strings/str_cat.h"
#include "cts/clock.h"
#include "cts/legal_outcomes.h"

namespace devrt::cts {
namespace {

constexpr double kPatienceSeconds = 10;
// In virtual mode each query lets the simulator go on, so more rounds change
// nothing unless other threads of the test have to run.
constexpr int kPatienceRounds = 20'000;
constexpr int kSettleDecisions = 200;
constexpr long kSettleNanoseconds = 5'000'000;

void Sleep(long nanoseconds) {
  const timespec pause = {0, nanoseconds};
  nanosleep(&pause, nullptr);
}

Result ToResult(const absl::Status& status) {
  return {static_cast<devrt_code>(status.code()),
          std::string(status.message())};
}

// The file's name without its directories.
std::string Where(Site site) {
  std::string_view file = site.file;
  return absl::StrCat(
      absl::string_view(file.data(), file.size()).substr(file.rfind('/') + 1),
      ":", site.line);
}

absl::string_view Text(std::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

Test::Test(Machine* machine, Reporter* reporter, uint64_t seed, int programs)
    : machine_(machine),
      reporter_(reporter),
      seed_(seed),
      programs_(programs),
      random_(seed) {}

Device Test::cpp_device(size_t index) const {
  return machine_->backend().devices()[device(index)];
}

void Test::Fail(std::string_view text, Site site) {
  ++failures_;
  reporter_->Failure(absl::StrCat(Where(site), ": ", Text(text)));
}

bool Test::Expect(bool holds, std::string_view what, Site site) {
  if (!holds) Fail(absl::StrCat("not so: ", Text(what)), site);
  return holds;
}

bool Test::Equal(std::string_view actual, std::string_view expected,
                 std::string_view what, Site site) {
  if (actual == expected) return true;
  Fail(absl::StrCat(Text(what), ": is \"", Text(actual), "\", not \"",
                    Text(expected), "\""),
       site);
  return false;
}

bool Test::Ok(const Result& result, std::string_view what, Site site) {
  if (result.ok()) return true;
  Fail(absl::StrCat(Text(what), ": ", ToString(result)), site);
  return false;
}

bool Test::Ok(const absl::Status& status, std::string_view what, Site site) {
  return Ok(ToResult(status), what, site);
}

bool Test::Code(const Result& result, devrt_code code, std::string_view what,
                std::string_view part, Site site) {
  if (result.code != code) {
    Fail(absl::StrCat(Text(what), ": ", ToString(result), "; expected ",
                      CodeName(code)),
         site);
    return false;
  }
  if (result.text.find(part) == std::string::npos) {
    Fail(absl::StrCat(Text(what), ": the text \"", result.text,
                      "\" does not say \"", Text(part), "\""),
         site);
    return false;
  }
  return true;
}

bool Test::Code(const absl::Status& status, devrt_code code,
                std::string_view what, std::string_view part, Site site) {
  return Code(ToResult(status), code, what, part, site);
}

void Test::Require(bool holds, std::string_view what, Site site) {
  if (!Expect(holds, what, site)) throw Abandon{};
}

void Test::Require(const Result& result, std::string_view what, Site site) {
  if (!Ok(result, what, site)) throw Abandon{};
}

void Test::Skip(std::string_view why) {
  skip_reason_ = why;
  throw Abandon{};
}

void Test::Unsupported(std::string_view why) {
  unsupported_reason_ = why;
  throw Abandon{};
}

Extension Test::NeedExtension(const char* name, uint32_t minimum_size) {
  const auto found = machine_->backend().GetExtension(name, minimum_size);
  if (!found.ok()) Unsupported(absl::StrCat("there is no ", name));
  return *found;
}

void Test::Settle() {
  if (!machine_->IsVirtual()) return Sleep(kSettleNanoseconds);
  for (int i = 0; i < kSettleDecisions; ++i) {
    if (!machine_->simulator()->Yield().ok()) return;
  }
}

Test::Patience::Patience(Test* test) : test_(test), begin_(Now()) {}

bool Test::Patience::Left() const {
  if (test_->machine_->IsVirtual() && rounds_ > kPatienceRounds) return false;
  return Now() - begin_ < kPatienceSeconds;
}

void Test::Patience::Wait() {
  ++rounds_;
  if (test_->machine_->IsVirtual()) {
    (void)test_->machine_->simulator()->Yield();
  } else if (rounds_ > 100) {
    Sleep(100'000);
  }
}

void Test::Reaches(const std::vector<std::string>& outcomes,
                   const std::function<std::string()>& body, Site site) {
  std::string wrong;
  if (machine_->IsVirtual()) {
    wrong = Reach(outcomes, [&](int schedule) {
      Require(machine_->Reset(
                  absl::StrCat("strategy=random,seed=",
                               seed_ + static_cast<uint64_t>(schedule))),
              "reset of the simulator", site);
      const int before = failures();
      std::string outcome = body();
      if (failures() > before) throw Abandon{};  // already reported
      return outcome;
    });
    Require(machine_->Reset(""), "reset of the simulator", site);
  } else {
    wrong = CheckOutcome(outcomes, body(), 0);
  }
  if (!wrong.empty()) Fail(wrong, site);
}

void Test::InEverySchedule(const std::function<void()>& body) {
  if (!machine_->IsVirtual()) return body();
  static constexpr const char* kSchedulesTried[] = {
      "strategy=hw",
      "strategy=asap",
      "strategy=alap",
      "strategy=lifo",
      "strategy=random,seed=1",
      "strategy=random,seed=2",
      "strategy=random,seed=3",
      "strategy=random,seed=4",
  };
  for (const char* const schedule : kSchedulesTried) {
    Require(machine_->Reset(schedule), "reset of the simulator");
    const int before = failures();
    body();
    if (failures() > before) {
      Fail(absl::StrCat("under ", schedule));
      break;
    }
  }
  Require(machine_->Reset(""), "reset of the simulator");
}

}  // namespace devrt::cts
