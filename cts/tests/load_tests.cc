// SPDX-License-Identifier: Apache-2.0
//
// The rules of docs/reference/plugin-contract.md for every call.
#include <unistd.h>

#include <string>
#include <vector>

#include "cts/catalog.h"
#include "cts/every_call.h"
#include "cts/objects.h"
#include "cts/standard_output.h"

namespace devrt::cts {
namespace load_tests {
namespace {

using Ops = devrt_ops_v0;

void OpensQuietly(Test& t) {
  for (const std::string& finding : t.machine().findings_of_open()) {
    t.Fail(finding);
  }
}

// ---- What calls must leave alone

void NothingOnStandardOutput(Test& t) {
  const StandardOutput output;
  if (!output.ok()) t.Skip("standard output cannot be opened a second time");
  for (const uint32_t device : t.devices()) {
    CallEverything(t, device, [&](const char* call) {
      t.Require(!output.IsWritten(),
                std::string(call) + " writes nothing to standard output");
    });
  }
}

std::vector<std::string> Variables() {
  std::vector<std::string> all;
  for (char** v = environ; *v != nullptr; ++v) all.emplace_back(*v);
  return all;
}

void EnvironmentStays(Test& t) {
  const std::vector<std::string> before = Variables();
  for (const uint32_t device : t.devices()) {
    CallEverything(t, device, [&](const char* call) {
      t.Require(Variables() == before,
                std::string(call) + " leaves the environment as it is");
    });
  }
}

// ---- Threads

void AnyThreadMayCall(Test& t) {
  for (const uint32_t device : t.devices()) {
    Threads threads;
    threads.Start([&] { CallEverything(t, device, [](const char*) {}); });
    threads.Join();
  }
}

// One handle that one thread creates and another thread uses.
void HandlesWorkInOtherThreads(Test& t) {
  const DeviceBlock x(t, t.device(), 4096), y(t, t.device(), 4096);
  const RawStream s(t, t.device());
  const RawEvent e(t, t.device());
  Threads threads;
  threads.Start([&] {
    s.Fill(x.ptr(), 7, x.size());
    e.Record(s);
  });
  threads.Join();
  threads.Start([&] {
    s.Wait(e);
    s.Copy(y.ptr(), x.ptr(), x.size(), DEVRT_COPY_D2D);
    s.Sync();
  });
  threads.Join();
  t.Expect(e.Query() && s.Query(), "both are complete here");
  t.Expect(y.Holds(7), "what two threads submitted has happened in order");
}

// Several threads at once on one stream and one event of each device.
void HandlesWorkInSeveralThreads(Test& t) {
  constexpr int kThreads = 4, kRounds = 20;
  const DeviceBlock x(t, t.device(), 4096 * kThreads);
  const RawStream s(t, t.device()), other(t, t.device());
  const RawEvent e(t, t.device());
  Threads threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      for (int round = 0; round <= kRounds; ++round) {
        s.Fill(x.ptr() + 4096 * i, static_cast<uint8_t>(round), 4096);
        e.Record(s);
        other.Wait(e);
        e.Query();
        s.Query();
      }
      e.Sync();
      s.Sync();
    });
  }
  threads.Join();
  other.Sync();
  t.Expect(x.Holds(kRounds), "each thread's last fill has happened");
}

// ---- Counting, extensions

void CountIsStable(Test& t) {
  Machine& m = t.machine();
  const uint32_t expected = NoSuchDevice(t);
  const auto ask = [&] {
    uint32_t count = ~uint32_t{0};
    t.Require(m.Call<&Ops::device_count>(&count), "device_count");
    t.Equal(count, expected, "the number of devices");
  };
  ask();
  for (const uint32_t device : t.devices()) {
    CallEverything(t, device, [&](const char*) { ask(); });
  }
  Threads threads;
  for (int i = 0; i < 4; ++i) {
    threads.Start([&] {
      for (int round = 0; round < 10; ++round) ask();
    });
  }
  threads.Join();
}

void ExtensionsStay(Test& t) {
  const Backend backend = t.machine().backend();
  constexpr uint32_t kHead = 2 * sizeof(uint32_t);
  for (const char* const name : {"no.such.extension/1", "", "devrt.probe/77"}) {
    t.Code(backend.GetExtension(name, kHead).status(), DEVRT_UNIMPLEMENTED,
           std::string("the extension \"") + name + "\"");
  }
  for (const char* const name :
       {DEVRT_PROBE_EXTENSION, "devrt.elementwise/0", "devrt.reduce/0",
        "devrt.launch/0", DEVRT_SIM_EXTENSION}) {
    const auto first = backend.GetExtension(name, kHead);
    const auto second = backend.GetExtension(name, kHead);
    if (!first.ok()) {
      t.Code(first.status(), DEVRT_UNIMPLEMENTED, name, backend.name());
      t.Expect(!second.ok(), std::string(name) + " is absent every time");
      continue;
    }
    t.Expect(second.ok() && second->table == first->table &&
                 second->self == first->self,
             std::string(name) + " is one table every time");
  }
}

constexpr TestCase kTests[] = {
    {"load.opens", "", "devrt takes the file, and opening it answers in time.",
     nullptr},
    {"load.process_ends_well", "C106",
     "A process that used the backend ends with the exit code of the program.",
     nullptr},
    {"load.opens_quietly", "",
     "Opening starts no thread, writes nothing to standard output and changes "
     "no variable of the environment (contract P2, P4).",
     &OpensQuietly},
    {"load.nothing_on_standard_output", "",
     "No call writes to standard output (contract P4).",
     &NothingOnStandardOutput},
    {"load.environment_stays", "",
     "No call changes the environment (contract P4).", &EnvironmentStays},
    {"load.any_thread_may_call", "",
     "Every call works on a thread that is not the first (contract P12).",
     &AnyThreadMayCall},
    {"load.handles_work_in_other_threads", "",
     "A handle that one thread made works in every other (contract P12).",
     &HandlesWorkInOtherThreads},
    {"load.handles_work_in_several_threads", "",
     "Several threads may use one stream and one event at once (contract P12).",
     &HandlesWorkInSeveralThreads},
    {"load.count_is_stable", "", "The number of devices never changes.",
     &CountIsStable},
    {"load.extensions_stay", "",
     "An extension is one table at every call; an extension that does not "
     "exist is UNIMPLEMENTED.",
     &ExtensionsStay},
};

}  // namespace
}  // namespace load_tests

absl::Span<const TestCase> LoadTests() { return load_tests::kTests; }

}  // namespace devrt::cts
