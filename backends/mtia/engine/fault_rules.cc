// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/fault_rules.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "backends/mtia/engine/faults.h"

namespace devrt::mtia {
namespace {

using internal::FaultClass;
using internal::FaultRule;

constexpr int32_t kUnavailable = 46;
constexpr int32_t kEccError = 214;
constexpr int32_t kLinkError = 220;
constexpr std::byte kFlipped{1};

// The memory that `op` writes; nullptr: none is known.
const void* Written(const Op* op) {
  if (op->kind == OpKind::kCopy || op->kind == OpKind::kFill) return op->dst;
  for (const Range& range : op->ranges) {
    if ((range.mode & DEVRT_ACCESS_WRITE) != 0) return range.ptr;
  }
  return nullptr;
}

// The product, at most kHorizon.
VTime Times(VTime duration, uint64_t factor) {
  return duration > kHorizon / factor ? kHorizon : duration * factor;
}

}  // namespace

void FaultRules::Start() {
  armed_.clear();
  stale_.clear();
  has_timed_ = false;
  for (const FaultRule& rule : config_->faults) {
    armed_.push_back({rule, {}, false});
    has_timed_ =
        has_timed_ || (rule.kind == FaultClass::kDeviceLost && rule.at != 0);
  }
}

uint64_t FaultRules::fired() const {
  uint64_t count = 0;
  for (const Armed& armed : armed_) count += armed.counter.fired();
  return count;
}

bool FaultRules::Fires(Armed* armed) {
  if (!armed->counter.Matches(armed->rule)) return false;
  if (armed->rule.chance != FaultRule::kAlways) {
    constexpr uint32_t kMillion = FaultRule::kAlways;
    const uint32_t drawn = decisions_->replaying() ? 0
                           : decisions_->Uniform(kMillion) < armed->rule.chance
                               ? 1
                               : 0;
    if (decisions_->Choose(ChoiceKind::kFault, 2, drawn) == 0) return false;
  }
  armed->counter.Fire();
  return true;
}

bool FaultRules::Fires(Armed* armed, const Op* op) {
  const FaultRule& rule = armed->rule;
  if (rule.device && *rule.device != op->device) return false;
  if (!rule.op.empty() && rule.op != op->Name()) return false;
  return Fires(armed);
}

uint32_t FaultRules::DeviceOf(const void* ptr, uint32_t otherwise) const {
  const Memory* const memory = memory_->IfMade();
  if (memory == nullptr) return otherwise;
  const Resolved found = memory->Find(ptr);
  return found.space == Space::kDevice ? found.device : otherwise;
}

// True if `op` moves bytes or reaches memory over the link.
bool FaultRules::Crosses(const FaultRule& rule, const Op* op) const {
  const auto is_link = [&rule](uint32_t a, uint32_t b) {
    const auto [first, second] = *rule.link;
    return (a == first && b == second) || (a == second && b == first);
  };
  if (op->kind == OpKind::kCopy) {
    const uint32_t to = DeviceOf(op->dst, op->device);
    const uint32_t from = DeviceOf(op->src, op->device);
    return is_link(to, from);
  }
  if (op->kind == OpKind::kFill) {
    return is_link(op->device, DeviceOf(op->dst, op->device));
  }
  return std::any_of(
      op->ranges.begin(), op->ranges.end(), [&](const Range& range) {
        return is_link(op->device, DeviceOf(range.ptr, op->device));
      });
}

void FaultRules::Flip(const Op* op) const {
  const Memory* const memory = memory_->IfMade();
  const void* const written = Written(op);
  if (memory == nullptr || written == nullptr) return;
  const Resolved found = memory->Find(written);
  if (found.space != Space::kDevice || found.local == nullptr) return;
  *found.local ^= kFlipped;
}

Fault FaultRules::TakeFor(const Op* op) {
  if (!IsWork(op) || op->dropped) return Fault();
  int32_t code = 0;
  const char* what = nullptr;  // of the same rule as the code
  for (Armed& armed : armed_) {
    const FaultRule& rule = armed.rule;
    const bool is_time = After(op->began, op->duration) >= rule.at;
    int32_t found = 0;
    const char* says = "injected";
    switch (rule.kind) {
      case FaultClass::kKernelFault:
        if (Fires(&armed, op)) {
          found = rule.native == 0 ? kLaunchFailure
                                   : static_cast<int32_t>(rule.native);
        }
        break;
      case FaultClass::kDeviceLost:
        if (armed.is_lost) break;
        armed.is_lost = rule.at == 0
                            ? Fires(&armed, op)
                            : is_time && op->device == rule.device.value_or(0);
        if (armed.is_lost) {
          if (rule.at != 0) armed.counter.Fire();
          found = kUnavailable;
          says = "injected: the device is lost";
        }
        break;
      case FaultClass::kLinkDown:
        if (is_time && Crosses(rule, op)) {
          armed.counter.Fire();
          found = kLinkError;
          says = "injected: the link is down";
        }
        break;
      case FaultClass::kEcc:
        if (!Fires(&armed, op)) break;
        if (rule.flips) {
          Flip(op);
        } else {
          found = kEccError;
          says = "injected: a bit of the memory cannot be corrected";
        }
        break;
      default:
        break;
    }
    if (code != 0 || found == 0) continue;  // the first rule's fault counts
    code = found;
    what = says;
  }
  return code == 0 ? Fault() : DescribeFault(*op, code, what, *config_);
}

bool FaultRules::Hangs(const Op* op, uint64_t* timeout) {
  if (!IsWork(op) || op->dropped) return false;
  for (Armed& armed : armed_) {
    if (armed.rule.kind != FaultClass::kHang || !Fires(&armed, op)) continue;
    *timeout = armed.rule.timeout;
    return true;
  }
  return false;
}

bool FaultRules::HitsRank(FaultClass kind, uint32_t rank) {
  bool hits = false;
  for (Armed& armed : armed_) {
    const FaultRule& rule = armed.rule;
    if (rule.kind != kind || (rule.rank && *rule.rank != rank)) continue;
    hits = Fires(&armed) || hits;
  }
  return hits;
}

uint64_t FaultRules::Lateness(uint32_t rank) {
  uint64_t by = 0;
  for (Armed& armed : armed_) {
    const FaultRule& rule = armed.rule;
    if (rule.kind != FaultClass::kRankLate ||
        (rule.rank && *rule.rank != rank) || !Fires(&armed)) {
      continue;
    }
    by += rule.by;
  }
  return by;
}

void FaultRules::SlowDown(Op* op) {
  if (!IsWork(op)) return;
  for (Armed& armed : armed_) {
    if (armed.rule.kind != FaultClass::kSlow || op->began < armed.rule.at ||
        !Fires(&armed, op)) {
      continue;
    }
    op->duration = Times(op->duration, armed.rule.factor);
  }
}

devrt_status FaultRules::Fragmentation(const char* call, uint32_t device,
                                       uint64_t size, uint64_t free) {
  for (Armed& armed : armed_) {
    const FaultRule& rule = armed.rule;
    if (rule.kind != FaultClass::kFragmentation || size < rule.bytes ||
        size > free || (rule.device && *rule.device != device) ||
        !Fires(&armed)) {
      continue;
    }
    return MakeError(DEVRT_RESOURCE_EXHAUSTED, 2,
                     std::string(call) + ": injected fragmentation: mtia:" +
                         std::to_string(device) + " has " +
                         std::to_string(free) + " bytes free, but no " +
                         std::to_string(size) + " bytes in one piece");
  }
  return nullptr;
}

bool FaultRules::IsStale(const void* object, uint32_t device, VTime ended) {
  const auto known = stale_.find(object);
  if (known != stale_.end()) {
    const bool is_same = known->second == ended;
    stale_.erase(known);
    if (is_same) return false;
  }
  for (Armed& armed : armed_) {
    const FaultRule& rule = armed.rule;
    if (rule.kind != FaultClass::kStaleQuery ||
        (rule.device && *rule.device != device) || !Fires(&armed)) {
      continue;
    }
    stale_[object] = ended;
    return true;
  }
  return false;
}

Fault FaultRules::TakeLost(VTime now) {
  for (Armed& armed : armed_) {
    const FaultRule& rule = armed.rule;
    if (rule.kind != FaultClass::kDeviceLost || rule.at == 0 || armed.is_lost ||
        now < rule.at) {
      continue;
    }
    armed.is_lost = true;
    armed.counter.Fire();
    Fault fault;
    fault.native_code = kUnavailable;
    fault.device = rule.device.value_or(0);
    fault.process = config_->fault_scope_process;
    fault.text = "injected: device mtia:" + std::to_string(fault.device) +
                 " was lost: " + NativeName(kUnavailable);
    return fault;
  }
  return Fault();
}

}  // namespace devrt::mtia
