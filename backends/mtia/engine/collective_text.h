// SPDX-License-Identifier: Apache-2.0
//
// Words for reports about collectives.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_COLLECTIVE_TEXT_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_COLLECTIVE_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/mtia/engine/communicator.h"

namespace devrt::mtia {

// "all_reduce"; static storage.
const char* CollectiveName(uint32_t op);
// "communicator \"data\"", or "communicator 3" for one without a name.
std::string CommText(const Communicator& comm);
// "rank 1", "ranks 0-2, 5"
std::string RanksText(const std::vector<uint32_t>& ranks);
// "5 ms": in the largest unit that gives a whole number.
std::string TimeText(uint64_t nanoseconds);
// "all_reduce #118 (float32 x 4096, sum)"
std::string CallText(const Member& member);
// " at train.cc:41", or nothing.
std::string SiteText(const Site& site);

// "ranks 0-2: all_reduce #118 (float32 x 4096, sum) at train.cc:41; rank 3 ..."
std::string CallsText(const std::vector<const Member*>& members);
// The members of the meeting or the pair in which `member` waits.
std::vector<const Member*> PresentWith(const Member& member);
// "rank 3 has submitted 118 collectives and begun 117": the ranks that
// `member`, which waits, has not met, with what they did last.
std::string MissingText(const Member& member);
// The ranks that `member`, which waits, has not met.
std::vector<uint32_t> MissingRanks(const Member& member);
// Why `member` waits, for a report of a deadlock.
std::string WaitText(const Member& member);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_COLLECTIVE_TEXT_H_
