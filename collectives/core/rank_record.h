// SPDX-License-Identifier: Apache-2.0
//
// RankRecord: what each rank tells the others in Communicator::Create: all of
// it in the first exchange, and in the second one only what it got, or why it
// cannot take part.

#ifndef DEVRT_COLLECTIVES_CORE_RANK_RECORD_H_
#define DEVRT_COLLECTIVES_CORE_RANK_RECORD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/provider.h"
#include "devrt/collectives/communicator.h"

namespace devrt::collectives::internal {

struct RankRecord {
  uint64_t rank = 0;
  uint64_t size = 1;
  std::string error;  // why the rank cannot take part; the rest is empty
  uint64_t seen = 0;  // of the second exchange: SumOf what the first returned
  std::string provider;  // "nccl"
  std::string version;   // "2.28.9"
  uint64_t flags = 0;    // of the engine
  std::string host;      // the machine
  std::string device;    // "mtia:0"
  std::string uuid;      // of the device
  uint64_t shared_device = 0;
  uint64_t allow_mixed_versions = 0;
  uint64_t check_signatures = 0;
  uint64_t may_wait = 0;  // submissions may, and the engine can end it
  uint64_t has_record_folder = 0;
  std::string name;
  // Of rank 0:
  std::string unique_id;
  uint64_t id = 0;
  uint64_t key = 0;
};

std::string ToBytes(const RankRecord& record);

// The records of all ranks.  DATA_LOSS or FAILED_PRECONDITION, with the rank,
// for bytes that are no record of that rank, or of another protocol.
absl::StatusOr<std::vector<RankRecord>> ParseRecords(
    const std::vector<std::string>& parts, int size);

// Differs where ranks got different bytes.
uint64_t SumOf(const std::vector<std::string>& parts);

// By the second exchange: OK if every rank can take part, and `seen`, the sum
// of this rank, `rank`, is that of all.  Without the records of some ranks a
// rank gave up (Bootstrap::GiveUp).
absl::Status CheckAgreement(const std::vector<std::string>& parts, int rank,
                            int size, uint64_t seen);

// OK if every rank can take part.
absl::Status CheckErrors(const std::vector<RankRecord>& records);

// OK if, besides, the ranks fit together.  Every rank finds the same error.
absl::Status CheckRecords(const std::vector<RankRecord>& records);

// The flags that the engines of some ranks have and others lack, without
// those that concern no other rank.
uint32_t MissingFlags(const std::vector<RankRecord>& records);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_RANK_RECORD_H_
