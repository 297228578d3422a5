// SPDX-License-Identifier: Apache-2.0
//
// Failed calls in a trace: they have their code, no operation on the device,
// and no part in the figures of memory.

#include "tests/layers/trace_reader.h"

namespace devrt {
namespace {

using testing::CallId;
using testing::FailNext;
using testing::Must;
using testing::Trace;
using testing::Traced;

constexpr uint64_t kBytes = 4096;

// The second of three fills fails.
void ThreeFills() {
  const Device device = Must(GetDevice("mtia:0"));
  void* const memory = Must(Allocate(device, kBytes));
  {
    const Stream stream = Must(Stream::Create(device));
    EXPECT_OK(FillAsync(stream, memory, 1, kBytes));
    FailNext("fill_async", 46);
    EXPECT_FALSE(FillAsync(stream, memory, 2, kBytes).ok());
    EXPECT_OK(FillAsync(stream, memory, 3, kBytes));
    EXPECT_OK(stream.Synchronize());
  }
  EXPECT_OK(Free(device, memory));
}

void LookForThreeFills(Trace* trace) {
  const auto calls = trace->Calls(CallId::fill_async);
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].status, 0);
  EXPECT_NE(calls[1].status, 0);
  EXPECT_EQ(calls[2].status, 0);
  for (const auto& call : calls) EXPECT_EQ(call.bytes, kBytes);
  for (const auto& loss : trace->header()->lost) EXPECT_EQ(loss, 0u);
}

TEST(TraceFailures, AnOperationHasItsCodeAndNothingOnTheDevice) {
  Traced("events", &ThreeFills, [](Trace* trace) {
    LookForThreeFills(trace);
    // By its number each belongs to its call.
    const auto calls = trace->Calls(CallId::fill_async);
    const auto operations = trace->Operations();
    ASSERT_EQ(operations.size(), 2u);
    EXPECT_EQ(operations[0].object, calls[0].total);
    EXPECT_EQ(operations[1].object, calls[2].total);
    EXPECT_NE(operations[0].object, operations[1].object);
    EXPECT_LE(operations[0].end_ns, operations[1].begin_ns);
  });
}

TEST(TraceFailures, AnOperationOfTheSimulatorLikewise) {
  Traced(nullptr, &ThreeFills, [](Trace* trace) {
    LookForThreeFills(trace);
    EXPECT_EQ(trace->Operations().size(), 2u);
  });
}

TEST(TraceFailures, MemoryThatWasRefusedIsNotCounted) {
  Traced(
      nullptr,
      [] {
        const Device device = Must(GetDevice("mtia:0"));
        void* const first = Must(Allocate(device, kBytes));
        FailNext("alloc", 2);
        EXPECT_FALSE(Allocate(device, 2 * kBytes).ok());
        void* const second = Must(Allocate(device, 3 * kBytes));
        EXPECT_OK(Free(device, first));
        EXPECT_OK(Free(device, second));
      },
      [](Trace* trace) {
        const auto allocations = trace->Calls(CallId::alloc);
        ASSERT_EQ(allocations.size(), 3u);
        EXPECT_EQ(allocations[0].total, kBytes);
        EXPECT_NE(allocations[1].status, 0);
        EXPECT_EQ(allocations[1].total, 0u);
        EXPECT_EQ(allocations[1].object, 0u);
        EXPECT_EQ(allocations[2].total, 4 * kBytes);
        EXPECT_NE(allocations[2].object, 0u);
        const auto frees = trace->Calls(CallId::dealloc);
        ASSERT_EQ(frees.size(), 2u);
        EXPECT_EQ(frees[0].total, 3 * kBytes);
        EXPECT_EQ(frees[1].total, 0u);
      });
}

}  // namespace
}  // namespace devrt
