// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline/timeline.h"

#include <algorithm>

namespace devrt::tools {
namespace {

bool IsDeviceWork(const TimelineOp& op) {
  return op.kind != OpKind::kHostFunction && !IsMark(op.kind);
}

}  // namespace

const KindStyle& StyleOf(OpKind kind) {
  static constexpr KindStyle kStyles[] = {
      {"copy to device", "▒", '>', "#1f6fb4", 104},
      {"kernel", "█", '#', "#b4540a", 103},
      {"fill", "▞", '%', "#a03030", 101},
      {"peer copy", "▓", '=', "#0b7a5b", 102},
      {"copy to host", "░", '<', "#8a3f94", 105},
      {"host function", "■", '*', "#4a4f57", 47},
      {"operation", "█", '#', "#2f6f8f", 106},
      {"event record", "◆", 'o', "#1b1f24", 106},
      {"wait for an event", "◇", 'w', "#ffffff", 106},
      {"allocation or free", "◆", 'm', "#a9b3bd", 100},
  };
  return kStyles[static_cast<size_t>(kind)];
}

bool Timeline::Has(OpKind kind) const {
  return std::any_of(ops.begin(), ops.end(),
                     [&](const TimelineOp& op) { return op.kind == kind; });
}

uint64_t Timeline::elapsed_ns() const {
  uint64_t last = 0;
  for (const TimelineOp& op : ops) last = std::max(last, op.end_ns);
  return last;
}

uint64_t Timeline::busy_ns(size_t row) const {
  uint64_t busy = 0;
  for (const TimelineOp& op : ops) {
    if (op.row == row && IsDeviceWork(op)) busy += op.end_ns - op.begin_ns;
  }
  return busy;
}

uint64_t Timeline::busy_ns() const {
  uint64_t busy = 0;
  for (size_t row = 0; row < rows.size(); ++row) busy += busy_ns(row);
  return busy;
}

double Timeline::overlap() const {
  uint64_t elapsed = 0;  // marks behind the last work do not count
  for (const TimelineOp& op : ops) {
    if (!IsMark(op.kind)) elapsed = std::max(elapsed, op.end_ns);
  }
  if (elapsed == 0) return 0;
  return static_cast<double>(busy_ns()) / static_cast<double>(elapsed);
}

std::optional<size_t> Timeline::DecidingOp(size_t op) const {
  std::optional<size_t> latest;
  const auto consider = [&](size_t other) {
    if (!latest || ops[other].end_ns > ops[*latest].end_ns) latest = other;
  };
  if (ops[op].previous) consider(*ops[op].previous);
  for (size_t other : ops[op].waits) consider(other);
  return latest;
}

AxisScale ChooseScale(uint64_t elapsed_ns, size_t most) {
  AxisScale scale;
  while (elapsed_ns / scale.step_ns >= std::max<size_t>(most, 1)) {
    uint64_t leading = scale.step_ns;
    while (leading >= 10) leading /= 10;
    scale.step_ns = leading == 2 ? scale.step_ns / 2 * 5 : scale.step_ns * 2;
  }
  constexpr AxisScale kUnits[] = {
      {1, 1'000'000'000, "s"}, {1, 1'000'000, "ms"}, {1, 1'000, "us"}};
  for (const AxisScale& unit : kUnits) {
    // The largest unit that fits into the step, so that labels are whole
    // numbers.
    if (scale.step_ns >= unit.unit_ns) {
      scale.unit_ns = unit.unit_ns;
      scale.unit = unit.unit;
      break;
    }
  }
  return scale;
}

}  // namespace devrt::tools
