// SPDX-License-Identifier: Apache-2.0
//
// Operations of all ranks of a communicator, and the results that they must
// have.
//
//   const RankMemory memory(t, table.Devices(4));
//   const Ranks ranks(table, table.Devices(4));
//   RunJob(ranks, memory, {DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_INT32,
//                          DEVRT_COLLECTIVE_SUM, 0, 5});
//
// Threads: as for the calls of the table.

#ifndef DEVRT_CTS_COLLECTIVE_JOBS_H_
#define DEVRT_CTS_COLLECTIVE_JOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cts/collectives.h"
#include "cts/numbers.h"

namespace devrt::cts {

using Bytes = std::vector<uint8_t>;

// An operation of all ranks.  SEND stands for a ring: each rank sends to the
// next one, and receives from the one before.
struct Job {
  uint32_t op = 0;
  uint32_t dtype = 0;
  uint32_t reduction = 0;
  int32_t root = 0;
  uint64_t count = 0;
  bool in_place = false;
};
std::string TextOf(const Job& job);
// All jobs that the engine supports with this dtype, of `count` elements.
std::vector<Job> JobsOf(const CollectiveTable& table, uint32_t dtype,
                        uint64_t count);

// For each rank room in device memory and a copy of it in host memory.
class RankMemory {
 public:
  static constexpr uint64_t kRoom = 32u << 10;  // bytes of each src and dst
  RankMemory(Test& t, const std::vector<uint32_t>& devices);

  // In host memory:
  uint8_t* src(size_t rank) const { return host_[rank].ptr(); }
  uint8_t* dst(size_t rank) const { return host_[rank].ptr() + kRoom; }
  uint8_t* device_src(size_t rank) const { return device_[rank].ptr(); }
  uint8_t* device_dst(size_t rank) const { return device_[rank].ptr() + kRoom; }

  // The first `size` bytes of src and of dst; in stream order.
  void Upload(const Ranks& ranks, size_t rank, uint64_t size) const;
  void Download(const Ranks& ranks, size_t rank, uint64_t size) const;

 private:
  std::vector<DeviceBlock> device_;
  std::vector<HostBlock> host_;
};

// What `rank` submits for the job.
CollectiveOps OpsOf(const Job& job, size_t ranks, size_t rank, uint8_t* src,
                    uint8_t* dst);
// Bytes that `rank` reads, and those that it writes; 0: none.
uint64_t SourceSize(const Job& job, size_t ranks, size_t rank);
uint64_t ResultSize(const Job& job, size_t ranks, size_t rank);
// Where an operation in place has its src, as an offset in the buffer of dst,
// or where it has its dst in that of src.
uint64_t SourceOffset(const Job& job, size_t rank);
uint64_t ResultOffset(const Job& job, size_t rank);

// What `rank` must have in dst; `sources` by rank.
Bytes Expected(const Job& job, const std::vector<Bytes>& sources, size_t rank);
// "" if `got` is right for the job, or what is wrong: integers must be equal,
// floats as near as an addition in any order gives.
std::string Difference(const Job& job, const std::vector<Bytes>& sources,
                       size_t rank, const uint8_t* got);

// Runs the job with random elements on all ranks as one group, and compares
// what they have then, and that no byte beside it was written.  Returns false
// if it failed.
bool RunJob(const Ranks& ranks, const RankMemory& memory, const Job& job);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_COLLECTIVE_JOBS_H_
