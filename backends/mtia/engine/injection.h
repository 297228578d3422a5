// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_INJECTION_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_INJECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/fault_rules.h"
#include "backends/mtia/engine/faults.h"
#include "backends/mtia/engine/history.h"
#include "backends/mtia/engine/slot.h"
#include "devrt/backends/abi/devrt_sim.h"

namespace devrt::mtia {

// The device of a call that concerns none, for CallError.
inline constexpr uint32_t kAnyDevice = UINT32_MAX;

// Owns the faults that devrt.sim/1 has armed and that have not fired yet, and
// asks the rules of the configuration.
//
// Threads: every member is called inside the machine.
class Injection {
 public:
  // All of them outlive this object.
  Injection(const Config* config, History* history, Faults* faults,
            FaultRules* rules)
      : config_(config), history_(history), faults_(faults), rules_(rules) {}

  // Arms a fault.  A lost device fails at once.
  devrt_status Arm(const devrt_sim_fault_v1& fault);
  // Disarms all.
  void Reset();

  // True if CallError may return an error.
  bool has_call_faults() const { return !call_faults_.empty(); }
  // Loses the devices whose time by a rule has come at `now`.  For machines
  // whose rules have times.
  void LoseDevices(VTime now);
  // The error that hits this call, or NULL.  `device` may be kAnyDevice.
  devrt_status CallError(Slot slot, uint32_t device);
  // The fault that hits `op`, which has run, if any.  Kernels, copies and
  // fills can be hit.
  Fault TakeFor(const Op* op) {
    return op_faults_.empty() && rules_->empty() ? Fault() : FireOn(op);
  }

 private:
  struct Armed {
    uint32_t device = 0;
    uint32_t nth = 0;  // fires at the nth call or operation from now on
    int32_t native_code = 0;
    std::string name;  // of the slot or of the operation; empty: any
  };

  // Counts the rules that match down.  Removes and returns the first that
  // fires; returns one without a code if none does.
  template <class Matches>
  static Armed Fire(std::vector<Armed>* rules, Matches matches);
  Fault FireOn(const Op* op);

  const Config* const config_;
  History* const history_;
  Faults* const faults_;
  FaultRules* const rules_;
  std::vector<Armed> call_faults_;
  std::vector<Armed> op_faults_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_INJECTION_H_
