// SPDX-License-Identifier: Apache-2.0
//
// Injected faults: what they hit, what they leave, in both modes
// (docs/reference/semantics.md 2.3, C45).
#include <atomic>
#include <iterator>
#include <string>
#include <thread>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kInjectModes[] = {"", "strategy=random,seed=2",
                                        "mode=threaded"};

struct CallCounts {
  std::atomic<int> with_error{0};
  std::atomic<int> without{0};
};

class Inject : public EngineTest {
 protected:
  static devrt_status Try(uint32_t kind, const char* where, int32_t code,
                          uint32_t nth = 1, uint32_t device = 0) {
    devrt_sim_fault_v1 fault = {};
    fault.struct_size = sizeof fault;
    fault.kind = kind;
    fault.device = device;
    fault.nth = nth;
    fault.native_code = code;
    fault.slot = where;
    return sim().inject(self(), &fault);
  }
  static void Arm(uint32_t kind, const char* where, int32_t code,
                  uint32_t nth = 1, uint32_t device = 0) {
    OK(Try(kind, where, code, nth, device));
  }
  static void HostFunc(devrt_stream s, CallCounts* called) {
    OK(ops().host_func(
        self(), s,
        [](void* arg, devrt_status error) {
          auto* const c = static_cast<CallCounts*>(arg);
          ++(Take(error).code == DEVRT_OK ? c->without : c->with_error);
        },
        called));
  }
  // The function behind the fault has been called, by whichever thread.
  static void Join(const CallCounts& called) {
    while (called.with_error == 0) std::this_thread::yield();
  }
  // One operation of each kind, all behind `gate`.
  static void EnqueueAll(devrt_stream s, devrt_flag gate, CallCounts* called) {
    static char host[8];
    void* const x = NewCell();
    HostFunc(s, called);
    Hold(s, gate);
    Record(NewEvent(), s);
    OK(probe().spin(self(), s, 10));
    OK(probe().flag_set_async(self(), s, NewFlag(), 1));
    OK(ops().fill_async(self(), s, x, 0, 8));
    OK(ops().copy_async(self(), s, x, host, 8, DEVRT_COPY_INFER));
    Put(s, static_cast<int64_t*>(x), 1);
    HostFunc(s, called);
  }
};

constexpr const char* kInOrder[] = {"flag_wait", "spin",     "flag_set",
                                    "fill",      "copy H2D", "put"};

// C41, C45: a fault hits kernels, copies and fills; a host function that has
// run is over, and is not called again with the error.
// C45
TEST_F(Inject, AHostFunctionIsCalledOnce) {
  for (const std::string config : kInjectModes) {
    SCOPED_TRACE(config);
    Reset(config);
    CallCounts called;
    Arm(DEVRT_SIM_FAULT_KERNEL, nullptr, 700);
    devrt_stream s = NewStream();
    HostFunc(s, &called);
    Sync(s);
    EXPECT_EQ(called.without, 1);
    OK(probe().spin(self(), s, 10));
    EXPECT_EQ(Take(ops().stream_sync(self(), s)).native_code, 700);
    Reset("");
    EXPECT_EQ(called.without, 1);
    EXPECT_EQ(called.with_error, 0);
  }
}

// The n-th operation is the same one in every mode.
TEST_F(Inject, NthOperation) {
  for (const std::string config : kInjectModes) {
    for (uint32_t nth = 1; nth <= std::size(kInOrder); ++nth) {
      SCOPED_TRACE(config + " " + kInOrder[nth - 1]);
      Reset(config + (config.empty() ? "" : ",") + "pageable=late");
      CallCounts called;
      Arm(DEVRT_SIM_FAULT_KERNEL, nullptr, 700, nth);
      devrt_stream s = NewStream();
      devrt_flag gate = NewFlag();
      EnqueueAll(s, gate, &called);
      Set(gate);
      const Result r = Take(ops().stream_sync(self(), s));
      EXPECT_EQ(r.native_code, 700);
      EXPECT_THAT(r.text, HasSubstr(std::string("\"") + kInOrder[nth - 1]));
      Join(called);
      Reset("");
      EXPECT_EQ(called.without, 1);
      EXPECT_EQ(called.with_error, 1);
    }
  }
}

TEST_F(Inject, OperationByName) {
  for (const std::string config : kInjectModes) {
    for (const char* const name : kInOrder) {
      SCOPED_TRACE(config + " " + name);
      Reset(config + (config.empty() ? "" : ",") + "pageable=late");
      CallCounts called;
      Arm(DEVRT_SIM_FAULT_KERNEL, name, 719);
      devrt_stream s = NewStream();
      devrt_flag gate = NewFlag();
      EnqueueAll(s, gate, &called);
      Set(gate);
      const Result r = Take(ops().stream_sync(self(), s));
      EXPECT_EQ(r.native_code, 719);
      EXPECT_THAT(r.text, HasSubstr(std::string("\"") + name));
      Join(called);
    }
  }
}

// A hold that has timed out has run, too.
TEST_F(Inject, HoldThatTimesOut) {
  for (const std::string config : kInjectModes) {
    SCOPED_TRACE(config);
    Reset(config);
    Arm(DEVRT_SIM_FAULT_KERNEL, "flag_wait", 700);
    devrt_stream s = NewStream();
    OK(probe().flag_wait(self(), s, NewFlag(), 1'000));
    EXPECT_EQ(Take(ops().stream_sync(self(), s)).native_code, 700);
  }
}

// An armed error of a call waits for a call that concerns its device.
TEST_F(Inject, CallOfADevice) {
  constexpr uint32_t kApi = DEVRT_SIM_FAULT_API;
  void* ptr = nullptr;
  Arm(kApi, "alloc", 2, 1, 1);
  OK(ops().alloc(self(), 0, 8, 0, &ptr));
  ExpectCode(ops().alloc(self(), 1, 8, 0, &ptr), DEVRT_RESOURCE_EXHAUSTED);
  OK(ops().alloc(self(), 1, 8, 0, &ptr));
  // Through streams, events and flags, too.
  devrt_stream s = NewStream(0), t = NewStream(1);
  devrt_event e = NewEvent(0), f = NewEvent(1);
  devrt_flag g = NewFlag(0), h = NewFlag(1);
  const auto code = [](devrt_status status) { return Take(status).code; };
  Arm(kApi, "stream_sync", 701, 2, 1);
  for (int i = 0; i < 4; ++i) Sync(s);
  Sync(t);
  EXPECT_EQ(code(ops().stream_sync(self(), t)), DEVRT_RESOURCE_EXHAUSTED);
  Arm(kApi, "spin", 701, 1, 1);
  OK(probe().spin(self(), s, 1));
  EXPECT_EQ(code(probe().spin(self(), t, 1)), DEVRT_RESOURCE_EXHAUSTED);
  Arm(kApi, "event_record", 701, 1, 0);
  Record(f, t);
  EXPECT_EQ(code(ops().event_record(self(), e, s)), DEVRT_RESOURCE_EXHAUSTED);
  Arm(kApi, "event_query", 701, 1, 1);
  uint32_t done = 0;
  OK(ops().event_query(self(), e, &done));
  EXPECT_EQ(code(ops().event_query(self(), f, &done)),
            DEVRT_RESOURCE_EXHAUSTED);
  Arm(kApi, "flag_set", 701, 1, 0);
  OK(probe().flag_set(self(), h, 1));
  EXPECT_EQ(code(probe().flag_set(self(), g, 1)), DEVRT_RESOURCE_EXHAUSTED);
  // Any call; one without a device counts for each.
  Arm(kApi, nullptr, 701, 1, 1);
  OK(ops().alloc(self(), 0, 8, 0, &ptr));
  EXPECT_EQ(code(ops().host_dealloc(self(), ptr, 8)), DEVRT_RESOURCE_EXHAUSTED);
}

// Refuses a name that would never fire. The message lists the names that would.
TEST_F(Inject, UnknownCalls) {
  const std::string huge(1 << 20, 'x');
  for (const char* const name :
       {"no_such_slot", "tensor_fill", "context_enter", "context_current",
        "device_props", "device_count", "elementwise_supports", "sim",
        huge.c_str()}) {
    const Result r = Take(Try(DEVRT_SIM_FAULT_API, name, 700));
    EXPECT_EQ(r.code, DEVRT_INVALID_ARGUMENT) << name;
    EXPECT_THAT(r.text, HasSubstr("elementwise.fill"));
    EXPECT_THAT(r.text, HasSubstr("stream_create"));
    EXPECT_LT(r.text.size(), 2000u);
  }
  for (const char* const name :
       {"mem_info", "reduce", "elementwise.fill", "launch", "flag_wait",
        "alloc_async", "dealloc_async", ""}) {
    OK(Try(DEVRT_SIM_FAULT_API, name, 701));
  }
  // Operations have the names that programs give them.
  OK(Try(DEVRT_SIM_FAULT_KERNEL, "my kernel", 700));
}

// docs/reference/semantics.md 2.3: a sticky code is sticky wherever it is
// injected: the device is lost with all that is queued.
TEST_F(Inject, StickyCodeOfACall) {
  for (const std::string config : kInjectModes) {
    SCOPED_TRACE(config);
    Reset(config);
    CallCounts called;
    devrt_stream s = NewStream(0), other = NewStream(1);
    int64_t* const x = NewCell(0, 1);
    Hold(s, NewFlag());
    Put(s, x, 2);
    HostFunc(s, &called);
    Arm(DEVRT_SIM_FAULT_API, "event_create", 700);
    devrt_event e = nullptr;
    const Result r = Take(ops().event_create(self(), 0, 0, &e));
    EXPECT_EQ(r.code, DEVRT_INTERNAL);
    EXPECT_EQ(r.native_code, 700);
    EXPECT_EQ(r.device, 0);
    EXPECT_EQ(r.flags & DEVRT_ERROR_STICKY, DEVRT_ERROR_STICKY);
    EXPECT_THAT(r.text, HasSubstr("event_create"));
    EXPECT_EQ(Take(ops().event_create(self(), 0, 0, &e)).native_code, 700);
    EXPECT_EQ(Take(ops().stream_sync(self(), s)).native_code, 700);
    Join(called);
    EXPECT_EQ(called.with_error, 1);
    EXPECT_EQ(Peek(x), 1);
    Sync(other);
  }
}

}  // namespace
}  // namespace devrt::test
