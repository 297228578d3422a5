// SPDX-License-Identifier: Apache-2.0
//
// Injected faults: what they hit, what they leave, in both modes (2.3, C45).
#include <atomic>
#include <iterator>
#include <string>
#include <thread>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kModes[] = {"", "strategy=random,seed=2",
                                  "mode=threaded"};

struct Called {
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
  static void HostFunc(devrt_stream s, Called* called) {
    OK(ops().host_func(
        self(), s,
        [](void* arg, devrt_status error) {
          auto* const c = static_cast<Called*>(arg);
          ++(Take(error).code == DEVRT_OK ? c->without : c->with_error);
        },
        called));
  }
  // The function behind the fault has been called, by whichever thread.
  static void Join(const Called& called) {
    while (called.with_error == 0) std::this_thread::yield();
  }
  // One operation of each kind, all behind `gate`.
  static void EnqueueAll(devrt_stream s, devrt_flag gate, Called* called) {
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
TEST_F(Inject, C45AHostFunctionIsCalledOnce) {
  for (const std::string config : kModes) {
    SCOPED_TRACE(config);
    Reset(config);
    Called called;
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
  for (const std::string config : kModes) {
    for (uint32_t nth = 1; nth <= std::size(kInOrder); ++nth) {
      SCOPED_TRACE(config + " " + kInOrder[nth - 1]);
      Reset(config + (config.empty() ? "" : ",") + "pageable=late");
      Called called;
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
  for (const std::string config : kModes) {
    for (const char* const name : kInOrder) {
      SCOPED_TRACE(config + " " + name);
      Reset(config + (config.empty() ? "" : ",") + "pageable=late");
      Called called;
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
  for (const std::string config : kModes) {
    SCOPED_TRACE(config);
    Reset(config);
    Arm(DEVRT_SIM_FAULT_KERNEL, "flag_wait", 700);
    devrt_stream s = NewStream();
    OK(probe().flag_wait(self(), s, NewFlag(), 1'000));
    EXPECT_EQ(Take(ops().stream_sync(self(), s)).native_code, 700);
  }
}

}  // namespace
}  // namespace devrt::test
