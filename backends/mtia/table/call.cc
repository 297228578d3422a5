// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/table/call.h"

#include <utility>

#include "backends/mtia/drivers/host_executor.h"
#include "backends/mtia/table/poll.h"
#include "backends/mtia/threads/host_threads.h"

namespace devrt::mtia {

namespace {

// True while the calling thread is inside the machine.
thread_local bool t_inside __attribute__((tls_model("initial-exec"))) = false;

[[gnu::cold]] devrt_status RefuseInside(Slot slot) {
  const std::string text = std::string(SlotName(slot)) +
                           " must not be called from " + t_user_code +
                           "; record an event and act when it is complete";
  g_host->log(g_host->host, DEVRT_LOG_ERROR, __FILE__, __LINE__, text.data(),
              text.size());
  return MakeError(DEVRT_FAILED_PRECONDITION, 800, text);
}

void Exit(HostThread* me) {
  t_inside = false;
  if (g_machine->threaded) {
    g_machine->mutex.unlock();
  } else {
    g_threads->baton.Exit(me);
  }
}

// Apart, so that the usual end of a call saves no registers for it.
[[gnu::noinline]] void LeaveWithDeferred(HostThread* me) {
  const Deferred deferred = g_machine->scheduler.TakeDeferred();
  Exit(me);
  RunDeferred(deferred);
}

// Leaves the machine, and then makes the deferred calls (deferred.h).
void LeaveMachine(HostThread* me) {
  // Deferred calls may free memory, which a host function must not.
  if (g_machine->scheduler.has_deferred() && t_user_code == nullptr) {
    LeaveWithDeferred(me);
  } else {
    Exit(me);
  }
}

// The device of a call, or kAnyDevice.
uint32_t DeviceOf(const About& about) {
  const Machine& m = *g_machine;
  switch (about.kind) {
    case About::kNoDevice:
      break;
    case About::kDevice:
      return static_cast<uint32_t>(about.value);
    case About::kStream:
      if (const Stream* const s = m.streams.Find(about.value)) {
        return s->core->device;
      }
      break;
    case About::kEvent:
      if (const Event* const event = m.events.Find(about.value)) {
        return event->device;
      }
      break;
    case About::kFlag:
      if (const Flag* const flag = m.flags.Find(about.value)) {
        return flag->device;
      }
  }
  return kAnyDevice;
}

}  // namespace

Call::Call(Slot slot, About about, CallTag tag)
    : slot_(slot),
      // A race detector asks for the native stream of each new stream, and must
      // not change the schedule.
      takes_time_(slot != Slot::sim && slot != Slot::stream_native) {
  Machine* const machine = g_machine;
  if (__builtin_expect(t_user_code != nullptr, 0)) {
    EnterUserCode(tag);
    if (how_ != How::kOutside || error_ != nullptr) return;
  }
  // In threaded mode a host function or body runs on a worker, which does not
  // join the machine.
  me_ = t_user_code != nullptr && machine->threaded ? &g_threads->borrower()
                                                    : g_threads->Me();
  if (machine->threaded) {
    machine->mutex.lock();
  } else {
    g_threads->baton.Enter(me_);
  }
  t_inside = true;
  how_ = How::kEntered;
  me_->calls.store(me_->calls.load(std::memory_order_relaxed) + 1,
                   std::memory_order_relaxed);
  me_->entry = SlotName(slot);
  if (__builtin_expect(me_->arbitrates, 0)) {
    me_->arbitrates = false;
    machine->driver->Decide(me_);
  }
  if (slot == Slot::stream_query || slot == Slot::event_query ||
      slot == Slot::comm_poll) {
    machine->driver->Decide(me_);
  }
  if (Memory* const memory = machine->memory.IfMade())
    memory->CloseOpenedPages();
  if (__builtin_expect(machine->injection.has_call_faults(), 0)) {
    error_ = machine->injection.CallError(slot, DeviceOf(about));
  }
  if (__builtin_expect(machine->fault_rules.has_timed(), 0)) {
    machine->injection.LoseDevices(machine->driver->Now(me_));
  }
}

void Call::EnterUserCode(CallTag tag) {
  if (tag != CallTag::kCallback) {
    error_ = RefuseInside(slot_);
    return;
  }
  me_ = &g_threads->borrower();
  if (HostExecutor::Borrow()) {
    how_ = How::kBorrowed;
  } else if (t_inside) {
    how_ = How::kNested;
  }
}

Call::~Call() {
  switch (how_) {
    case How::kOutside:
    case How::kNested:
      return;
    case How::kBorrowed:
      HostExecutor::Return();
      return;
    case How::kEntered:
      break;
  }
  // A program that learns of a fault may free memory that a discarded copy
  // still touches.
  if (__builtin_expect(g_machine->scheduler.has_running_discarded_copies(),
                       0)) {
    g_machine->driver->AwaitDiscardedCopies();
  }
  if (takes_time_) g_machine->driver->Spend(me_);
  if (decides_) g_machine->driver->Decide(me_);
  LeaveMachine(me_);
}

void Call::NoteSite() {
  const devrt_call_site_v0& site = CurrentSite();
  me_->site.file = site.file;
  me_->site.line = site.line;
  me_->polled_any = me_->polled_same = 0;
  me_->polled = {};
}

devrt_status Call::Wait() {
  me_->want_next = 0;
  // A wait that blocks ends with a decision of its own.
  decides_ = AllDone(me_->want);
  if (devrt_status error = g_machine->driver->Wait(me_)) return error;
  Observe(me_);
  return g_machine->faults.PointsError(me_->want, entry());
}

}  // namespace devrt::mtia
