// SPDX-License-Identifier: Apache-2.0
//
// Faults at every call that the project makes: allocators, streams and events,
// pinned memory, arrays, collectives.
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "devrt/sim/faults.h"
#include "layers/faults/entries.h"
#include "tests/sim/sweeps.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

// Calls functions in the reverse order, when the work that may still use their
// memory is complete: a call that failed late has submitted its work.
class Cleanup {
 public:
  explicit Cleanup(Device device) : device_(device) {}
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;
  ~Cleanup() {
    if (!device_.Synchronize().ok()) device_.Synchronize().IgnoreError();
    for (; !calls_.empty(); calls_.pop_back()) {
      // A failed free has freed nothing.
      if (!calls_.back()().ok()) calls_.back()().IgnoreError();
    }
  }
  void Add(std::function<absl::Status()> call) {
    calls_.push_back(std::move(call));
  }

 private:
  const Device device_;
  std::vector<std::function<absl::Status()>> calls_;
};

absl::Status UseAllocator() {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(const Stream a, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(const Stream b, Stream::Create(device));
  Cleanup cleanup(device);
  for (const uint64_t size : {uint64_t{100}, uint64_t{3} << 20}) {
    DEVRT_ASSIGN_OR_RETURN(void* const memory, AllocateMemory(a, size));
    cleanup.Add([memory] { return FreeMemory(memory); });
    DEVRT_RETURN_IF_ERROR(FillAsync(a, memory, 1, 100));
    DEVRT_ASSIGN_OR_RETURN(const Event event, Event::Create(device));
    DEVRT_RETURN_IF_ERROR(event.Record(a));
    DEVRT_RETURN_IF_ERROR(b.Wait(event));
    DEVRT_RETURN_IF_ERROR(FillAsync(b, memory, 2, 100));
    DEVRT_RETURN_IF_ERROR(RecordStream(memory, b));
  }
  DEVRT_RETURN_IF_ERROR(a.Synchronize());
  return b.Synchronize();
}

absl::Status UseStreamsAndEvents() {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(const Stream a, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(const Stream b, Stream::Create(device));
  EventOptions timed;
  timed.timing = true;
  DEVRT_ASSIGN_OR_RETURN(const Event begin, Event::Create(device, timed));
  DEVRT_ASSIGN_OR_RETURN(const Event end, Event::Create(device, timed));
  DEVRT_RETURN_IF_ERROR(begin.Record(a));
  DEVRT_RETURN_IF_ERROR(Spin(a, 1000));
  int value = 0;
  DEVRT_RETURN_IF_ERROR(Launch(b, {}, [](const LaunchContext&) {}));
  DEVRT_RETURN_IF_ERROR(
      LaunchHostFunc(a, [&value](const absl::Status&) { ++value; }));
  const auto rest = [&]() -> absl::Status {
    DEVRT_RETURN_IF_ERROR(end.Record(a));
    DEVRT_RETURN_IF_ERROR(b.Wait(end));
    DEVRT_RETURN_IF_ERROR(end.Query().status());
    DEVRT_RETURN_IF_ERROR(b.Query().status());
    DEVRT_RETURN_IF_ERROR(end.Synchronize());
    return ElapsedMilliseconds(begin, end).status();
  };
  const absl::Status status = rest();
  // The host function uses `value`.
  const absl::Status waited = device.Synchronize();
  DEVRT_RETURN_IF_ERROR(status);
  DEVRT_RETURN_IF_ERROR(waited);
  return value == 1 ? absl::OkStatus()
                    : absl::InternalError("the host function did not run");
}

absl::Status UsePinnedMemory() {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
  Cleanup cleanup(device);
  DEVRT_ASSIGN_OR_RETURN(void* const host, AllocatePinned(device, 64));
  cleanup.Add([host] { return FreePinned(host); });
  DEVRT_ASSIGN_OR_RETURN(void* const memory, AllocateMemory(stream, 64));
  cleanup.Add([memory] { return FreeMemory(memory); });
  DEVRT_RETURN_IF_ERROR(CopyAsync(stream, memory, host, 64));
  DEVRT_RETURN_IF_ERROR(RecordPinnedUse(host, stream));
  DEVRT_RETURN_IF_ERROR(CopyAsync(stream, host, memory, 64));
  DEVRT_RETURN_IF_ERROR(RecordPinnedUse(host, stream));
  return stream.Synchronize();
}

absl::Status UseRegisteredMemoryAndPeers() {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(const Device other, GetDevice("mtia:1"));
  DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(const Stream there, Stream::Create(other));
  std::vector<char> host(64, 1);
  Cleanup cleanup(device);
  DEVRT_RETURN_IF_ERROR(RegisterHost(device, host.data(), host.size()));
  cleanup.Add([&host, device] { return UnregisterHost(device, host.data()); });
  DEVRT_ASSIGN_OR_RETURN(void* const a, AllocateMemory(stream, 64));
  cleanup.Add([a] { return FreeMemory(a); });
  DEVRT_ASSIGN_OR_RETURN(void* const b, AllocateMemory(there, 64));
  cleanup.Add([b, other] {
    other.Synchronize().IgnoreError();
    return FreeMemory(b);
  });
  DEVRT_RETURN_IF_ERROR(CopyAsync(stream, a, host.data(), 64));
  DEVRT_RETURN_IF_ERROR(CopyAsync(stream, b, a, 64));
  DEVRT_RETURN_IF_ERROR(CanAccessPeer(device, other).status());
  DEVRT_RETURN_IF_ERROR(EnablePeerAccess(device, other));
  const absl::Status filled = FillAsync(stream, b, 2, 64);
  const absl::Status waited = stream.Synchronize();
  absl::Status disabled = DisablePeerAccess(device, other);
  if (!disabled.ok()) disabled.Update(DisablePeerAccess(device, other));
  DEVRT_RETURN_IF_ERROR(disabled);
  DEVRT_RETURN_IF_ERROR(filled);
  return waited;
}

absl::Status UseQuestions() {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
  DEVRT_RETURN_IF_ERROR(device.Properties().status());
  DEVRT_RETURN_IF_ERROR(device.GetMemoryInfo().status());
  DEVRT_RETURN_IF_ERROR(CurrentDevice("mtia").status());
  DEVRT_RETURN_IF_ERROR(SetCurrentDevice(device));
  DEVRT_RETURN_IF_ERROR(GetPointerInfo(&device).status());
  DEVRT_ASSIGN_OR_RETURN(void* const memory, Allocate(device, 64));
  Cleanup cleanup(device);
  cleanup.Add([device, memory] { return Free(device, memory); });
  DEVRT_RETURN_IF_ERROR(GetPointerInfo(memory).status());
  DEVRT_ASSIGN_OR_RETURN(void* const host, AllocateHost(device, 64));
  cleanup.Add([host] { return FreeHost(host); });
  DEVRT_ASSIGN_OR_RETURN(void* const native, stream.Native());
  DEVRT_ASSIGN_OR_RETURN(const Stream adopted,
                         Stream::FromNative(device, native));
  DEVRT_ASSIGN_OR_RETURN(const Event event, Event::Create(device));
  DEVRT_RETURN_IF_ERROR(event.Record(adopted));
  DEVRT_RETURN_IF_ERROR(event.Native().status());
  return device.Synchronize();
}

absl::Status UseFlags() {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(const Stream setter, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(const Flag flag, Flag::Create(device));
  const auto use = [&]() -> absl::Status {
    DEVRT_RETURN_IF_ERROR(flag.WaitOn(stream));
    DEVRT_RETURN_IF_ERROR(flag.SetOn(setter));
    return stream.Synchronize();
  };
  const absl::Status used = use();
  // Whatever failed, nothing waits for ever.
  absl::Status set = flag.Set();
  if (!set.ok()) set.Update(flag.Set());
  const absl::Status waited = device.Synchronize();
  DEVRT_RETURN_IF_ERROR(used);
  DEVRT_RETURN_IF_ERROR(set);
  return waited;
}

// (1 + 2) * 4 summed, over two streams and both devices.
absl::Status UseArrays() {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(const Device other, GetDevice("mtia:1"));
  DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
  std::optional<Array> sum;
  {
    DEVRT_ASSIGN_OR_RETURN(const Array ones,
                           Array::Full({4, 8}, kFloat32, 1.0, device));
    DEVRT_ASSIGN_OR_RETURN(const Array twos,
                           Array::FromVector(std::vector<float>(8, 2), device));
    const StreamGuard guard(stream);
    DEVRT_RETURN_IF_ERROR(guard.status());
    DEVRT_ASSIGN_OR_RETURN(const Array threes, Add(ones, twos));
    DEVRT_ASSIGN_OR_RETURN(const Array moved, threes.To(other));
    DEVRT_ASSIGN_OR_RETURN(const Array columns, moved.SliceAxis(1, {0, 4}));
    DEVRT_ASSIGN_OR_RETURN(sum, Reduce(ReduceOp::kSum, columns));
  }
  DEVRT_ASSIGN_OR_RETURN(const Array host, sum->To(Place::Host()));
  DEVRT_ASSIGN_OR_RETURN(const Scalar value, host.Item());
  return value.Value<double>() == 48 ? absl::OkStatus()
                                     : absl::InternalError("another sum");
}

struct Part {
  const char* name;
  absl::Status (*body)();
  const char* settings;  // of DEVRT_ALLOC_CONF
};

constexpr Part kParts[] = {
    {"Allocator", UseAllocator, ""},
    {"ExpandableSegments", UseAllocator, "expandable_segments:True"},
    {"DriversPool", UseAllocator, "backend:driver"},
    {"RawMemory", UseAllocator, "backend:raw"},
    {"PinnedMemory", UsePinnedMemory, ""},
    {"StreamsAndEvents", UseStreamsAndEvents, ""},
    {"RegisteredMemoryAndPeers", UseRegisteredMemoryAndPeers, ""},
    {"Questions", UseQuestions, ""},
    {"Flags", UseFlags, ""},
    {"Arrays", UseArrays, ""},
    {"Collectives", UseCollectives, ""},
    {"FailedCommunicator", UseFailedCommunicator, ""},
    {"Abort", UseAbort, ""},
};

sim::SweepResult Sweep(const Part& part, const sim::SweepOptions& options) {
  setenv("DEVRT_LOG", "off", 1);
  setenv("DEVRT_ALLOC_CONF", part.settings, 1);
  EXPECT_OK(sim::EnableFaults());
  return sim::FaultSweep(options, part.body);
}

class FaultSweepProject : public ::testing::TestWithParam<Part> {};

// In the order of time and in two adverse schedules.
TEST_P(FaultSweepProject, HandlesEveryFault) {
  for (const char* const config :
       {"", "strategy=alap,pageable=late", "strategy=lifo,pageable=sync"}) {
    InChild([&] {
      sim::SweepOptions options;
      options.config = config;
      const sim::SweepResult result = Sweep(GetParam(), options);
      EXPECT_TRUE(result.ok()) << config << "\n" << result.text();
      EXPECT_GT(result.faults, 20u);
      EXPECT_GT(result.reported, 0u);
      EXPECT_EQ(result.missed, 0u) << result.text();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, FaultSweepProject, ::testing::ValuesIn(kParts),
                         [](const auto& part) { return part.param.name; });

// The entry points that the body of `part` calls.
std::set<std::string> CallsOf(const Part& part) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  InChild([&] {
    sim::SweepOptions options;
    options.classes = {"oom"};
    options.most_points = 1;
    for (const std::string& call : Sweep(part, options).calls) {
      const std::string line = call + "\n";
      EXPECT_EQ(write(ends[1], line.data(), line.size()),
                static_cast<ssize_t>(line.size()));
    }
  });
  close(ends[1]);
  std::string text;
  char bytes[4096];
  for (ssize_t size = 0; (size = read(ends[0], bytes, sizeof bytes)) > 0;) {
    text.append(bytes, static_cast<size_t>(size));
  }
  close(ends[0]);
  std::set<std::string> calls;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) calls.insert(line);
  return calls;
}

// Why the bodies cannot call an entry point on the simulator.
constexpr struct {
  const char* call;
  const char* reason;
} kUnswept[] = {
    {"device_count", "a backend asks once, when it is opened"},
    {"elementwise.supports", "devrt asks when a call has failed by itself"},
    {"reduce.supports", "devrt asks when a call has failed by itself"},
    {"virtual_memory.info", "an allocator asks once in a process"},
    {"probe.fault", "it makes a fault of its own"},
};

// A new entry point fails here, unless a body calls it.
TEST(FaultSweepEntries, AllAreSwept) {
  std::set<std::string> expected;
  for (const faults::Entry& entry : faults::kEntries) {
    if (faults::FormsOf(entry.id) == 0) continue;
    expected.insert(layer::kCallNames[static_cast<size_t>(entry.id)]);
  }
  for (const char* const call : kSweptOnCuda) {
    EXPECT_EQ(expected.erase(call), 1u) << call;
  }
  std::set<std::string> calls;
  for (const Part& part : kParts) calls.merge(CallsOf(part));
  for (const auto& unswept : kUnswept) {
    EXPECT_EQ(expected.erase(unswept.call), 1u) << unswept.call;
    EXPECT_EQ(calls.count(unswept.call), 0u) << unswept.reason;
  }
  for (const std::string& call : expected) {
    EXPECT_EQ(calls.count(call), 1u) << "no body calls " << call;
  }
}

}  // namespace
}  // namespace devrt::testing
