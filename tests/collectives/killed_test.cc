// SPDX-License-Identifier: Apache-2.0
//
// K-C10 and K-C15 across processes: a rank is killed at each of 100 points of a
// job of three processes (killed_job.h).
//
// The engine is one of this test, in memory that the processes share.
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "devrt/collectives/host_engine.h"
#include "tests/collectives/collectives_fixture.h"
#include "tests/collectives/killed_job.h"

namespace devrt::testing {
namespace {

using collectives::HostCommunicator;
using collectives::HostEngine;
using collectives::HostPlace;

constexpr int kProcesses = 3;

absl::Span<const KilledJob::Rank> Ranks() {
  return {JobOfThisRank().ranks, kProcesses};
}

class SharedCommunicator final : public HostCommunicator {
 public:
  HostPlace place() const override {
    return {static_cast<uint32_t>(ThisRank()), kProcesses};
  }
  absl::StatusOr<bool> IsReady() override {
    if (!std::exchange(was_asked_, true)) Point();
    return JobOfThisRank().begun.load() == kProcesses;
  }
  absl::Status Start(const devrt_collective_v0& op) override {
    Point();
    KilledJob::Rank& mine = JobOfThisRank().ranks[ThisRank()];
    std::memcpy(mine.input[started_ % 2], op.src, sizeof mine.input[0]);
    dst_ = op.dst;
    mine.arrived.store(++started_);
    Point();
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Test() override {
    if (dst_ == nullptr) return true;
    for (const KilledJob::Rank& rank : Ranks()) {
      if (rank.arrived.load() < started_) return false;
    }
    int32_t sums[KilledJob::kElements] = {};
    for (const KilledJob::Rank& rank : Ranks()) {
      for (size_t i = 0; i < KilledJob::kElements; ++i) {
        sums[i] += rank.input[(started_ - 1) % 2][i];
      }
    }
    std::memcpy(dst_, sums, sizeof sums);
    dst_ = nullptr;
    Point();
    return true;
  }
  absl::StatusOr<std::unique_ptr<HostCommunicator>> Split(int, int) override {
    return absl::UnimplementedError("this engine splits nothing");
  }

 private:
  bool was_asked_ = false;
  uint64_t started_ = 0;
  void* dst_ = nullptr;
};

class SharedEngine final : public HostEngine {
 public:
  std::string name() const override { return "shared"; }
  std::string version() const override { return "1"; }
  bool Supports(uint32_t op, uint32_t dtype, uint32_t) const override {
    return op == DEVRT_COLLECTIVE_ALL_REDUCE && dtype == DEVRT_INT32;
  }
  absl::StatusOr<std::unique_ptr<HostCommunicator>> Begin(uint32_t,
                                                          uint32_t) override {
    Point();
    ++JobOfThisRank().begun;
    return std::make_unique<SharedCommunicator>();
  }
};

// Five points of each call: two in Calls of killed_job.cc, three in the engine.
TEST(KilledRank, AtEachOfAHundredPoints) {
  KilledPlan plan;
  plan.ranks = kProcesses;
  plan.points_without_a_call = 4;
  plan.provider = "shared";
  plan.device = [](int) { return "mtia:0"; };
  plan.prepare = [] {
    return collectives::RegisterEngine(std::make_unique<SharedEngine>());
  };
  plan.init_timeout = plan.timeout = absl::Milliseconds(300);
  KillAtEachPoint(plan, /*together=*/10);
}

}  // namespace
}  // namespace devrt::testing
