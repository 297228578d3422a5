// SPDX-License-Identifier: Apache-2.0
//
// Bodies of FaultSweep that use libdevrt_collectives.
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/devrt.h"
#include "tests/sim/sweeps.h"

namespace devrt::testing {
namespace {

using collectives::AllReduce;
using collectives::Communicator;
using collectives::Group;
using collectives::OpKind;

using Ranks = std::vector<Communicator>;

absl::StatusOr<Ranks> MakeRanks() {
  DEVRT_ASSIGN_OR_RETURN(const Device first, GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(const Device second, GetDevice("mtia:1"));
  return Communicator::CreateAll({first, second});
}

// Waits for the work of all ranks.  A rank whose device has failed is missing
// for the others, and only its device knows why.
absl::Status WaitForAll(Ranks& ranks) {
  absl::Status waited, device;
  for (Communicator& rank : ranks) waited.Update(rank.Wait());
  for (Communicator& rank : ranks) device.Update(rank.device().Synchronize());
  return device.ok() ? waited : device;
}

// Sums the numbers of the ranks, counted from 1.
absl::Status SumRanks(Ranks& ranks) {
  Group group;
  std::vector<Array> sums;
  int32_t expected = 0;
  for (const Communicator& rank : ranks) {
    const int32_t mine = rank.rank() + 1;
    expected += mine;
    DEVRT_ASSIGN_OR_RETURN(
        Array x, Array::FromVector(std::vector<int32_t>{mine}, rank.device()));
    group.Add(rank, AllReduce(x, x));
    sums.push_back(std::move(x));
  }
  DEVRT_RETURN_IF_ERROR(group.Submit());
  // A sum of a communicator that has failed is undefined.
  DEVRT_RETURN_IF_ERROR(WaitForAll(ranks));
  for (const Array& sum : sums) {
    DEVRT_ASSIGN_OR_RETURN(const Array host, sum.To(Place::Host()));
    if (host.data_as<int32_t>()[0] != expected) {
      return absl::InternalError("another sum");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status UseCollectives() {
  DEVRT_ASSIGN_OR_RETURN(Ranks ranks, MakeRanks());
  DEVRT_RETURN_IF_ERROR(ranks[0].Supports(OpKind::kAllReduce, kInt32).status());
  DEVRT_ASSIGN_OR_RETURN(const Array often,
                         Array::Empty({64}, kInt32, ranks[0].device()));
  {
    // It ends before the communicator does, and so takes the memory back.
    DEVRT_ASSIGN_OR_RETURN(const collectives::Registration registered,
                           ranks[0].Register(often));
    DEVRT_RETURN_IF_ERROR(SumRanks(ranks));
  }
  {
    DEVRT_ASSIGN_OR_RETURN(std::vector<std::optional<Communicator>> made,
                           Communicator::SplitAll(ranks, {0, 0}, {1, 0}));
    Ranks turned;
    for (std::optional<Communicator>& one : made) {
      turned.push_back(*std::move(one));
    }
    DEVRT_RETURN_IF_ERROR(SumRanks(turned));
    DEVRT_RETURN_IF_ERROR(Communicator::FinishAll(turned));
  }
  DEVRT_ASSIGN_OR_RETURN(Ranks alone,
                         Communicator::ShrinkAll({&ranks[0], 1}, {1}));
  DEVRT_RETURN_IF_ERROR(SumRanks(alone));
  DEVRT_RETURN_IF_ERROR(Communicator::FinishAll(alone));
  DEVRT_RETURN_IF_ERROR(Communicator::BarrierAll(ranks));
  return Communicator::FinishAll(ranks);
}

// The ranks come with unequal counts, which ends their communicator.  One goes
// on alone.
absl::Status UseFailedCommunicator() {
  DEVRT_ASSIGN_OR_RETURN(Ranks ranks, MakeRanks());
  std::vector<Array> arrays;
  for (const Communicator& rank : ranks) {
    DEVRT_ASSIGN_OR_RETURN(
        Array x, Array::Zeros({1 + rank.rank()}, kInt32, rank.device()));
    arrays.push_back(std::move(x));
  }
  absl::Status status;
  for (size_t i = 0; i < ranks.size(); ++i) {
    status.Update(ranks[i].AllReduce(arrays[i], arrays[i]));
  }
  DEVRT_RETURN_IF_ERROR(status);
  status = WaitForAll(ranks);
  if (!absl::StrContains(status.message(), "calls differ")) {
    return status.ok() ? absl::InternalError("unequal counts have met")
                       : status;
  }
  DEVRT_ASSIGN_OR_RETURN(Ranks again,
                         Communicator::ShrinkAll({&ranks[0], 1}, {1}));
  DEVRT_RETURN_IF_ERROR(SumRanks(again));
  return Communicator::FinishAll(again);
}

absl::Status UseAbort() {
  DEVRT_ASSIGN_OR_RETURN(Ranks ranks, MakeRanks());
  absl::Status status = SumRanks(ranks);
  for (Communicator& rank : ranks) status.Update(rank.Abort("it is enough"));
  return status;
}

}  // namespace devrt::testing
