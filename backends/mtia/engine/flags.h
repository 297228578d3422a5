// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_FLAGS_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_FLAGS_H_

#include <cstdint>
#include <vector>

#include "backends/mtia/engine/driver.h"
#include "backends/mtia/engine/handles.h"
#include "backends/mtia/engine/history.h"
#include "backends/mtia/engine/op.h"
#include "devrt/backends/abi/devrt_probe.h"

namespace devrt::mtia {

// Owns the flags of devrt.probe, and the list of the streams whose first
// operation waits for one.
//
// Threads: every member is called inside the machine.
class Flags {
 public:
  // `history` outlives this object.
  explicit Flags(History* history) : history_(history) {}

  // The live flag of `handle`, or nullptr.
  Flag* Find(uint64_t handle) const { return handles_.Find(handle); }
  // The live flag of `handle`, or nullptr with `*error` set.
  Flag* Find(devrt_flag handle, devrt_status* error) const;

  Flag* New(uint32_t device);
  void Release(Flag* flag) { handles_.Release(flag); }

  // Sets the value, and tells `driver` which operations may go on.
  void Set(Flag* flag, uint32_t value, Driver* driver);
  // True if `op` need not wait: its flag is set or was destroyed.
  static bool IsSet(const Op* op) {
    return op->flag->tag != op->flag_tag || op->flag->value != 0;
  }

  // Notes that the first operation of `s` waits for its flag.
  void Park(StreamCore* s);
  // Notes that the first operation of `s` waits for its flag no longer.
  void StopWaiting(StreamCore* s);

  // Ends all flags.
  void Reset();

 private:
  History* const history_;
  HandleTable<Flag, HandleKind::kFlag> handles_;
  std::vector<StreamCore*> parked_;
  uint64_t last_number_ = 0;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_FLAGS_H_
