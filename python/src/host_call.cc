// SPDX-License-Identifier: Apache-2.0
#include "python/src/host_call.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "devrt/streams/host_func.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/stream.h"

namespace devrt::python {
namespace {

// Never destroyed: the driver may call until the process ends.
struct Calls {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<std::pair<uint64_t, absl::Status>> due;
};

Calls* TheCalls() {
  static Calls* calls = new Calls;
  return calls;
}

// With the GIL.
uint64_t g_last_number = 0;
std::unordered_map<uint64_t, PyObject*>* g_waiting =
    new std::unordered_map<uint64_t, PyObject*>;

// On a thread of the backend's: no Python here (G2).
void Announce(uint64_t number, absl::Status status) {
  Calls* calls = TheCalls();
  {
    const std::lock_guard<std::mutex> lock(calls->mutex);
    calls->due.emplace_back(number, std::move(status));
  }
  calls->arrived.notify_one();
}

}  // namespace

PyObject* LaunchHostCall(PyObject* self, PyObject* callable) {
  const StreamRef ref = AsStream(self)->ref;
  const uint64_t number = ++g_last_number;
  g_waiting->emplace(number, NewRef(callable));
  const CallSite site = SiteHere();
  const absl::Status status = WithoutLock([&] {
    return LaunchHostFunc(
        ref,
        [number](absl::Status earlier) {
          Announce(number, std::move(earlier));
        },
        site);
  });
  if (status.ok()) return NewRef(Py_None);
  g_waiting->erase(number);
  Py_DECREF(callable);
  return Raise(status);
}

PyObject* NextHostCall(PyObject*, PyObject*) {
  auto [number, status] = WithoutLock([] {
    Calls* calls = TheCalls();
    std::unique_lock<std::mutex> lock(calls->mutex);
    calls->arrived.wait(lock, [&] { return !calls->due.empty(); });
    std::pair<uint64_t, absl::Status> first = std::move(calls->due.front());
    calls->due.pop_front();
    return first;
  });
  const auto found = g_waiting->find(number);
  const Ref callable(found->second);
  g_waiting->erase(found);
  const Ref error(status.ok() ? NewRef(Py_None) : MakeException(status));
  if (!error) return nullptr;
  return PyTuple_Pack(2, callable.get(), error.get());
}

}  // namespace devrt::python
