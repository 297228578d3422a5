// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/injection.h"

#include <utility>

#include "backends/mtia/engine/current_device.h"

namespace devrt::mtia {
namespace {

// True for the calls that no injected error hits.
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

template <class Matches>
Injection::Armed Injection::Fire(std::vector<Armed>* rules, Matches matches) {
  for (size_t i = 0; i < rules->size(); ++i) {
    Armed& rule = (*rules)[i];
    if (!matches(rule) || --rule.nth != 0) continue;
    Armed fired = std::move(rule);
    rules->erase(rules->begin() + static_cast<std::ptrdiff_t>(i));
    return fired;
  }
  return Armed();
}

void Injection::Reset() {
  call_faults_.clear();
  op_faults_.clear();
}

devrt_status Injection::Arm(const devrt_sim_fault_v1& fault) {
  if (fault.kind > DEVRT_SIM_FAULT_LOST) {
    return RefuseControl("fault kind " + std::to_string(fault.kind) +
                         " does not exist: it is 0 (a call), 1 (an operation) "
                         "or 2 (a lost device)");
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
    lost.process = config_->fault_scope_process;
    lost.text = "device mtia:" + std::to_string(fault.device) +
                " was lost: " + NativeName(fault.native_code);
    faults_->FailDevice(fault.device, std::move(lost));
    return nullptr;
  }
  const bool api = fault.kind == DEVRT_SIM_FAULT_API;
  std::string where = fault.slot != nullptr ? fault.slot : "";
  if (api) {
    if (devrt_status error = CheckSlot(where)) return error;
  }
  (api ? call_faults_ : op_faults_)
      .push_back(
          {fault.device, fault.nth, fault.native_code, std::move(where)});
  return nullptr;
}

devrt_status Injection::CallError(Slot slot, uint32_t device) {
  if (slot == Slot::sim) return nullptr;
  const char* const name = SlotName(slot);
  const Armed rule = Fire(&call_faults_, [name, device](const Armed& r) {
    return (r.name.empty() || r.name == name) &&
           (device == kAnyDevice || r.device == device);
  });
  const int32_t code = rule.native_code;
  if (code == 0) return nullptr;
  history_->trace.Add(8, static_cast<uint64_t>(slot),
                      static_cast<uint64_t>(code));
  const std::string what = std::string("injected ") + NativeName(code);
  if (!IsSticky(code)) {
    return MakeError(CodeOfNative(code), code, std::string(name) + ": " + what);
  }
  Fault fault;
  fault.native_code = code;
  fault.device = rule.device;
  fault.process = config_->fault_scope_process;
  fault.text = std::string(name) +
               " on device mtia:" + std::to_string(rule.device) + ": " + what;
  faults_->FailDevice(rule.device, std::move(fault));
  return faults_->DeviceError(rule.device, name);
}

Fault Injection::FireOn(const Op* op) {
  if (!IsWork(op) || op->dropped) return Fault();
  const auto matches = [op](const Armed& rule) {
    return rule.device == op->device &&
           (rule.name.empty() || rule.name == op->Name());
  };
  const int32_t code = Fire(&op_faults_, matches).native_code;
  if (code != 0) return DescribeFault(*op, code, "injected", *config_);
  return rules_->empty() ? Fault() : rules_->TakeFor(op);
}

void Injection::LoseDevices(VTime now) {
  while (Fault fault = rules_->TakeLost(now)) {
    const uint32_t device = fault.device;
    faults_->FailDevice(device, std::move(fault));
  }
}

}  // namespace devrt::mtia
