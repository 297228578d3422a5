// SPDX-License-Identifier: Apache-2.0
//
// devrt.probe/0.
#include <chrono>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace probe_tests {
namespace {

using Probe = devrt_probe_v0;
using Ops = devrt_ops_v0;

// A flag that is destroyed after all its uses are complete.
class OwnFlag {
 public:
  OwnFlag(Test& t, uint32_t device) : t_(&t), device_(device) {
    Machine& m = t.machine();
    t.Require(m.CallExtension(&Probe::flag_create, m.probe(), m.probe_self(),
                              device, &flag_),
              "flag_create");
    t.Require(flag_ != nullptr, "a created flag is not NULL");
  }
  OwnFlag(const OwnFlag&) = delete;
  OwnFlag& operator=(const OwnFlag&) = delete;
  ~OwnFlag() {
    Machine& m = t_->machine();
    Set(1);
    t_->Ok(m.Call<&Ops::device_sync>(device_), "device sync");
    t_->Ok(
        m.CallExtension(&Probe::flag_destroy, m.probe(), m.probe_self(), flag_),
        "flag_destroy");
  }

  void Set(uint32_t value) const {
    Machine& m = t_->machine();
    t_->Ok(m.CallExtension(&Probe::flag_set, m.probe(), m.probe_self(), flag_,
                           value),
           "flag_set");
  }
  void Wait(const RawStream& s, uint64_t timeout = 20'000'000'000) const {
    Machine& m = t_->machine();
    t_->Require(m.CallExtension(&Probe::flag_wait, m.probe(), m.probe_self(),
                                s.handle(), flag_, timeout),
                "flag_wait");
  }
  void SetAsync(const RawStream& s, uint32_t value) const {
    Machine& m = t_->machine();
    t_->Require(m.CallExtension(&Probe::flag_set_async, m.probe(),
                                m.probe_self(), s.handle(), flag_, value),
                "flag_set_async");
  }

 private:
  Test* const t_;
  const uint32_t device_;
  devrt_flag flag_ = nullptr;
};

void Spin(Test& t, const RawStream& s, uint64_t nanoseconds) {
  Machine& m = t.machine();
  t.Require(m.CallExtension(&Probe::spin, m.probe(), m.probe_self(), s.handle(),
                            nanoseconds),
            "spin");
}

// The device time of the work that `work` enqueues.
template <typename Work>
int64_t TimeOf(Test& t, const RawStream& s, Work work) {
  const RawEvent begin(t, s.device(), DEVRT_EVENT_TIMING);
  const RawEvent end(t, s.device(), DEVRT_EVENT_TIMING);
  begin.Record(s);
  work();
  end.Record(s);
  s.Sync();
  int64_t nanoseconds = -1;
  t.Require(begin.ElapsedTo(end, &nanoseconds), "elapsed time");
  return nanoseconds;
}

void SpinLasts(Test& t) {
  t.InEverySchedule([&] {
    const RawStream s(t, t.device());
    // Rates of clocks differ: a thousandth is allowed.
    for (const int64_t asked : {100'000, 1'000'000, 5'000'000}) {
      const int64_t took =
          TimeOf(t, s, [&] { Spin(t, s, static_cast<uint64_t>(asked)); });
      t.Expect(
          took >= asked - asked / 1000,
          absl::StrCat("a spin of ", asked, " ns lasts as long, not ", took));
    }
  });
}

void SpinHoldsItsStream(Test& t) {
  // Under some strategies a simulator's clock makes large steps.
  if (t.machine().IsVirtual()) {
    t.Require(t.machine().Reset("strategy=hw"), "reset of the simulator");
  }
  for (const uint32_t device : t.devices()) {
    const RawStream s(t, device);
    Spin(t, s, 20'000'000);
    t.Expect(!s.Query(), "a stream that spins is not complete");
    s.Sync();
    t.Expect(s.Query(), "it is when the spin is over");
  }
  if (t.machine().IsVirtual()) {
    t.Require(t.machine().Reset(""), "reset of the simulator");
  }
}

void FlagHolds(Test& t) {
  t.InEverySchedule([&] {
    for (const uint32_t device : t.devices()) {
      const RawStream s(t, device), other(t, device);
      const OwnFlag flag(t, device);
      flag.Wait(s);
      t.Settle();
      t.Expect(!s.Query(), "a flag is cleared at first, and holds its stream");
      other.Delay(1000);
      other.Sync();
      t.Expect(!s.Query(), "it goes on holding while others run");
      flag.Set(1);
      s.Sync();
      flag.Wait(s);
      t.Expect(t.Eventually([&] { return s.Query(); }),
               "a flag that is set holds nothing");
      flag.Set(0);
      flag.Wait(s);
      t.Settle();
      t.Expect(!s.Query(), "a flag that is cleared holds again");
      flag.Set(7);
      t.Expect(t.Eventually([&] { return s.Query(); }),
               "any value but 0 sets it");
    }
  });
}

void OneFlagManyStreams(Test& t) {
  std::vector<RawStream> streams;
  for (int i = 0; i < 8; ++i) streams.emplace_back(t, t.device());
  const OwnFlag flag(t, t.device()), never(t, t.device());
  for (const RawStream& s : streams) flag.Wait(s);
  never.Wait(streams[0]);
  t.Settle();
  for (const RawStream& s : streams) {
    t.Expect(!s.Query(), "one flag holds all that wait for it");
  }
  flag.Set(1);
  for (size_t i = 1; i < streams.size(); ++i) streams[i].Sync();
  t.Expect(!streams[0].Query(),
           "a flag does not release a stream that waits for another flag");
}

void SetInOrder(Test& t) {
  t.InEverySchedule([&] {
    const RawStream first(t, t.device()), second(t, t.device());
    const OwnFlag start(t, t.device()), flag(t, t.device());
    start.Wait(first);
    flag.SetAsync(first, 1);
    flag.Wait(second);
    t.Settle();
    t.Expect(!second.Query(),
             "a flag that is set in stream order is not set before its turn");
    start.Set(1);
    second.Sync();
    first.Sync();
    flag.SetAsync(first, 0);
    first.Sync();
    flag.Wait(second);
    t.Settle();
    t.Expect(!second.Query(), "nor cleared afterwards without effect");
    flag.SetAsync(first, 1);
    second.Sync();
  });
}

void TimesOut(Test& t) {
  const RawStream s(t, t.device());
  const OwnFlag flag(t, t.device());
  for (const int64_t timeout : {200'000, 2'000'000}) {
    const int64_t took =
        TimeOf(t, s, [&] { flag.Wait(s, static_cast<uint64_t>(timeout)); });
    t.Expect(took >= timeout - timeout / 1000,
             absl::StrCat("a wait with a timeout of ", timeout,
                          " ns holds as long, not ", took));
  }
  flag.Set(1);
  const int64_t took = TimeOf(t, s, [&] { flag.Wait(s, 5'000'000'000); });
  t.Expect(took < 2'000'000'000, "a flag that is set is not waited for");
}

void SetFromHostFunction(Test& t) {
  const RawStream s(t, t.device()), other(t, t.device());
  const OwnFlag flag(t, t.device());
  flag.Wait(s);
  other.HostFunc([&](devrt_code) { flag.Set(1); });
  s.Sync();
  other.Sync();
}

constexpr TestCase kTests[] = {
    {"extension.spin_lasts", "", "A spin lasts as long as was asked for.",
     &SpinLasts, DEVRT_CAP_EVENT_TIMING, kNeedsProbe},
    {"extension.spin_holds_its_stream", "C19",
     "A stream whose only operation spins is not complete.",
     &SpinHoldsItsStream, 0, kNeedsProbe},
    {"extension.flag_holds_and_releases", "",
     "A kernel that waits for a flag ends when the flag is set, not before.",
     &FlagHolds, 0, kNeedsProbe},
    {"extension.flag_releases_all", "",
     "A flag releases all streams that wait for it, and no others.",
     &OneFlagManyStreams, 0, kNeedsProbe},
    {"extension.flag_set_in_order", "",
     "A flag may be set and cleared in stream order.", &SetInOrder, 0,
     kNeedsProbe},
    {"extension.flag_times_out", "",
     "A wait for a flag ends after its timeout, not before.", &TimesOut,
     DEVRT_CAP_EVENT_TIMING, kNeedsProbe},
    {"extension.flag_set_from_a_host_function", "",
     "A flag may be set in a host function.", &SetFromHostFunction,
     DEVRT_CAP_HOST_FUNC, kNeedsProbe},
};

}  // namespace
}  // namespace probe_tests

absl::Span<const TestCase> ProbeTests() { return probe_tests::kTests; }

}  // namespace devrt::cts
