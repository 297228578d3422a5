// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_TOKENS_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_TOKENS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// The tokens of one engine of one device.  An operation holds one while it
// runs, so `limit` operations run at a time.
struct EngineTokens {
  uint32_t limit = 1;  // kUnlimited: no limit
  uint32_t used = 0;
  uint32_t pending = 0;              // ready operations that want one
  std::vector<StreamCore*> waiting;  // strategy hw: found no token
  bool available() const { return limit == kUnlimited || used < limit; }
};

// Owns the tokens of all engines of all devices.
//
// Threads: every member is called inside the machine.
class Tokens {
 public:
  // Begins a machine; no token is taken.
  void Start(const Config& config) {
    devices_.assign(config.devices, Engines());
    for (Engines& engines : devices_) {
      At(&engines, EngineClass::kCompute).limit = config.slots;
      At(&engines, EngineClass::kNone).limit = kUnlimited;
      At(&engines, EngineClass::kCollective).limit =
          std::max(config.collective_slots, 1u);
    }
  }
  // Gives `device` at least `count` collective slots.  Returns true if it had
  // fewer.
  bool RaiseSlots(uint32_t device, uint32_t count) {
    uint32_t& limit = Slots(device).limit;
    if (limit >= count) return false;
    limit = count;
    return true;
  }
  // The tokens for collectives on `device`.
  EngineTokens& Slots(uint32_t device) {
    return At(&devices_[device], EngineClass::kCollective);
  }

  // True if `op` runs on an engine.  The probes that wait for a flag or set
  // one do not: they would keep the engine from the work that ends the wait.
  // Of a group of collectives one operation on a device does.
  static bool NeedsToken(const Op* op) {
    return op->engine != EngineClass::kNone &&
           op->action != Action::kFlagWait && op->action != Action::kFlagSet &&
           !op->shares_slot;
  }
  // The tokens of the engine of `op`.
  EngineTokens& Of(const Op* op) {
    return At(&devices_[op->device], op->engine);
  }
  // Takes a token for `op` if it needs one.
  void Take(Op* op) {
    if (!NeedsToken(op)) return;
    ++Of(op).used;
    op->holds_token = true;
  }
  // Gives back the token that `op` holds.
  void Release(Op* op) {
    --Of(op).used;
    op->holds_token = false;
  }

 private:
  using Engines = std::array<EngineTokens, kEngineClasses>;

  static EngineTokens& At(Engines* engines, EngineClass engine) {
    return (*engines)[static_cast<uint32_t>(engine)];
  }

  std::vector<Engines> devices_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_TOKENS_H_
