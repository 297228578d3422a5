// SPDX-License-Identifier: Apache-2.0
#include "cts/worker.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cts/catalog.h"
#include "cts/machine.h"
#include "cts/objects.h"
#include "cts/recorder.h"
#include "cts/wire.h"
#include "devrt/runtime/inspect.h"

// The leak checker of a sanitizer, if there is one: checks now, not at exit.
extern "C" __attribute__((weak)) void __lsan_do_leak_check();

namespace devrt::cts {
namespace {

class PipeReporter : public Reporter {
 public:
  explicit PipeReporter(int fd) : fd_(fd) {}
  void Failure(std::string_view text) override {
    Write(MessageKind::kFailure, text);
  }
  void MayDie() override { Write(MessageKind::kMayDie, ""); }
  void Write(MessageKind kind, std::string_view text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // The supervisor has ended, so the worker ends.
    if (!Send(fd_, kind, text)) _exit(1);
  }

 private:
  const int fd_;
  std::mutex mutex_;
};

Opened Describe(const Machine& machine) {
  Opened opened;
  opened.capabilities = machine.capabilities();
  opened.is_virtual = machine.IsVirtual();
  for (const uint32_t d : machine.devices()) {
    std::string name = machine.props(d).name;
    std::replace(name.begin(), name.end(), '\n', ' ');  // one line a name
    opened.devices.push_back(
        absl::StrCat(machine.backend().name(), ":", d, ": ", name));
  }
  return opened;
}

// The reason why the test cannot run here; empty if it can.
struct Obstacle {
  std::string unsupported, skipped;
};

Obstacle ObstacleOf(const TestCase& test, const Machine& m) {
  const uint64_t missing = test.capabilities & ~m.capabilities();
  if (missing != 0) {
    return {absl::StrCat("not promised: ", CapabilityNames(missing)), ""};
  }
  if ((test.flags & kNeedsProbe) != 0 && m.probe() == nullptr) {
    return {"there is no devrt.probe/0", ""};
  }
  constexpr uint32_t kFaults = kNeedsProbe | kOwnProcess;
  if ((test.flags & kFaults) == kFaults && m.probe()->fault == nullptr) {
    return {"devrt.probe/0 has no fault", ""};
  }
  if ((test.flags & kNeedsGate) != 0 && !Gate::IsPossible(m)) {
    return {"a stream cannot be held: neither devrt.probe/0 nor HOST_FUNC", ""};
  }
  if ((test.flags & kNeedsSim) != 0 && !m.IsVirtual()) {
    return {"", "only a simulator in mode=virtual can show it"};
  }
  if (m.devices().empty()) return {"", "the backend has no device"};
  if ((test.flags & kTwoDevices) != 0 && m.devices().size() < 2) {
    return {"", "it needs two devices"};
  }
  return {};
}

// Later output belongs to another test.  The file is in memory, so output of
// earlier tests is dropped.
void EmptyLog(int log) {
  // This cannot fail, because the file is not sealed.  A failure would only
  // leave the file longer.
  [[maybe_unused]] const int result = ftruncate(log, 0);
}

void WriteSlots(PipeReporter* reporter) {
  for (const UnwrittenSlot& slot : UnwrittenSlots()) {
    reporter->Write(MessageKind::kUnwritten,
                    absl::StrCat(slot.slot, "\n", slot.answer));
  }
  reporter->Write(MessageKind::kCalled, absl::StrJoin(CalledSlots(), " "));
}

// True if the next test may run in this process.
bool RunTest(const TestCase& test, Machine* machine, const Options& options,
             PipeReporter* reporter) {
  const Obstacle obstacle = ObstacleOf(test, *machine);
  if (!obstacle.unsupported.empty()) {
    reporter->Write(MessageKind::kUnsupported, obstacle.unsupported);
    return true;
  }
  if (!obstacle.skipped.empty()) {
    reporter->Write(MessageKind::kSkipped, obstacle.skipped);
    return true;
  }
  if ((test.flags & kEndsProcess) != 0 && &__lsan_do_leak_check != nullptr) {
    __lsan_do_leak_check();  // such a test leaves its objects behind
  }
  Test t(machine, reporter, options.seed, options.programs);
  try {
    test.run(t);
  } catch (const Abandon&) {
    // The failure is reported already, or the test was skipped.
  } catch (const std::exception& e) {
    t.Fail(absl::StrCat("an exception came out of the test: ", e.what()));
  }
  if (!t.skip_reason().empty()) {
    reporter->Write(MessageKind::kSkipped, t.skip_reason());
  } else if (!t.unsupported_reason().empty()) {
    reporter->Write(MessageKind::kUnsupported, t.unsupported_reason());
  }
  return t.failures() == 0;
}

}  // namespace

int RunWorker(const Options& options, const std::vector<size_t>& tests,
              const Shared& shared) {
  PipeReporter reporter(shared.pipe);
  SetCallRing(shared.ring);
  auto machine = Machine::Open(options.plugin);
  if (!machine.ok()) {
    reporter.Write(absl::IsUnavailable(machine.status())
                       ? MessageKind::kAbsent
                       : MessageKind::kNotOpened,
                   machine.status().ToString());
    return 1;
  }
  if (!options.devices.empty()) {
    const absl::Status chosen = (*machine)->Choose(options.devices);
    if (!chosen.ok()) {
      reporter.Write(MessageKind::kNoDevice, std::string(chosen.message()));
      return 1;
    }
  }
  reporter.Write(MessageKind::kOpened, ToText(Describe(**machine)));
  for (const size_t index : tests) {
    ForgetTest();
    EmptyLog(shared.log);
    reporter.Write(MessageKind::kBegin, absl::StrCat(index));
    const bool clean = RunTest(Catalog()[index], *machine, options, &reporter);
    WriteSlots(&reporter);
    reporter.Write(MessageKind::kEnd, "");
    // Objects that a failed test left behind must not fail other tests or
    // the shutdown.
    if (!clean) _exit(1);
  }
  SetCallRing(nullptr);
  EmptyLog(shared.log);
  reporter.Write(MessageKind::kLeaving, "");
  return 0;
}

}  // namespace devrt::cts
