// SPDX-License-Identifier: Apache-2.0
//
// Faults of a device through the table: which calls report them, and which do
// not.
#include <atomic>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/lost_device.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace error_tests {
namespace {

using Ops = devrt_ops_v0;

// A stream of the first device on which a kernel faults.
RawStream& Faulty(Test& t, uint32_t form = DEVRT_FAULT_NULL_WRITE) {
  RawStream& s = NeverDestroyed<RawStream>(t, t.device());
  CommitFault(t, s, form);
  return s;
}

// Makes the fault of `s` known.
Result Learn(Test& t, const RawStream& s) {
  const Result result = SyncOf(t, s);
  t.Require(!result.ok(), "a synchronisation behind a fault reports it");
  return result;
}

Result Fault(Test& t) { return Learn(t, Faulty(t)); }

template <uint32_t kForm>
void FormIsReported(Test& t) {
  RawStream& s = Faulty(t, kForm);
  t.Code(SyncOf(t, s), DEVRT_INTERNAL,
         "the synchronisation of a stream whose kernel has faulted");
  t.Code(SyncOf(t, s), DEVRT_INTERNAL, "the next one");
}

void EventSync(Test& t) {
  RawStream& s = NeverDestroyed<RawStream>(t, t.device());
  const RawEvent& e = NeverDestroyed<RawEvent>(t, t.device());
  CommitFault(t, s);
  const Result recorded =
      t.machine().Call<&Ops::event_record>(e.handle(), s.handle());
  // The record may report it already.
  t.Code(
      recorded.ok() ? t.machine().Call<&Ops::event_sync>(e.handle()) : recorded,
      DEVRT_INTERNAL, "the synchronisation of an event behind a fault");
}

void DeviceSync(Test& t) {
  Faulty(t);
  t.Code(t.machine().Call<&Ops::device_sync>(t.device()), DEVRT_INTERNAL,
         "the synchronisation of a device whose kernel has faulted");
}

void QueryOf(Test& t) {
  const RawStream& s = Faulty(t);
  Result result;
  uint32_t done = 0;
  t.Expect(t.Eventually([&] {
    done = 0;
    result = t.machine().Call<&Ops::stream_query>(s.handle(), &done);
    return !result.ok() || done != 0;
  }),
           "a query behind a fault is not \"not yet\" forever");
  t.Code(result, DEVRT_INTERNAL, "a query behind a fault, once it is known");
}

void EventQuery(Test& t) {
  const RawStream& s = NeverDestroyed<RawStream>(t, t.device());
  const RawEvent& e = NeverDestroyed<RawEvent>(t, t.device());
  CommitFault(t, s);
  Result result = t.machine().Call<&Ops::event_record>(e.handle(), s.handle());
  uint32_t done = 0;
  t.Expect(t.Eventually([&] {
    if (result.ok()) {
      result = t.machine().Call<&Ops::event_query>(e.handle(), &done);
    }
    return !result.ok() || done != 0;
  }),
           "a query of an event behind a fault is not \"not yet\" forever");
  t.Code(result, DEVRT_INTERNAL, "a query of an event behind a fault");
}

void WorkBeforeIsDone(Test& t) {
  const HostBlock& host =
      NeverDestroyed<HostBlock>(t, t.device(), uint64_t{500});
  const DeviceBlock& x =
      NeverDestroyed<DeviceBlock>(t, t.device(), uint64_t{500});
  const RawStream& s = NeverDestroyed<RawStream>(t, t.device());
  s.Fill(x.ptr(), 4, 500);
  s.Copy(host.ptr(), x.ptr(), 500, DEVRT_COPY_D2H);
  s.Sync();
  t.Code(Fault(t), DEVRT_INTERNAL, "a fault");
  t.Expect(host.Holds(4), "what was complete before a fault stays");
}

void WorkBehindIsNot(Test& t) {
  const HostBlock& host =
      NeverDestroyed<HostBlock>(t, t.device(), uint64_t{500});
  const DeviceBlock& x =
      NeverDestroyed<DeviceBlock>(t, t.device(), uint64_t{500});
  // Before the fault, so that a copy that runs changes the bytes.
  std::fill_n(host.ptr(), 500, uint8_t{9});
  const RawStream& s = Faulty(t);
  const Result copied = t.machine().Call<&Ops::copy_async>(
      s.handle(), static_cast<void*>(host.ptr()),
      static_cast<const void*>(x.ptr()), uint64_t{500}, DEVRT_COPY_D2H);
  t.Expect(copied.ok() || copied.code == DEVRT_INTERNAL,
           "an enqueue behind a fault succeeds or reports it");
  t.Code(SyncOf(t, s), DEVRT_INTERNAL, "the stream behind a fault");
  t.Expect(host.Holds(9), "what is queued behind a fault does not run");
}

// Calls that are not in the last rows of docs/reference/semantics.md 2.4, in
// any order.  Calls that a correct backend may answer without its device, such
// as event_create (C99), are left out.
void IsRemembered(Test& t) {
  Machine& m = t.machine();
  const uint32_t device = t.device();
  const RawEvent& e = NeverDestroyed<RawEvent>(t, device);
  const DeviceBlock& x = NeverDestroyed<DeviceBlock>(t, device, uint64_t{64});
  const DeviceBlock& y = NeverDestroyed<DeviceBlock>(t, device, uint64_t{64});
  const RawStream& other = NeverDestroyed<RawStream>(t, device);
  const RawStream& bad = NeverDestroyed<RawStream>(t, device);
  e.Record(bad);  // a wait needs a recorded event
  CommitFault(t, bad);
  const Result first = Learn(t, bad);
  t.Code(first, DEVRT_INTERNAL, "the first report");
  const devrt_stream s = other.handle();
  void* const to = x.ptr();
  const void* const from = y.ptr();
  uint32_t done = 0;
  void* memory = nullptr;
  devrt_stream stream = nullptr;
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  for (int round = 0; round < 2; ++round) {
    const std::pair<const char*, Result> calls[] = {
        {"stream_sync", m.Call<&Ops::stream_sync>(s)},
        {"stream_query", m.Call<&Ops::stream_query>(bad.handle(), &done)},
        {"device_sync", m.Call<&Ops::device_sync>(device)},
        {"fill_async", m.Call<&Ops::fill_async>(s, to, 1u, uint64_t{64})},
        {"copy_async",
         m.Call<&Ops::copy_async>(s, to, from, uint64_t{64}, DEVRT_COPY_D2D)},
        {"event_record", m.Call<&Ops::event_record>(e.handle(), s)},
        {"stream_wait_event", m.Call<&Ops::stream_wait_event>(s, e.handle())},
        {"alloc",
         m.Call<&Ops::alloc>(device, uint64_t{64}, uint64_t{0}, &memory)},
        {"stream_create",
         m.Call<&Ops::stream_create>(
             device, static_cast<const devrt_stream_desc_v0*>(&desc), &stream)},
        {"spin", m.CallExtension(&devrt_probe_v0::spin, m.probe(),
                                 m.probe_self(), s, uint64_t{10})},
    };
    for (const auto& [name, result] : calls) {
      t.Code(
          result, first.code,
          absl::StrCat(name, " on a device that has faulted, round ", round));
    }
  }
}

// Threads that have not seen the fault get the error, too, and again.
void ByAllThreads(Test& t) {
  Machine& m = t.machine();
  const RawStream& other = NeverDestroyed<RawStream>(t, t.device());
  const Result first = Fault(t);
  Threads threads;
  for (int i = 0; i < 3; ++i) {
    threads.Start([&] {
      for (int round = 0; round < 2; ++round) {
        void* memory = nullptr;
        t.Code(
            m.Call<&Ops::alloc>(t.device(), uint64_t{64}, uint64_t{0}, &memory),
            first.code, "another thread's allocation");
        t.Code(m.Call<&Ops::device_sync>(t.device()), first.code,
               "another thread's device_sync");
        t.Code(SyncOf(t, other), first.code, "another thread's stream_sync");
      }
    });
  }
  threads.Join();
}

// For a backend that is no simulator, the core makes none of these calls on a
// lost device.
void SimulatorsGiveUp(Test& t) {
  if (!t.machine().simulator().has_value()) {
    t.Skip("the core answers for a backend that is no simulator");
  }
  Machine& m = t.machine();
  RawStream& s = NeverDestroyed<RawStream>(t, t.device());
  RawEvent& e = NeverDestroyed<RawEvent>(t, t.device());
  RawEvent& recorded = NeverDestroyed<RawEvent>(t, t.device());
  recorded.Record(s);
  const DeviceBlock& x =
      NeverDestroyed<DeviceBlock>(t, t.device(), uint64_t{64});
  const HostBlock& host =
      NeverDestroyed<HostBlock>(t, t.device(), uint64_t{64});
  (void)Fault(t);
  t.Ok(e.Destroy(), "event_destroy after a fault");
  t.Ok(recorded.Destroy(), "event_destroy of a recorded event");
  t.Ok(s.Destroy(), "stream_destroy after a fault");
  t.Ok(m.Call<&Ops::dealloc>(t.device(), static_cast<void*>(x.ptr()),
                             uint64_t{64}),
       "dealloc after a fault");
  if (host.is_pinned()) {
    t.Ok(m.Call<&Ops::host_dealloc>(static_cast<void*>(host.ptr()),
                                    uint64_t{64}),
         "host_dealloc after a fault");
  }
}

void OtherDevices(Test& t) {
  const RawStream& before = NeverDestroyed<RawStream>(t, t.device(1));
  const Result first = Fault(t);
  if (FaultsStayWithTheirDevice(t)) {
    t.Ok(SyncOf(t, before), "a stream of another device");
    ExpectWorks(t, t.device(1), "another device");
    t.Ok(t.machine().Call<&Ops::device_sync>(t.device(1)), "another device");
  } else {
    t.Code(SyncOf(t, before), first.code,
           "fault_scope=process: a stream of another device");
  }
}

// An error of work that device 1 waits for is not an error of device 1.
void WaitingDevice(Test& t) {
  const DeviceBlock& x =
      NeverDestroyed<DeviceBlock>(t, t.device(1), uint64_t{100});
  const RawStream& s = NeverDestroyed<RawStream>(t, t.device(0));
  const RawStream& waits = NeverDestroyed<RawStream>(t, t.device(1));
  const RawEvent& e = NeverDestroyed<RawEvent>(t, t.device(0));
  Gate& gate = NeverDestroyed<Gate>(t);
  gate.Hold(s);
  CommitFault(t, s);
  e.Record(s);
  waits.Wait(e);
  waits.Fill(x.ptr(), 7, 100);
  gate.Open();
  const Result first = SyncOf(t, s);
  t.Code(first, DEVRT_INTERNAL, "the stream that faulted");
  t.Code(SyncOf(t, waits), first.code,
         "a stream of another device that waits for it");
  if (!FaultsStayWithTheirDevice(t)) return;
  t.Expect(Reader(t, t.device(1), 100).Holds(x.ptr(), 0),
           "what waits for a device that has faulted does not run");
  ExpectWorks(t, t.device(1), "the device that waited is healthy");
}

// Threads wait for `held`, for `e` and for the device, and then `fault` makes
// the device fail.
void ExpectReleased(Test& t, const RawStream& held, const RawEvent& e,
                    const std::function<void()>& fault) {
  Result results[3];
  std::atomic<int> started{0};
  Threads threads;
  threads.Start([&] {
    ++started;
    results[0] = SyncOf(t, held);
  });
  threads.Start([&] {
    ++started;
    results[1] = t.machine().Call<&Ops::event_sync>(e.handle());
  });
  threads.Start([&] {
    ++started;
    results[2] = t.machine().Call<&Ops::device_sync>(t.device());
  });
  t.Expect(t.Eventually([&] { return started == 3; }), "three threads run");
  t.Settle();
  fault();
  threads.Join();
  constexpr const char* kWaits[] = {"stream_sync", "event_sync", "device_sync"};
  for (size_t i = 0; i < 3; ++i) {
    t.Code(results[i], DEVRT_INTERNAL,
           absl::StrCat("a thread that was blocked in ", kWaits[i]));
  }
}

// The threads wait for work that is queued behind the fault.
void BlockedThreads(Test& t) {
  const RawStream& held = NeverDestroyed<RawStream>(t, t.device());
  const RawStream& bad = NeverDestroyed<RawStream>(t, t.device());
  const RawEvent& behind = NeverDestroyed<RawEvent>(t, t.device());
  const RawEvent& e = NeverDestroyed<RawEvent>(t, t.device());
  Gate& gate = NeverDestroyed<Gate>(t);
  gate.Hold(bad);
  CommitFault(t, bad);
  behind.Record(bad);
  held.Wait(behind);
  e.Record(held);
  ExpectReleased(t, held, e, [&] {
    gate.Open();
    t.Code(SyncOf(t, bad), DEVRT_INTERNAL, "the stream that faulted");
  });
}

// The threads wait for a running kernel.  A device need not end it; a simulator
// does.
void BlockedByAKernel(Test& t) {
  const RawStream& held = NeverDestroyed<RawStream>(t, t.device());
  const RawStream& bad = NeverDestroyed<RawStream>(t, t.device());
  const RawEvent& e = NeverDestroyed<RawEvent>(t, t.device());
  HoldForEver(t, held);
  e.Record(held);
  ExpectReleased(t, held, e, [&] {
    CommitFault(t, bad);
    t.Code(SyncOf(t, bad), DEVRT_INTERNAL, "the stream that faulted");
  });
}

void PendingHostFunctions(Test& t) {
  static std::atomic<int> calls{0}, errors{0};
  const RawStream& s = NeverDestroyed<RawStream>(t, t.device());
  Gate& gate = NeverDestroyed<Gate>(t);
  gate.Hold(s);
  CommitFault(t, s);
  for (int i = 0; i < 3; ++i) {
    s.HostFunc([](devrt_code code) {
      ++calls;
      if (code != DEVRT_OK) ++errors;
    });
  }
  gate.Open();
  t.Code(SyncOf(t, s), DEVRT_INTERNAL, "the stream that faulted");
  t.Expect(t.Eventually([&] { return calls == 3; }),
           "host functions behind a fault are called");
  t.Settle();
  t.Equal(calls.load(), 3, "calls of host functions behind a fault");
  t.Equal(errors.load(), 3, "calls that got the error");
}

void LocalErrors(Test& t) {
  Machine& m = t.machine();
  const DeviceBlock x(t, t.device(), 100);
  const RawStream s(t, t.device());
  s.Fill(x.ptr(), 1, 100);
  void* memory = nullptr;
  for (int i = 0; i < 3; ++i) {
    t.Code(m.Call<&Ops::alloc>(t.device(), uint64_t{1} << 59, uint64_t{0},
                               &memory),
           DEVRT_RESOURCE_EXHAUSTED, "an allocation that is too large");
    uint32_t done = 2;
    t.Ok(m.Call<&Ops::stream_query>(s.handle(), &done), "a query after it");
    t.Ok(m.Call<&Ops::device_sync>(t.device()), "a synchronisation after it");
    t.Expect(x.Holds(1), "work of before is done");
    s.Fill(x.ptr(), 1, 100);
    s.Sync();
  }
}

void UnknownForm(Test& t) {
  Machine& m = t.machine();
  if (m.probe()->fault == nullptr) {
    t.Unsupported("devrt.probe/0 has no fault");
  }
  const RawStream s(t, t.device());
  t.Code(m.CallExtension(&devrt_probe_v0::fault, m.probe(), m.probe_self(),
                         s.handle(), uint32_t{99}),
         DEVRT_INVALID_ARGUMENT, "a fault of a form that does not exist");
  s.Sync();
  ExpectWorks(t, t.device(), "work after a refused kernel");
}

constexpr uint32_t kFault = kNeedsProbe | kOwnProcess;

constexpr TestCase kTests[] = {
    {"error.null_write_is_reported", "C92 C93",
     "A write to address 0 is INTERNAL at the next synchronisation of its "
     "stream, and sticky.",
     &FormIsReported<DEVRT_FAULT_NULL_WRITE>, 0, kFault},
    {"error.misaligned_is_reported", "C92 C93",
     "A misaligned access is INTERNAL, and sticky.",
     &FormIsReported<DEVRT_FAULT_MISALIGNED>, 0, kFault},
    {"error.assertion_is_reported", "C92 C93",
     "A device-side assertion is INTERNAL, and sticky.",
     &FormIsReported<DEVRT_FAULT_ASSERT>, 0, kFault},
    {"error.trap_is_reported", "C92 C93",
     "A launch failure is INTERNAL, and sticky.",
     &FormIsReported<DEVRT_FAULT_TRAP>, 0, kFault},
    {"error.event_sync_reports", "C92",
     "The synchronisation of an event that covers failed work reports it.",
     &EventSync, 0, kFault},
    {"error.device_sync_reports", "C92 C5",
     "The synchronisation of a device whose work has failed reports it.",
     &DeviceSync, 0, kFault},
    {"error.query_reports", "C92",
     "A query reports failed work once the failure is known; it does not "
     "return \"not yet\" forever.",
     &QueryOf, 0, kFault},
    {"error.event_query_reports", "C92",
     "A query of an event that covers failed work reports it.", &EventQuery, 0,
     kFault},
    {"error.finished_work_stays", "C92",
     "A fault does not change the results of work that was complete before it.",
     &WorkBeforeIsDone, 0, kFault},
    {"error.queued_work_does_not_run", "C92 C93",
     "Work queued behind a fault does not run.", &WorkBehindIsNot,
     DEVRT_CAP_PINNED_HOST, kFault},
    {"error.is_remembered", "C93 C92",
     "Every later call on the device returns a sticky error.", &IsRemembered, 0,
     kFault},
    {"error.is_remembered_by_all_threads", "C93",
     "A sticky error persists for all threads.", &ByAllThreads, 0, kFault},
    {"error.simulators_give_up", "C94",
     "A simulator's own frees and destroys succeed after a fault.",
     &SimulatorsGiveUp, 0, kFault},
    {"error.other_devices", "C95",
     "Other devices keep working, unless fault_scope=process.", &OtherDevices,
     0, kFault | kTwoDevices},
    {"error.waiting_device_stays_healthy", "C95 C92",
     "Work that waits for a failed device does not run and reports the "
     "origin's "
     "error; its device stays healthy.",
     &WaitingDevice, 0, kFault | kTwoDevices},
    {"error.blocked_threads_are_released", "C93",
     "Threads that are blocked in a wait for the device are released with the "
     "error.",
     &BlockedThreads, 0, kFault},
    {"error.running_kernels_are_ended", "C93",
     "On a simulator a fault also releases threads that wait for a kernel that "
     "runs.",
     &BlockedByAKernel, 0, kFault | kNeedsSim},
    {"error.host_functions_get_it", "C45 C93",
     "Host functions that are pending at a fault are called once, with the "
     "error.",
     &PendingHostFunctions, DEVRT_CAP_HOST_FUNC, kFault},
    {"error.local_errors_leave_nothing", "C90 C91 C62",
     "An error of a call's own changes nothing else and comes back nowhere.",
     &LocalErrors},
    {"error.refused_kernel_is_local", "C91",
     "A fault of a form that does not exist is INVALID_ARGUMENT of its call; "
     "the next kernel works.",
     &UnknownForm, 0, kNeedsProbe},
};

}  // namespace
}  // namespace error_tests

absl::Span<const TestCase> ErrorTests() { return error_tests::kTests; }

}  // namespace devrt::cts
