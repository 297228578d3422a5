// SPDX-License-Identifier: Apache-2.0
//
// Faults: what a device leaves behind, what waits for it, what is injected.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "backends/mtia/engine/engine.h"

namespace devrt::mtia {
namespace {

// Where it happened; the host logs it as an error once it learns of it.
void LogFault(const Fault& fault) {
  if (DEVRT_LOG_INFO < g_host->log_min_level(g_host->host)) return;
  g_host->log(g_host->host, DEVRT_LOG_INFO, __FILE__, __LINE__,
              fault.text.data(), fault.text.size());
}

// Counts `rules` down; the first that fires, which is removed, or one without
// a code.
template <class Matches>
InjectedFault Fire(std::vector<InjectedFault>* rules, Matches matches) {
  for (size_t i = 0; i < rules->size(); ++i) {
    InjectedFault& rule = (*rules)[i];
    if (!matches(rule) || --rule.nth != 0) continue;
    InjectedFault fired = std::move(rule);
    rules->erase(rules->begin() + static_cast<std::ptrdiff_t>(i));
    return fired;
  }
  return InjectedFault();
}

// The calls that never ask for an injected error.
bool CannotFail(Slot slot) {
  switch (slot) {
    case Slot::device_count:
    case Slot::device_props:
    case Slot::context_enter:
    case Slot::context_exit:
    case Slot::context_current:
    case Slot::sim:
      return true;
    default:
      return false;
  }
}

devrt_status CheckSlot(const std::string& name) {
  if (name.empty()) return nullptr;
  std::string names;
  for (uint32_t i = 0; i <= static_cast<uint32_t>(Slot::sim); ++i) {
    const auto slot = static_cast<Slot>(i);
    if (CannotFail(slot)) continue;
    if (name == SlotName(slot)) return nullptr;
    names += std::string(names.empty() ? "" : ", ") + SlotName(slot);
  }
  constexpr size_t kShown = 64;
  return RefuseControl("no call \"" + name.substr(0, kShown) +
                       "\" can be made to fail; expected one of " + names);
}

}  // namespace

// ---- what calls return ----

devrt_status Engine::DeviceError(uint32_t device, const char* entry) const {
  const Fault& fault = devices[device].fault;
  if (!fault) return nullptr;
  return MakeFaultStatus(fault, entry);
}

devrt_status Engine::StreamError(StreamCore* s, const char* entry) {
  const Fault& fault = devices[s->device].fault;
  if (fault) return MakeFaultStatus(fault, entry);
  if (s->failed_from == kNever) return nullptr;
  NoteTold(s);
  return MakeFaultStatus(*s->origin, entry);
}

devrt_status Engine::PointsError(const Points& points, const char* entry) {
  devrt_status error = nullptr;
  for (const Point& p : points) {
    if (!Failed(p)) continue;
    if (error == nullptr) error = MakeFaultStatus(*p.stream->origin, entry);
    NoteTold(p.stream);
  }
  return error;
}

// ---- a device fails ----

Fault Engine::DescribeFault(const Op* op, int32_t code,
                            const std::string& what) {
  Fault fault;
  fault.native_code = code;
  fault.device = op->device;
  fault.process = config.fault_scope_process;
  fault.text = std::string(KindName(op->kind)) + " \"" + op->Name() +
               "\" on device mtia:" + std::to_string(op->device);
  if (op->site.file != nullptr) {
    fault.text += std::string(", submitted at ") + op->site.file + ":" +
                  std::to_string(op->site.line);
  }
  fault.text += std::string(": ") + NativeName(code);
  if (!what.empty()) fault.text += ": " + what;
  return fault;
}

void Engine::FailOp(Op* op, Fault fault, VTime end) {
  op->state = OpState::kFailed;
  op->ended = end;
  if (op->timeline != kNever) TimelineUpdate(op);
  FaultDevice(op->device, std::move(fault));
}

void Engine::FaultDevice(uint32_t device, Fault fault) {
  if (devices[device].fault) return;  // immutable
  LogFault(fault);
  if (config.fault_delivery_abort) {
    std::fprintf(stderr, "devrt mtia: fault_delivery=abort: %s\n",
                 fault.text.c_str());
    std::abort();
  }
  trace.Add(7, device, static_cast<uint64_t>(fault.native_code));
  ++progress;
  for (DeviceState& d : devices) {
    if ((d.ordinal != device && !fault.process) || d.fault) continue;
    d.fault = fault;
  }
  for (DeviceState& d : devices) {
    if (!d.fault) continue;
    // Failed streams stay in the list.
    for (StreamCore* s = d.busy; s != nullptr; s = s->busy_next) {
      if (s->failed_from == kNever) Poison(s, &d.fault);
    }
  }
  Drain();
}

void Engine::Poison(StreamCore* s, const Fault* origin) {
  s->failed_from = s->completed + 1;
  s->failure_told = false;
  s->origin = origin;
  DiscardAll(s);
}

void Engine::DiscardAll(StreamCore* s) {
  discarded_ = true;
  if (s->head_state == HeadState::kBlocked && s->waits_on != nullptr) {
    StopWaiting(s);
  }
  if (s->head_state == HeadState::kReady ||
      s->head_state == HeadState::kParked) {
    driver->HeadGone(s);
  }
  Op* op = s->head;
  s->head = s->tail = nullptr;
  s->head_state = HeadState::kNone;
  s->queued_work = 0;
  s->pending.clear();
  s->completed = s->issued;
  const Fault fault = *s->origin;
  while (op != nullptr) {
    Op* const next = op->next;
    --pending_ops;
    DiscardOp(op, fault);
    op = next;
  }
  if (s->waiters != nullptr) WakeWaiters(s);
}

void Engine::DiscardOp(Op* op, const Fault& fault) {
  if (op->holds_token) ReleaseToken(op);
  if (op->state != OpState::kFailed) op->state = OpState::kDiscarded;
  if (op->timeline != kNever) TimelineUpdate(op);
  if (op->abroad) {
    if (op->kind == OpKind::kCopy) ++discarded_copies;
    op->stream = nullptr;  // who runs it retires it
    return;
  }
  if (op->kind == OpKind::kHostFunc) {
    orphans.push_back({op->host_func, op->arg, fault});
  }
  if (op->kind == OpKind::kFree) DropBlock(op);
  Retire(op);
}

// ---- injection ----

devrt_status Engine::Inject(const devrt_sim_fault_v1& fault) {
  if (fault.kind > DEVRT_SIM_FAULT_LOST) {
    return RefuseControl("fault kind " + std::to_string(fault.kind) +
                         " does not exist");
  }
  if (devrt_status error = CheckDevice(fault.device)) return error;
  if (fault.native_code == 0 ||
      (fault.nth == 0 && fault.kind != DEVRT_SIM_FAULT_LOST)) {
    return RefuseControl("an injected fault needs nth >= 1 and a code");
  }
  if (fault.kind == DEVRT_SIM_FAULT_LOST) {
    Fault lost;
    lost.native_code = fault.native_code;
    lost.device = fault.device;
    lost.process = config.fault_scope_process;
    lost.text = "device mtia:" + std::to_string(fault.device) +
                " was lost: " + NativeName(fault.native_code);
    FaultDevice(fault.device, std::move(lost));
    return nullptr;
  }
  const bool api = fault.kind == DEVRT_SIM_FAULT_API;
  std::string where = fault.slot != nullptr ? fault.slot : "";
  if (api) {
    if (devrt_status error = CheckSlot(where)) return error;
  }
  (api ? api_faults : op_faults)
      .push_back({fault.kind, fault.device, fault.nth, fault.native_code,
                  std::move(where)});
  return nullptr;
}

devrt_status Engine::InjectedError(Slot slot, uint32_t device) {
  if (slot == Slot::sim) return nullptr;
  const char* const name = SlotName(slot);
  const InjectedFault rule =
      Fire(&api_faults, [name, device](const InjectedFault& r) {
        return (r.slot.empty() || r.slot == name) &&
               (device == kAnyDevice || r.device == device);
      });
  const int32_t code = rule.native_code;
  if (code == 0) return nullptr;
  trace.Add(8, static_cast<uint64_t>(slot), static_cast<uint64_t>(code));
  const std::string what = std::string("injected ") + NativeName(code);
  if (!IsSticky(code)) {
    return MakeError(CodeOfNative(code), code, std::string(name) + ": " + what);
  }
  Fault fault;
  fault.native_code = code;
  fault.device = rule.device;
  fault.process = config.fault_scope_process;
  fault.text = std::string(name) +
               " on device mtia:" + std::to_string(rule.device) + ": " + what;
  FaultDevice(rule.device, std::move(fault));
  return DeviceError(rule.device, name);
}

Fault Engine::FireOn(const Op* op) {
  if (!IsWork(op) || op->dropped) return Fault();
  const auto matches = [op](const InjectedFault& rule) {
    return rule.device == op->device &&
           (rule.slot.empty() || rule.slot == op->Name());
  };
  const int32_t code = Fire(&op_faults, matches).native_code;
  return code != 0 ? DescribeFault(op, code, "injected") : Fault();
}

}  // namespace devrt::mtia
