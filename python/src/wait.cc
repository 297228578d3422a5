// SPDX-License-Identifier: Apache-2.0
#include "python/src/wait.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "arrays/storage/storage.h"
#include "arrays/storage/storage_kept.h"
#include "python/src/errors.h"
#include "python/src/gil.h"

namespace devrt::python {
namespace {

// Most waits are shorter than this, and need no thread.
constexpr auto kPolling = std::chrono::milliseconds(1);
// The longest time that a signal waits.
constexpr auto kSlice = std::chrono::milliseconds(50);

// Polls for kPolling.  Returns the status if the work ended in that time.
std::optional<absl::Status> PollShortly(const QueryCall& query) {
  const auto end = std::chrono::steady_clock::now() + kPolling;
  do {
    const absl::StatusOr<bool> done = query();
    if (!done.ok()) return done.status();
    if (*done) return absl::OkStatus();
  } while (std::chrono::steady_clock::now() < end);
  return std::nullopt;
}

// A call on a thread of its own.
struct Call {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<absl::Status> status;
};

// Returns null if no thread could be started.
std::shared_ptr<Call> StartCall(const WaitCall& call) {
  auto running = std::make_shared<Call>();
  try {
    std::thread([running, call = WaitCall(call)]() mutable {
      absl::Status status = call();
      // The call may hold a stream.  The caller may shut devrt down as soon as
      // it knows the status, and a stream that is alive forbids that.
      call = nullptr;
      const std::lock_guard<std::mutex> lock(running->mutex);
      running->status = std::move(status);
      running->changed.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return nullptr;
  }
  return running;
}

// Waits for kSlice without the GIL.  Returns nullopt if the call has not ended.
std::optional<absl::Status> WaitASlice(Call* running) {
  return WithoutLock([&] {
    std::unique_lock<std::mutex> lock(running->mutex);
    running->changed.wait_for(lock, kSlice,
                              [&] { return running->status.has_value(); });
    return running->status;
  });
}

PyObject* WaitAtOnce(const WaitCall& wait) {
  const absl::Status status = WithoutLock(wait);
  if (PyErr_CheckSignals() != 0) return nullptr;
  return NoneOrRaise(status);
}

PyObject* WaitUntilDone(const BackendEntry& backend, const QueryCall& query,
                        const WaitCall& wait) {
  if (!RunsSignalHandlers()) return NoneOrRaise(WithoutLock(wait));
  if (backend.simulator && WithoutLock([&] { return IsVirtual(backend); })) {
    return WaitAtOnce(wait);
  }
  std::optional<absl::Status> early;
  if (query) early = WithoutLock([&] { return PollShortly(query); });
  if (early.has_value()) return NoneOrRaise(*early);
  if (PyErr_CheckSignals() != 0) return nullptr;
  const std::shared_ptr<Call> helper = StartCall(wait);
  if (helper == nullptr) return WaitAtOnce(wait);
  for (bool done = false; !done;) {
    done = WaitASlice(helper.get()).has_value();
    if (PyErr_CheckSignals() != 0) return nullptr;
  }
  // The second wait, on this thread, returns at once and has the status.
  return WaitAtOnce(wait);
}

}  // namespace

PyObject* WaitFor(const BackendEntry& backend, const QueryCall& query,
                  const WaitCall& wait) {
  PyObject* const done = WaitUntilDone(backend, query, wait);
  if (done != nullptr) ReleaseFinishedMemory();
  return done;
}

void ReleaseFinishedMemory() {
  if (!internal::HasPendingReleases()) return;
  WithoutLock([] {
    internal::RunAllPendingReleases();
    return 0;
  });
}

// ---- Calls that wait by themselves ------------------------------------------

PyObject* RunFor(const BackendEntry& backend, const WaitCall& call) {
  if (!RunsSignalHandlers()) return NoneOrRaise(WithoutLock(call));
  if (backend.simulator && WithoutLock([&] { return IsVirtual(backend); })) {
    return WaitAtOnce(call);
  }
  const std::shared_ptr<Call> running = StartCall(call);
  if (running == nullptr) return WaitAtOnce(call);
  for (;;) {
    const std::optional<absl::Status> status = WaitASlice(running.get());
    // Ahead of the handlers, so that the status is not lost.
    if (status.has_value() && !status->ok()) return Raise(*status);
    if (PyErr_CheckSignals() != 0) return nullptr;
    if (status.has_value()) return NewRef(Py_None);
  }
}

}  // namespace devrt::python
