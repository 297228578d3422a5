// SPDX-License-Identifier: Apache-2.0
//
// Copies between two devices whose backend has no peer copies: they go through
// a buffer of the host, and the calling thread waits (C57).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "devrt/devrt.h"
#include "tests/support/spy_backend.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

constexpr uint64_t kStagedBytes = 64;

// The spy's device memory is memory of the host, and its copies are memcpy.
class StagedCopy : public ::testing::Test {
 protected:
  void SetUp() override {
    src_ = Must(Allocate(spy_.device(0), kStagedBytes));
    dst_ = Must(Allocate(spy_.device(1), kStagedBytes));
    std::memset(src_, 7, kStagedBytes);
    std::memset(dst_, 0, kStagedBytes);
  }
  void TearDown() override {
    EXPECT_OK(Free(spy_.device(0), src_));
    EXPECT_OK(Free(spy_.device(1), dst_));
    EXPECT_EQ(spy_.bad_handles(), 0);
  }
  bool HasArrived() const { return std::memcmp(dst_, src_, kStagedBytes) == 0; }

  SpyBackend& spy_ = SpyBackend::Get();
  void* src_ = nullptr;
  void* dst_ = nullptr;
};

TEST_F(StagedCopy, StreamOfTheSource) {
  Stream s = Must(Stream::Create(spy_.device(0)));
  spy_.Reset();
  ASSERT_OK(CopyAsync(s, dst_, src_, kStagedBytes));
  EXPECT_TRUE(HasArrived());
  for (int device : {0, 1}) {
    EXPECT_EQ(spy_.Count("copy_async", device), 1) << device;
    EXPECT_EQ(spy_.Count("stream_sync", device), 1) << device;
  }
  EXPECT_EQ(spy_.Last("copy_async").device, 1);
}

// The copy comes after earlier work of the stream, which writes the source.
TEST_F(StagedCopy, StreamOfTheTarget) {
  Stream s = Must(Stream::Create(spy_.device(1)));
  spy_.Reset();
  ASSERT_OK(CopyAsync(s, dst_, src_, kStagedBytes));
  EXPECT_TRUE(HasArrived());
  EXPECT_EQ(spy_.Count("copy_async", 0), 1);
  EXPECT_EQ(spy_.Count("copy_async", 1), 1);
  EXPECT_EQ(spy_.Count("stream_sync", 0), 1);
  EXPECT_EQ(spy_.Count("stream_sync", 1), 2);
  EXPECT_EQ(spy_.Last("copy_async").device, 1);
}

// Reports of each half name the line of the program.
TEST_F(StagedCopy, BothHalvesHaveTheCallSite) {
  for (int device : {0, 1}) {
    Stream s = Must(Stream::Create(spy_.device(device)));
    for (int nth : {1, 2}) {
      spy_.Reset();
      spy_.Fail("copy_async", absl::StatusCode::kInternal, nth);
      const int line = __LINE__ + 1;
      const absl::Status copied = CopyAsync(s, dst_, src_, kStagedBytes);
      EXPECT_THAT(copied, StatusIs(absl::StatusCode::kInternal, ::testing::_));
      EXPECT_EQ(spy_.Last("copy_async").line, line);
      EXPECT_EQ(spy_.Last("copy_async").device, nth - 1);
    }
  }
}

TEST_F(StagedCopy, NothingIsWrittenIfTheReadFails) {
  Stream s = Must(Stream::Create(spy_.device(0)));
  spy_.Fail("stream_sync", absl::StatusCode::kInternal);
  EXPECT_THAT(CopyAsync(s, dst_, src_, kStagedBytes),
              StatusIs(absl::StatusCode::kInternal, ::testing::_));
  EXPECT_FALSE(HasArrived());
}

// C17: no destroyed stream is passed to the backend.
TEST_F(StagedCopy, TheStreamEndsWhileTheHostWaits) {
  std::optional<Stream> s = Must(Stream::Create(spy_.device(1)));
  const StreamRef ref = *s;
  spy_.Reset();
  // The first copy of the other device's stream reads the source.
  spy_.OnNext("copy_async", [&] { s.reset(); });
  EXPECT_THAT(CopyAsync(ref, dst_, src_, kStagedBytes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr("destroyed")));
  EXPECT_FALSE(HasArrived());
}

}  // namespace
}  // namespace devrt::testing
