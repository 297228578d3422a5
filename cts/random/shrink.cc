// SPDX-License-Identifier: Apache-2.0
#include "cts/random/shrink.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace devrt::cts {
namespace {

class Shrinker {
 public:
  Shrinker(Program failing, const Limits& limits,
           const std::function<bool(const Program&)>& fails,
           const std::function<bool()>& out_of_time)
      : best_(std::move(failing)),
        limits_(limits),
        fails_(fails),
        out_of_time_(out_of_time) {}

  Program Run() {
    // Renumbered like the smaller programs, so that reports are alike.
    Try(best_);
    for (size_t before = SIZE_MAX;
         best_.steps.size() < before && !out_of_time_();) {
      before = best_.steps.size();
      OneThread();
      LeaveOutAll();
      Simplify();
    }
    return std::move(best_);
  }

 private:
  // True if the program still fails; it is the best one then.
  bool Try(const Program& candidate) {
    if (out_of_time_()) return false;
    Program repaired = Compact(Repaired(candidate, limits_), limits_);
    if (repaired.steps.empty() || !fails_(repaired)) return false;
    best_ = std::move(repaired);
    return true;
  }

  // The algorithm ddmin: leaves out smaller and smaller pieces.
  void LeaveOutAll() {
    for (size_t piece = best_.steps.size() / 2; piece > 0; piece /= 2) {
      // From the end, because the last reads are mostly not needed.
      for (size_t end = best_.steps.size(); end > 0 && !out_of_time_();) {
        const size_t begin = end > piece ? end - piece : 0;
        Program candidate = best_;
        const auto at = candidate.steps.begin();
        candidate.steps.erase(at + static_cast<std::ptrdiff_t>(begin),
                              at + static_cast<std::ptrdiff_t>(end));
        // Steps that depended on the piece are gone, too.
        end = Try(candidate) ? std::min(begin, best_.steps.size()) : begin;
      }
    }
  }

  void OneThread() {
    Program candidate = best_;
    candidate.concurrent = false;
    candidate.threads = 1;
    for (StreamInfo& stream : candidate.streams) {
      // Per-thread streams of other threads become ordinary ones.
      if (stream.kind != StreamKind::kPerThread || stream.thread == 0) continue;
      stream.kind = StreamKind::kBlocking;
      stream.thread = 0;
    }
    std::vector<Step> made;
    for (size_t i = 0; i < candidate.streams.size(); ++i) {
      if (best_.streams[i].IsCreated() == candidate.streams[i].IsCreated()) {
        continue;
      }
      Step step;
      step.act = Act::kNewStream;
      step.stream = static_cast<int>(i);
      made.push_back(step);
    }
    for (Step& step : candidate.steps) step.thread = 0;
    candidate.steps.insert(candidate.steps.begin(), made.begin(), made.end());
    if (best_.threads > 1) Try(candidate);
  }

  // Replaces steps and objects by simpler ones.
  void Simplify() {
    for (size_t i = 0; i < best_.steps.size() && !out_of_time_(); ++i) {
      const Step& step = best_.steps[i];
      if (step.blocking) {
        Program candidate = best_;
        candidate.steps[i].blocking = false;
        Try(candidate);
      }
      if (i < best_.steps.size() && best_.steps[i].src.block >= 0 &&
          (best_.steps[i].act == Act::kQueryEvent ||
           best_.steps[i].act == Act::kQueryStream)) {
        Program candidate = best_;
        candidate.steps[i].src = {};
        Try(candidate);
      }
    }
    for (size_t i = 0; i < best_.streams.size() && !out_of_time_(); ++i) {
      if (!best_.streams[i].native) continue;
      Program candidate = best_;
      candidate.streams[i].native = false;
      Try(candidate);
    }
  }

  Program best_;
  const Limits limits_;
  const std::function<bool(const Program&)>& fails_;
  const std::function<bool()>& out_of_time_;
};

// New numbers of the objects in use, by first use; -1 if not used.
class Numbers {
 public:
  explicit Numbers(size_t count) : to_(count, -1) {}
  void Use(int i) {
    if (i < 0 || to_[static_cast<size_t>(i)] >= 0) return;
    to_[static_cast<size_t>(i)] = static_cast<int>(from_.size());
    from_.push_back(i);
  }
  void Renumber(int* i) const {
    if (*i >= 0) *i = to_[static_cast<size_t>(*i)];
  }
  template <typename T>
  std::vector<T> Kept(const std::vector<T>& table) const {
    std::vector<T> kept;
    for (const int i : from_) kept.push_back(table[static_cast<size_t>(i)]);
    return kept;
  }
  int count() const { return static_cast<int>(from_.size()); }

 private:
  std::vector<int> to_;
  std::vector<int> from_;
};

// Calls the functions for each stream, event, block and gate of the step.
template <typename S, typename Stream, typename Event, typename Block,
          typename Gate>
void ForEachNumber(S& step, Stream stream, Event event, Block block,
                   Gate gate) {
  stream(step.stream);
  event(step.event);
  if (step.act == Act::kWaitStream) stream(step.other);
  if (step.act == Act::kElapsed) event(step.other);
  block(step.src.block);
  block(step.dst.block);
  gate(step.gate);
}

}  // namespace

Program Compact(const Program& program, const Limits& limits) {
  Program out = program;
  Numbers streams(out.streams.size()), events(out.events.size());
  Numbers blocks(out.blocks.size()), gates(out.gates.size());
  // The model needs the default stream of each device.
  for (size_t i = 0; i < out.streams.size(); ++i) {
    if (out.streams[i].kind == StreamKind::kDefault) {
      streams.Use(static_cast<int>(i));
    }
  }
  for (const Step& step : out.steps) {
    ForEachNumber(
        step, [&](int i) { streams.Use(i); }, [&](int i) { events.Use(i); },
        [&](int i) { blocks.Use(i); }, [&](int i) { gates.Use(i); });
  }
  for (Step& step : out.steps) {
    ForEachNumber(
        step, [&](int& i) { streams.Renumber(&i); },
        [&](int& i) { events.Renumber(&i); },
        [&](int& i) { blocks.Renumber(&i); },
        [&](int& i) { gates.Renumber(&i); });
  }
  out.streams = streams.Kept(out.streams);
  out.events = events.Kept(out.events);
  out.blocks = blocks.Kept(out.blocks);
  out.gates = gates.Kept(out.gates);
  return Repaired(out, limits);
}

Program Shrink(const Program& failing, const Limits& limits,
               const std::function<bool(const Program&)>& fails,
               const std::function<bool()>& out_of_time) {
  return Shrinker(failing, limits, fails, out_of_time).Run();
}

}  // namespace devrt::cts
