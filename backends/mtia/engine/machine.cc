// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/machine.h"

#include <string>

#include "backends/mtia/engine/current_device.h"

namespace devrt::mtia {

Machine* g_machine = nullptr;

devrt_status Machine::Reset(const Config& next, const ChoiceLog* log) {
  if (next.devices != config.devices) {
    return MakeError(DEVRT_FAILED_PRECONDITION, 0,
                     "the number of devices cannot change: " +
                         std::to_string(config.devices) + ", not " +
                         std::to_string(next.devices));
  }
  Memory* const old = memory.IfMade();
  std::string text;
  if (old != nullptr && !old->Prepare(next, &text)) {
    return MakeError(DEVRT_RESOURCE_EXHAUSTED, 2,
                     "the simulated memories cannot be mapped, and the machine "
                     "goes on as it was: " +
                         text);
  }
  driver->Stop();
  scheduler.Reset();
  streams.Reset();
  events.Reset();
  flags.Reset();
  collectives.Reset();
  injection.Reset();
  locks.Reset();
  reports.Reset();
  history.Reset();
  const std::optional<uint64_t> hash = config_hash_;
  Start(next);
  if (log != nullptr) {
    decisions.StartReplay(config.seed, *log);
    config_hash_ = hash;  // AdoptToken changes keys that do not count
  }
  if (old != nullptr) old->Reset(config);
  return nullptr;
}

uint64_t Machine::config_hash() {
  if (!config_hash_) config_hash_ = ConfigHash(config);
  return *config_hash_;
}

void Machine::Start(const Config& next) {
  config = next;
  config_hash_.reset();
  threaded = config.mode == Mode::kThreaded;
  g_device_count = config.devices;
  driver = threaded ? threaded_driver_ : virtual_driver_;
  scheduler.UseDriver(driver);
  collectives.UseDriver(driver);
  driver->Start();
  decisions.Start(config.seed);
  history.outcome.Start(config.outcome);
  streams.Start();
  tokens.Start(config);
  faults.Start();
  fault_rules.Start();
}

}  // namespace devrt::mtia
