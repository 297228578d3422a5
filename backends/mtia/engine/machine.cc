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
  injection.Reset();
  reports.Reset();
  history.Reset();
  Start(next);
  if (log != nullptr) decisions.StartReplay(config.seed, *log);
  if (old != nullptr) old->Reset(config);
  return nullptr;
}

void Machine::Start(const Config& next) {
  config = next;
  threaded = config.mode == Mode::kThreaded;
  g_device_count = config.devices;
  driver = threaded ? threaded_driver_ : virtual_driver_;
  scheduler.UseDriver(driver);
  driver->Start();
  decisions.Start(config.seed);
  streams.Start();
  tokens.Start(config);
  faults.Start();
}

}  // namespace devrt::mtia
