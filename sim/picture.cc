// SPDX-License-Identifier: Apache-2.0
//
// The picture of a failing and a passing run.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sim/compare.h"
#include "sim/coverage.h"
#include "tools/timeline/simulated.h"
#include "tools/timeline/timeline.h"

namespace devrt::sim {
namespace {

using tools::SimulatedStream;
using tools::Timeline;
using tools::TimelineArrow;
using tools::TimelineOp;

std::vector<SimulatedStream> StreamsOf(const std::vector<SimulatedOp>& ops,
                                       const std::string& run) {
  std::set<std::pair<uint32_t, uint64_t>> seen;
  for (const SimulatedOp& op : ops) {
    seen.emplace(op.device, tools::StreamId(op));
  }
  std::vector<SimulatedStream> streams;
  for (const auto& [device, id] : seen) {
    streams.push_back(
        {device,
         id,
         {absl::StrCat(run, ", mtia:", device),
          id == 0 ? "default stream" : absl::StrCat("stream ", id)}});
  }
  return streams;
}

// The timeline of what has run; (*index)[i] is the place of operations[i].
Timeline TimelineOf(const Run& run, const std::string& name,
                    std::vector<size_t>* index) {
  std::vector<SimulatedOp> work;
  for (const SimulatedOp& op : run.operations) {
    index->push_back(work.size());
    if (tools::HasRun(op)) work.push_back(op);
  }
  return tools::SimulatedTimeline(work, StreamsOf(work, name));
}

void Append(Timeline more, Timeline* all) {
  const size_t rows = all->rows.size(), ops = all->ops.size();
  all->rows.insert(all->rows.end(), more.rows.begin(), more.rows.end());
  for (TimelineOp& op : more.ops) {
    op.row += rows;
    if (op.previous.has_value()) *op.previous += ops;
    for (size_t& wait : op.waits) wait += ops;
    all->ops.push_back(std::move(op));
  }
}

}  // namespace

std::string PictureOf(const Run& failing, const Run& passing) {
  std::vector<size_t> index, unused;
  Timeline timeline = TimelineOf(failing, "failing", &index);
  timeline.title = "A failing and a passing run";
  for (const TurnedPair& pair : TurnedPairs(failing, passing)) {
    TimelineArrow arrow;
    arrow.from = index[pair.second];
    arrow.to = index[pair.first];
    arrow.kind = TimelineArrow::Kind::kMissing;
    arrow.tip = absl::StrCat(NameOf(failing.operations[pair.second]),
                             " comes first in the passing run");
    timeline.arrows.push_back(std::move(arrow));
  }
  if (!passing.operations.empty()) {
    Append(TimelineOf(passing, "passing", &unused), &timeline);
  }
  return tools::SvgTimeline(timeline);
}

}  // namespace devrt::sim
