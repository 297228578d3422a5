// SPDX-License-Identifier: Apache-2.0
#include "python/src/host_call.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "devrt/streams/host_func.h"
#include "devrt/streams/sync.h"
#include "devrt/streams/validate.h"
#include "python/src/arguments.h"
#include "python/src/call_site.h"
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
  std::condition_variable ended;
  uint64_t ends = 0;  // how many calls have ended
};

Calls* TheCalls() {
  static Calls* calls = new Calls;
  return calls;
}

// A call that has not ended.
struct HostCall {
  PyObject* callable;  // null: the serving thread has it
  StreamRef stream;
  std::vector<Access> accesses;  // that the callable declares
  CallSite site;                 // of the launch
};

// Guarded by the GIL.
uint64_t g_last_number = 0;
std::map<uint64_t, HostCall>* g_calls = new std::map<uint64_t, HostCall>;
uint64_t g_served = 0;  // the call that the thread makes; 0: none
thread_local bool t_serves = false;

// The longest time that a signal waits.
constexpr auto kSlice = std::chrono::milliseconds(50);

// Runs on a thread of the backend, without Python (E23).
void Announce(uint64_t number, absl::Status status) {
  Calls* calls = TheCalls();
  sync::Release(calls);  // for a race detector
  {
    const std::lock_guard<std::mutex> lock(calls->mutex);
    calls->due.emplace_back(number, std::move(status));
  }
  calls->arrived.notify_one();
}

void EndServed() {
  if (g_served == 0) return;
  g_calls->erase(g_served);
  g_served = 0;
  Calls* calls = TheCalls();
  {
    const std::lock_guard<std::mutex> lock(calls->mutex);
    ++calls->ends;
  }
  calls->ended.notify_all();
}

uint64_t CountEnds() {
  Calls* calls = TheCalls();
  const std::lock_guard<std::mutex> lock(calls->mutex);
  return calls->ends;
}

// Returns false with an exception set.
bool ToAccesses(PyObject* ranges, std::vector<Access>* accesses) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(ranges); ++i) {
    PyObject *ptr, *bytes, *mode;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(ranges, i), "OOO", &ptr, &bytes,
                          &mode)) {
      return false;
    }
    Access access = {};
    uint64_t bits = 0;
    if (!ToAddress(ptr, "address", &access.ptr) ||
        !ToBytes(bytes, "bytes", &access.size) ||
        !ToCount(mode, "mode", &bits)) {
      return false;
    }
    access.mode = static_cast<uint32_t>(bits);
    accesses->push_back(access);
  }
  return true;
}

}  // namespace

PyObject* LaunchHostCall(PyObject* self, PyObject* args) {
  PyObject *callable, *ranges;
  std::vector<Access> accesses;
  if (!PyArg_ParseTuple(args, "OO!:_launch_host_call", &callable, &PyList_Type,
                        &ranges) ||
      !ToAccesses(ranges, &accesses)) {
    return nullptr;
  }
  const StreamRef ref = AsStream(self)->ref;
  const uint64_t number = ++g_last_number;
  const SiteHere site;
  g_calls->emplace(number, HostCall{NewRef(callable), ref, accesses, site});
  const absl::Status status = WithoutLock([&] {
    return LaunchHostFunc(
        ref, accesses,
        [number](absl::Status earlier) {
          Announce(number, std::move(earlier));
        },
        site);
  });
  if (status.ok()) return NewRef(Py_None);
  g_calls->erase(number);
  Py_DECREF(callable);
  return Raise(status);
}

PyObject* NextHostCall(PyObject*, PyObject*) {
  t_serves = true;
  EndServed();
  Ref answer(PyTuple_New(2));  // no failure may follow once a call is taken
  if (!answer) return nullptr;
  auto [number, status] = WithoutLock([] {
    Calls* calls = TheCalls();
    std::unique_lock<std::mutex> lock(calls->mutex);
    calls->arrived.wait(lock, [&] { return !calls->due.empty(); });
    std::pair<uint64_t, absl::Status> first = std::move(calls->due.front());
    calls->due.pop_front();
    sync::Acquire(calls);
    return first;
  });
  // Later work of the stream does not wait for the callable, so what was
  // enqueued meanwhile may use the same memory.
  HostCall& call = g_calls->at(number);
  if (status.ok() && !call.accesses.empty()) {
    status =
        WithoutLock([accesses = std::move(call.accesses), site = call.site] {
          return validate::UseOnHost(accesses, site);
        });
  }
  PyObject* error = status.ok() ? NewRef(Py_None) : MakeException(status);
  if (error == nullptr) error = TakeRaised().Release();
  g_served = number;
  PyTuple_SET_ITEM(answer.get(), 0,
                   std::exchange(g_calls->at(number).callable, nullptr));
  PyTuple_SET_ITEM(answer.get(), 1, error);
  return answer.Release();
}

std::vector<uint64_t> HostCallsOf(Device device,
                                  std::optional<StreamRef> stream) {
  std::vector<uint64_t> numbers;
  for (const auto& [number, call] : *g_calls) {
    if (stream.has_value() ? call.stream == *stream
                           : call.stream.device() == device) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

PyObject* WaitForHostCalls(const std::vector<uint64_t>& numbers) {
  Calls* calls = TheCalls();
  const auto has_ended = [](uint64_t number) {
    return g_calls->count(number) == 0;
  };
  // The serving thread stops once the interpreter has begun to end.
  while (!t_serves && !IsFinalizing()) {
    const uint64_t ends = CountEnds();
    if (std::all_of(numbers.begin(), numbers.end(), has_ended)) break;
    WithoutLock([&] {
      std::unique_lock<std::mutex> lock(calls->mutex);
      return calls->ended.wait_for(lock, kSlice,
                                   [&] { return calls->ends != ends; });
    });
    if (PyErr_CheckSignals() != 0) return nullptr;
  }
  return NewRef(Py_None);
}

}  // namespace devrt::python
