// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/record_exchange.h"

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collectives/recorder/report.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(5);
constexpr uint64_t kMost = 64;   // calls of a rank
constexpr uint64_t kNewest = 8;  // of these, if it does not give all
// In a communicator of more ranks only the first ones compare: all at once
// would be too much for the place that keeps the bytes.
constexpr int kMostReaders = 64;

std::string NameOf(const Comm& comm) {
  return absl::StrCat("records-", absl::Hex(comm.key));
}

// Where the ranks differ, by what each of them has given.
absl::StatusOr<std::string> Compare(const Comm& comm, std::string mine) {
  const absl::Time deadline = absl::Now() + kLimit;
  Bootstrap* const bootstrap = comm.records_over;
  const std::string name = NameOf(comm);
  DEVRT_RETURN_IF_ERROR(bootstrap->Put(name, mine));
  if (comm.rank >= kMostReaders) {
    return absl::StrCat("the errors of ranks 0-", kMostReaders - 1,
                        " compare the ranks");
  }
  std::vector<std::optional<std::string>> images(comm.size);
  for (int rank = 0; rank < comm.size; ++rank) {
    if (rank == comm.rank) {
      images[rank] = std::move(mine);
      continue;
    }
    DEVRT_ASSIGN_OR_RETURN(images[rank], bootstrap->Get(name, rank, deadline));
  }
  return CompareImages(images);
}

void Run(Comm* comm, const absl::Status& failure) {
  std::string mine;
  {
    const MutexLock lock(&comm->mutex);
    mine = comm->ring->Image(comm->oldest_open, kMost, kNewest);
  }
  const absl::StatusOr<std::string> text = Compare(*comm, std::move(mine));
  const std::string added =
      absl::StrCat("; over the bootstrap: ",
                   text.ok() ? *text : std::string(text.status().message()));
  DEVRT_LOG(kError, absl::StrCat(comm->Text(), added));
  const MutexLock lock(&comm->mutex);
  comm->failure = absl::Status(failure.code(),
                               absl::StrCat(comm->failure.message(), added));
}

}  // namespace

void ExchangeRecords(Comm* comm, const absl::Status& failure) {
  if (comm->records_over == nullptr) return;
  const bool is_simulated = comm->provider.Has(DEVRT_COLLECTIVES_OWN_DEADLINES);
  {
    const MutexLock lock(&comm->mutex);
    if (comm->exchange_ended) return;
    if (!is_simulated) {
      comm->exchange = std::thread([comm, failure] { Run(comm, failure); });
    }
  }
  // A thread would change the simulator's schedule.
  if (is_simulated) Run(comm, failure);
}

void EndExchange(Comm* comm) {
  std::thread exchange;
  {
    const MutexLock lock(&comm->mutex);
    comm->exchange_ended = true;
    exchange = std::move(comm->exchange);
  }
  if (exchange.joinable()) exchange.join();
}

}  // namespace devrt::collectives::internal
