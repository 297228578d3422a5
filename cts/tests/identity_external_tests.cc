// SPDX-License-Identifier: Apache-2.0
//
// Streams of another library (C104), and a current device that it sets (C107).
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cts/api_block.h"
#include "cts/catalog.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace identity_external_tests {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kSize = 4096;

void* NativeOf(Test& t, const RawStream& s) {
  void* native = nullptr;
  t.Require(t.machine().Call<&Ops::stream_native>(s.handle(), &native),
            "native stream");
  return native;
}

Result Adopt(Test& t, uint32_t device, void* native, devrt_stream* out) {
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_ADOPT;
  desc.native = native;
  return t.machine().Call<&Ops::stream_create>(
      device, static_cast<const devrt_stream_desc_v0*>(&desc), out);
}

// A stream of another library, which devrt's API does not know.
Stream FromNative(Test& t, const RawStream& s, size_t i = 0,
                  std::shared_ptr<void> owner = {}) {
  return t.Require(
      Stream::FromNative(t.cpp_device(i), NativeOf(t, s), std::move(owner)),
      "adoption");
}

// ---- C104

void AdoptedIsTheSameStream(Test& t) {
  for (const uint32_t device : t.devices()) {
    t.InEverySchedule([&] {
      const DeviceBlock x(t, device, kSize), y(t, device, kSize);
      const DeviceBlock z(t, device, kSize);
      const RawStream owner(t, device);
      devrt_stream adopted = nullptr;
      t.Require(Adopt(t, device, NativeOf(t, owner), &adopted), "adoption");
      t.Expect(adopted != nullptr, "its handle is not NULL");
      owner.Delay(500'000);
      owner.Fill(x.ptr(), 1, kSize);
      t.Ok(t.machine().Call<&Ops::copy_async>(
               adopted, static_cast<void*>(y.ptr()),
               static_cast<const void*>(x.ptr()), kSize, DEVRT_COPY_D2D),
           "copy through the adopting handle");
      owner.Copy(z.ptr(), y.ptr(), kSize, DEVRT_COPY_D2D);
      t.Ok(t.machine().Call<&Ops::stream_sync>(adopted), "sync");
      t.Ok(t.machine().Call<&Ops::stream_destroy>(adopted), "release");
      t.Expect(z.Holds(1), "both handles are one stream, in one order");
    });
  }
}

void AdoptedQueryCoversTheOwner(Test& t) {
  const RawStream owner(t, t.device());
  const Stream adopted = FromNative(t, owner);
  {
    Gate gate(t);
    gate.Hold(owner);
    t.Expect(!t.Require(adopted.Query(), "query"),
             "the owner's work is the adopted stream's");
  }
  t.Ok(adopted.Synchronize(), "synchronise");
  t.Expect(owner.Query(), "and is complete for both");
}

void AdoptedIsNotOwned(Test& t) {
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kSize);
    const RawStream owner(t, device);
    for (uint8_t i = 1; i <= 3; ++i) {
      devrt_stream adopted = nullptr;
      t.Require(Adopt(t, device, NativeOf(t, owner), &adopted), "adoption");
      t.Ok(t.machine().Call<&Ops::stream_destroy>(adopted), "release");
      owner.Fill(x.ptr(), i, kSize);
      owner.Sync();
      t.Expect(x.Holds(i), "the owner works after a release");
    }
  }
}

// The release of an adopted stream waits for no work and loses none.
void ReleaseOfABusyOne(Test& t) {
  const DeviceBlock x(t, t.device(), kSize);
  const RawStream owner(t, t.device());
  devrt_stream adopted = nullptr;
  t.Require(Adopt(t, t.device(), NativeOf(t, owner), &adopted), "adoption");
  {
    Gate gate(t);
    gate.Hold(owner);
    t.Ok(t.machine().Call<&Ops::fill_async>(
             adopted, static_cast<void*>(x.ptr()), 1u, kSize),
         "fill");
    t.Ok(t.machine().Call<&Ops::stream_destroy>(adopted), "release");
    t.Expect(!owner.Query(), "a release waits for no work");
  }
  owner.Sync();
  t.Expect(x.Holds(1), "what was submitted through it has happened");
}

void OtherDevicesStreamIsRefused(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    const RawStream owner(t, t.device(i));
    for (size_t k = 0; k < t.devices().size(); ++k) {
      if (k == i) continue;
      int unused = 0;
      const auto untouched = reinterpret_cast<devrt_stream>(&unused);
      devrt_stream adopted = untouched;
      t.Code(Adopt(t, t.device(k), NativeOf(t, owner), &adopted),
             DEVRT_INVALID_ARGUMENT, "a stream of another device");
      t.Expect(adopted == untouched, "the out-parameter stays as it was");
      const auto watch = std::make_shared<int>(0);
      t.Code(Stream::FromNative(t.cpp_device(k), NativeOf(t, owner), watch)
                 .status(),
             DEVRT_INVALID_ARGUMENT, "adoption through the C++ API");
      t.Equal(watch.use_count(), 1L, "references to a refused stream's owner");
    }
    owner.Sync();
  }
}

void OwnerIsKept(Test& t) {
  const RawStream owner(t, t.device());
  std::weak_ptr<int> watch;
  {
    auto reference = std::make_shared<int>(0);
    watch = reference;
    Stream adopted = FromNative(t, owner, 0, std::move(reference));
    t.Expect(!watch.expired(), "the owner is kept with the stream");
    const Stream moved = std::move(adopted);
    t.Expect(!watch.expired(), "also when that is moved");
    t.Expect(moved.ref().kind() == devrt::StreamKind::kExternal,
             "its kind says so");
    t.Expect(moved.id() != 0, "its id is not 0");
    t.Expect(t.Require(moved.Native(), "native") == NativeOf(t, owner),
             "its native handle is what was adopted");
  }
  t.Expect(watch.expired(), "and let go with it");
  t.Expect(owner.Query(), "the native stream is still there");
}

// Default streams are named by their kind, not by a number.
void DefaultStreamsHaveKinds(Test& t) {
  const StreamRef legacy = DefaultStream(t.cpp_device());
  const StreamRef own =
      t.Require(PerThreadDefaultStream(t.cpp_device()), "per-thread stream");
  t.Expect(legacy.kind() == devrt::StreamKind::kDefault,
           "the legacy stream's kind");
  t.Expect(own.kind() == devrt::StreamKind::kPerThread,
           "the per-thread one's kind");
  const RawStream a(t, t.device());
  const Stream adopted = FromNative(t, a), again = FromNative(t, a);
  t.Expect(adopted.ref() != again.ref() && adopted.id() != again.id(),
           "two adoptions are two streams of devrt");
  t.Expect(adopted.ref() != legacy && adopted.ref() != own,
           "and none of the default ones");
}

// The native handles of default streams may be small numbers, or NULL.  An
// adoption by such a handle gives that default stream, or is refused.
void AdoptedDefaultsAreThemselves(Test& t) {
  for (const uint32_t device : t.devices()) {
    const RawStream legacy = Legacy(t, device);
    const RawStream own = PerThread(t, device);
    const std::pair<const RawStream*, void*> adoptions[] = {
        {&legacy, nullptr},
        {&legacy, NativeOf(t, legacy)},
        {&own, NativeOf(t, own)}};
    for (const auto& [stream, native] : adoptions) {
      devrt_stream adopted = nullptr;
      const Result result = Adopt(t, device, native, &adopted);
      if (!result.ok()) {
        t.Code(result, DEVRT_INVALID_ARGUMENT,
               "adoption of a default stream that is refused");
        t.Expect(adopted == nullptr, "the out-parameter stays as it was");
        continue;
      }
      {
        Gate gate(t);
        gate.Hold(*stream);
        t.Settle();
        uint32_t done = 2;
        t.Ok(t.machine().Call<&Ops::stream_query>(adopted, &done), "query");
        t.Equal(done, 0u,
                "whether an adopted default stream is idle while "
                "the default stream is held");
      }
      t.Ok(t.machine().Call<&Ops::stream_sync>(adopted), "sync");
      t.Ok(t.machine().Call<&Ops::stream_destroy>(adopted), "release");
      t.Expect(stream->Query(), "the default stream is still there");
    }
  }
}

// In the C++ API an adopted stream is a separate stream, of the kind external.
void AdoptedDefaultsThroughCore(Test& t) {
  const StreamRef legacy = DefaultStream(t.cpp_device());
  void* const native = t.Require(legacy.Native(), "native");
  for (void* const value : {static_cast<void*>(nullptr), native}) {
    const auto adopted = Stream::FromNative(t.cpp_device(), value);
    if (!adopted.ok()) {
      t.Code(adopted.status(), DEVRT_INVALID_ARGUMENT,
             "adoption of the default stream that is refused");
      continue;
    }
    t.Expect(adopted->ref().kind() == devrt::StreamKind::kExternal, "its kind");
    t.Expect(adopted->ref() != legacy, "it is another object");
    {
      Gate gate(t);
      gate.Hold(legacy);
      t.Settle();
      t.Expect(!t.Require(adopted->Query(), "query"),
               "the default stream's work is the adopted stream's");
    }
    t.Ok(adopted->Synchronize(), "synchronise");
  }
}

void EventsWorkOnAdopted(Test& t) {
  t.InEverySchedule([&] {
    const ApiBlock x(t, t.cpp_device(), kSize), y(t, t.cpp_device(), kSize);
    const RawStream owner(t, t.device());
    {
      const Stream adopted = FromNative(t, owner);
      const Stream consumer =
          t.Require(Stream::Create(t.cpp_device()), "stream");
      const Event e = t.Require(Event::Create(t.cpp_device()), "event");
      owner.Delay(500'000);
      owner.Fill(x.ptr(), 1, kSize);
      t.Ok(e.Record(adopted), "record");
      t.Ok(consumer.Wait(e), "wait");
      t.Ok(CopyAsync(consumer, y.ptr(), x.ptr(), kSize), "copy");
      t.Ok(consumer.Synchronize(), "synchronise");
    }
    t.Expect(y.Holds(1),
             "a record on an adopted stream covers the owner's "
             "work");
  });
}

// ---- C107: calls to the plugin past devrt's API stand for another library

uint32_t Current(Test& t) {
  uint32_t device = UINT32_MAX;
  t.Require(t.machine().Call<&Ops::context_current>(&device),
            "context_current");
  return device;
}

void Switch(Test& t, uint32_t device) {
  t.Require(t.machine().Call<&Ops::context_enter>(
                device, static_cast<devrt_context*>(nullptr)),
            "another library's switch");
}

void SwitchesAreSeen(Test& t) {
  const uint32_t found = Current(t);
  for (size_t i = 0; i < t.devices().size(); ++i) {
    Switch(t, t.device(i));
    const auto current = CurrentDevice(t.cpp_device().backend());
    if (t.Ok(current.status(), "CurrentDevice")) {
      t.Expect(*current == t.cpp_device(i), "devrt sees the switch at once");
    }
    t.Ok(SetCurrentDevice(t.cpp_device()), "SetCurrentDevice");
    t.Equal(Current(t), t.device(), "another library sees devrt's");
  }
  Switch(t, found);
}

void GuardsRestoreWhatTheyFound(Test& t) {
  const uint32_t found = Current(t);
  for (const uint32_t before : t.devices()) {
    for (const uint32_t inside : t.devices()) {
      for (size_t i = 0; i < t.devices().size(); ++i) {
        Switch(t, before);
        {
          const DeviceGuard guard(t.cpp_device(i));
          Switch(t, inside);
          { const DeviceGuard inner(t.cpp_device()); }
          t.Equal(Current(t), inside, "the switch inside the scope");
        }
        t.Equal(Current(t), before, "what the guard found");
      }
    }
  }
  Switch(t, found);
}

void FreshThreadsStayFresh(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    Threads threads;
    threads.Start([&] {
      {
        const DeviceGuard guard(t.cpp_device(i));
        t.Equal(Current(t), t.device(i), "the device in the scope");
      }
      t.Equal(Current(t), 0u, "the device of a fresh thread behind a guard");
    });
    threads.Join();
  }
}

constexpr TestCase kTests[] = {
    {"identity.adopted_is_the_same_stream", "C104",
     "An adopted stream is the native stream: work through both is in one "
     "order.",
     &AdoptedIsTheSameStream, DEVRT_CAP_STREAM_EXTERNAL},
    {"identity.adopted_query_covers_the_owner", "C104",
     "A query of an adopted stream covers the work that its owner submitted.",
     &AdoptedQueryCoversTheOwner, DEVRT_CAP_STREAM_EXTERNAL, kNeedsGate},
    {"identity.adopted_is_not_owned", "C104",
     "An adopted stream is released, never destroyed.", &AdoptedIsNotOwned,
     DEVRT_CAP_STREAM_EXTERNAL},
    {"identity.release_of_a_busy_one", "C104 C17",
     "Releasing a busy adopted stream returns at once and drops nothing.",
     &ReleaseOfABusyOne, DEVRT_CAP_STREAM_EXTERNAL, kNeedsGate},
    {"identity.other_devices_stream_is_refused", "C104",
     "Adopting a stream of another device is INVALID_ARGUMENT.",
     &OtherDevicesStreamIsRefused, DEVRT_CAP_STREAM_EXTERNAL, kTwoDevices},
    {"identity.owner_is_kept", "C104",
     "A reference keeps the owner of an adopted stream alive until the stream "
     "is gone.",
     &OwnerIsKept, DEVRT_CAP_STREAM_EXTERNAL},
    {"identity.default_streams_have_kinds", "C104 C14",
     "Default streams and adopted streams have different kinds.",
     &DefaultStreamsHaveKinds, DEVRT_CAP_STREAM_EXTERNAL},
    {"identity.adopted_defaults_are_themselves", "C104 C14",
     "Adopting NULL or a default stream's native handle gives that stream, "
     "never a fresh one, or is INVALID_ARGUMENT.",
     &AdoptedDefaultsAreThemselves, DEVRT_CAP_STREAM_EXTERNAL, kNeedsGate},
    {"identity.adopted_defaults_through_the_core", "C104 C14",
     "Through the C++ API such a stream is an external one that shares the "
     "default stream's work.",
     &AdoptedDefaultsThroughCore, DEVRT_CAP_STREAM_EXTERNAL, kNeedsGate},
    {"identity.events_work_on_adopted", "C104",
     "Records on an adopted stream cover its owner's work.",
     &EventsWorkOnAdopted, DEVRT_CAP_STREAM_EXTERNAL},
    {"identity.switches_are_seen", "C107",
     "A switch of the current device past devrt's API is seen by its next "
     "call.",
     &SwitchesAreSeen},
    {"identity.guards_restore_what_they_found", "C107 C96",
     "A guard restores exactly the state that it found, after any switches "
     "inside.",
     &GuardsRestoreWhatTheyFound},
    {"identity.fresh_threads_stay_fresh", "C107",
     "Behind a guard a fresh thread's current device is 0, as it was before.",
     &FreshThreadsStayFresh},
};

}  // namespace
}  // namespace identity_external_tests

absl::Span<const TestCase> IdentityExternalTests() {
  return identity_external_tests::kTests;
}

}  // namespace devrt::cts
