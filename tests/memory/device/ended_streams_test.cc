// SPDX-License-Identifier: Apache-2.0
//
// Blocks of streams that have ended: another stream has them when the work is
// over, also where nobody has told devrt so.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "devrt/memory/settings.h"
#include "streams/objects/stream_record.h"
#include "tests/memory/device/cache_fixture.h"

namespace devrt::testing {
namespace {

using internal::kMiB;

class EndedStreams : public DeviceCacheTest {
 protected:
  // The work of all streams is over, and devrt has not asked.
  static void FinishUnseen() {
    internal::DeviceRecord* const device = dev().record();
    EXPECT_EQ(device->ops->device_sync(device->self, device->ordinal), nullptr);
  }
  static devrt_stream HandleOf(StreamRef stream) {
    return stream.record()->handle.load();
  }
};

TEST_F(EndedStreams, BlocksReturnWhenTheWorkEnds) {
  constexpr uint64_t kBytes = 12 * kMiB;
  Stream next = NewStream();
  std::optional<Stream> stream = NewStream();
  Flag gate = NewFlag();
  char* x = New(*stream, kBytes);
  EXPECT_OK(gate.WaitOn(*stream));
  EXPECT_OK(FillAsync(*stream, x, 1, 4096));
  EXPECT_OK(FreeMemory(x));
  stream.reset();
  char* meanwhile = New(next, kBytes);
  EXPECT_NE(meanwhile, x);
  EXPECT_OK(gate.Set());
  FinishUnseen();
  char* y = New(next, kBytes);
  EXPECT_EQ(y, x);
  EXPECT_OK(FreeMemory(y));
  EXPECT_OK(FreeMemory(meanwhile));
}

// Another library may use the native handle after the Stream has ended.  The
// blocks do not wait for that work.
TEST_F(EndedStreams, LaterWorkOfAnotherLibraryDoesNotKeepBlocks) {
  constexpr uint64_t kBytes = 12 * kMiB;
  const internal::DeviceRecord* const device = dev().record();
  Stream next = NewStream(), other = NewStream();
  std::optional<Stream> stream = NewStream();
  Flag gate = NewFlag(), later = NewFlag();
  char* x = New(*stream, kBytes);
  EXPECT_OK(gate.WaitOn(*stream));
  EXPECT_OK(FillAsync(*stream, x, 1, 4096));
  EXPECT_OK(FreeMemory(x));
  const devrt_stream handle = HandleOf(*stream);
  stream.reset();
  devrt_event over = nullptr, opened = nullptr;
  for (devrt_event* event : {&over, &opened}) {
    ASSERT_EQ(
        device->ops->event_create(device->self, device->ordinal, 0, event),
        nullptr);
  }
  EXPECT_EQ(device->ops->event_record(device->self, over, handle), nullptr);
  EXPECT_OK(later.WaitOn(other));
  EXPECT_EQ(device->ops->event_record(device->self, opened, HandleOf(other)),
            nullptr);
  EXPECT_EQ(device->ops->stream_wait_event(device->self, handle, opened),
            nullptr);
  EXPECT_OK(gate.Set());
  EXPECT_EQ(device->ops->event_sync(device->self, over), nullptr);
  char* y = New(next, kBytes);
  EXPECT_EQ(y, x);
  EXPECT_OK(FreeMemory(y));
  EXPECT_OK(later.Set());
  FinishUnseen();
  for (devrt_event event : {over, opened}) {
    EXPECT_EQ(device->ops->event_destroy(device->self, event), nullptr);
  }
}

// A new Stream on a recycled native stream gets the blocks that were freed on
// that native stream, although unused empty pools exist.  The second device has
// its pools in the opposite order, so that addresses of timelines decide
// nothing.
TEST_F(EndedStreams, AStreamThatComesBackFindsItsBlocks) {
  constexpr uint64_t kBytes = 12 * kMiB;
  constexpr size_t kStreams = 6;
  ASSERT_OK(SetAllocatorSettings("cross_stream_reuse:never"));
  for (const int index : {0, 1}) {
    SCOPED_TRACE(index);
    std::vector<Stream> streams;
    while (streams.size() < kStreams) streams.push_back(NewStream(dev(index)));
    if (index == 1) std::reverse(streams.begin(), streams.end());
    for (const Stream& s : streams) EXPECT_OK(FreeMemory(New(s, kBytes)));
    EXPECT_OK(EmptyCache(dev(index)));
    char* const x = New(streams.back(), kBytes);
    EXPECT_OK(FreeMemory(x));
    const internal::Timeline* const timeline =
        internal::TimelineOf(streams.back());
    streams.clear();
    do {
      streams.push_back(NewStream(dev(index)));
    } while (internal::TimelineOf(streams.back()) != timeline &&
             streams.size() < 4 * kStreams);
    char* const y = New(streams.back(), kBytes);
    EXPECT_EQ(y, x);
    EXPECT_OK(FreeMemory(y));
    EXPECT_OK(EmptyCache(dev(index)));
  }
  ASSERT_OK(SetAllocatorSettings("cross_stream_reuse:ordered"));
}

// A callback may end the stream of the request, whose own pool then has no
// block to look for.  The request gets no block of another stream either.
TEST_F(EndedStreams, ARequestWhoseStreamEndsMeanwhileGetsNoBlock) {
  Stream other = NewStream();
  std::optional<Stream> stream = NewStream();
  // Both in one segment, whose rest is too short for the request.
  char* x = New(other, 8 * kMiB);
  char* y = New(other, 8 * kMiB);
  const uint64_t id = Must(AddOutOfMemoryCallback([&](Device, uint64_t) {
    stream.reset();
    EXPECT_OK(FreeMemory(x));
    return true;
  }));
  const absl::StatusOr<void*> block = AllocateMemory(*stream, 6 * kMiB);
  RemoveOutOfMemoryCallback(id);
  EXPECT_STATUS(block.status(), kInvalidArgument, "which was destroyed");
  if (block.ok()) {
    EXPECT_OK(FreeMemory(*block));
  }
  EXPECT_OK(FreeMemory(y));
  EXPECT_EQ(Read().allocation.all.current, 0);
}

}  // namespace
}  // namespace devrt::testing
