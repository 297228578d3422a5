// SPDX-License-Identifier: Apache-2.0
//
// Errors of devices: C62, C90 to C95, quarantine (docs/reference/semantics.md
// 2.3 to 2.5).

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

// A lost device gives no memory back: frees are bookkeeping
// (docs/reference/semantics.md 2.5).
class FaultTest : public MtiaTest {
 protected:
  void TearDown() override {
    Reset("");
    MtiaTest::TearDown();
  }
};

constexpr char kQuarantined[] = "device mtia:0 is quarantined: ";

// C90
TEST_F(FaultTest, AHandledErrorLeavesNothingBehind) {
  Stream s = NewStream();
  EXPECT_FALSE(Allocate(dev(), uint64_t{1} << 50).ok());
  EXPECT_TRUE(*s.Query());
  EXPECT_OK(Spin(s, kShort));
  EXPECT_OK(s.Synchronize());
  EXPECT_OK(dev().Health());
}

// C91
TEST_F(FaultTest, AnErrorOfTheCallItselfIsNotSticky) {
  Stream s = NewStream();
  SimulatedFault fault;
  fault.kind = SimulatedFault::Kind::kApi;
  fault.native_code = 701;
  fault.where = "fill_async";
  ASSERT_OK(sim().InjectFault(fault));
  Cell x(dev());
  absl::Status status = FillAsync(s, x.ptr(), 1, 8);
  EXPECT_STATUS(status, kResourceExhausted, "");
  auto info = GetErrorInfo(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->native_code, 701);
  EXPECT_FALSE(info->sticky);
  EXPECT_EQ(info->backend, "mtia");
  EXPECT_OK(FillAsync(s, x.ptr(), 1, 8));
  EXPECT_OK(s.Synchronize());
}

struct FaultCase {
  FaultForm form;
  int64_t native_code;
  absl::StatusCode code;
};
constexpr FaultCase kFaults[] = {
    {FaultForm::kNullWrite, 700, absl::StatusCode::kInternal},
    {FaultForm::kMisaligned, 716, absl::StatusCode::kInternal},
    {FaultForm::kAssert, 710, absl::StatusCode::kInternal},
    {FaultForm::kTrap, 719, absl::StatusCode::kInternal},
};

// C92
TEST_F(FaultTest, EveryFormSurfacesAtTheNextSynchronisation) {
  for (const FaultCase& c : kFaults) {
    InEverySchedule([&] {
      Stream s = NewStream();
      ASSERT_OK(CommitFault(s, c.form));
      absl::Status status = s.Synchronize();
      EXPECT_EQ(status.code(), c.code) << status;
      auto info = GetErrorInfo(status);
      ASSERT_TRUE(info.has_value()) << status;
      EXPECT_EQ(info->native_code, c.native_code);
      EXPECT_TRUE(info->sticky);
      EXPECT_TRUE(info->async);
      EXPECT_EQ(info->device, 0);
    });
  }
}

// Calls that return what earlier work of the device did
// (docs/reference/semantics.md 2.4).
using Call = absl::Status (*)(StreamRef, EventRef, const Cell&);
constexpr std::pair<const char*, Call> kCalls[] = {
    {"stream sync",
     [](StreamRef s, EventRef, const Cell&) { return s.Synchronize(); }},
    {"event sync",
     [](StreamRef, EventRef e, const Cell&) { return e.Synchronize(); }},
    {"device sync", [](StreamRef s, EventRef,
                       const Cell&) { return s.device().Synchronize(); }},
    {"stream query",
     [](StreamRef s, EventRef, const Cell&) { return s.Query().status(); }},
    {"event query",
     [](StreamRef, EventRef e, const Cell&) { return e.Query().status(); }},
    {"record",
     [](StreamRef s, EventRef e, const Cell&) { return e.Record(s); }},
    {"wait", [](StreamRef s, EventRef e, const Cell&) { return s.Wait(e); }},
    {"fill", [](StreamRef s, EventRef,
                const Cell& x) { return FillAsync(s, x.ptr(), 0, 8); }},
    {"copy",
     [](StreamRef s, EventRef, const Cell& x) {
       int64_t host = 0;
       return CopyAsync(s, x.ptr(), &host, 8);
     }},
    {"blocking copy",
     [](StreamRef s, EventRef, const Cell& x) {
       int64_t host = 0;
       return Copy(s, &host, x.ptr(), 8);
     }},
    {"launch",
     [](StreamRef s, EventRef, const Cell&) {
       return Launch(s, {}, [](const LaunchContext&) {});
     }},
    {"host function",
     [](StreamRef s, EventRef, const Cell&) {
       return LaunchHostFunc(s, [](absl::Status) {});
     }},
    {"allocate", [](StreamRef s, EventRef,
                    const Cell&) { return Allocate(s.device(), 8).status(); }},
    {"allocate pinned",
     [](StreamRef s, EventRef, const Cell&) {
       return AllocateHost(s.device(), 8).status();
     }},
    {"register",
     [](StreamRef s, EventRef, const Cell&) {
       static int64_t range[8];
       return RegisterHost(s.device(), range, sizeof range);
     }},
    {"peer access",
     [](StreamRef s, EventRef, const Cell&) {
       return EnablePeerAccess(s.device(), MtiaTest::dev(1));
     }},
    {"create", [](StreamRef s, EventRef,
                  const Cell&) { return Stream::Create(s.device()).status(); }},
};

void ExpectTheTrap(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  auto info = GetErrorInfo(status);
  ASSERT_TRUE(info.has_value()) << status;
  EXPECT_EQ(info->native_code, 719);
  EXPECT_EQ(info->device, 0);
  EXPECT_TRUE(info->sticky);
  EXPECT_TRUE(info->async);
}

// Whatever is called first after the fault learns of it, and the core by it.
// C92
TEST_F(FaultTest, EachKindOfCallCanBeTheFirstToKnow) {
  for (const auto& [name, call] : kCalls) {
    for (const char* config : {"", "strategy=random,seed=3", "mode=threaded"}) {
      SCOPED_TRACE(std::string(name) + " " + config);
      Reset(config);
      Cell x(dev());
      Stream s = NewStream();
      Event e = NewEvent();
      Flag gate = NewFlag();
      ASSERT_OK(gate.WaitOn(s));
      ASSERT_OK(CommitFault(s, FaultForm::kTrap));
      ASSERT_OK(e.Record(s));
      ASSERT_OK(gate.Set());
      // The device has come to rest, and nobody has asked.
      while (Must(sim().Stats()).pending_ops != 0) ASSERT_OK(sim().Yield());
      EXPECT_OK(dev().Health());
      ExpectTheTrap(call(s, e, x));
      EXPECT_FALSE(dev().Health().ok());
      EXPECT_OK(dev(1).Synchronize());
    }
  }
}

// Afterwards the core answers, and still does what is no native work.
// C92
TEST_F(FaultTest, EachKindOfCallReturnsTheFault) {
  for (const auto& [name, call] : kCalls) {
    SCOPED_TRACE(name);
    Reset("");
    Cell x(dev());
    Stream s = NewStream();
    Event e = NewEvent();
    ASSERT_OK(e.Record(s));
    ASSERT_OK(CommitFault(s, FaultForm::kTrap));
    EXPECT_FALSE(dev().Synchronize().ok());
    absl::Status status = call(s, e, x);
    EXPECT_STATUS(status, kInternal, kQuarantined);
    auto info = GetErrorInfo(status);
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->native_code, 719);
    EXPECT_EQ(e.device(), dev());
    EXPECT_NE(s.id(), 0u);
    EXPECT_EQ(CurrentStream(dev()), DefaultStream(dev()));
    EXPECT_FALSE(dev().Health().ok());
  }
}

// C93
TEST_F(FaultTest, AllThreadsSeeTheFirstError) {
  InEverySchedule([] {
    Stream s = NewStream();
    ASSERT_OK(CommitFault(s, FaultForm::kAssert));
    (void)CommitFault(s, FaultForm::kTrap);
    std::atomic<int> right{0};
    InThreads(4, [&](int) {
      auto info = GetErrorInfo(s.Synchronize());
      if (info.has_value() && info->native_code == 710) ++right;
    });
    EXPECT_EQ(right, 4);
  });
}

// C94
TEST_F(FaultTest, CleaningUpSucceeds) {
  InEverySchedule([] {
    LogCapture log;
    std::optional<Stream> s = NewStream();
    std::optional<Event> e = NewEvent();
    std::optional<Stream> external =
        Must(Stream::FromNative(dev(), Must(s->Native())));
    void* block = Must(Allocate(dev(), 4096));
    void* pinned = Must(AllocateHost(dev(), 4096));
    ASSERT_OK(e->Record(*s));
    ASSERT_OK(CommitFault(*s, FaultForm::kNullWrite));
    EXPECT_FALSE(s->Synchronize().ok());
    const int errors = log.Count(LogLevel::kError);
    EXPECT_EQ(errors, 1);  // once, when the device entered quarantine
    EXPECT_OK(Free(dev(), block));
    EXPECT_OK(FreeHost(pinned));
    external.reset();
    s.reset();
    e.reset();
    EXPECT_EQ(log.Count(LogLevel::kError), errors);
  });
}

// C95
TEST_F(FaultTest, OtherDevicesGoOn) {
  InEverySchedule([] {
    Cell y(dev(1));
    Stream s = NewStream(dev(0));
    Stream t = NewStream(dev(1));
    ASSERT_OK(CommitFault(s, FaultForm::kAssert));
    EXPECT_FALSE(s.Synchronize().ok());
    ASSERT_OK(Put(t, y, 5));
    ASSERT_OK(t.Synchronize());
    EXPECT_EQ(y.Peek(), 5);
    EXPECT_OK(dev(1).Health());
  });
}

// C95
TEST_F(FaultTest, ProcessScopeLosesEveryDevice) {
  InEverySchedule(
      [] {
        Stream s = NewStream(dev(0));
        ASSERT_OK(CommitFault(s, FaultForm::kAssert));
        EXPECT_FALSE(s.Synchronize().ok());
        for (int i = 0; i < kDevices; ++i) {
          EXPECT_STATUS(dev(i).Synchronize(), kInternal, "is quarantined");
        }
      },
      "fault_scope=process");
}

// docs/reference/semantics.md 2.4: work that waits for a failed device's event
// does not run, and its device stays healthy.
// C95
TEST_F(FaultTest, WorkThatWaitsForAFailedDeviceDoesNotRun) {
  InEverySchedule([] {
    Cell y(dev(1));
    Stream s = NewStream(dev(0));
    Stream t = NewStream(dev(1));
    Event e = NewEvent(dev(0));
    Flag gate = NewFlag(dev(0));
    ASSERT_OK(gate.WaitOn(s));
    ASSERT_OK(CommitFault(s, FaultForm::kAssert));
    ASSERT_OK(e.Record(s));
    ASSERT_OK(t.Wait(e));
    ASSERT_OK(Put(t, y, 1));
    ASSERT_OK(gate.Set());
    absl::Status status = t.Synchronize();
    auto info = GetErrorInfo(status);
    ASSERT_TRUE(info.has_value()) << status;
    EXPECT_EQ(info->device, 0);
    EXPECT_EQ(info->native_code, 710);
    EXPECT_EQ(y.Peek(), 0);
    EXPECT_OK(dev(1).Health());
    Stream fresh = NewStream(dev(1));
    EXPECT_OK(Put(fresh, y, 2));
    EXPECT_OK(fresh.Synchronize());
  });
}

// The stream that waited goes; nothing of the failure stays behind.
// C95
TEST_F(FaultTest, ADestroyedStreamThatWaitedLeavesNothing) {
  for (bool blocking : {false, true}) {
    InEverySchedule([blocking] {
      Cell y(dev(1));
      Event e = NewEvent(dev(0));
      Stream s = NewStream(dev(0));
      Flag gate = NewFlag(dev(0));
      ASSERT_OK(gate.WaitOn(s));
      ASSERT_OK(CommitFault(s, FaultForm::kAssert));
      ASSERT_OK(e.Record(s));
      {
        Stream t = NewStream(dev(1), {0, blocking});
        ASSERT_OK(t.Wait(e));
        ASSERT_OK(Put(t, y, 1));
        ASSERT_OK(gate.Set());
        EXPECT_FALSE(t.Synchronize().ok());
      }
      EXPECT_OK(dev(1).Synchronize());
      EXPECT_OK(DefaultStream(dev(1)).Synchronize());
      Stream fresh = NewBlocking(dev(1));
      EXPECT_OK(Put(fresh, y, 2));
      EXPECT_OK(fresh.Synchronize());
      EXPECT_EQ(y.Peek(), 2);
      EXPECT_OK(dev(1).Health());
    });
  }
}

// docs/reference/semantics.md 2.2: injected codes keep their class.
// C92
TEST_F(FaultTest, InjectedCodes) {
  const FaultCase injected[] = {
      {FaultForm::kTrap, 700, absl::StatusCode::kInternal},
      {FaultForm::kTrap, 702, absl::StatusCode::kDeadlineExceeded},
      {FaultForm::kTrap, 214, absl::StatusCode::kDataLoss},
  };
  for (const FaultCase& c : injected) {
    Reset("");
    Stream s = NewStream();
    SimulatedFault fault;
    fault.native_code = static_cast<int32_t>(c.native_code);
    fault.where = "victim";
    ASSERT_OK(sim().InjectFault(fault));
    LaunchOptions options;
    options.name = "victim";
    ASSERT_OK(Launch(
        s, {}, [](const LaunchContext&) {}, options));
    absl::Status status = s.Synchronize();
    EXPECT_EQ(status.code(), c.code) << status;
    EXPECT_TRUE(GetErrorInfo(status)->sticky);
  }
}

// A lost device (code 46 of docs/reference/semantics.md 2.2) answers every
// call.
// C92
TEST_F(FaultTest, LostDevice) {
  Stream s = NewStream();
  SimulatedFault fault;
  fault.kind = SimulatedFault::Kind::kLost;
  fault.native_code = 46;
  ASSERT_OK(sim().InjectFault(fault));
  EXPECT_FALSE(s.Synchronize().ok());
  EXPECT_FALSE(dev().Health().ok());
  EXPECT_OK(dev(1).Synchronize());
}

// The program's own kernels: what Local refuses is an illegal address.

absl::Status Touch(StreamRef stream, int64_t* ptr) {
  return Launch(stream, {}, [ptr](const LaunchContext& k) {
    int64_t* local = k.Local(ptr);
    if (local != nullptr) *local = 1;
  });
}

// C78
TEST_F(FaultTest, PeerMemoryWithoutPermissionIsAStickyFault) {
  InEverySchedule([] {
    Cell y(dev(1));
    Stream s = NewStream(dev(0));
    ASSERT_OK(Touch(s, y.ptr()));
    absl::Status status = s.Synchronize();
    auto info = GetErrorInfo(status);
    ASSERT_TRUE(info.has_value()) << status;
    EXPECT_EQ(info->native_code, 700);
    EXPECT_EQ(info->device, 0);
    EXPECT_EQ(y.Peek(), 0);
    EXPECT_OK(dev(1).Synchronize());
  });
}

// C78
TEST_F(FaultTest, PeerAccessWorksInTheEnabledDirection) {
  InEverySchedule([] {
    Cell y(dev(1));
    ASSERT_OK(EnablePeerAccess(dev(0), dev(1)));
    Stream s = NewStream(dev(0));
    ASSERT_OK(Touch(s, y.ptr()));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(y.Peek(), 1);
    Cell x(dev(0));
    Stream t = NewStream(dev(1));
    ASSERT_OK(Touch(t, x.ptr()));  // C75: not the other way
    EXPECT_FALSE(t.Synchronize().ok());
  });
}

// C78
TEST_F(FaultTest, FreedAndHostMemoryFault) {
  for (bool host : {false, true}) {
    Reset("");
    int64_t on_stack = 0;
    int64_t* target = &on_stack;
    if (!host) {
      Cell gone(dev());
      target = gone.ptr();
    }
    Stream s = NewStream();
    ASSERT_OK(Touch(s, target));
    EXPECT_EQ(GetErrorInfo(s.Synchronize())->native_code, 700);
    EXPECT_EQ(on_stack, 0);
  }
}

}  // namespace
}  // namespace devrt::testing
