// SPDX-License-Identifier: Apache-2.0
//
// Jobs of processes, one for each rank, of which one is killed at a point.  The
// others return within their timeout and a second, and their errors and the
// report name the rank, its call and the line (K-C10, K-C15).
//
//   KilledPlan plan;
//   plan.ranks = 3;
//   KillAtEachPoint(plan, /*together=*/10);
//
// A point is a place in what a rank does, or a time behind that place.
//
// Threads: the main thread of each process.  The processes of the ranks begin
// as copies of the test's process, which may have used no device before.

#ifndef DEVRT_TESTS_COLLECTIVES_KILLED_JOB_H_
#define DEVRT_TESTS_COLLECTIVES_KILLED_JOB_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace devrt::testing {

struct KilledPlan {
  int ranks = 2;
  int calls = 20;  // of each rank
  // Each in a job of its own.
  int first_point = 1, last_point = 100;
  // The first points, where the killed rank may have no call in its record.
  int points_without_a_call = 0;
  std::string provider;
  std::function<std::string(int rank)> device;  // "cuda:1"
  bool shared_device = false;                   // several ranks have one
  // In the process of each rank, before all else.
  std::function<absl::Status()> prepare = [] { return absl::OkStatus(); };
  absl::Duration init_timeout, timeout;
  // Points of Create and of each call: times behind their beginnings.
  std::vector<absl::Duration> in_create = {absl::ZeroDuration()};
  std::vector<absl::Duration> in_call = {absl::ZeroDuration()};
};

// Runs the job once for each point, `together` jobs at a time.  Fails the test
// where a survivor does not return in time, or names the wrong rank or line.
void KillAtEachPoint(const KilledPlan& plan, int together);

// ---- In the process of a rank -----------------------------------------------

// What the processes of one job share.
struct KilledJob {
  static constexpr int kMaxRanks = 4;
  static constexpr int kElements = 8;  // int32

  pthread_barrier_t start;
  std::atomic<int> begun;  // ranks, in an engine of the test
  struct Rank {
    // In an engine of the test: the operations that the rank came to, and the
    // inputs of the newest two.
    std::atomic<uint64_t> arrived;
    int32_t input[2][kElements];
    // How the rank ended, if it was not killed.
    int code;
    double call_begin, call_end;  // of the call that failed, in seconds
    char text[2048];
    int line;  // of its newest call
  } ranks[kMaxRanks];
  double killed_at;
};
KilledJob& JobOfThisRank();
int ThisRank();

// If this is the point of the process, the process is killed: here, or in
// `after`, while it goes on.
void Point(absl::Duration after = absl::ZeroDuration());

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_COLLECTIVES_KILLED_JOB_H_
