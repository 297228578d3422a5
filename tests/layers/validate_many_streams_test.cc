// SPDX-License-Identifier: Apache-2.0
//
// A program with 10,000 streams under the validate layer: each comes after all
// others, by waits for the stream before it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/layers/validate_streams.h"

namespace devrt::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ValidateManyStreams, ARingOfTenThousandIsJudged) {
  InChild([] {
    EXPECT_OK(EnableQuietly());
    const Device device = Must(GetDevice("mtia:0"));
    void* const block = Must(Allocate(device, kBytes));
    const Event event = Must(Event::Create(device));
    std::vector<Stream> streams;
    for (int i = 0; i < 10'000; ++i) {
      streams.push_back(Must(Stream::Create(device)));
    }
    const validate::Scope scope;
    for (int round = 0; round < 2; ++round) {
      for (const Stream& stream : streams) {
        EXPECT_OK(stream.Wait(event));
        Use(stream, Write(block, kBytes), "in turn");
        EXPECT_OK(event.Record(stream));
      }
    }
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    // The last stream has written since the first one waited.
    Use(streams.front(), Write(block, kBytes), "out of turn");
    EXPECT_THAT(KindsOf(scope), ElementsAre("write-after-write"));
    EXPECT_OK(device.Synchronize());
    Use(streams[5000], Write(block, kBytes), "after a wait of the host");
    EXPECT_THAT(KindsOf(scope), ElementsAre("write-after-write"));
  });
}

}  // namespace
}  // namespace devrt::testing
