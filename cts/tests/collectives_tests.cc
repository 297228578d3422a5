// SPDX-License-Identifier: Apache-2.0
//
// devrt.collectives/0: results.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/collective_jobs.h"
#include "cts/held_stream.h"
#include "cts/tensors.h"

namespace devrt::cts {
namespace collectives_tests {
namespace {

constexpr uint32_t kRanks = 4;

// Runs `job` with each rank as the root, if it has one.
bool RunWithRoots(const Ranks& ranks, const RankMemory& memory, Job job) {
  const bool has_root = job.root != 0;
  for (size_t root = 0; root < (has_root ? ranks.size() : 1); ++root) {
    job.root = static_cast<int32_t>(root);
    if (!RunJob(ranks, memory, job)) return false;
  }
  return true;
}

void EveryOperation(Test& t) {
  const CollectiveTable table(t);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  const RankMemory memory(t, devices);
  const Ranks ranks(table, devices);
  for (const uint32_t dtype : Dtypes()) {
    for (const Job& job : JobsOf(table, dtype, 9)) {
      if (!RunWithRoots(ranks, memory, job)) return;
    }
  }
  // What does not exist is not supported.
  t.Expect(!table.Supports(DEVRT_COLLECTIVE_COUNT, DEVRT_INT32, 0) &&
               !table.Supports(DEVRT_COLLECTIVE_ALL_REDUCE, 0xffff, 0) &&
               !table.Supports(DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_INT32, 99),
           "supports says no to what does not exist");
}

void OneRank(Test& t) {
  const CollectiveTable table(t);
  const std::vector<uint32_t> devices = {t.device()};
  const RankMemory memory(t, devices);
  const Ranks ranks(table, devices);
  for (Job job : JobsOf(table, DEVRT_INT32, 5)) {
    job.root = 0;
    if (!RunJob(ranks, memory, job)) return;
  }
}

void InPlace(Test& t) {
  const CollectiveTable table(t);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  const RankMemory memory(t, devices);
  const Ranks ranks(table, devices);
  for (Job job : JobsOf(table, DEVRT_INT32, 9)) {
    if (job.op == DEVRT_COLLECTIVE_SEND) continue;
    job.in_place = true;
    if (!RunWithRoots(ranks, memory, job)) return;
  }
}

void EveryCount(Test& t) {
  const CollectiveTable table(t);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  const RankMemory memory(t, devices);
  const Ranks ranks(table, devices);
  for (const uint64_t count : {0, 1, 3, 63, 257, 1021, 2039}) {
    for (const Job& job : JobsOf(table, DEVRT_INT16, count)) {
      if (!RunJob(ranks, memory, job)) return;
    }
  }
}

// The operation of one rank that is late holds the others.
void ZeroElementsMeet(Test& t) {
  const CollectiveTable table(t);
  table.Need(DEVRT_COLLECTIVES_STREAM_ORDERED, "STREAM_ORDERED");
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  t.InEverySchedule([&] {
    const Ranks ranks(table, devices);
    const Job job = {DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_INT32, 0, 0, 0, false};
    HeldStream held(t, ranks.stream(0));
    for (size_t r = 0; r < ranks.size(); ++r) {
      t.Require(ranks.Submit(r, OpsOf(job, ranks.size(), r, nullptr, nullptr)),
                "an all_reduce of no elements");
    }
    held.Blocks(ranks.stream(1),
                "an operation of no elements waits for the other ranks");
    held.Open();
    ranks.Sync();
  });
}

// ---- random programs

// Rounds of one job each, on what the rounds before have left in the ranks'
// memory.  Ranks are in random host order, and operations in random groups.
class Program {
 public:
  Program(const Ranks& ranks, const RankMemory& memory,
          const std::vector<Job>& jobs)
      : t_(ranks.table().t()), ranks_(ranks), memory_(memory), jobs_(jobs) {}

  bool Run() {
    const size_t n = ranks_.size();
    count_ = Number(0, 9) == 0 ? 0 : static_cast<uint64_t>(Number(1, 9));
    size_ = n * count_ * sizeof(int32_t);
    state_.assign(n, Bytes(size_));
    for (size_t r = 0; r < n; ++r) {
      for (size_t i = 0; i < size_; i += sizeof(int32_t)) {
        RandomSmall(t_.random(), DEVRT_INT32, &state_[r][i]);
      }
      std::copy(state_[r].begin(), state_[r].end(), memory_.src(r));
      if (size_ != 0) memory_.Upload(ranks_, r, size_);
    }
    const int rounds = Number(1, 8);
    for (int round = 0; round < rounds; ++round) {
      if (!Round()) return false;
    }
    for (size_t r = 0; r < n; ++r) {
      if (size_ != 0) memory_.Download(ranks_, r, size_);
    }
    ranks_.Sync();
    for (size_t r = 0; r < n; ++r) {
      if (!std::equal(state_[r].begin(), state_[r].end(), memory_.src(r))) {
        t_.Fail(absl::StrCat("rank ", r, " of ", n, " is wrong after ", log_));
        return false;
      }
    }
    return true;
  }

 private:
  int Number(int least, int most) { return Uniform(t_.random(), least, most); }

  // From src to dst, and then back to src; or in place.
  bool Round() {
    const size_t n = ranks_.size();
    Job job = jobs_[static_cast<size_t>(
        Number(0, static_cast<int>(jobs_.size()) - 1))];
    job.count = count_;
    job.in_place = job.op != DEVRT_COLLECTIVE_SEND && Number(0, 1) == 0;
    if (job.root != 0) job.root = Number(0, static_cast<int>(n) - 1);
    absl::StrAppend(&log_, log_.empty() ? "" : ", ", TextOf(job));
    std::vector<Bytes> sources;
    for (size_t r = 0; r < n; ++r) {
      const auto from =
          state_[r].begin() +
          static_cast<ptrdiff_t>(job.in_place ? SourceOffset(job, r) : 0);
      sources.emplace_back(
          from, from + static_cast<ptrdiff_t>(SourceSize(job, n, r)));
    }
    if (!Submit(job)) return false;
    for (size_t r = 0; r < n; ++r) {
      const Bytes result = Expected(job, sources, r);
      const uint64_t at = job.in_place ? ResultOffset(job, r) : 0;
      std::copy(result.begin(), result.end(),
                state_[r].begin() + static_cast<ptrdiff_t>(at));
      if (job.in_place || result.empty()) continue;
      ranks_.stream(r).Copy(memory_.device_src(r), memory_.device_dst(r),
                            result.size(), DEVRT_COPY_D2D);
    }
    return true;
  }

  CollectiveOps Ops(const Job& job, size_t rank) const {
    uint8_t* const src = memory_.device_src(rank);
    return OpsOf(job, ranks_.size(), rank,
                 src + (job.in_place ? SourceOffset(job, rank) : 0),
                 job.in_place ? src + ResultOffset(job, rank)
                              : memory_.device_dst(rank));
  }

  bool Submit(const Job& job) {
    const size_t n = ranks_.size();
    if (!ranks_.table().Has(DEVRT_COLLECTIVES_STREAM_ORDERED) ||
        Number(0, 1) == 0) {
      std::vector<CollectiveOps> all;
      for (size_t r = 0; r < n; ++r) all.push_back(Ops(job, r));
      return t_.Ok(ranks_.SubmitAll(all), TextOf(job));
    }
    std::vector<size_t> order(n);
    for (size_t r = 0; r < n; ++r) order[r] = r;
    std::shuffle(order.begin(), order.end(), t_.random());
    for (const size_t r : order) {
      if (!t_.Ok(ranks_.Submit(r, Ops(job, r)), TextOf(job))) return false;
    }
    return true;
  }

  Test& t_;
  const Ranks& ranks_;
  const RankMemory& memory_;
  const std::vector<Job>& jobs_;
  uint64_t count_ = 0;  // elements of a part
  uint64_t size_ = 0;   // bytes of each rank's memory
  std::vector<Bytes> state_;
  std::string log_;
};

void RandomPrograms(Test& t) {
  const CollectiveTable table(t);
  const int programs = std::max(1, t.programs() / 10);
  for (int i = 0; i < programs; ++i) {
    const std::string schedule = absl::StrCat(
        "strategy=random,seed=", t.seed() + static_cast<uint64_t>(i));
    if (t.machine().IsVirtual()) {
      t.Require(t.machine().Reset(schedule), "reset of the simulator");
    }
    const auto most = static_cast<size_t>(Uniform(t.random(), 2, 16));
    const std::vector<uint32_t> devices = table.Devices(most);
    const RankMemory memory(t, devices);
    const Ranks ranks(table, devices);
    const std::vector<Job> jobs = JobsOf(table, DEVRT_INT32, 1);
    if (jobs.empty()) t.Skip("there is no operation for int32");
    if (Program(ranks, memory, jobs).Run()) continue;
    t.Fail(absl::StrCat("program ", i, " of seed ", t.seed()));
    break;
  }
  if (t.machine().IsVirtual()) {
    t.Require(t.machine().Reset(""), "reset of the simulator");
  }
}

constexpr TestCase kTests[] = {
    {"collectives.every_operation", "K-C1",
     "Each operation, dtype and reduction that supports says yes to has the "
     "result of a loop over the ranks.",
     &EveryOperation},
    {"collectives.one_rank", "K-C1",
     "A communicator of one rank has the results of a loop over one.",
     &OneRank},
    {"collectives.in_place", "K-C2",
     "An operation in place has the result of one that is not.", &InPlace},
    {"collectives.every_count", "K-C2",
     "An operation works for no elements, for one, and for odd counts.",
     &EveryCount},
    {"collectives.zero_elements_meet", "K-C2",
     "An operation of no elements meets those of the other ranks.",
     &ZeroElementsMeet, 0, kNeedsGate},
    {"collectives.random_programs", "K-C19",
     "Random programs of 2 to 16 ranks have the results of a reference.",
     &RandomPrograms, 0, kSlow},
};

}  // namespace
}  // namespace collectives_tests

absl::Span<const TestCase> CollectivesTests() {
  return collectives_tests::kTests;
}

}  // namespace devrt::cts
