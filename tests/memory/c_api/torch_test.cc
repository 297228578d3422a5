// SPDX-License-Identifier: Apache-2.0
//
// The shared object for PyTorch, called as PyTorch does (E20), built
// for mtia.

#include <cstdint>
#include <new>
#include <string>

#include "devrt/memory/devrt_memory.h"
#include "tests/support/mtia_fixture.h"

extern "C" {
void* devrt_torch_alloc(size_t size, int device, void* stream);
void devrt_torch_free(void* ptr, size_t size, int device, void* stream);
void* devrt_torch_pool_alloc(size_t size, int device, void* stream);
void devrt_torch_record_stream(void* ptr, struct CUstream_st* stream);
void devrt_torch_empty_cache();
void devrt_torch_set_memory_fraction(double fraction, int device);
void* devrt_torch_base_allocation(void* ptr, size_t* size);
}

namespace devrt {
namespace {

using testing::MtiaTest;
using testing::Must;

class TorchTest : public MtiaTest {
 protected:
  void TearDown() override {
    // Frees the blocks that were freed on an ended stream (F20).
    EXPECT_OK(dev().Synchronize());
    EXPECT_OK(EmptyCache(dev()));
    EXPECT_OK(EmptyCache(dev(1)));
    MtiaTest::TearDown();
  }
};

TEST_F(TorchTest, AllocatesOnTheDeviceThatIsNamed) {
  void* block = devrt_torch_alloc(1000, 1, nullptr);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(Must(GetPointerInfo(block)).device, dev(1));
  EXPECT_EQ(Must(CurrentDevice("mtia")), dev(0)) << "what is current stays";
  devrt_torch_free(block, 1000, 1, nullptr);
  void* pool = devrt_torch_pool_alloc(1000, 0, nullptr);
  ASSERT_NE(pool, nullptr);
  devrt_torch_free(pool, 1000, 0, nullptr);
}

TEST_F(TorchTest, ZeroBytesAreNull) {
  EXPECT_EQ(devrt_torch_alloc(0, 0, nullptr), nullptr);
  EXPECT_EQ(devrt_torch_pool_alloc(0, 0, nullptr), nullptr);
}

TEST_F(TorchTest, OutOfMemoryThrowsAndAPoolsIsNull) {
  constexpr size_t kTooMuch = size_t{1} << 40;
  try {
    devrt_torch_alloc(kTooMuch, 0, nullptr);
    ADD_FAILURE() << "no exception";
  } catch (const std::bad_alloc& e) {
    EXPECT_THAT(std::string(e.what()),
                ::testing::HasSubstr("MTIA out of memory. Tried to allocate"));
  }
  EXPECT_EQ(devrt_torch_pool_alloc(kTooMuch, 0, nullptr), nullptr);
  EXPECT_THROW(devrt_torch_alloc(1, -1, nullptr), std::bad_alloc);
}

// A stream of the program's own, and its end before the free.
TEST_F(TorchTest, StreamsOfOthers) {
  Stream s = NewStream();
  void* native = Must(s.Native());
  void* block = devrt_torch_alloc(512, 0, native);
  ASSERT_NE(block, nullptr);
  devrt_torch_free(block, 512, 0, native);
  void* again = devrt_torch_pool_alloc(512, 0, native);
  EXPECT_EQ(again, block) << "of one stream, at once";
  devrt_torch_free(again, 512, 0, native);
  EXPECT_EQ(devrt_memory_stream_ends_v0("mtia:0", native), 0);
}

CUstream_st* Of(const Stream& stream) {
  return static_cast<CUstream_st*>(Must(stream.Native()));
}

// A gradient's bucket: made on one stream, sent on another, dropped.
TEST_F(TorchTest, RecordStreamKeepsABlockForWorkOfAnotherStream) {
  Stream a = NewStream();
  Stream b = NewStream();
  Flag gate = NewFlag();
  constexpr size_t kSize = 512 << 10;
  void* const bucket = devrt_torch_alloc(kSize, 0, Of(a));
  ASSERT_OK(gate.WaitOn(b));
  devrt_torch_record_stream(bucket, Of(b));
  devrt_torch_free(bucket, kSize, 0, Of(a));
  void* const next = devrt_torch_alloc(kSize, 0, Of(a));
  EXPECT_NE(next, bucket) << "stream b still uses the bucket";
  ASSERT_OK(gate.Set());
  ASSERT_OK(b.Synchronize());
  devrt_torch_free(next, kSize, 0, Of(a));
  EXPECT_EQ(devrt_memory_stream_ends_v0("mtia:0", Of(a)), 0);
  EXPECT_EQ(devrt_memory_stream_ends_v0("mtia:0", Of(b)), 0);
}

// PyTorch names no device: a stream of another one than the block's is found.
TEST_F(TorchTest, RecordStreamFindsTheDeviceOfTheStream) {
  Stream far = NewStream(dev(1));
  Flag gate = NewFlag(dev(1));
  void* const block = devrt_torch_alloc(1000, 0, nullptr);
  ASSERT_OK(gate.WaitOn(far));
  devrt_torch_record_stream(block, Of(far));
  devrt_torch_free(block, 1000, 0, nullptr);
  void* const next = devrt_torch_alloc(1000, 0, nullptr);
  EXPECT_NE(next, block);
  ASSERT_OK(gate.Set());
  ASSERT_OK(far.Synchronize());
  devrt_torch_free(next, 1000, 0, nullptr);
  EXPECT_EQ(devrt_memory_stream_ends_v0("mtia:1", Of(far)), 0);
}

// The handle of a default stream is that of every device's: the mark is for the
// default streams of all devices that PyTorch uses.
TEST_F(TorchTest, RecordStreamOfADefaultStreamIsForEveryDevice) {
  Stream home = NewStream(dev(0));
  Flag gate = NewFlag(dev(1));
  void* const seen = devrt_torch_alloc(1000, 1, nullptr);
  void* const block = devrt_torch_alloc(1000, 0, Of(home));
  ASSERT_OK(gate.WaitOn(DefaultStream(dev(1))));
  devrt_torch_record_stream(block, nullptr);
  devrt_torch_free(block, 1000, 0, Of(home));
  // Asks whether the uses are over; each question lets the simulator go on.
  for (int i = 0; i < 20; ++i) EXPECT_OK(EmptyCache(dev(0)));
  EXPECT_GT(GetMemoryStatistics(dev(0)).active_bytes.all.current, 0);
  ASSERT_OK(gate.Set());
  ASSERT_OK(DefaultStream(dev(1)).Synchronize());
  for (int i = 0; i < 20; ++i) EXPECT_OK(EmptyCache(dev(0)));
  EXPECT_EQ(GetMemoryStatistics(dev(0)).active_bytes.all.current, 0);
  devrt_torch_free(seen, 1000, 1, nullptr);
  EXPECT_EQ(devrt_memory_stream_ends_v0("mtia:0", Of(home)), 0);
}

TEST_F(TorchTest, RecordStreamIgnoresEmptyTensorsAndForeignMemory) {
  int local = 0;
  devrt_torch_record_stream(nullptr, nullptr);
  devrt_torch_record_stream(&local, nullptr);
}

TEST_F(TorchTest, RecordStreamRefusesOtherPointers) {
  void* const block = devrt_torch_alloc(1000, 0, nullptr);
  int local = 0;
  EXPECT_THROW(
      devrt_torch_record_stream(block, reinterpret_cast<CUstream_st*>(&local)),
      std::exception);
  devrt_torch_free(block, 1000, 0, nullptr);
}

TEST_F(TorchTest, TheFractionIsTheDevicesAndTheCacheGoesBack) {
  devrt_torch_set_memory_fraction(0.25, 1);
  EXPECT_EQ(GetMemoryFraction(dev(1)), 0.25);
  EXPECT_THROW(devrt_torch_set_memory_fraction(2, 0), std::exception);
  devrt_torch_set_memory_fraction(1, 1);
  void* const block = devrt_torch_alloc(1000, 1, nullptr);
  devrt_torch_free(block, 1000, 1, nullptr);
  EXPECT_GT(GetMemoryStatistics(dev(1)).reserved_bytes.all.current, 0);
  devrt_torch_empty_cache();
  EXPECT_EQ(GetMemoryStatistics(dev(1)).reserved_bytes.all.current, 0);
}

TEST_F(TorchTest, BaseAllocationIsTheDriversBlock) {
  char* const x = static_cast<char*>(devrt_torch_alloc(1000, 0, nullptr));
  char* const y = static_cast<char*>(devrt_torch_alloc(1000, 0, nullptr));
  size_t size = 0;
  char* const base =
      static_cast<char*>(devrt_torch_base_allocation(y + 10, &size));
  EXPECT_EQ(devrt_torch_base_allocation(x, nullptr), base);
  EXPECT_LE(base, x);
  EXPECT_GE(base + size, y + 1000);
  devrt_torch_free(x, 1000, 0, nullptr);
  devrt_torch_free(y, 1000, 0, nullptr);
  EXPECT_THROW(devrt_torch_base_allocation(x, &size), std::exception);
}

}  // namespace
}  // namespace devrt
