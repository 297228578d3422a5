// SPDX-License-Identifier: Apache-2.0
//
// Calls inside host functions (C42), through the C++ API: the core refuses
// them before a plugin sees them.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cts/catalog.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace hostfunc_call_tests {
namespace {

constexpr uint64_t kSize = 4096;

// The objects that a body uses in its calls.
struct World {
  explicit World(Test& t)
      : device(t.cpp_device()),
        stream(t.Require(Stream::Create(device), "a stream")),
        other(t.Require(Stream::Create(device), "a stream")),
        event(t.Require(Event::Create(device), "an event")) {
    block = t.Require(Allocate(device, kSize), "an allocation");
    t.Ok(event.Record(other), "record");
    if (t.machine().Has(DEVRT_CAP_PINNED_HOST)) {
      pinned = t.Require(AllocateHost(device, kSize), "a pinned allocation");
    }
  }
  void GiveUp(Test& t) {
    t.Ok(Free(device, block), "free");
    if (pinned != nullptr) t.Ok(FreeHost(pinned), "free of pinned memory");
  }

  const Device device;
  const Stream stream, other;
  const Event event;
  void* block = nullptr;
  void* pinned = nullptr;
  std::vector<uint8_t> host = std::vector<uint8_t>(kSize);
};

struct Attempt {
  std::string call;
  absl::Status status;
};
using Attempts = std::vector<Attempt>;

// Runs `body` in a host function of `stream`, to its end.
Attempts Inside(Test& t, StreamRef stream, std::function<Attempts()> body) {
  const auto attempts = std::make_shared<Attempts>();
  t.Ok(LaunchHostFunc(stream, [attempts, body = std::move(body)](
                                  absl::Status) { *attempts = body(); }),
       "LaunchHostFunc");
  t.Ok(stream.Synchronize(), "synchronisation");
  return *attempts;
}

void AllRefused(Test& t, const Attempts& attempts) {
  t.Expect(!attempts.empty(), "the host function has run");
  for (const Attempt& attempt : attempts) {
    t.Code(attempt.status, DEVRT_FAILED_PRECONDITION,
           attempt.call + " inside a host function", "host function");
  }
}

void EnqueuingIsRefused(Test& t) {
  World w(t);
  const auto ran = std::make_shared<std::atomic<int>>(0);
  AllRefused(
      t, Inside(t, w.stream, [&w, ran]() -> Attempts {
        const StreamRef other = w.other;
        return {
            {"FillAsync", FillAsync(other, w.block, 1, kSize)},
            {"CopyAsync", CopyAsync(other, w.block, w.host.data(), kSize)},
            {"Copy", Copy(other, w.host.data(), w.block, kSize)},
            {"Record", w.event.Record(other)},
            {"Wait for an event", other.Wait(w.event)},
            {"Wait for a stream", other.Wait(w.stream)},
            {"LaunchHostFunc",
             LaunchHostFunc(other, [ran](absl::Status) { ++*ran; })},
            {"FillAsync on the own stream",
             FillAsync(w.stream, w.block, 1, kSize)},
        };
      }));
  t.Ok(w.device.Synchronize(), "device synchronisation");
  t.Equal(ran->load(), 0, "calls of a function that was refused");
  w.GiveUp(t);
}

void WaitingIsRefused(Test& t) {
  World w(t);
  AllRefused(t, Inside(t, w.stream, [&w]() -> Attempts {
               return {
                   {"Synchronize of a stream", w.other.Synchronize()},
                   {"Synchronize of an event", w.event.Synchronize()},
                   {"Synchronize of a device", w.device.Synchronize()},
               };
             }));
  w.GiveUp(t);
}

void MakingIsRefused(Test& t) {
  World w(t);
  AllRefused(t, Inside(t, w.stream, [&w]() -> Attempts {
               return {
                   {"Stream::Create", Stream::Create(w.device).status()},
                   {"Event::Create", Event::Create(w.device).status()},
                   {"Allocate", Allocate(w.device, kSize).status()},
                   {"Free", Free(w.device, w.block)},
                   {"SetCurrentDevice", SetCurrentDevice(w.device)},
                   {"SetCurrentStream", SetCurrentStream(w.stream)},
               };
             }));
  // Nothing was freed or created: the block is still valid.
  t.Ok(FillAsync(w.stream, w.block, 1, kSize), "a fill afterwards");
  t.Ok(w.stream.Synchronize(), "synchronisation");
  w.GiveUp(t);
}

// A destructor cannot refuse.  A later call destroys the native object.
void DestroyedInsideEndsOutside(Test& t) {
  World w(t);
  const auto simulated = [&t] {
    return t.Require(t.machine().simulator()->Stats(), "Stats");
  };
  const bool counts = t.machine().simulator().has_value();
  const SimulatorStats before = counts ? simulated() : SimulatorStats();
  constexpr int kRounds = 20;
  for (int i = 1; i <= kRounds; ++i) {
    const auto value = static_cast<uint8_t>(i);
    auto stream = std::make_shared<std::optional<Stream>>(
        t.Require(Stream::Create(w.device), "a stream"));
    auto event = std::make_shared<std::optional<Event>>(
        t.Require(Event::Create(w.device), "an event"));
    t.Ok(FillAsync(**stream, w.block, value, kSize), "a fill");
    t.Ok((*event)->Record(**stream), "record");
    t.Ok(w.stream.Wait(**event), "wait");
    (void)Inside(t, w.stream, [stream, event]() -> Attempts {
      event->reset();
      stream->reset();
      return {};
    });
    t.Expect(!stream->has_value() && !event->has_value(),
             "the host function has run");
    // Earlier work of the destroyed objects still completes.
    t.Ok(Copy(w.stream, w.host.data(), w.block, kSize), "a copy");
    t.Expect(w.host == std::vector<uint8_t>(kSize, value),
             "work of a stream that ended inside has happened");
  }
  t.Ok(w.device.Synchronize(), "device synchronisation");
  if (counts) {
    const SimulatorStats after = simulated();
    // devrt keeps some for later creations.
    t.Expect(after.live_streams < before.live_streams + kRounds,
             "streams that ended inside are given up or used again");
    t.Expect(after.live_events < before.live_events + kRounds,
             "events that ended inside are given up or used again");
  }
  w.GiveUp(t);
}

void HostMemoryIsRefused(Test& t) {
  World w(t);
  AllRefused(t, Inside(t, w.stream, [&w]() -> Attempts {
               return {
                   {"AllocateHost", AllocateHost(w.device, kSize).status()},
                   {"FreeHost", FreeHost(w.pinned)},
                   {"RegisterHost",
                    RegisterHost(w.device, w.host.data(), w.host.size())},
                   {"UnregisterHost", UnregisterHost(w.device, w.host.data())},
               };
             }));
  w.GiveUp(t);
}

void PeerAccessIsRefused(Test& t) {
  World w(t);
  const Device peer = t.cpp_device(1);
  AllRefused(t, Inside(t, w.stream, [&w, peer]() -> Attempts {
               return {
                   {"EnablePeerAccess", EnablePeerAccess(w.device, peer)},
                   {"DisablePeerAccess", DisablePeerAccess(w.device, peer)},
               };
             }));
  w.GiveUp(t);
}

void PeerCopyIsRefused(Test& t) {
  World w(t);
  const Device peer = t.cpp_device(1);
  void* const there = t.Require(Allocate(peer, kSize), "an allocation");
  AllRefused(
      t, Inside(t, w.stream, [&w, there]() -> Attempts {
        return {
            {"CopyAsync to a peer", CopyAsync(w.other, there, w.block, kSize)},
            {"Copy from a peer", Copy(w.other, w.block, there, kSize)},
        };
      }));
  t.Ok(Free(peer, there), "free");
  w.GiveUp(t);
}

void QueriesAreAllowed(Test& t) {
  World w(t);
  t.Ok(w.other.Synchronize(), "synchronisation");
  const uint64_t id = w.stream.id();
  const Attempts attempts = Inside(t, w.stream, [&w, id]() -> Attempts {
    const auto truth = [](bool holds) {
      return holds ? absl::OkStatus() : absl::InternalError("a wrong answer");
    };
    const auto says = [&](const absl::StatusOr<bool>& answer, bool expected) {
      return answer.ok() ? truth(*answer == expected) : answer.status();
    };
    const auto info = GetPointerInfo(w.block);
    return {
        {"Query of an idle stream", says(w.other.Query(), true)},
        {"Query of the own stream", says(w.stream.Query(), false)},
        {"Query of an event", says(w.event.Query(), true)},
        {"id", truth(w.stream.id() == id)},
        {"name", truth(!w.device.name().empty())},
        {"Properties", w.device.Properties().status()},
        {"GetPointerInfo",
         info.ok() ? truth(info->base == w.block) : info.status()},
        {"Health", w.device.Health()},
    };
  });
  t.Expect(!attempts.empty(), "the host function has run");
  for (const Attempt& attempt : attempts) {
    t.Ok(attempt.status, attempt.call + " inside a host function");
  }
  w.GiveUp(t);
}

// Objects that a closure owns are destroyed outside of the host function, where
// frees work.
void ClosuresEndOutside(Test& t) {
  struct Owner {
    std::optional<Device> device;
    void* block = nullptr;
    std::shared_ptr<std::vector<absl::Status>> frees;
    ~Owner() { frees->push_back(Free(*device, block)); }
  };
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "a stream");
  const auto frees = std::make_shared<std::vector<absl::Status>>();
  {
    auto owner = std::make_unique<Owner>();
    owner->block = t.Require(Allocate(t.cpp_device(), kSize), "an allocation");
    owner->device = t.cpp_device();
    owner->frees = frees;
    t.Ok(LaunchHostFunc(s, [owner = std::move(owner)](absl::Status) {}),
         "LaunchHostFunc");
  }
  t.Ok(s.Synchronize(), "synchronisation");
  t.Expect(t.Eventually([&] {
    (void)s.Query();
    return !frees->empty();
  }),
           "a later call releases what the function owned");
  for (const absl::Status& freed : *frees) {
    t.Ok(freed, "a free by what the function owned");
  }
}

std::atomic<int> g_lines{0};

void RefusalIsLogged(Test& t) {
  World w(t);
  g_lines = 0;
  SetLogSink([](LogLevel, const char*, int, std::string_view text) {
    if (text.find("inside a host function") != text.npos) ++g_lines;
  });
  (void)Inside(t, w.stream, [&w]() -> Attempts {
    return {{"Synchronize", w.other.Synchronize()}};
  });
  SetLogSink(nullptr);
  t.Expect(g_lines.load() >= 1, "a refused call is logged");
  w.GiveUp(t);
}

constexpr uint64_t kCap = DEVRT_CAP_HOST_FUNC;
constexpr TestCase kTests[] = {
    {"hostfunc.enqueuing_inside_is_refused", "C42",
     "Every enqueue inside a host function is FAILED_PRECONDITION.",
     &EnqueuingIsRefused, kCap},
    {"hostfunc.waiting_inside_is_refused", "C42",
     "Every synchronisation inside a host function is FAILED_PRECONDITION.",
     &WaitingIsRefused, kCap},
    {"hostfunc.making_inside_is_refused", "C42",
     "Every creation, allocation and free inside a host function is "
     "FAILED_PRECONDITION.",
     &MakingIsRefused, kCap},
    {"hostfunc.destroyed_inside_ends_outside", "C42",
     "Streams and events may be destroyed inside a host function; their native "
     "objects end outside of it, and their earlier work completes.",
     &DestroyedInsideEndsOutside, kCap},
    {"hostfunc.host_memory_inside_is_refused", "C42",
     "Page-locking inside a host function is FAILED_PRECONDITION.",
     &HostMemoryIsRefused,
     kCap | DEVRT_CAP_PINNED_HOST | DEVRT_CAP_HOST_REGISTER},
    {"hostfunc.peer_access_inside_is_refused", "C42",
     "Enabling peers inside a host function is FAILED_PRECONDITION.",
     &PeerAccessIsRefused, kCap | DEVRT_CAP_PEER_ACCESS, kTwoDevices},
    {"hostfunc.peer_copy_inside_is_refused", "C42",
     "Every copy between devices inside a host function is "
     "FAILED_PRECONDITION.",
     &PeerCopyIsRefused, kCap, kTwoDevices},
    {"hostfunc.asking_inside_is_allowed", "C42",
     "Queries, ids and properties work inside a host function.",
     &QueriesAreAllowed, kCap},
    {"hostfunc.closures_end_outside", "C42",
     "Objects that a closure owns are released outside of the host function, "
     "where frees work.",
     &ClosuresEndOutside, kCap},
    {"hostfunc.refusal_is_logged", "C42",
     "A refused call inside a host function is logged.", &RefusalIsLogged,
     kCap},
};

}  // namespace
}  // namespace hostfunc_call_tests

absl::Span<const TestCase> HostFuncCallTests() {
  return hostfunc_call_tests::kTests;
}

}  // namespace devrt::cts
