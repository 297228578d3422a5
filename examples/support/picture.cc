// SPDX-License-Identifier: Apache-2.0

#include "examples/support/picture.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "tools/common/terminal.h"

namespace example {
namespace {

using devrt::SimulatedOp;
using devrt::Simulator;
using devrt::tools::TimelineOp;

std::optional<Simulator> SimulatorOf(devrt::Device device) {
  absl::StatusOr<Simulator> found = Simulator::Get(device.backend());
  if (!found.ok()) return std::nullopt;
  return *found;
}

}  // namespace

absl::StatusOr<Picture> Picture::Begin(devrt::Device any, std::string title) {
  Picture picture;
  picture.title_ = std::move(title);
  picture.simulator_ = SimulatorOf(any);
  if (picture.simulator_) {
    DEVRT_RETURN_IF_ERROR(picture.simulator_->EnableTimeline(true));
  }
  return picture;
}

absl::Status Picture::Name(devrt::StreamRef stream, std::string name) {
  if (!simulator_) return absl::OkStatus();
  streams_.push_back({static_cast<uint32_t>(stream.device().index()),
                      stream.id(),
                      {std::string(stream.device().name()), std::move(name)}});
  return absl::OkStatus();
}

absl::Status Picture::Number(int number) {
  if (!simulator_) return absl::OkStatus();
  DEVRT_ASSIGN_OR_RETURN(const uint64_t now, simulator_->Now());
  numbers_.emplace_back(now, number);
  return absl::OkStatus();
}

// Streams that have no name prepare and check: they are left out.
bool Picture::IsDrawn(const SimulatedOp& op) const {
  return devrt::tools::HasRun(op) &&
         std::any_of(streams_.begin(), streams_.end(),
                     [&](const devrt::tools::SimulatedStream& stream) {
                       return stream.device == op.device &&
                              stream.id == devrt::tools::StreamId(op);
                     });
}

absl::Status Picture::Finish(const std::string& unit, const std::string& file) {
  if (!simulator_) return absl::OkStatus();
  DEVRT_ASSIGN_OR_RETURN(ops_, simulator_->Timeline());
  DEVRT_RETURN_IF_ERROR(simulator_->EnableTimeline(false));
  ops_.erase(std::remove_if(ops_.begin(), ops_.end(),
                            [&](const auto& op) { return !IsDrawn(op); }),
             ops_.end());
  timeline_ = devrt::tools::SimulatedTimeline(ops_, streams_);
  timeline_.title = title_;
  timeline_.unit = unit;
  for (size_t i = 0; i < ops_.size(); ++i) {
    TimelineOp& drawn = timeline_.ops[i];
    if (devrt::tools::IsMark(drawn.kind)) continue;
    drawn.name = timeline_.rows[drawn.row].name;
    for (const auto& [from, number] : numbers_) {
      if (ops_[i].submit_ns >= from) drawn.chunk = number;
    }
  }
  if (file.empty()) return absl::OkStatus();
  DEVRT_RETURN_IF_ERROR(
      devrt::tools::WriteFile(file, devrt::tools::SvgTimeline(timeline_)));
  std::printf("the timeline is drawn in %s\n",
              devrt::tools::AbsolutePath(file).c_str());
  return absl::OkStatus();
}

std::optional<double> Picture::Hidden(Kind kind, Kind behind) const {
  if (!simulator_) return std::nullopt;
  uint64_t all = 0;
  uint64_t hidden = 0;
  for (const SimulatedOp& op : ops_) {
    if (op.engine != kind) continue;
    all += op.end_ns - op.begin_ns;
    std::vector<std::pair<uint64_t, uint64_t>> parts;
    for (const SimulatedOp& other : ops_) {
      if (other.engine != behind || other.device != op.device) continue;
      const uint64_t begin = std::max(op.begin_ns, other.begin_ns);
      const uint64_t end = std::min(op.end_ns, other.end_ns);
      if (begin < end) parts.emplace_back(begin, end);
    }
    std::sort(parts.begin(), parts.end());
    uint64_t covered = op.begin_ns;
    for (const auto& [begin, end] : parts) {
      if (end <= covered) continue;
      hidden += end - std::max(begin, covered);
      covered = end;
    }
  }
  return all == 0 ? 0 : static_cast<double>(hidden) / static_cast<double>(all);
}

std::optional<double> Picture::AtATime() const {
  if (ops_.empty()) return std::nullopt;
  return timeline_.overlap();
}

absl::StatusOr<double> TimeOf(devrt::Device any,
                              const std::function<absl::Status()>& work) {
  const std::optional<Simulator> simulator = SimulatorOf(any);
  if (simulator) {
    DEVRT_ASSIGN_OR_RETURN(const uint64_t begin, simulator->Now());
    DEVRT_RETURN_IF_ERROR(work());
    DEVRT_ASSIGN_OR_RETURN(const uint64_t end, simulator->Now());
    return static_cast<double>(end - begin) * 1e-9;
  }
  const auto begin = std::chrono::steady_clock::now();
  DEVRT_RETURN_IF_ERROR(work());
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - begin;
  return took.count();
}

}  // namespace example
