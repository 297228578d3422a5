// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/cost.h"

#include <algorithm>

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

}  // namespace

VTime CostOf(const Op& op, const Config& config) {
  VTime cost = 0;
  switch (op.kind) {
    case OpKind::kRecord:
    case OpKind::kWait:
    case OpKind::kAlloc:
    case OpKind::kFree:
      return kRecordCost;
    case OpKind::kHostFunc:
      return kHostFuncCost;
    case OpKind::kFill:
      cost = Transfer(op.size, config.local);
      break;
    case OpKind::kKernel:
      cost = config.kernel;
      for (const Range& r : op.ranges) cost += Transfer(r.size, config.local);
      break;
    case OpKind::kCopy:
      cost = Transfer(op.size, RateOf(op.engine, config));
      break;
  }
  return std::max<VTime>(cost, 1);
}

}  // namespace devrt::mtia
