// SPDX-License-Identifier: Apache-2.0
//
// The simulated machine of this process, and the parts that it is made of.
//
// A thread is inside the machine when it holds the baton (mode=virtual, see
// threads/baton.h) or Machine::mutex (mode=threaded).  One thread is
// inside at a time, so the parts have no locks of their own.  Each call of the
// table enters and leaves (table/call.h).

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_MACHINE_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_MACHINE_H_

#include <mutex>
#include <optional>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/collectives.h"
#include "backends/mtia/engine/decisions.h"
#include "backends/mtia/engine/driver.h"
#include "backends/mtia/engine/events.h"
#include "backends/mtia/engine/execution.h"
#include "backends/mtia/engine/fault_rules.h"
#include "backends/mtia/engine/faults.h"
#include "backends/mtia/engine/flags.h"
#include "backends/mtia/engine/history.h"
#include "backends/mtia/engine/injection.h"
#include "backends/mtia/engine/lazy_memory.h"
#include "backends/mtia/engine/locks.h"
#include "backends/mtia/engine/report.h"
#include "backends/mtia/engine/scheduler.h"
#include "backends/mtia/engine/streams.h"
#include "backends/mtia/engine/tokens.h"

namespace devrt::mtia {

// Owns the configuration, the lock and all parts, and begins the machine
// afresh.  A part knows only parts that stand before it (decision 24).
class Machine {
 public:
  // The drivers of the two modes outlive this object.
  Machine(Driver* virtual_driver, Driver* threaded_driver)
      : virtual_driver_(virtual_driver), threaded_driver_(threaded_driver) {}

  // Begins the first machine.  Maps no memory and starts no thread.
  void Start(const Config& next);
  // Begins a machine afresh.  It follows `log` as a replay if there is one.
  // After an error the former machine continues.
  devrt_status Reset(const Config& next, const ChoiceLog* log);
  // ConfigHash of the configuration, which costs as much as a small run: kept
  // over replays.
  uint64_t config_hash();

  Config config;
  bool threaded = false;     // mode=threaded
  std::mutex mutex;          // mode=threaded: held by the thread that is inside
  Driver* driver = nullptr;  // of the mode
  Decisions decisions;
  History history;
  LazyMemory memory{&config};
  Streams streams{&config};
  Events events;
  Flags flags{&history};
  Tokens tokens;
  FaultRules fault_rules{&config, &decisions, &memory};
  Collectives collectives{&config, &history, &memory, &tokens, &fault_rules};
  Execution execution{&config, &memory, &history.outcome};
  Scheduler scheduler{&config, &history,   &streams,
                      &tokens, &execution, &collectives};
  Faults faults{&config, &history, &streams, &scheduler};
  Injection injection{&config, &history, &faults, &fault_rules};
  Locks locks;
  Reports reports{&config, &history, &streams, &locks};

 private:
  std::optional<uint64_t> config_hash_;
  Driver* const virtual_driver_;
  Driver* const threaded_driver_;
};

// The machine of this process.  The first Backend::Open makes it; it is never
// destroyed, since threads may still be in a call when the process ends.
extern Machine* g_machine;

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_MACHINE_H_
