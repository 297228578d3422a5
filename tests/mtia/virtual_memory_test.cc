// SPDX-License-Identifier: Apache-2.0
//
// devrt.virtual_memory/0 of the simulator, beyond what the conformance suite
// asks of every backend: capacity to the byte, uses of what is not mapped,
// peers, faults, resets.
#include <cstring>
#include <vector>

#include "devrt/backends/abi/devrt_virtual_memory.h"
#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kG = 2 << 20;

class VirtualMemoryTest : public EngineTest {
 protected:
  static const devrt_virtual_memory_v0& vm() {
    return Extension<devrt_virtual_memory_v0>(DEVRT_VIRTUAL_MEMORY_EXTENSION);
  }
  static char* Reserve(uint64_t size, uint32_t device = 0) {
    void* base = nullptr;
    OK(vm().reserve(self(), device, size, 0, &base));
    return static_cast<char*>(base);
  }
  static devrt_chunk Create(uint64_t size, uint32_t device = 0) {
    devrt_chunk chunk = nullptr;
    OK(vm().create(self(), device, size, &chunk));
    return chunk;
  }
  static void Map(void* at, uint64_t size, devrt_chunk chunk) {
    OK(vm().map(self(), at, size, chunk));
  }
  static uint64_t Free(uint32_t device = 0) {
    uint64_t free = 0, total = 0;
    OK(ops().mem_info(self(), device, &free, &total));
    return free;
  }
  static void Fill(devrt_stream s, void* ptr, uint64_t size) {
    OK(ops().fill_async(self(), s, ptr, 1, size));
  }
};

TEST_F(VirtualMemoryTest, ChunksTakeCapacityOfTheirSize) {
  Reset("memory=16MiB,overhead=1MiB");
  EXPECT_EQ(Free(), 15u << 20);
  std::vector<devrt_chunk> chunks;
  for (int i = 0; i < 7; ++i) chunks.push_back(Create(kG));
  EXPECT_EQ(Free(), 1u << 20);
  devrt_chunk none = nullptr;
  const Result full = Take(vm().create(self(), 0, kG, &none));
  EXPECT_EQ(full.code, DEVRT_RESOURCE_EXHAUSTED);
  EXPECT_EQ(full.flags & DEVRT_ERROR_STICKY, 0u);
  EXPECT_EQ(none, nullptr);
  void* block = nullptr;
  ExpectCode(ops().alloc(self(), 0, kG, 0, &block), DEVRT_RESOURCE_EXHAUSTED);
  EXPECT_EQ(Stats().live_blocks, 7u);
  for (devrt_chunk chunk : chunks) OK(vm().destroy(self(), chunk));
  EXPECT_EQ(Free(), 15u << 20);
  EXPECT_EQ(Stats().live_blocks, 0u);
}

// Where nothing is mapped there is nothing: calls refuse it, kernels fault.
TEST_F(VirtualMemoryTest, HolesAreNoMemory) {
  char* const base = Reserve(3 * kG);
  const devrt_chunk a = Create(kG), b = Create(kG);
  Map(base, kG, a);
  Map(base + 2 * kG, kG, b);
  const devrt_stream s = NewStream();
  Fill(s, base, kG);
  Fill(s, base + 2 * kG, kG);
  ExpectCode(ops().fill_async(self(), s, base + kG, 1, 1),
             DEVRT_INVALID_ARGUMENT);
  ExpectCode(ops().fill_async(self(), s, base + kG - 1, 1, 2),
             DEVRT_INVALID_ARGUMENT);
  Sync(s);
  OK(vm().unmap(self(), base + 2 * kG, kG));
  ExpectCode(ops().fill_async(self(), s, base + 2 * kG, 1, 1),
             DEVRT_INVALID_ARGUMENT);
  const Result freed = Take(ops().dealloc(self(), 0, base, kG));
  EXPECT_EQ(freed.code, DEVRT_INVALID_ARGUMENT);
  EXPECT_THAT(freed.text, HasSubstr("unmapped"));
  OK(vm().unmap(self(), base, kG));
  OK(vm().destroy(self(), a));
  OK(vm().destroy(self(), b));
  OK(vm().release(self(), base, 3 * kG));
}

TEST_F(VirtualMemoryTest, UnmappedUnderWorkIsAFault) {
  char* const base = Reserve(kG);
  const devrt_chunk a = Create(kG);
  Map(base, kG, a);
  const devrt_stream s = NewStream();
  const devrt_flag gate = NewFlag();
  Hold(s, gate);
  Fill(s, base, kG);
  OK(vm().unmap(self(), base, kG));
  Set(gate);
  const Result result = Take(ops().stream_sync(self(), s));
  EXPECT_EQ(result.native_code, 700);
  // Taking back goes on after the fault; new memory is refused.
  OK(vm().destroy(self(), a));
  OK(vm().release(self(), base, kG));
  devrt_chunk none = nullptr;
  EXPECT_NE(Take(vm().create(self(), 0, kG, &none)).flags & DEVRT_ERROR_STICKY,
            0u);
}

// Access of a peer covers mappings made before and after it was enabled.
TEST_F(VirtualMemoryTest, PeersReachMappedMemory) {
  Reset("devices=2");
  char* const base = Reserve(2 * kG, 1);
  const devrt_chunk a = Create(kG, 1), b = Create(kG, 1);
  const devrt_stream s = NewStream(0);
  Map(base, kG, a);
  ExpectCode(ops().fill_async(self(), s, base, 1, kG), DEVRT_INVALID_ARGUMENT);
  OK(ops().peer_enable(self(), 0, 1));
  Map(base + kG, kG, b);
  Fill(s, base, 2 * kG);
  Sync(s);
  devrt_chunk foreign = Create(kG, 0);
  char* const other = Reserve(kG, 1);
  ExpectCode(vm().map(self(), other, kG, foreign), DEVRT_INVALID_ARGUMENT);
  OK(vm().destroy(self(), foreign));
  OK(vm().release(self(), other, kG));
  OK(vm().unmap(self(), base, 2 * kG));
  OK(vm().destroy(self(), a));
  OK(vm().destroy(self(), b));
  OK(vm().release(self(), base, 2 * kG));
}

TEST_F(VirtualMemoryTest, WholeChunksAreUnmapped) {
  char* const base = Reserve(4 * kG);
  const devrt_chunk a = Create(2 * kG), b = Create(kG);
  Map(base, 2 * kG, a);
  Map(base + 2 * kG, kG, b);
  ExpectCode(vm().unmap(self(), base, kG), DEVRT_INVALID_ARGUMENT);
  ExpectCode(vm().unmap(self(), base + kG, 2 * kG), DEVRT_INVALID_ARGUMENT);
  ExpectCode(vm().unmap(self(), base, 4 * kG), DEVRT_INVALID_ARGUMENT);
  devrt_chunk c = Create(2 * kG);
  ExpectCode(vm().map(self(), base + kG, 2 * kG, c), DEVRT_ALREADY_EXISTS);
  OK(vm().unmap(self(), base, 3 * kG));
  Map(base + kG, 2 * kG, c);
  OK(vm().unmap(self(), base + kG, 2 * kG));
  for (devrt_chunk chunk : {a, b, c}) OK(vm().destroy(self(), chunk));
  OK(vm().release(self(), base, 4 * kG));
}

// A reset forgets all, and what was known before it is refused.
TEST_F(VirtualMemoryTest, ResetsForget) {
  char* const base = Reserve(kG);
  const devrt_chunk a = Create(kG);
  Map(base, kG, a);
  const uint64_t full = Free() + kG;
  Reset("");
  EXPECT_EQ(Free(), full);
  ExpectCode(vm().unmap(self(), base, kG), DEVRT_INVALID_ARGUMENT);
  ExpectCode(vm().destroy(self(), a), DEVRT_INVALID_ARGUMENT);
  ExpectCode(vm().release(self(), base, kG), DEVRT_INVALID_ARGUMENT);
  EXPECT_EQ(Reserve(kG), base) << "pointers begin afresh";
}

TEST_F(VirtualMemoryTest, FaultsCanBeInjected) {
  devrt_sim_fault_v1 fault = {};
  fault.struct_size = sizeof fault;
  fault.kind = DEVRT_SIM_FAULT_API;
  fault.nth = 1;
  fault.native_code = 2;
  fault.slot = "virtual_memory.create";
  OK(sim().inject(self(), &fault));
  const uint64_t before = Free();
  devrt_chunk none = nullptr;
  ExpectCode(vm().create(self(), 0, kG, &none), DEVRT_RESOURCE_EXHAUSTED);
  EXPECT_EQ(Free(), before);
  OK(vm().destroy(self(), Create(kG)));
}

// raw_free_syncs: unmapping waits for the device, as freeing does.
TEST_F(VirtualMemoryTest, UnmappingWaitsWhereFreeingDoes) {
  Reset("raw_free_syncs=yes");
  char* const base = Reserve(kG);
  const devrt_chunk a = Create(kG);
  Map(base, kG, a);
  const devrt_stream s = NewStream();
  Fill(s, base, kG);
  OK(vm().unmap(self(), base, kG));
  EXPECT_TRUE(Done(s));
  OK(vm().destroy(self(), a));
  OK(vm().release(self(), base, kG));
}

}  // namespace
}  // namespace devrt::test
