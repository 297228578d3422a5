// SPDX-License-Identifier: Apache-2.0
//
// The shared object for PyTorch, called as PyTorch does (interop.md 1.8), built
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
}

namespace devrt {
namespace {

using testing::MtiaTest;
using testing::Must;

class TorchTest : public MtiaTest {
 protected:
  void TearDown() override {
    // What was freed on a stream that has ended (F20).
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

}  // namespace
}  // namespace devrt
