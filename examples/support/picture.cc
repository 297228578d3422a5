// SPDX-License-Identifier: Apache-2.0

#include "examples/support/picture.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "tools/demo/simulated_work.h"
#include "tools/demo/timeline.h"
#include "tools/terminal.h"

namespace example {
namespace {

using devrt::SimulatedOp;
using devrt::Simulator;
using devrt::tools::OpKind;
using devrt::tools::TimelineOp;

std::optional<Simulator> SimulatorOf(devrt::Device device) {
  absl::StatusOr<Simulator> found = Simulator::Get(device.backend());
  if (!found.ok()) return std::nullopt;
  return *found;
}

OpKind KindOf(const SimulatedOp& op) {
  switch (op.engine) {
    case SimulatedOp::Engine::kHostToDevice:
      return OpKind::kHostToDevice;
    case SimulatedOp::Engine::kDeviceToHost:
      return OpKind::kDeviceToHost;
    case SimulatedOp::Engine::kPeer:
      return OpKind::kPeerCopy;
    case SimulatedOp::Engine::kHost:
      return OpKind::kHostFunction;
    default:
      return OpKind::kKernel;
  }
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
  DEVRT_ASSIGN_OR_RETURN(const void* native, stream.Native());
  lines_.push_back(
      {native, std::string(stream.device().name()), std::move(name)});
  return absl::OkStatus();
}

absl::Status Picture::Number(int number) {
  if (!simulator_) return absl::OkStatus();
  DEVRT_ASSIGN_OR_RETURN(const uint64_t now, simulator_->Now());
  numbers_.emplace_back(now, number);
  return absl::OkStatus();
}

absl::Status Picture::Finish(const std::string& unit, const std::string& file) {
  if (!simulator_) return absl::OkStatus();
  DEVRT_ASSIGN_OR_RETURN(std::vector<SimulatedOp> all,
                         devrt::tools::SimulatedWork(*simulator_));
  DEVRT_RETURN_IF_ERROR(simulator_->EnableTimeline(false));
  devrt::tools::Timeline timeline;
  timeline.title = title_;
  timeline.clock = "the simulator's clock";
  timeline.unit = unit;
  for (const Line& line : lines_)
    timeline.rows.push_back({line.group, line.name});
  for (SimulatedOp& op : all) {
    // Leaves out streams without a name, which prepare and check.
    const auto line = std::find_if(
        lines_.begin(), lines_.end(),
        [&](const Line& l) { return l.native == op.native_stream; });
    if (line == lines_.end()) continue;
    TimelineOp drawn;
    drawn.row = static_cast<size_t>(line - lines_.begin());
    drawn.kind = KindOf(op);
    drawn.name = line->name;
    drawn.bytes = op.bytes;
    for (const auto& [from, number] : numbers_) {
      if (op.submit_ns >= from) drawn.chunk = number;
    }
    timeline.ops.push_back(std::move(drawn));
    ops_.push_back(std::move(op));
  }
  DEVRT_RETURN_IF_ERROR(devrt::tools::SetTimes(ops_, &timeline.ops));
  if (file.empty()) return absl::OkStatus();
  DEVRT_RETURN_IF_ERROR(
      devrt::tools::WriteFile(file, devrt::tools::SvgTimeline(timeline)));
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
  uint64_t busy = 0;
  uint64_t first = UINT64_MAX;
  uint64_t last = 0;
  for (const SimulatedOp& op : ops_) {
    busy += op.end_ns - op.begin_ns;
    first = std::min(first, op.begin_ns);
    last = std::max(last, op.end_ns);
  }
  return static_cast<double>(busy) / static_cast<double>(last - first);
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
