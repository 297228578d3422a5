// SPDX-License-Identifier: Apache-2.0
#include "sim/coverage.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace devrt::sim {
namespace {

// A run with more operations counts as a trace of its own, since the pairs
// grow with the square.
constexpr size_t kMostOperations = 512;
constexpr size_t kMostPairs = 10'000;  // that are kept

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9fb21c651e98df25u;
  return hash ^ (hash >> 32);
}

// Stable over schedules: the thread, and the number of the operation there.
std::vector<uint64_t> Identities(const std::vector<SimulatedOp>& operations) {
  std::vector<uint64_t> ids;
  ids.reserve(operations.size());
  for (const SimulatedOp& op : operations) {
    const uint64_t number = op.index.value_or(UINT64_MAX);
    const uint64_t name = std::hash<std::string_view>()(op.name);
    ids.push_back(
        Mix(Mix(Mix(op.thread, number), name), static_cast<uint64_t>(op.line)));
  }
  return ids;
}

bool Overlap(const devrt_access_v0& a, const devrt_access_v0& b) {
  if (a.size == UINT64_MAX || b.size == UINT64_MAX) return true;
  const auto from = reinterpret_cast<uintptr_t>(a.ptr);
  const auto other = reinterpret_cast<uintptr_t>(b.ptr);
  return from < other + b.size && other < from + a.size;
}

// Accesses of `a` in mode `in` that conflict with those of `b` in mode `with`.
bool Conflict(const SimulatedOp& a, uint32_t in, const SimulatedOp& b,
              uint32_t with) {
  for (const devrt_access_v0& x : a.accesses) {
    if ((x.mode & in) == 0) continue;
    for (const devrt_access_v0& y : b.accesses) {
      if ((y.mode & with) == 0) continue;
      if ((x.mode & y.mode & DEVRT_ACCESS_REDUCE) != 0) continue;
      if (Overlap(x, y)) return true;
    }
  }
  return false;
}

bool Conflict(const SimulatedOp& a, const SimulatedOp& b) {
  constexpr uint32_t kRead = DEVRT_ACCESS_READ, kWrite = DEVRT_ACCESS_WRITE;
  return Conflict(a, kWrite, b, kRead | kWrite) ||
         Conflict(a, kRead, b, kWrite);
}

uint64_t ReadStep(const SimulatedOp& op) {
  return op.split ? op.begin_step : op.end_step;
}

bool HasRun(const SimulatedOp& op) {
  return op.end_step != 0 && (op.state == SimulatedOp::State::kDone ||
                              op.state == SimulatedOp::State::kFailed);
}

bool UsesHostMemory(const SimulatedOp& op) {
  return op.engine == SimulatedOp::Engine::kHostToDevice ||
         op.engine == SimulatedOp::Engine::kDeviceToHost ||
         op.engine == SimulatedOp::Engine::kHost;
}

// The conflicting pairs of a run, each of two streams.
template <typename Visit>
void VisitConflicts(const std::vector<SimulatedOp>& operations, Visit visit) {
  for (size_t j = 0; j < operations.size(); ++j) {
    if (!HasRun(operations[j]) || operations[j].accesses.empty()) continue;
    for (size_t i = 0; i < j; ++i) {
      const SimulatedOp& a = operations[i];
      const SimulatedOp& b = operations[j];
      if (a.stream == b.stream || !HasRun(a) || !Conflict(a, b)) continue;
      visit(i, j);
    }
  }
}

// The orders of the reads and writes of two operations, as a number.
uint64_t OrderOf(const SimulatedOp& a, const SimulatedOp& b) {
  return (ReadStep(a) < b.end_step ? 1u : 0u) |
         (a.end_step < ReadStep(b) ? 2u : 0u) |
         (a.end_step < b.end_step ? 4u : 0u);
}

// For each operation: the last operation of each stream that comes before it
// by the streams and waits of the program.
class Clocks {
 public:
  explicit Clocks(const std::vector<SimulatedOp>& operations) {
    std::map<uint64_t, std::map<uint64_t, size_t>> by_stream;
    clocks_.resize(operations.size());
    for (size_t i = 0; i < operations.size(); ++i) {
      const SimulatedOp& op = operations[i];
      auto& own = by_stream[op.stream];
      if (!own.empty()) Join(i, own.rbegin()->second);
      for (const auto& [stream, seq] : op.dependencies) {
        const auto other = by_stream.find(stream);
        if (other == by_stream.end()) continue;
        const auto last = other->second.upper_bound(seq);
        if (last != other->second.begin()) Join(i, std::prev(last)->second);
      }
      own[op.seq] = i;
      clocks_[i][op.stream] = op.seq;
    }
  }
  bool Before(const SimulatedOp& a, size_t b) const {
    const auto known = clocks_[b].find(a.stream);
    return known != clocks_[b].end() && known->second >= a.seq;
  }

 private:
  void Join(size_t to, size_t from) {
    for (const auto& [stream, seq] : clocks_[from]) {
      uint64_t& own = clocks_[to][stream];
      own = std::max(own, seq);
    }
  }
  std::vector<std::map<uint64_t, uint64_t>> clocks_;
};

}  // namespace

std::string NameOf(const SimulatedOp& op) {
  std::string name = absl::StrCat("\"", op.name, "\"");
  if (op.file.empty()) return name;
  const size_t folder = op.file.rfind('/');
  return absl::StrCat(name, " (",
                      op.file.substr(folder == op.file.npos ? 0 : folder + 1),
                      ":", op.line, ")");
}

uint64_t HashOfTrace(const Run& run) {
  const std::vector<SimulatedOp>& operations = run.operations;
  if (operations.size() > kMostOperations) return run.trace.hash;
  const std::vector<uint64_t> ids = Identities(operations);
  uint64_t sum = 0;
  std::vector<uint64_t> submissions;  // their steps, in order
  for (size_t i = 0; i < operations.size(); ++i) {
    submissions.push_back(operations[i].submit_step);
    sum += Mix(ids[i], static_cast<uint64_t>(operations[i].state));
  }
  const auto submitted_by = [&](uint64_t step) {
    return static_cast<uint64_t>(
        std::lower_bound(submissions.begin(), submissions.end(), step) -
        submissions.begin());
  };
  for (size_t i = 0; i < operations.size(); ++i) {
    const SimulatedOp& op = operations[i];
    if (!UsesHostMemory(op) || !HasRun(op)) continue;
    sum += Mix(Mix(ids[i], submitted_by(ReadStep(op)) + 1),
               submitted_by(op.end_step));
  }
  VisitConflicts(operations, [&](size_t i, size_t j) {
    sum += Mix(Mix(ids[i], ids[j]), OrderOf(operations[i], operations[j]) + 1);
  });
  return sum;
}

std::vector<TurnedPair> TurnedPairs(const Run& run, const Run& other) {
  std::vector<TurnedPair> pairs;
  if (std::max(run.operations.size(), other.operations.size()) >
      kMostOperations) {
    return pairs;
  }
  std::map<uint64_t, uint64_t> ends;  // in the other run
  const std::vector<uint64_t> others = Identities(other.operations);
  for (size_t i = 0; i < others.size(); ++i) {
    ends[others[i]] = other.operations[i].end_step;
  }
  const std::vector<uint64_t> ids = Identities(run.operations);
  VisitConflicts(run.operations, [&](size_t i, size_t j) {
    const uint64_t a = ends[ids[i]], b = ends[ids[j]];
    if (a == 0 || b == 0) return;
    const bool i_first =
        run.operations[i].end_step < run.operations[j].end_step;
    if (i_first == (a < b)) return;
    pairs.push_back(i_first ? TurnedPair{i, j} : TurnedPair{j, i});
  });
  return pairs;
}

void Coverage::Add(const Run& run) {
  ++schedules_;
  if (!traces_.insert(HashOfTrace(run)).second) return;
  if (run.operations.size() <= kMostOperations) AddPairs(run.operations);
}

void Coverage::AddPairs(const std::vector<SimulatedOp>& operations) {
  const std::vector<uint64_t> ids = Identities(operations);
  std::vector<std::pair<size_t, size_t>> conflicts;
  VisitConflicts(operations, [&](size_t i, size_t j) {
    // The host had submitted both before the first one ended.
    const uint64_t first =
        std::min(operations[i].end_step, operations[j].end_step);
    if (operations[j].submit_step < first) conflicts.emplace_back(i, j);
  });
  if (conflicts.empty()) return;
  const Clocks clocks(operations);
  for (const auto& [i, j] : conflicts) {
    const SimulatedOp& a = operations[i];
    const SimulatedOp& b = operations[j];
    if (clocks.Before(a, j)) continue;
    const uint64_t key = std::min(ids[i], ids[j]) ^ Mix(ids[i] + ids[j], 1);
    if (pairs_.size() >= kMostPairs && pairs_.count(key) == 0) continue;
    Pair& pair = pairs_[key];
    const bool a_first = a.end_step < b.end_step;
    if (pair.names.empty()) {
      pair.names = absl::StrCat(NameOf(a_first ? a : b), " before ",
                                NameOf(a_first ? b : a));
    }
    pair.orders[(ids[i] < ids[j]) == a_first ? 0 : 1] = true;
  }
}

void Coverage::Report(Result* result) const {
  result->schedules = schedules_;
  result->distinct = traces_.size();
  for (const auto& [key, pair] : pairs_) {
    if (pair.orders[0] && pair.orders[1]) {
      ++result->pairs_in_both_orders;
    } else {
      result->pairs_in_one_order.push_back(pair.names);
    }
  }
}

}  // namespace devrt::sim
