// SPDX-License-Identifier: Apache-2.0
//
// Injected faults and configurations that only a simulator has.
#include <string>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/lost_device.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace error_reach_tests {
namespace {

using Ops = devrt_ops_v0;

const Simulator& Sim(Test& t) {
  const auto& sim = t.machine().simulator();
  if (!sim.has_value()) t.Skip("only a simulator can show it");
  return *sim;
}

void Inject(Test& t, SimulatedFault::Kind kind, int32_t code,
            const std::string& where = "", uint32_t nth = 1) {
  SimulatedFault fault;
  fault.kind = kind;
  fault.device = t.device();
  fault.nth = nth;
  fault.native_code = code;
  fault.where = where;
  t.Ok(Sim(t).InjectFault(fault), "InjectFault");
}

// Resets the simulator with `config`.  For the other keys of faults the
// defaults count, and not the environment.
void Reset(Test& t, const std::string& scope = "device",
           const std::string& delivery = "status") {
  t.Require(t.machine().Reset(absl::StrCat("fault_scope=", scope,
                                           ",fault_delivery=", delivery)),
            "reset of the simulator");
}

// Restores the configuration of the simulator.
void ResetAll(Test& t) {
  t.Require(t.machine().Reset(""), "reset of the simulator");
}

struct NativeCode {
  int32_t number;
  devrt_code code;
};

// docs/reference/semantics.md 2.2: some of each class.
constexpr NativeCode kLocal[] = {
    {1, DEVRT_INVALID_ARGUMENT},     {2, DEVRT_RESOURCE_EXHAUSTED},
    {46, DEVRT_UNAVAILABLE},         {201, DEVRT_FAILED_PRECONDITION},
    {301, DEVRT_NOT_FOUND},          {400, DEVRT_INVALID_ARGUMENT},
    {701, DEVRT_RESOURCE_EXHAUSTED}, {704, DEVRT_ALREADY_EXISTS},
    {801, DEVRT_UNIMPLEMENTED},      {909, DEVRT_DEADLINE_EXCEEDED},
};
constexpr NativeCode kSticky[] = {
    {700, DEVRT_INTERNAL},          {710, DEVRT_INTERNAL},
    {716, DEVRT_INTERNAL},          {719, DEVRT_INTERNAL},
    {214, DEVRT_DATA_LOSS},         {220, DEVRT_DATA_LOSS},
    {702, DEVRT_DEADLINE_EXCEEDED},
};

Result Fill(Test& t, const RawStream& s, const DeviceBlock& x, uint32_t value) {
  return t.machine().Call<&Ops::fill_async>(
      s.handle(), static_cast<void*>(x.ptr()), value, x.size());
}

void LocalInjections(Test& t) {
  Sim(t);
  const DeviceBlock x(t, t.device(), 100);
  const RawStream s(t, t.device());
  for (const NativeCode& native : kLocal) {
    Inject(t, SimulatedFault::Kind::kApi, native.number, "fill_async");
    t.Code(Fill(t, s, x, 9), native.code,
           absl::StrCat("native code ", native.number));
    s.Sync();
    t.Expect(x.Holds(0), "a call that fails has done nothing");
  }
  t.Ok(Fill(t, s, x, 1), "the call after it");
  s.Sync();
  t.Expect(x.Holds(1), "which works");
}

// The reset frees everything on a lost device.
void StickyInjections(Test& t) {
  Sim(t);
  for (const NativeCode& native : kSticky) {
    for (const bool late : {true, false}) {
      Reset(t);
      const RawStream& s = NeverDestroyed<RawStream>(t, t.device());
      const DeviceBlock& x =
          NeverDestroyed<DeviceBlock>(t, t.device(), uint64_t{100});
      Inject(t,
             late ? SimulatedFault::Kind::kKernel : SimulatedFault::Kind::kApi,
             native.number, late ? "fill" : "fill_async");
      const Result filled = Fill(t, s, x, 9);
      const std::string what = absl::StrCat("native code ", native.number,
                                            late ? " of a fill" : " of a call");
      if (!late) t.Code(filled, native.code, what);
      for (int i = 0; i < 3; ++i) t.Code(SyncOf(t, s), native.code, what);
      if (t.devices().size() > 1) {
        ExpectWorks(t, t.device(1), "the other device");
      }
    }
  }
  ResetAll(t);
  ExpectWorks(t, t.device(), "the device after a reset");
}

void NthOperation(Test& t) {
  Sim(t);
  for (uint32_t nth = 1; nth <= 4; ++nth) {
    Reset(t);
    const RawStream& s = NeverDestroyed<RawStream>(t, t.device());
    const DeviceBlock& x =
        NeverDestroyed<DeviceBlock>(t, t.device(), uint64_t{100});
    Inject(t, SimulatedFault::Kind::kKernel, 700, "fill", nth);
    Gate& gate = NeverDestroyed<Gate>(t);
    gate.Hold(s);
    for (uint32_t value = 1; value <= 4; ++value) {
      t.Require(Fill(t, s, x, value), "fill");
    }
    gate.Open();
    t.Code(SyncOf(t, s), DEVRT_INTERNAL, "a stream with a fault injected",
           "fill");
    uint8_t seen[100];
    t.Ok(Sim(t).Peek(x.ptr(), seen, 100), "peek");
    // An operation faults at its end, so it may have written.
    t.Expect(seen[0] == nth || seen[0] + 1u == nth,
             absl::StrCat("what is behind operation ", nth,
                          " is lost, what is before it has run"));
  }
  ResetAll(t);
}

void LostAtOnce(Test& t) {
  Sim(t);
  Reset(t);
  const RawStream& s = NeverDestroyed<RawStream>(t, t.device());
  const DeviceBlock& x =
      NeverDestroyed<DeviceBlock>(t, t.device(), uint64_t{100});
  Gate& gate = NeverDestroyed<Gate>(t);
  gate.Hold(s);
  t.Require(Fill(t, s, x, 1), "fill");
  Inject(t, SimulatedFault::Kind::kLost, 719);
  t.Code(SyncOf(t, s), DEVRT_INTERNAL, "a stream of a device that was lost");
  t.Code(t.machine().Call<&Ops::device_sync>(t.device()), DEVRT_INTERNAL,
         "a device that was lost");
  Inject(t, SimulatedFault::Kind::kLost, 214);
  t.Code(SyncOf(t, s), DEVRT_INTERNAL,
         "the first error stays when another follows");
  uint8_t seen[100];
  t.Ok(Sim(t).Peek(x.ptr(), seen, 100), "peek");
  t.Expect(seen[0] == 0, "what was queued does not run");
  ResetAll(t);
  ExpectWorks(t, t.device(), "the device after a reset");
}

// Each kind of call is the first to report the fault.
void FirstCalls(Test& t) {
  Sim(t);
  for (int call = 0; call < 8; ++call) {
    Reset(t);
    Machine& m = t.machine();
    const RawStream& s = NeverDestroyed<RawStream>(t, t.device());
    const RawEvent& e = NeverDestroyed<RawEvent>(t, t.device());
    const DeviceBlock& x =
        NeverDestroyed<DeviceBlock>(t, t.device(), uint64_t{64});
    Inject(t, SimulatedFault::Kind::kLost, 700);
    uint32_t done = 0;
    void* memory = nullptr;
    devrt_event event = nullptr;
    const auto first = [&]() -> Result {
      switch (call) {
        case 0:
          return SyncOf(t, s);
        case 1:
          return m.Call<&Ops::stream_query>(s.handle(), &done);
        case 2:
          return Fill(t, s, x, 1);
        case 3:
          return m.Call<&Ops::event_record>(e.handle(), s.handle());
        case 4:
          return m.Call<&Ops::alloc>(t.device(), uint64_t{64}, uint64_t{0},
                                     &memory);
        case 5:
          return m.Call<&Ops::event_create>(t.device(), 0u, &event);
        case 6:
          return m.Call<&Ops::device_sync>(t.device());
        default:
          return m.Call<&Ops::stream_wait_event>(s.handle(), e.handle());
      }
    };
    t.Code(first(), DEVRT_INTERNAL,
           absl::StrCat("first call ", call, " after the loss"));
    t.Code(SyncOf(t, s), DEVRT_INTERNAL, "a call after it");
  }
  ResetAll(t);
}

void ScopeProcess(Test& t) {
  Sim(t);
  Reset(t, "process");
  const RawStream& other = NeverDestroyed<RawStream>(t, t.device(1));
  const RawStream& s = NeverDestroyed<RawStream>(t, t.device(0));
  CommitFault(t, s);
  t.Code(SyncOf(t, s), DEVRT_INTERNAL, "the stream that faulted");
  t.Code(SyncOf(t, other), DEVRT_INTERNAL,
         "fault_scope=process: a stream of another device");
  t.Code(t.machine().Call<&Ops::device_sync>(t.device(1)), DEVRT_INTERNAL,
         "fault_scope=process: another device");
  ResetAll(t);
}

void ScopeProcessThroughCore(Test& t) {
  Sim(t);
  Reset(t, "process");
  const Stream& s = NeverDestroyed<Stream>(
      t.Require(Stream::Create(t.cpp_device()), "Create"));
  t.Ok(CommitFault(s, FaultForm::kTrap), "CommitFault");
  const absl::Status first = s.Synchronize();
  t.Code(first, DEVRT_INTERNAL, "the stream that faulted",
         "devices are lost for the rest of this process");
  for (size_t i = 0; i < t.devices().size(); ++i) {
    t.Code(t.cpp_device(i).Health(), DEVRT_INTERNAL, "the health of a device",
           std::string(first.message()));
  }
}

void DeliveryAbort(Test& t) {
  Sim(t);
  Reset(t, "device", "abort");
  const RawStream& s = NeverDestroyed<RawStream>(t, t.device());
  t.MayDie();
  CommitFault(t, s);
  (void)SyncOf(t, s);
  t.Fail("fault_delivery=abort, but the process lives after a fault");
}

constexpr TestCase kTests[] = {
    {"error.injected_local_errors", "C91 C90",
     "A local native error fails its call, with the status of 2.2, and changes "
     "nothing.",
     &LocalInjections},
    {"error.injected_sticky_errors", "C92 C93",
     "A sticky native error loses its device, with the status of 2.2, and no "
     "other.",
     &StickyInjections},
    {"error.injected_into_an_operation", "C92",
     "A fault of an operation loses later work, and no earlier work.",
     &NthOperation, 0, kNeedsProbe},
    {"error.lost_at_once", "C92 C93",
     "A lost device discards its queued work and releases waiting threads.",
     &LostAtOnce, 0, kNeedsProbe},
    {"error.any_call_learns_of_it", "C92",
     "Any call may be the first to report a device that is lost.", &FirstCalls},
    {"error.scope_process", "C95",
     "With fault_scope=process all devices of the backend are lost.",
     &ScopeProcess, 0, kNeedsProbe | kTwoDevices},
    {"error.scope_process_through_the_core", "C95 C93",
     "With fault_scope=process all devices enter quarantine together.",
     &ScopeProcessThroughCore, 0, kNeedsProbe | kTwoDevices | kOwnProcess},
    {"error.delivery_abort", "C92",
     "With fault_delivery=abort a fault ends the process.", &DeliveryAbort, 0,
     kNeedsProbe | kOwnProcess},
};

}  // namespace
}  // namespace error_reach_tests

absl::Span<const TestCase> ErrorReachTests() {
  return error_reach_tests::kTests;
}

}  // namespace devrt::cts
