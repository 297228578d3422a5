// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/cost.h"

#include <algorithm>

#include "backends/mtia/engine/decisions.h"

namespace devrt::mtia {
namespace {

constexpr VTime kRecordCost = 100;
constexpr VTime kHostFuncCost = 1'000;

// `rate` is in bytes per second.
VTime Transfer(uint64_t bytes, uint64_t rate) {
  __extension__ using Wide = unsigned __int128;
  const Wide wide = static_cast<Wide>(bytes) * 1'000'000'000u;
  return static_cast<VTime>(wide / std::max<uint64_t>(rate, 1));
}

uint64_t RateOf(EngineClass engine, const Config& config) {
  switch (engine) {
    case EngineClass::kH2D:
      return config.h2d;
    case EngineClass::kD2H:
      return config.d2h;
    case EngineClass::kP2P:
      return config.p2p;
    default:
      return config.local;
  }
}

// `cost` with the deviation that the seed and the name of `op` give.
VTime Varied(VTime cost, const Op& op, const Config& config) {
  if (config.seed == 0 || config.jitter == 0) return cost;
  uint64_t state = config.seed ^ (op.index + 1) * 0x9e3779b97f4a7c15u ^
                   uint64_t { op.thread } << 48;
  const uint64_t draw = NextRandom(&state) >> 32;
  const VTime most =
      cost / 100 * config.jitter + cost % 100 * config.jitter / 100;
  __extension__ using Wide = unsigned __int128;
  return cost - most +
         static_cast<VTime>(static_cast<Wide>(draw) * (2 * most + 1) >> 32);
}

}  // namespace

VTime CostOf(const Op& op, const Config& config) {
  VTime cost = 0;
  switch (op.kind) {
    case OpKind::kRecord:
    case OpKind::kWait:
    case OpKind::kAlloc:
    case OpKind::kFree:
      return kRecordCost;
    case OpKind::kCollective:  // the call knows the ranks
      return 1;
    case OpKind::kHostFunc:
      cost = kHostFuncCost;
      break;
    case OpKind::kFill:
      cost = config.copy + Transfer(op.size, config.local);
      break;
    case OpKind::kKernel:
      cost = config.kernel;
      for (const Range& r : op.ranges) cost += Transfer(r.size, config.local);
      break;
    case OpKind::kCopy:
      cost = config.copy + Transfer(op.size, RateOf(op.engine, config));
      break;
  }
  return std::max<VTime>(Varied(cost, op, config), 1);
}

}  // namespace devrt::mtia
