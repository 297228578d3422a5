// SPDX-License-Identifier: Apache-2.0
//
// Faults and quarantine: docs/reference/semantics.md 2.3-2.5, C45, C78,
// C90-C95; host functions: C41-C46; injection.
#include <atomic>
#include <memory>
#include <new>
#include <thread>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::HasSubstr;

struct Called {
  std::atomic<int> count{0};
  std::atomic<int> code{-1};
};

void NoteCall(void* arg, devrt_status error) {
  auto* const called = static_cast<Called*>(arg);
  called->code = Take(error).code;
  ++called->count;
}

class Faults : public EngineTest {
 protected:
  static void HostFunc(devrt_stream s, Called* called) {
    OK(ops().host_func(self(), s, NoteCall, called));
  }
  static void Crash(devrt_stream s) {
    OK(probe().fault(self(), s, DEVRT_FAULT_NULL_WRITE));
  }
  static void ExpectSticky(devrt_status status) {
    const Result r = Take(status);
    EXPECT_EQ(r.code, DEVRT_INTERNAL) << r.text;
    EXPECT_EQ(r.native_code, 700);
    EXPECT_EQ(r.flags & DEVRT_ERROR_STICKY, DEVRT_ERROR_STICKY);
    EXPECT_EQ(r.device, 0);
  }
};

TEST_F(Faults, EveryFormIsSticky) {
  constexpr int kCodes[] = {700, 716, 710, 719};
  for (uint32_t form = 0; form < 4; ++form) {
    for (const std::string mode : {"virtual", "threaded"}) {
      Reset("mode=" + mode);
      devrt_stream s = NewStream();
      OK(probe().fault(self(), s, form));
      EXPECT_EQ(Take(ops().stream_sync(self(), s)).native_code, kCodes[form]);
      EXPECT_EQ(Take(ops().device_sync(self(), 0)).native_code, kCodes[form]);
    }
  }
  devrt_stream s = NewStream(1);
  ExpectCode(probe().fault(self(), s, 4), DEVRT_INVALID_ARGUMENT);
}

// R5: what a body throws, mostly for want of host memory, ends the operation.
TEST_F(Faults, ExceptionsOfBodies) {
  for (const std::string mode : {"virtual", "threaded"}) {
    Reset("mode=" + mode);
    devrt_stream s = NewStream();
    Launch(s, [](const devrt_kernel_context_v0*) { throw std::bad_alloc(); });
    const Result r = Take(ops().stream_sync(self(), s));
    EXPECT_EQ(r.native_code, 719);
    EXPECT_THAT(r.text, HasSubstr("it threw std::bad_alloc"));
    Reset("mode=" + mode);
    s = NewStream();
    Launch(s, [](const devrt_kernel_context_v0*) { throw 1; });
    EXPECT_EQ(Take(ops().stream_sync(self(), s)).native_code, 719);
  }
}

// C93, C94: what reports, what does not.
TEST_F(Faults, CallsThatReportTheFault) {
  devrt_stream s = NewStream(), idle = NewStream();
  devrt_event e = NewEvent();
  int64_t* const x = NewCell();
  Crash(s);
  ExpectSticky(ops().stream_sync(self(), s));
  ExpectSticky(ops().stream_sync(self(), idle));
  uint32_t done = 0;
  ExpectSticky(ops().stream_query(self(), idle, &done));
  ExpectSticky(ops().event_record(self(), e, idle));
  ExpectSticky(ops().fill_async(self(), idle, x, 0, 8));
  void* ptr = nullptr;
  ExpectSticky(ops().alloc(self(), 0, 8, 0, &ptr));
  devrt_event fresh = nullptr;
  ExpectSticky(ops().event_create(self(), 0, 0, &fresh));
  OK(ops().dealloc(self(), 0, x, 8));
  OK(ops().event_destroy(self(), e));
  OK(ops().stream_destroy(self(), s));
  OK(ops().stream_destroy(self(), idle));
  devrt_device_props_v0 props = {};
  props.struct_size = sizeof props;
  OK(ops().device_props(self(), 0, &props));
}

// C95: the other device works.
TEST_F(Faults, OtherDevicesKeepWorking) {
  devrt_stream s = NewStream(0), t = NewStream(1);
  Crash(s);
  ExpectSticky(ops().stream_sync(self(), s));
  int64_t* const x = NewCell(1);
  Put(t, x, 4);
  Sync(t);
  EXPECT_EQ(Peek(x), 4);
}

TEST_F(Faults, ProcessScope) {
  Reset("fault_scope=process");
  devrt_stream s = NewStream(0), t = NewStream(1);
  Crash(s);
  const Result r = Take(ops().stream_sync(self(), s));
  EXPECT_EQ(r.flags & DEVRT_ERROR_PROCESS, DEVRT_ERROR_PROCESS);
  EXPECT_EQ(Take(ops().stream_sync(self(), t)).native_code, 700);
}

// C45: queued work is discarded, closures are not lost.
TEST_F(Faults, QueuedWorkIsDiscarded) {
  for (const std::string mode : {"virtual", "threaded"}) {
    Reset("mode=" + mode);
    devrt_stream s = NewStream(), t = NewStream();
    devrt_flag flag = NewFlag(), other = NewFlag();
    int64_t* const x = NewCell();
    Hold(s, flag);
    Hold(t, other);
    Crash(s);
    Called called, parallel;
    HostFunc(s, &called);
    HostFunc(t, &parallel);
    auto destroyed = std::make_shared<int>(0);
    Launch(s, [destroyed](const devrt_kernel_context_v0*) { FAIL(); });
    Launch(t, [destroyed](const devrt_kernel_context_v0*) { FAIL(); });
    Put(s, x, 1);
    EXPECT_EQ(destroyed.use_count(), 3);
    Set(flag);
    ExpectSticky(ops().stream_sync(self(), t));
    for (int i = 0; i < 1000 && parallel.count == 0; ++i) {
      std::this_thread::yield();
    }
    Reset("");  // joins the workers
    EXPECT_EQ(called.count, 1);
    EXPECT_EQ(parallel.count, 1);
    EXPECT_EQ(called.code, DEVRT_INTERNAL);
    EXPECT_EQ(destroyed.use_count(), 1);
  }
}

// docs/reference/semantics.md 2.4: work of a healthy device that waits for a
// failed one does not run.
TEST_F(Faults, WaitingForAFailedDevice) {
  devrt_stream s = NewStream(0), t = NewStream(1), free = NewStream(1);
  devrt_flag flag = NewFlag();
  int64_t* const x = NewCell(1);
  Hold(s, flag);
  Crash(s);
  devrt_event e = Mark(s);
  Wait(t, e);
  Put(t, x, 1);
  Called called;
  HostFunc(t, &called);
  devrt_event after = Mark(t, 1);
  Wait(free, after);
  Set(flag);
  ExpectSticky(ops().stream_sync(self(), t));
  ExpectSticky(ops().event_sync(self(), after));
  EXPECT_EQ(called.count, 1);
  EXPECT_EQ(called.code, DEVRT_INTERNAL);
  EXPECT_EQ(Peek(x), 0);
  devrt_stream fresh = NewStream(1);
  Put(fresh, x, 2);
  Sync(fresh);
  EXPECT_EQ(Peek(x), 2);
}

// C78, C75.
TEST_F(Faults, PeerAccessWithoutPermission) {
  int64_t* const far = NewCell(1, 3);
  for (const bool allowed : {true, false}) {
    devrt_stream s = NewStream(0);
    if (allowed) OK(ops().peer_enable(self(), 0, 1));
    MulAdd(s, far, 2, 0);
    if (allowed) {
      Sync(s);
      OK(ops().peer_disable(self(), 0, 1));
    } else {
      ExpectSticky(ops().stream_sync(self(), s));
    }
  }
  EXPECT_EQ(Peek(far), 6);
}

TEST_F(Faults, UseAfterFree) {
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  int64_t* const x = NewCell();
  Hold(s, flag);
  Put(s, x, 1);
  OK(ops().dealloc(self(), 0, x, 8));
  Set(flag);
  ExpectSticky(ops().stream_sync(self(), s));
}

TEST_F(Faults, FailedAssertionNamesConditionAndKernel) {
  devrt_stream s = NewStream();
  Launch(
      s,
      [](const devrt_kernel_context_v0* context) {
        context->fail(context, "i < n", 5);
      },
      {}, "loop");
  const Result r = Take(ops().stream_sync(self(), s));
  EXPECT_EQ(r.native_code, 710);
  EXPECT_THAT(r.text, HasSubstr("i < n"));
  EXPECT_THAT(r.text, HasSubstr("loop"));
}

TEST_F(Faults, InjectedFaultsHitTheChosenCallKernelAndDevice) {
  devrt_sim_fault_v1 fault = {};
  fault.struct_size = sizeof fault;
  fault.kind = DEVRT_SIM_FAULT_API;
  fault.nth = 2;
  fault.native_code = 2;
  fault.slot = "alloc";
  OK(sim().inject(self(), &fault));
  void* a = nullptr;
  OK(ops().alloc(self(), 0, 8, 0, &a));
  const uint64_t blocks = Stats().live_blocks;
  ExpectCode(ops().alloc(self(), 0, 8, 0, &a), DEVRT_RESOURCE_EXHAUSTED);
  EXPECT_EQ(Stats().live_blocks, blocks);
  OK(ops().alloc(self(), 0, 8, 0, &a));
  fault.kind = DEVRT_SIM_FAULT_KERNEL;
  fault.nth = 1;
  fault.native_code = 214;
  fault.slot = "put";
  OK(sim().inject(self(), &fault));
  devrt_stream s = NewStream();
  Put(s, static_cast<int64_t*>(a), 1);
  ExpectCode(ops().stream_sync(self(), s), DEVRT_DATA_LOSS);
  fault.kind = DEVRT_SIM_FAULT_LOST;
  fault.device = 1;
  fault.native_code = 46;
  OK(sim().inject(self(), &fault));
  EXPECT_EQ(Take(ops().device_sync(self(), 1)).native_code, 46);
  uint32_t count = 0;
  OK(ops().device_count(self(), &count));
  EXPECT_EQ(count, 2u);
}

// C41, C42, C46.
TEST_F(Faults, HostFunctions) {
  for (const std::string mode : {"virtual", "threaded"}) {
    Reset("mode=" + mode);
    devrt_stream s = NewStream();
    int64_t* const x = NewCell();
    struct State {
      devrt_stream stream;
      devrt_event event;
      int64_t* x;
      int64_t seen = -1;
      devrt_code code = -1;
      uint32_t done = 9;
    } state{s, NewEvent(), x};
    Put(s, x, 1);
    OK(ops().host_func(
        self(), s,
        [](void* arg, devrt_status error) {
          auto* const st = static_cast<State*>(arg);
          EXPECT_EQ(error, nullptr);
          const Result r = Take(ops().stream_sync(self(), st->stream));
          EXPECT_EQ(r.native_code, 800);
          st->code = r.code;
          OK(ops().event_query(self(), st->event, &st->done));
          st->seen = Stats().host_funcs_run;
        },
        &state));
    Put(s, x, 2);
    Sync(s);
    EXPECT_EQ(Peek(x), 2);
    EXPECT_EQ(state.code, DEVRT_FAILED_PRECONDITION);
    EXPECT_EQ(state.done, 1u);
    EXPECT_GE(state.seen, 0);
  }
}

TEST_F(Faults, CallsFromAKernelBodyAreRefused) {
  devrt_stream s = NewStream();
  Launch(s, [s](const devrt_kernel_context_v0*) {
    ExpectCode(ops().stream_sync(self(), s), DEVRT_FAILED_PRECONDITION);
  });
  Sync(s);
}

// mtia releases a kernel's captured objects outside the kernel, where frees
// work.
TEST_F(Faults, ClosuresAreReleasedOutside) {
  for (const std::string mode : {"virtual", "threaded"}) {
    Reset("mode=" + mode);
    struct Owner {
      void* ptr;
      std::atomic<bool>* released;
      ~Owner() {
        OK(ops().dealloc(self(), 0, ptr, 8));
        *released = true;
      }
    };
    std::atomic<bool> released{false};
    void* ptr = nullptr;
    OK(ops().alloc(self(), 0, 8, 0, &ptr));
    auto owner = std::shared_ptr<Owner>(new Owner{ptr, &released});
    devrt_stream s = NewStream();
    Launch(s, [owner](const devrt_kernel_context_v0*) {});
    owner.reset();
    Sync(s);
    while (!released) std::this_thread::yield();
  }
}

// Blocked threads are released with the error.
TEST_F(Faults, BlockedThreadsAreReleased) {
  for (const std::string config : {"", "mode=threaded"}) {
    Reset(config);
    devrt_stream s = NewStream(), t = NewStream();
    devrt_flag flag = NewFlag();
    Hold(s, flag);
    std::thread waiter([s] { ExpectSticky(ops().stream_sync(self(), s)); });
    Crash(t);
    ExpectSticky(ops().stream_sync(self(), t));
    waiter.join();
  }
}

}  // namespace
}  // namespace devrt::test
