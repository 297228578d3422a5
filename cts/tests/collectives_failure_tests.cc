// SPDX-License-Identifier: Apache-2.0
//
// devrt.collectives/0: ranks that do not come, aborts, and operations that
// differ.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/collective_jobs.h"

namespace devrt::cts {
namespace collectives_failure_tests {
namespace {

using Table = devrt_collectives_v0;

constexpr uint32_t kRanks = 4;
constexpr Job kAdd = {DEVRT_COLLECTIVE_ALL_REDUCE,
                      DEVRT_INT32,
                      DEVRT_COLLECTIVE_SUM,
                      0,
                      8,
                      false};

CollectiveOps AddOf(const Ranks& ranks, const RankMemory& memory, size_t rank) {
  return OpsOf(kAdd, ranks.size(), rank, memory.device_src(rank),
               memory.device_dst(rank));
}

// Submits kAdd on all ranks but `missing`.
void SubmitWithout(const Ranks& ranks, const RankMemory& memory,
                   size_t missing) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (r == missing) continue;
    ranks.table().t().Require(ranks.Submit(r, AddOf(ranks, memory, r)),
                              "all_reduce");
  }
}

// Expects that the streams of these ranks complete, and that later work on
// them does.
void StreamsGoOn(const Ranks& ranks, const RankMemory& memory,
                 const std::vector<size_t>& which, std::string_view after) {
  Test& t = ranks.table().t();
  for (const size_t r : which) {
    const RawStream& s = ranks.stream(r);
    const std::string what =
        absl::StrCat("the stream of rank ", r, " completes after ",
                     absl::string_view(after.data(), after.size()));
    t.Require(t.Eventually([&] { return s.Query(); }), what);
    s.Fill(memory.device_src(r), 3, 8);
    s.Copy(memory.src(r), memory.device_src(r), 8, DEVRT_COPY_D2H);
    s.Sync();
    t.Expect(memory.src(r)[7] == 3, "other work of the stream goes on");
  }
}

std::vector<size_t> AllBut(size_t count, size_t missing) {
  std::vector<size_t> all;
  for (size_t r = 0; r < count; ++r) {
    if (r != missing) all.push_back(r);
  }
  return all;
}

void NeedAbort(const CollectiveTable& table) {
  table.Need(DEVRT_COLLECTIVES_STREAM_ORDERED, "STREAM_ORDERED");
  table.Need(DEVRT_COLLECTIVES_ABORT, "ABORT");
}

// ---- ranks that end

// A rank ends without coming to an operation: `end` ends it.
void RankEnds(Test& t, bool destroys) {
  const CollectiveTable table(t);
  NeedAbort(table);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  const RankMemory memory(t, devices);
  Ranks ranks(table, devices);
  const size_t gone = ranks.size() - 1;
  if (!RunJob(ranks, memory, kAdd)) return;
  SubmitWithout(ranks, memory, gone);
  if (destroys) {
    ranks.Destroy(gone);
  } else {
    t.Ok(table.Call<&Table::comm_abort>(ranks.comm(gone)), "comm_abort");
  }
  for (const size_t r : AllBut(ranks.size(), gone)) {
    t.Ok(table.Call<&Table::comm_abort>(ranks.comm(r)), "comm_abort");
  }
  StreamsGoOn(ranks, memory, AllBut(ranks.size(), gone), "an abort");
}
void RankIsDestroyed(Test& t) { RankEnds(t, true); }
void RankAborts(Test& t) { RankEnds(t, false); }

void Deadline(Test& t) {
  const CollectiveTable table(t);
  NeedAbort(table);
  table.Need(DEVRT_COLLECTIVES_OWN_DEADLINES, "OWN_DEADLINES");
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  constexpr uint64_t kTimeout = 1'000'000;
  t.InEverySchedule([&] {
    const RankMemory memory(t, devices);
    const Ranks ranks(table, devices, kTimeout);
    const size_t gone = ranks.size() - 1;
    if (!RunJob(ranks, memory, kAdd)) return;
    SubmitWithout(ranks, memory, gone);
    // The engine's clock may run only while the host waits.
    for (const size_t r : AllBut(ranks.size(), gone)) ranks.stream(r).Sync();
    StreamsGoOn(ranks, memory, AllBut(ranks.size(), gone), "the timeout");
    for (size_t r = 0; r < ranks.size(); ++r) {
      ranks.HasFailed(r, DEVRT_DEADLINE_EXCEEDED,
                      "a timeout fails the communicator on every rank");
      t.Code(ranks.Submit(r, AddOf(ranks, memory, r)), DEVRT_ABORTED,
             "a submission after a failure");
    }
  });
}

// Some thread aborts what the host waits for.
void AbortFromAnotherThread(Test& t) {
  const CollectiveTable table(t);
  NeedAbort(table);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  const RankMemory memory(t, devices);
  const Ranks ranks(table, devices);
  SubmitWithout(ranks, memory, 0);
  Threads threads;
  threads.Start([&] {
    for (size_t r = 0; r < ranks.size(); ++r) {
      t.Ok(table.Call<&Table::comm_abort>(ranks.comm(r)), "comm_abort");
      t.Ok(table.Call<&Table::comm_abort>(ranks.comm(r)),
           "a second comm_abort");
    }
  });
  StreamsGoOn(ranks, memory, AllBut(ranks.size(), 0), "an abort");
  threads.Join();
  for (size_t r = 0; r < ranks.size(); ++r) {
    ranks.HasFailed(r, DEVRT_ABORTED, "a communicator that was aborted");
    t.Code(ranks.Submit(r, AddOf(ranks, memory, r)), DEVRT_ABORTED,
           "a submission after an abort");
  }
  const Ranks fresh(table, devices);
  RunJob(fresh, memory, kAdd);
}

void AbortOfFour(Test& t) {
  const CollectiveTable table(t);
  NeedAbort(table);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  const RankMemory memory(t, devices);
  std::vector<std::unique_ptr<Ranks>> comms;
  for (int c = 0; c < 4; ++c) {
    comms.push_back(std::make_unique<Ranks>(table, devices));
    SubmitWithout(*comms.back(), memory, 0);
  }
  for (const auto& ranks : comms) {
    for (size_t r = 0; r < ranks->size(); ++r) {
      t.Ok(table.Call<&Table::comm_abort>(ranks->comm(r)), "comm_abort");
    }
  }
  for (const auto& ranks : comms) {
    StreamsGoOn(*ranks, memory, AllBut(ranks->size(), 0), "four aborts");
  }
  comms.clear();
  const Ranks fresh(table, devices);
  RunJob(fresh, memory, kAdd);
}

void ShrinkAfterADeath(Test& t) {
  const CollectiveTable table(t);
  NeedAbort(table);
  table.Need(DEVRT_COLLECTIVES_SHRINK, "SHRINK");
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  if (devices.size() < 3) t.Skip("it needs three ranks");
  const RankMemory memory(t, devices);
  Ranks ranks(table, devices);
  const size_t gone = 1;
  SubmitWithout(ranks, memory, gone);
  ranks.Destroy(gone);
  std::vector<devrt_comm> comms;
  std::vector<uint32_t> their_devices;
  const auto gone_rank = static_cast<uint32_t>(gone);
  for (const size_t r : AllBut(ranks.size(), gone)) {
    comms.push_back(nullptr);
    their_devices.push_back(devices[r]);
    t.Require(table.Call<&Table::comm_shrink>(ranks.comm(r), &gone_rank, 1u, 1u,
                                              &comms.back()),
              "comm_shrink");
  }
  StreamsGoOn(ranks, memory, AllBut(ranks.size(), gone), "comm_shrink");
  const RankMemory own(t, their_devices);
  const Ranks rest(table, their_devices, comms);
  Job job = kAdd;
  if (!RunJob(rest, own, job)) return;
  job.op = DEVRT_COLLECTIVE_ALL_GATHER;
  if (!RunJob(rest, own, job)) return;
  t.Code(ranks.Submit(0, AddOf(ranks, memory, 0)), DEVRT_ABORTED,
         "a submission to what comm_shrink has aborted");
}

// ---- operations that differ

void Mismatch(Test& t) {
  const CollectiveTable table(t);
  NeedAbort(table);
  table.Need(DEVRT_COLLECTIVES_COMPARES, "COMPARES");
  const std::vector<uint32_t> devices = table.Devices(3);
  const RankMemory memory(t, devices);
  struct Case {
    const char* what;
    Job usual, other;
  };
  const Job broadcast = {
      DEVRT_COLLECTIVE_BROADCAST, DEVRT_INT32, 0, 0, 8, false};
  std::vector<Case> cases = {
      {"operations", kAdd, kAdd},      {"dtypes", kAdd, kAdd},
      {"counts", kAdd, kAdd},          {"reductions", kAdd, kAdd},
      {"roots", broadcast, broadcast},
  };
  cases[0].other = broadcast;
  cases[1].other.dtype = DEVRT_INT16;
  cases[2].other.count = 4;
  cases[3].other.reduction = DEVRT_COLLECTIVE_MAX;
  cases[4].other.root = 1;
  for (const Case& c : cases) {
    const Ranks ranks(table, devices);
    const size_t n = ranks.size();
    for (size_t r = 0; r < n; ++r) {
      const Job& job = r + 1 == n ? c.other : c.usual;
      t.Require(ranks.Submit(r, OpsOf(job, n, r, memory.device_src(r),
                                      memory.device_dst(r))),
                TextOf(job));
    }
    StreamsGoOn(ranks, memory, AllBut(n, n), "a mismatch");
    for (size_t r = 0; r < n; ++r) {
      ranks.HasFailed(r, DEVRT_INVALID_ARGUMENT,
                      absl::StrCat("ranks with different ", c.what));
    }
  }
}

constexpr TestCase kTests[] = {
    {"collectives.rank_is_destroyed", "K-C10",
     "The operations that wait for a rank which is destroyed end by aborts.",
     &RankIsDestroyed},
    {"collectives.rank_aborts", "K-C10",
     "The operations that wait for a rank which aborts end by aborts.",
     &RankAborts},
    {"collectives.deadline", "K-C10",
     "A rank that does not come fails the communicator on every rank when the "
     "engine's timeout has passed.",
     &Deadline},
    {"collectives.abort_from_another_thread", "K-C11",
     "comm_abort ends what waits, from any thread and twice, and a new "
     "communicator works after it.",
     &AbortFromAnotherThread},
    {"collectives.abort_of_four", "K-C11",
     "Four communicators of one device can be aborted, one after another.",
     &AbortOfFour},
    {"collectives.shrink_after_a_death", "K-C13",
     "comm_shrink ends what waits for a rank that is gone, and the others go "
     "on without it.",
     &ShrinkAfterADeath},
    {"collectives.mismatch", "K-C14",
     "Operations that differ fail the communicator on every rank.", &Mismatch},
};

}  // namespace
}  // namespace collectives_failure_tests

absl::Span<const TestCase> CollectivesFailureTests() {
  return collectives_failure_tests::kTests;
}

}  // namespace devrt::cts
