// SPDX-License-Identifier: Apache-2.0
//
// Turns: in a simulator that decides which host thread runs, a thread waits for
// its first turn before it takes a lock of devrt.  Else threads that have just
// begun would take devrt's locks in the order that the system chooses.
//
// Not for programs: this is for the files of devrt.
//
// A simulator schedules threads from the first use of its streams or the first
// reset on.  A program that only opens the simulator, as a list of all devices
// does, is not scheduled.
//
// Cost: one load while no simulator schedules threads.
// Threads: any.

#ifndef DEVRT_RUNTIME_COMMON_TURNS_H_
#define DEVRT_RUNTIME_COMMON_TURNS_H_

#include <atomic>

#include "devrt/runtime/export.h"

struct devrt_sim_v1;

namespace devrt::internal {

struct DeviceRecord;

// A simulator that schedules host threads.
struct Turns {
  const devrt_sim_v1* table = nullptr;
  void* self = nullptr;
  DeviceRecord* device = nullptr;  // one of its devices, for errors
};

// The simulator; nullptr without one, and after Shutdown.
extern DEVRT_EXPORT std::atomic<const Turns*> g_turns;
// True from the first use of the simulator on, also after Shutdown.
extern DEVRT_EXPORT std::atomic<bool> g_had_turns;

// Calls wait(arg).  Before, it gives back what the calling thread has and the
// thread whose turn it is may need: the lock of Python's interpreter.
using AroundWait = void (*)(void (*wait)(void* arg), void* arg);
// nullptr: no thread has such a thing.
extern DEVRT_EXPORT std::atomic<AroundWait> g_around_wait;

DEVRT_EXPORT bool TakePartIn(const Turns& turns);

// Makes the calling thread take part in the schedule of the simulator, if there
// is one.  Returns when it is its turn; at once if it takes part already.
// Returns true if the simulator schedules the thread.
inline bool TakePart() {
  const Turns* const turns = g_turns.load(std::memory_order_acquire);
  return __builtin_expect(turns != nullptr, 0) && TakePartIn(*turns);
}

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_COMMON_TURNS_H_
