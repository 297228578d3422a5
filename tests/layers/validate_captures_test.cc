// SPDX-License-Identifier: Apache-2.0
//
// Work that a stream records into a graph, in the validate layer.  devrt makes
// and launches no graphs, so the layer sees a graph's work when it is recorded,
// and never when it runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "devrt/backends/abi/devrt_layer_helper.h"
#include "tests/layers/validate_streams.h"

namespace devrt::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// True while all streams count as captured.
std::atomic<bool> g_captures{false};
std::atomic<int> g_questions{0};

// Behind the validate layer: the simulator has no graphs.  Its extension is of
// the oldest version.
class SomeCaptures {
 public:
  explicit SomeCaptures(const devrt_next_v0*) {}

  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) noexcept {
    return call(args...);
  }
};
DEVRT_STATIC_LAYER(SomeCaptures, captures, "captures", "devrt tests", "1.0");

const void* AddCaptures(void* /*self*/, const char* name, void** self_out) {
  static const devrt_capture_v0 table = [] {
    devrt_capture_v0 older = {};
    older.struct_size =
        DEVRT_SIZE_THROUGH(devrt_capture_v0, stream_is_capturing);
    older.stream_is_capturing = [](void*, devrt_stream,
                                   uint32_t* yes) -> devrt_status {
      ++g_questions;
      *yes = g_captures ? 1 : 0;
      return nullptr;
    };
    return older;
  }();
  *self_out = nullptr;
  return std::string(name) == DEVRT_CAPTURE_EXTENSION ? &table : nullptr;
}

devrt_status OpenCaptures(const devrt_host_v0* host, devrt_layer_v0* layer) {
  if (devrt_status failed = captures_open(host, layer)) return failed;
  layer->add_extension = &AddCaptures;
  return nullptr;
}

// Runs `program` in a child.  Its streams capture between Begin and End.
template <typename Program>
void WithCaptures(Program program) {
  InChild([&] {
    EXPECT_OK(RegisterLayer(&captures_manifest, &OpenCaptures));
    EXPECT_OK(SetLayers({"captures"}));
    program();
  });
}
// Another library can capture the streams, because it has their handles.
struct KnownStreams : TwoStreams {
  KnownStreams() {
    static_cast<void>(Must(a.Native()));
    static_cast<void>(Must(b.Native()));
  }
};
template <typename Work>
void Captured(Work work) {
  g_captures = true;
  work();
  g_captures = false;
}

TEST(ValidateCaptures, TheLayerStandsAboveOneWithCaptures) {
  WithCaptures([] {
    const KnownStreams s;
    const validate::Scope scope;
    s.Race("eager");
    EXPECT_THAT(KindsOf(scope), ElementsAre("write-after-write"));
  });
}

// Nobody else has the streams' handles, so nobody can capture them.
TEST(ValidateCaptures, TheDriverIsNotAskedForAStreamThatIsDevrtsAlone) {
  WithCaptures([] {
    const TwoStreams s;
    const Event event = Must(Event::Create(s.device));
    const validate::Scope scope;
    const int before = g_questions;
    EXPECT_OK(event.Record(s.a));
    EXPECT_OK(s.b.Wait(event));
    s.Race("eager");
    EXPECT_EQ(g_questions, before);
    EXPECT_THAT(KindsOf(scope), ElementsAre("write-after-write"));
    static_cast<void>(Must(s.a.Native()));
    Use(s.a, Read(s.block, kBytes), "known");
    EXPECT_GT(g_questions, before);
  });
}

TEST(ValidateCaptures, CapturedOperationsAreNotCompared) {
  WithCaptures([] {
    const KnownStreams s;
    void* const other = Must(Allocate(s.device, kBytes));
    const validate::Scope scope;
    Captured([&] {
      s.Race("captured");
      EXPECT_OK(CopyAsync(s.a, other, s.block, kBytes));
    });
    EXPECT_THAT(KindsOf(scope), IsEmpty());
  });
}

TEST(ValidateCaptures, EagerWorkIsComparedWithEagerWorkOnly) {
  WithCaptures([] {
    const KnownStreams s;
    const validate::Scope scope;
    Use(s.a, Write(s.block, kBytes), "eager");
    Captured([&] { Use(s.b, Write(s.block, kBytes), "captured"); });
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    Use(s.b, Write(s.block, kBytes), "later");
    EXPECT_THAT(KindsOf(scope), ElementsAre("write-after-write"));
  });
}

// The record is a node of the graph, so the event holds what it held before.
TEST(ValidateCaptures, CapturedRecordsAndWaitsOrderNoEagerWork) {
  WithCaptures([] {
    const KnownStreams s;
    const Event event = Must(Event::Create(s.device));
    EXPECT_OK(event.Record(s.a));
    Use(s.a, Write(s.block, kBytes), "first");
    Captured([&] {
      EXPECT_OK(event.Record(s.a));
      EXPECT_OK(s.b.Wait(event));
    });
    const validate::Scope scope;
    Use(s.b, Write(s.block, kBytes), "second");
    EXPECT_THAT(KindsOf(scope), ElementsAre("write-after-write"));
  });
}

TEST(ValidateCaptures, MemoryThatOnlyAGraphUsesMayBeFreed) {
  WithCaptures([] {
    const KnownStreams s;
    const validate::Scope scope;
    Captured([&] { Use(s.a, Write(s.block, kBytes), "captured"); });
    EXPECT_OK(s.a.Synchronize());
    EXPECT_OK(Free(s.device, s.block));
    EXPECT_THAT(KindsOf(scope), IsEmpty());
  });
}

// The graph may allocate the block in another stream, and free it in a later
// run.
TEST(ValidateCaptures, MemoryOfAGraphIsOrderedByNoCapturedCall) {
  WithCaptures([] {
    const KnownStreams s;
    const auto driver = Must(DriverResource(s.device));
    const Event allocated = Must(Event::Create(s.device));
    const Event used = Must(Event::Create(s.device));
    const validate::Scope scope;
    void* block = nullptr;
    Captured([&] {
      block = Must(driver->Allocate(s.a, kBytes));
      EXPECT_OK(allocated.Record(s.a));
      EXPECT_OK(s.b.Wait(allocated));
    });
    Use(s.b, Write(block, kBytes), "after a launch");
    Captured([&] {
      EXPECT_OK(used.Record(s.b));
      EXPECT_OK(s.a.Wait(used));
      EXPECT_OK(driver->Deallocate(s.a, block, kBytes));
    });
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    EXPECT_OK(s.device.Synchronize());
    // An eager block may lie there.
    void* const next = Must(driver->Allocate(s.b, kBytes));
    Use(s.b, Write(next, kBytes), "eager");
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    Use(s.a, Write(next, kBytes), "unordered");
    EXPECT_THAT(KindsOf(scope), ElementsAre("write-after-write"));
  });
}

// What a program tells of a launch: one operation with all that the graph uses.
TEST(ValidateCaptures, ALaunchThatIsDeclaredIsOneOperation) {
  WithCaptures([] {
    const KnownStreams s;
    void* const other = Must(Allocate(s.device, kBytes));
    Captured([&] {
      Use(s.a, Read(s.block, kBytes), "captured read");
      Use(s.a, Write(other, kBytes), "captured write");
    });
    const Access graph[] = {Read(s.block, kBytes), Write(other, kBytes)};
    const Event event = Must(Event::Create(s.device));
    {
      const validate::Scope scope;
      EXPECT_OK(validate::AnnotateWork(s.a, graph, "graph"));
      EXPECT_OK(event.Record(s.a));
      EXPECT_OK(s.b.Wait(event));
      Use(s.b, Read(other, kBytes), "ordered");
      EXPECT_OK(s.b.Synchronize());
      EXPECT_THAT(KindsOf(scope), IsEmpty());
    }
    const validate::Scope scope;
    EXPECT_OK(validate::AnnotateWork(s.a, graph, "graph"));
    Use(s.b, Write(s.block, kBytes), "unordered");
    EXPECT_THAT(KindsOf(scope), ElementsAre("write-after-read"));
  });
}

}  // namespace
}  // namespace devrt::testing
