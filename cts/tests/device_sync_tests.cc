// SPDX-License-Identifier: Apache-2.0
//
// The work that a synchronisation of a device waits for (C5).
#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "cts/api_block.h"
#include "cts/catalog.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace device_sync_tests {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kSize = 4096;
constexpr uint64_t kLong = 2'000'000;  // ns: long enough to see a missing wait

void SyncDevice(Test& t, uint32_t device) {
  t.Require(t.machine().Call<&Ops::device_sync>(device), "device sync");
}

// Work that takes a while and then writes a mark to host memory.  The mark
// shows whether a call waited for the work, without another call to the device.
class LongWork {
 public:
  LongWork(Test& t, uint32_t device)
      : block_(t, device, kSize), out_(t, device, kSize) {}
  void Submit(const RawStream& s) const {
    s.Delay(kLong);
    s.Fill(block_.ptr(), 1, kSize);
    s.Copy(out_.ptr(), block_.ptr(), kSize, DEVRT_COPY_D2H);
  }
  bool IsDone() const { return out_.Holds(1); }

 private:
  DeviceBlock block_;
  HostBlock out_;
};

void CoversCreatedStreams(Test& t) {
  for (const uint32_t device : t.devices()) {
    t.InEverySchedule([&] {
      const LongWork a(t, device), b(t, device);
      const RawStream plain(t, device);
      const RawStream blocking(t, device, DEVRT_STREAM_BLOCKING);
      a.Submit(plain);
      b.Submit(blocking);
      SyncDevice(t, device);
      t.Expect(a.IsDone(), "work of a non-blocking stream is complete");
      t.Expect(b.IsDone(), "work of a blocking stream is complete");
    });
  }
}

void CoversDefaultStreams(Test& t) {
  for (const uint32_t device : t.devices()) {
    for (const uint32_t kind : {DEVRT_STREAM_LEGACY, DEVRT_STREAM_PER_THREAD}) {
      t.InEverySchedule([&] {
        const LongWork work(t, device);
        work.Submit(RawStream::Default(t, device, kind));
        SyncDevice(t, device);
        t.Expect(work.IsDone(), kind == DEVRT_STREAM_LEGACY
                                    ? "work of the legacy stream is complete"
                                    : "work of the per-thread stream is "
                                      "complete");
      });
    }
  }
}

void CoversManyStreams(Test& t) {
  constexpr int kStreams = 16;
  t.InEverySchedule([&] {
    std::vector<LongWork> work;
    std::vector<RawStream> streams;
    for (int i = 0; i < kStreams; ++i) {
      work.emplace_back(t, t.device());
      streams.emplace_back(t, t.device());
    }
    for (int i = 0; i < kStreams; ++i) work[i].Submit(streams[i]);
    SyncDevice(t, t.device());
    for (const LongWork& each : work) {
      t.Expect(each.IsDone(), "the work of every stream is complete");
    }
  });
}

// Once for a thread that has ended, once for a thread that runs on.
void CoversThreadsThatEnded(Test& t) {
  const LongWork own(t, t.device()), default_stream(t, t.device());
  std::optional<RawStream> stream;
  Threads threads;
  threads.Start([&] {
    stream.emplace(t, t.device());
    own.Submit(*stream);
    default_stream.Submit(PerThread(t));
  });
  threads.Join();
  SyncDevice(t, t.device());
  t.Expect(own.IsDone(), "work of a stream of a thread that ended is complete");
  t.Expect(default_stream.IsDone(),
           "work of the per-thread stream of a thread that ended is complete");
}

void CoversOtherThreads(Test& t) {
  const LongWork own(t, t.device()), default_stream(t, t.device());
  std::atomic<bool> submitted{false}, seen{false};
  Threads threads;
  threads.Start([&] {
    const RawStream stream(t, t.device());
    own.Submit(stream);
    default_stream.Submit(PerThread(t));
    submitted = true;
    t.Eventually([&] { return seen.load(); });
  });
  if (t.Eventually([&] { return submitted.load(); })) {
    SyncDevice(t, t.device());
    t.Expect(own.IsDone(), "work of another thread's stream is complete");
    t.Expect(default_stream.IsDone(),
             "work of another thread's per-thread stream is complete");
  }
  seen = true;
  threads.Join();
}

void CoversDestroyedStreams(Test& t) {
  t.InEverySchedule([&] {
    const LongWork work(t, t.device());
    {
      const RawStream s(t, t.device());
      work.Submit(s);
    }
    SyncDevice(t, t.device());
    t.Expect(work.IsDone(), "work of a destroyed stream is complete");
  });
}

void CoversAdoptedStreams(Test& t) {
  Machine& m = t.machine();
  t.InEverySchedule([&] {
    const LongWork work(t, t.device());
    const RawStream owner(t, t.device());
    devrt_stream_desc_v0 desc = {};
    desc.struct_size = sizeof desc;
    desc.kind = DEVRT_STREAM_ADOPT;
    t.Require(m.Call<&Ops::stream_native>(owner.handle(), &desc.native),
              "native stream");
    devrt_stream adopted = nullptr;
    t.Require(m.Call<&Ops::stream_create>(
                  t.device(), static_cast<const devrt_stream_desc_v0*>(&desc),
                  &adopted),
              "adoption");
    // Later work of the owner's stream is work of the adopted stream, too.
    const DeviceBlock x(t, t.device(), kSize);
    owner.Delay(kLong);
    t.Require(m.Call<&Ops::fill_async>(adopted, static_cast<void*>(x.ptr()), 1u,
                                       kSize),
              "fill in an adopted stream");
    work.Submit(owner);
    SyncDevice(t, t.device());
    t.Expect(work.IsDone(), "work of an adopted stream is complete");
    t.Ok(m.Call<&Ops::stream_destroy>(adopted), "release");
    t.Expect(x.Holds(1), "work through the adopting handle has happened");
  });
}

// A wait in a stream is work, also without a later operation.
void CoversPendingWaits(Test& t) {
  t.InEverySchedule([&] {
    const LongWork work(t, t.device(1));
    const RawStream producer(t, t.device(1)), consumer(t, t.device(0));
    const RawEvent e(t, t.device(1));
    work.Submit(producer);
    e.Record(producer);
    consumer.Wait(e);
    SyncDevice(t, t.device(0));
    t.Expect(work.IsDone(), "what a stream of the device waits for is done");
  });
}

void LeavesOtherDevices(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    const uint32_t busy = t.device(i);
    const RawStream created(t, busy);
    const RawStream legacy = Legacy(t, busy);
    const RawStream own = PerThread(t, busy);
    Gate gate(t);
    gate.Hold(created);
    gate.Hold(legacy);
    gate.Hold(own);
    for (const uint32_t device : t.devices()) {
      if (device != busy) SyncDevice(t, device);
    }
    t.Expect(!created.Query() && !legacy.Query() && !own.Query(),
             "a sync of one device does not wait for another's work");
  }
}

void OfAnIdleDeviceReturns(Test& t) {
  for (const uint32_t device : t.devices()) {
    for (int i = 0; i < 3; ++i) SyncDevice(t, device);
  }
}

void CoversStreamsOfTheApi(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    t.InEverySchedule([&] {
      const ApiBlock x(t, t.cpp_device(i), kSize);
      const HostBlock out(t, t.device(i), kSize);
      {
        const Stream s = t.Require(Stream::Create(t.cpp_device(i)), "stream");
        t.Ok(FillAsync(s, x.ptr(), 5, kSize), "fill");
        t.Ok(CopyAsync(s, out.ptr(), x.ptr(), kSize, CopyKind::kDeviceToHost),
             "copy");
      }
      t.Ok(t.cpp_device(i).Synchronize(), "Synchronize");
      t.Expect(out.Holds(5), "its work is complete");
    });
  }
}

constexpr TestCase kTests[] = {
    {"device.sync_covers_created_streams", "C5",
     "A synchronisation of a device waits for its streams, blocking or not.",
     &CoversCreatedStreams, DEVRT_CAP_PINNED_HOST},
    {"device.sync_covers_default_streams", "C5",
     "A synchronisation of a device waits for its default streams.",
     &CoversDefaultStreams, DEVRT_CAP_PINNED_HOST},
    {"device.sync_covers_many_streams", "C5",
     "A synchronisation of a device waits for all of its streams.",
     &CoversManyStreams, DEVRT_CAP_PINNED_HOST},
    {"device.sync_covers_threads_that_ended", "C5 C12",
     "A synchronisation of a device waits for the work of threads that have "
     "ended.",
     &CoversThreadsThatEnded, DEVRT_CAP_PINNED_HOST},
    {"device.sync_covers_other_threads", "C5",
     "A synchronisation of a device waits for streams of all threads, "
     "per-thread ones included.",
     &CoversOtherThreads, DEVRT_CAP_PINNED_HOST},
    {"device.sync_covers_destroyed_streams", "C5 C17",
     "A synchronisation of a device waits for streams that were destroyed with "
     "work.",
     &CoversDestroyedStreams, DEVRT_CAP_PINNED_HOST},
    {"device.sync_covers_adopted_streams", "C5 C104",
     "A synchronisation of a device waits for external streams.",
     &CoversAdoptedStreams, DEVRT_CAP_STREAM_EXTERNAL | DEVRT_CAP_PINNED_HOST},
    {"device.sync_covers_pending_waits", "C5",
     "A synchronisation of a device waits for the pending waits of its "
     "streams.",
     &CoversPendingWaits, DEVRT_CAP_PINNED_HOST, kTwoDevices},
    {"device.sync_covers_streams_of_the_api", "C5",
     "Device::Synchronize waits for streams of devrt's API.",
     &CoversStreamsOfTheApi, DEVRT_CAP_PINNED_HOST},
    {"device.sync_leaves_other_devices", "C5",
     "A synchronisation of a device waits for no other device.",
     &LeavesOtherDevices, 0, kTwoDevices | kNeedsGate},
    {"device.sync_of_an_idle_device", "C5",
     "A synchronisation of a device without work returns.",
     &OfAnIdleDeviceReturns},
};

}  // namespace
}  // namespace device_sync_tests

absl::Span<const TestCase> DeviceSyncTests() {
  return device_sync_tests::kTests;
}

}  // namespace devrt::cts
