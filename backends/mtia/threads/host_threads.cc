// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/threads/host_threads.h"

#include <pthread.h>

#include <mutex>
#include <vector>

#include "backends/mtia/engine/machine.h"

namespace devrt::mtia {

HostThreads* g_threads = nullptr;

namespace {

pthread_key_t g_exit_key;

}  // namespace

HostThread* HostThreads::Join() {
  static const int made = pthread_key_create(&g_exit_key, &ThreadExit);
  const Baton::Arrival arrival(&baton);
  const std::lock_guard<std::mutex> lock(list.mutex);
  if (t_host == nullptr) {
    t_host = list.New();
    if (made == 0) pthread_setspecific(g_exit_key, t_host);
  }
  HostThread* const me = t_host;
  list.Add(me, baton.NumbersAtOnce());
  me->state = HostState::kOutside;
  return me;
}

void HostThreads::ThreadExit(void* thread) {
  auto* const me = static_cast<HostThread*>(thread);
  HostThreads* const self = g_threads;
  Machine* const machine = g_machine;
  const auto is_here = [&] { return me->epoch == self->list.epoch(); };
  bool leaves = is_here();
  if (leaves && !machine->threaded) {
    leaves = self->baton.EnterToLeave(me);
  } else if (leaves) {
    machine->mutex.lock();
    leaves = is_here();
    if (!leaves) machine->mutex.unlock();
  }
  if (leaves) {
    for (Stream* const stream : me->per_thread) {
      if (stream != nullptr) machine->scheduler.ReleaseStream(stream, me);
    }
    me->per_thread.clear();
    ++machine->history.progress;
  }
  t_host = nullptr;
  {
    const std::lock_guard<std::mutex> lock(self->list.mutex);
    if (leaves) self->list.Remove(me);
    self->list.Release(me);
  }
  if (!leaves) return;
  if (machine->threaded) {
    machine->mutex.unlock();
  } else {
    self->baton.Free();
  }
}

void HostThreads::Configure(bool keep, bool pin, uint64_t watchdog) {
  list.set_pin(pin);
  baton.Configure(keep, watchdog);
}

void HostThreads::Reset(HostThread* me, bool keep, bool pin,
                        uint64_t watchdog) {
  const std::lock_guard<std::mutex> lock(list.mutex);
  const std::vector<HostThread*> before = list.Restart(pin);
  baton.Configure(keep, watchdog);
  list.Add(me, true);
  me->calls.store(0, std::memory_order_relaxed);
  for (HostThread* const thread : before) {
    if (thread == me || !Sleeps(thread)) continue;
    if (thread->is_leaving) {
      baton.WakeExiting(thread);
    } else {
      list.Add(thread, baton.NumbersAtOnce());
    }
  }
  baton.Restart(me);
}

}  // namespace devrt::mtia
