// SPDX-License-Identifier: Apache-2.0
//
// The trace layer's file: what its reader refuses, which backend a record is
// of, and what is given up, which is counted.

#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/layers/trace_reader.h"

namespace devrt {
namespace {

using testing::CallId;
using testing::FailNext;
using ::testing::HasSubstr;
using testing::Must;
using ::testing::StrEq;
using testing::Trace;
using testing::Traced;

constexpr uint64_t kBytes = 4096;

uint64_t LostAs(Trace* trace, trace::Loss loss) {
  return trace->header()->lost[static_cast<uint32_t>(loss)];
}

TEST(TraceFile, OnlyItsOwnIsRead) {
  const auto header = std::make_unique<trace::FileHeader>();
  static constexpr uint64_t kFile = trace::FileBytes(trace::kRingRecords);
  // A header, a page of it, all names, then the rings.
  EXPECT_EQ(kFile, trace::kPage + trace::kNamesSize +
                       trace::kMaxRings *
                           (sizeof(trace::RingHeader) +
                            trace::kRingRecords * sizeof(trace::Record)));
  const auto check = [&](uint64_t bytes) {
    return trace::CheckHeader(*header, bytes);
  };
  EXPECT_THAT(check(kFile), HasSubstr("not a file of the trace layer"));
  trace::InitHeader(header.get(), trace::kRingRecords, 17);
  EXPECT_EQ(check(kFile), nullptr);
  EXPECT_EQ(check(kFile + 1), nullptr);
  EXPECT_EQ(header->start_ns, 17u);
  EXPECT_THAT(check(trace::kPage - 1), HasSubstr("not a file of the trace"));
  for (const uint64_t bytes : {trace::kPage, kFile - 1}) {
    EXPECT_STREQ(check(bytes), "its header is damaged") << bytes;
  }
  for (const int change : {-1, 1}) {
    SCOPED_TRACE(change);
    const auto add = [change](auto* field) {
      *field = static_cast<std::decay_t<decltype(*field)>>(*field + change);
    };
    const auto expect = [&](auto* field, const char* text) {
      const auto before = *field;
      add(field);
      EXPECT_THAT(check(kFile), HasSubstr(text));
      *field = before;
      EXPECT_EQ(check(kFile), nullptr);
    };
    expect(&header->magic[0], "not a file of the trace layer");
    expect(&header->magic[7], "not a file of the trace layer");
    expect(&header->version, "by another version of devrt");
    expect(&header->call_count, "by another version of devrt");
    expect(&header->max_rings, "damaged");
    expect(&header->ring_records, "damaged");
    expect(&header->names_offset, "damaged");
    expect(&header->names_size, "damaged");
    expect(&header->rings_offset, "damaged");
  }
}

// The program goes on without a trace.
TEST(TraceFile, OpenErrorNamesTheFile) {
  testing::InChild([] {
    static std::string said;
    SetLogSink([](LogLevel, const char*, int, std::string_view text) {
      said.append(text);
    });
    setenv("DEVRT_TRACE", "/nowhere/ring", 1);
    Must(SetLayers({"trace"}));
    EXPECT_OK(GetDevice("mtia:0"));
    EXPECT_EQ(said,
              "no trace: /nowhere/ring: cannot be opened: No such file or "
              "directory");
  });
}

TEST(TraceFile, AnUnknownSourceOfTimesIsNamed) {
  testing::InChild([] {
    static std::string said;
    SetLogSink([](LogLevel, const char*, int, std::string_view text) {
      said.append(text);
    });
    setenv("DEVRT_TRACE", "/nowhere/ring", 1);
    setenv("DEVRT_TRACE_TIMES", "foo", 1);
    Must(SetLayers({"trace"}));
    EXPECT_OK(GetDevice("mtia:0"));
    EXPECT_EQ(said.rfind("DEVRT_TRACE_TIMES=foo is not a source of times; "
                         "expected events",
                         0),
              0u)
        << said;
  });
}

void UseGood() {
  const std::string plugin =
      std::string(std::getenv("DEVRT_TEST_PLUGIN_DIR")) + "/libdevrt_good.so";
  const Backend good = Must(LoadBackend(plugin));
  (void)good.devices()[0].Synchronize();
}

void UseMtia() { (void)Must(GetDevice("mtia:0")).Synchronize(); }

TEST(TraceFile, RecordsNameTheirBackend) {
  Traced(
      nullptr,
      [] {
        UseMtia();
        UseGood();
      },
      [](Trace* trace) {
        ASSERT_EQ(trace->header()->backend_count, 2u);
        EXPECT_STREQ(trace->header()->backends[0], "mtia");
        EXPECT_STREQ(trace->header()->backends[1], "good");
        const auto calls = trace->Calls(CallId::device_sync);
        ASSERT_EQ(calls.size(), 2u);
        EXPECT_EQ(calls[0].backend, 0);
        EXPECT_EQ(calls[1].backend, 1);
        EXPECT_LE(calls[0].begin_ns, calls[0].end_ns);
        EXPECT_LE(calls[0].end_ns, calls[1].begin_ns);
      });
}

// Of the two only mtia has events with times.
TEST(TraceFile, ClocksNameTheirBackend) {
  Traced(
      "events",
      [] {
        UseGood();
        UseMtia();
      },
      [](Trace* trace) {
        EXPECT_STREQ(trace->header()->backends[1], "mtia");
        const auto clocks = trace->Calls(static_cast<CallId>(trace::kClock));
        ASSERT_EQ(clocks.size(), 1u);
        EXPECT_EQ(clocks[0].backend, 1);
      });
}

// A call that makes something has what it made, and later calls have what they
// were given.
TEST(TraceFile, RecordsNameTheirObjects) {
  Traced(
      nullptr,
      [] {
        const Device device = Must(GetDevice("mtia:0"));
        void* const memory = Must(Allocate(device, kBytes));
        EXPECT_OK(Free(device, memory));
        void* const pinned = Must(AllocateHost(device, kBytes));
        EXPECT_OK(FreeHost(pinned));
      },
      [](Trace* trace) {
        for (const auto& [made, gone] :
             {std::pair(CallId::alloc, CallId::dealloc),
              std::pair(CallId::host_alloc, CallId::host_dealloc)}) {
          const auto first = trace->Calls(made), last = trace->Calls(gone);
          ASSERT_EQ(first.size(), 1u);
          ASSERT_EQ(last.size(), 1u);
          EXPECT_NE(first[0].object, 0u);
          EXPECT_EQ(first[0].object, last[0].object);
        }
      });
}

// Calls and operations have the number that the program knows their stream by,
// whatever their times are from.
TEST(TraceFile, RecordsHaveTheProgramsNumbersOfStreams) {
  for (const char* const times : {"", "events"}) {
    SCOPED_TRACE(times);
    static std::vector<uint64_t> numbers;
    Traced(
        times,
        [] {
          const Device device = Must(GetDevice("mtia:0"));
          void* const memory = Must(Allocate(device, kBytes));
          const auto fill = [&](StreamRef stream) {
            EXPECT_OK(FillAsync(stream, memory, 1, kBytes));
            EXPECT_OK(stream.Synchronize());
            numbers.push_back(stream.id() + 1);
          };
          // The second is on the simulator's stream of the first.
          for (int i = 0; i < 2; ++i) fill(Must(Stream::Create(device)));
          fill(DefaultStream(device));
          EXPECT_OK(Free(device, memory));
        },
        [](Trace* trace) {
          const auto fills = trace->Calls(CallId::fill_async);
          const auto operations = trace->Operations();
          ASSERT_EQ(numbers.size(), 3u);
          ASSERT_EQ(fills.size(), 3u);
          ASSERT_EQ(operations.size(), 3u);
          EXPECT_EQ(fills[0].stream, fills[1].stream);
          EXPECT_NE(numbers[0], numbers[1]);
          EXPECT_EQ(numbers[2], 1u);
          for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(fills[i].stream_number, numbers[i]);
            EXPECT_EQ(operations[i].stream_number, numbers[i]);
          }
        });
  }
}

TEST(TraceFile, ValueTooLargeForItsFieldIsUnknown) {
  constexpr uint64_t kMost = UINT32_MAX;
  EXPECT_EQ(trace::NumberField(kMost), kMost);
  EXPECT_EQ(trace::NumberField(kMost + 1), 0u);
  trace::Record r = {};
  constexpr int32_t kLastLine = (1 << 22) - 1;
  r.line = trace::LineField(kLastLine);
  EXPECT_EQ(static_cast<int32_t>(r.line), kLastLine);
  EXPECT_EQ(trace::LineField(kLastLine + 1), 0u);
  EXPECT_EQ(trace::LineField(-1), 0u);
}

// Streams that end with two operations each under way.
void EndBusyStreams(Device device, int count) {
  void* const memory = Must(Allocate(device, kBytes));
  Flag gate = Must(Flag::Create(device));
  for (int i = 0; i < count; ++i) {
    const Stream stream = Must(Stream::Create(device));
    Must(stream.Native());  // somebody has it: it serves nobody else
    EXPECT_OK(gate.WaitOn(stream));
    EXPECT_OK(FillAsync(stream, memory, i, kBytes));
  }
  EXPECT_OK(gate.Set());
  EXPECT_OK(device.Synchronize());
  EXPECT_OK(Free(device, memory));
}

// The operations of ended streams are known all the same.
TEST(TraceFile, EndedStreamsKeepTheirOperations) {
  Traced(
      "events", [] { EndBusyStreams(Must(GetDevice("mtia:1")), 5); },
      [](Trace* trace) {
        EXPECT_EQ(trace->Calls(CallId::stream_destroy).size(), 5u);
        std::set<uint64_t> operations;
        for (const auto& op : trace->Operations()) {
          EXPECT_EQ(op.device, 1);
          operations.insert(op.object);
        }
        const auto fills = trace->Calls(CallId::fill_async);
        EXPECT_EQ(fills.size(), 5u);
        for (const auto& fill : fills) {
          EXPECT_EQ(operations.count(fill.total), 1u) << fill.total;
        }
        for (const auto& loss : trace->header()->lost) EXPECT_EQ(loss, 0u);
      });
}

// So many streams may be gone with operations under way; of the oldest these
// are given up, and counted.
TEST(TraceFile, ManyEndedStreamsGiveUpTheOldest) {
  Traced(
      "events", [] { EndBusyStreams(Must(GetDevice("mtia:0")), 70); },
      [](Trace* trace) {
        EXPECT_EQ(trace->Calls(CallId::stream_destroy).size(), 70u);
        EXPECT_EQ(trace->Operations().size(), 2 * 64u);
        EXPECT_EQ(LostAs(trace, trace::Loss::kUnderWay), 2 * 6u);
      });
}

// The moment that a device's times count from could not be taken: operations
// have no times, and the program goes on.
TEST(TraceFile, WithoutABaseOperationsAreUntimed) {
  for (const char* const call :
       {"event_create", "event_record", "event_sync"}) {
    SCOPED_TRACE(call);
    static const char* failing = nullptr;
    failing = call;
    Traced(
        "events",
        [] {
          const Device device = Must(GetDevice("mtia:0"));
          void* const memory = Must(Allocate(device, kBytes));
          {
            const Stream stream = Must(Stream::Create(device));
            FailNext(failing, 46);
            EXPECT_OK(FillAsync(stream, memory, 1, kBytes));
            EXPECT_OK(FillAsync(stream, memory, 2, kBytes));
            EXPECT_OK(stream.Synchronize());
          }
          EXPECT_OK(Free(device, memory));
        },
        [](Trace* trace) {
          EXPECT_EQ(trace->Operations().size(), 0u);
          EXPECT_EQ(LostAs(trace, trace::Loss::kUntimed), 2u);
          EXPECT_EQ(LostAs(trace, trace::Loss::kUnderWay), 0u);
        });
  }
}

// Each thread lives until those within it have ended: rings of ended threads
// would serve the next threads.
void SynchronizeInThreads(Device device, uint32_t threads) {
  if (threads == 0) return;
  std::thread([=] {
    EXPECT_OK(device.Synchronize());
    SynchronizeInThreads(device, threads - 1);
  }).join();
}

// The file has no ring for a further thread: its calls are counted.
TEST(TraceFile, CallsOfTooManyThreadsAreCounted) {
  static constexpr uint32_t kThreads = trace::kMaxRings + 3;
  Traced(
      nullptr,
      [] {
        // Short rings, or they would fill 256 MiB.
        const auto header = std::make_unique<trace::FileHeader>();
        trace::InitHeader(header.get(), 16, 0);
        std::ofstream(std::getenv("DEVRT_TRACE"), std::ios::binary)
            .write(reinterpret_cast<const char*>(header.get()), sizeof *header);
        std::filesystem::resize_file(std::getenv("DEVRT_TRACE"),
                                     trace::FileBytes(16));
        SynchronizeInThreads(Must(GetDevice("mtia:0")), kThreads);
      },
      [](Trace* trace) {
        EXPECT_EQ(trace->header()->ring_count, trace::kMaxRings);
        const uint64_t recorded = trace->Calls(CallId::device_sync).size();
        EXPECT_LE(recorded, trace::kMaxRings);
        EXPECT_EQ(recorded + LostAs(trace, trace::Loss::kNoRing), kThreads);
      });
}

}  // namespace
}  // namespace devrt
