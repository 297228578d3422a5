// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_EVENTS_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_EVENTS_H_

#include <cstdint>

#include "backends/mtia/engine/handles.h"
#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// Owns all events and their handles.
//
// Threads: every member is called inside the machine.
class Events {
 public:
  // The live event of `handle`, or nullptr.
  Event* Find(uint64_t handle) const { return handles_.Find(handle); }
  // The live event of `handle`, or nullptr with `*error` set.
  Event* Find(devrt_event handle, devrt_status* error) const {
    const auto value = reinterpret_cast<uint64_t>(handle);
    Event* const event = handles_.Find(value);
    if (event == nullptr) {
      *error = BadHandle("event", value, handles_.WasOurs(value));
    }
    return event;
  }

  // An event that was never recorded.
  Event* New(uint32_t device, uint32_t flags) {
    Event* const event = handles_.New();
    event->device = device;
    event->flags = flags;
    event->point = {nullptr, 0};
    event->ended = false;
    ++event->capture;  // a record of the object's former life is not its own
    ++created_;
    return event;
  }
  void Release(Event* event) { handles_.Release(event); }

  // Ends all events.
  void Reset() {
    handles_.ForEachLive([this](Event* event) { handles_.Release(event); });
    created_ = 0;
  }

  uint64_t live() const { return handles_.live(); }
  uint64_t created() const { return created_; }  // since the reset

 private:
  HandleTable<Event, HandleKind::kEvent> handles_;
  uint64_t created_ = 0;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_EVENTS_H_
