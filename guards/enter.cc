// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/enter.h"

#include <new>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/mutex.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"

namespace devrt::internal {
namespace {

// The low bits of a guard's number are the depth.  Numbers count down, so that
// one subtraction gives the next number and shows whether there is one.
constexpr int kDepthBits = 28;

// The numbers of guards that ended out of order or on another thread.  Their
// thread still counts them until a guard around them ends.
struct Misplaced {
  Mutex mutex;
  std::set<uint64_t> numbers DEVRT_GUARDED_BY(mutex);

  static Misplaced& Get() {
    static Misplaced* const all = new Misplaced;
    return *all;
  }
};

// Returns true, and forgets their numbers, if all guards inside of `number`
// have ended out of order or on another thread.
bool TakeAllInside(uint64_t number, uint64_t innermost) {
  Misplaced& all = Misplaced::Get();
  MutexLock lock(&all.mutex);
  for (uint64_t i = innermost; i < number; ++i) {
    if (all.numbers.count(i) == 0) return false;
  }
  all.numbers.erase(all.numbers.lower_bound(innermost),
                    all.numbers.lower_bound(number));
  return true;
}

void LogStatus(const absl::Status& status) {
  DEVRT_LOG(kError,
            std::string_view(status.message().data(), status.message().size()));
}

GuardError Keep(absl::Status status) {
  return new (std::nothrow) absl::Status(std::move(status));
}

}  // namespace

absl::Status CheckGuard(const char* kind) {
  if (InHostFunction()) return HostFunctionError(kind);
  if (t_state.guard == 0) {
    static std::atomic<uint64_t> threads{0};
    t_state.guard = (threads.fetch_add(1) + 2) << kDepthBits;
  }
  return absl::OkStatus();
}

uint64_t FirstGuard(GuardError* error, const char* kind) {
  absl::Status status = CheckGuard(kind);
  if (status.ok()) return t_state.guard - 1;
  *error = Keep(std::move(status));
  return 0;
}

bool CloseMisplacedGuard(uint64_t number, const char* kind) {
  // In a forked child, a thread that does not exist there may hold the lock.
  if ((process_state.load() & kForkedChild) != 0) return false;
  const uint64_t innermost = t_state.guard;
  const bool inside = InHostFunction();
  // Without a guard `innermost` is one more than the thread's highest number.
  const bool here = !inside && innermost != 0 &&
                    (innermost - 1) >> kDepthBits == number >> kDepthBits;
  if (here && TakeAllInside(number, innermost)) {
    t_state.guard = number + 1;
    return true;
  }
  {
    Misplaced& all = Misplaced::Get();
    MutexLock lock(&all.mutex);
    all.numbers.insert(number);
  }
  const char* const fault =
      here ? " is destroyed before a guard that was made after it"
      : inside
          ? " is destroyed inside a host function, so nothing is restored"
          : " is destroyed on another thread than the one that made it, so "
            "nothing is restored";
  const std::string text =
      absl::StrCat(kind, fault,
                   ": destroy guards in the reverse order of construction, on "
                   "the thread that made them");
  DEVRT_LOG(kError, text);
  return here;
}

void ReportGuardError(DeviceGate* device, devrt_status error,
                      const char* kind) {
  LogStatus(TakeError(RecordOf(device), error, kind));
}

GuardError KeepGuardError(DeviceGate* device, devrt_status error,
                          const char* kind) {
  absl::Status status = TakeError(RecordOf(device), error, kind);
  LogStatus(status);
  return Keep(std::move(status));
}

absl::Status EnterError(const DeviceGate* device, GuardError error) {
  if (error != nullptr) return *error;
  const DeviceRecord* const record = RecordOf(device);
  if (!IsOpen(record)) return ClosedError(record);
  return absl::UnavailableError(absl::StrCat(
      DeviceName(record), " could not be made current; the log says why"));
}

void DropGuardError(GuardError error) { delete error; }

}  // namespace devrt::internal
