// SPDX-License-Identifier: Apache-2.0
//
// CollectivesTest: communicators of mtia by the table, and reference results.
//
//   TEST_F(Meeting, Adds) {
//     Make(4);
//     ...
//     Submit(r, Call(DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_INT64, 8, in, out));
#ifndef DEVRT_TESTS_MTIA_COLLECTIVES_FIXTURE_H_
#define DEVRT_TESTS_MTIA_COLLECTIVES_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "tests/mtia/engine_fixture.h"

namespace devrt::test {

// One rank of a communicator, with a stream of its device.
struct TestRank {
  uint32_t device = 0;
  devrt_comm comm = nullptr;
  devrt_stream stream = nullptr;
};

// One communicator: all of its ranks are in this process.
using TestRanks = std::vector<TestRank>;

class CollectivesTest : public EngineTest {
 protected:
  static const devrt_collectives_v0& table() {
    return Extension<devrt_collectives_v0>(DEVRT_COLLECTIVES_EXTENSION);
  }

  static std::string NewId();
  static devrt_comm_options_v0 Options(uint64_t timeout_ns = 0,
                                       const char* name = nullptr);
  // Begins all ranks; rank r has device r % 2.
  static TestRanks Make(uint32_t ranks, uint64_t timeout_ns = 0,
                        const char* name = nullptr);
  static devrt_comm Begin(const std::string& id, uint32_t ranks, uint32_t rank,
                          const devrt_comm_options_v0& options);
  // READY or PENDING; fails the test on an error.
  static uint32_t Poll(devrt_comm comm);
  static Result PollError(devrt_comm comm);

  static devrt_collective_v0 Op(uint32_t op, uint32_t dtype, uint64_t count,
                                const void* src, void* dst,
                                uint32_t reduction = 0, int32_t root = 0);
  static devrt_status TrySubmit(const TestRank& rank,
                                const std::vector<devrt_collective_v0>& ops);
  static void Submit(const TestRank& rank,
                     const std::vector<devrt_collective_v0>& ops) {
    OK(TrySubmit(rank, ops));
  }
  static void SyncAll(const TestRanks& ranks) {
    for (const TestRank& r : ranks) Sync(r.stream);
  }
  // Destroys all.
  static void Destroy(const TestRanks& ranks);

  // Device memory with `bytes`.
  static void* NewBuffer(uint32_t device, const std::string& bytes);
  static std::string Bytes(const void* ptr, uint64_t size);
};

}  // namespace devrt::test

#endif  // DEVRT_TESTS_MTIA_COLLECTIVES_FIXTURE_H_
