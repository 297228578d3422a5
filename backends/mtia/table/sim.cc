// SPDX-License-Identifier: Apache-2.0
//
// devrt.sim/1: calls that only a simulated accelerator can have.
#include <algorithm>
#include <cstring>
#include <string>

#include "backends/mtia/drivers/host_executor.h"
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/engine/replay_token.h"
#include "backends/mtia/engine/user_code.h"
#include "backends/mtia/system/helper_thread.h"
#include "backends/mtia/table/backend.h"
#include "backends/mtia/table/call.h"
#include "backends/mtia/threads/host_threads.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

devrt_status CopyText(const std::string& text, char* buffer, uint64_t capacity,
                      uint64_t* size) {
  *size = text.size();
  const uint64_t n = std::min<uint64_t>(capacity, text.size());
  if (n > 0) std::memcpy(buffer, text.data(), n);
  return nullptr;
}

// Begins a machine afresh.  The calling thread stays inside, so if the mode
// changes it changes the lock as well.
devrt_status Restart(Call* call, const Config& config, const ChoiceLog* log) {
  Machine* const machine = g_machine;
  HostThread* const me = call->me();
  if (!machine->threaded) g_threads->baton.LetOthersGo(me);
  if (!machine->threaded && g_threads->baton.contended()) {
    return MakeError(
        DEVRT_FAILED_PRECONDITION, 0,
        "the simulator cannot be reset while another thread is in a call");
  }
  const bool was_threaded = machine->threaded;
  if (devrt_status error = machine->Reset(config, log)) return error;
  EndHangingAborts();
  g_threads->Reset(me, config.baton, config.pins(), config.watchdog);
  if (!was_threaded && machine->threaded) machine->mutex.lock();
  if (was_threaded && !machine->threaded) machine->mutex.unlock();
  return nullptr;
}

// Finds the local address of `size` live bytes at `ptr`.
devrt_status FindLive(const void* ptr, uint64_t size, std::byte** local) {
  const Memory* const memory = g_machine->memory.IfMade();
  const Resolved r = memory != nullptr ? memory->Find(ptr) : Resolved();
  if (r.space == Space::kHost || r.local == nullptr ||
      size > r.size - r.offset) {
    return RefuseControl("the range is not live device memory");
  }
  *local = r.local;
  return nullptr;
}

}  // namespace

devrt_status Backend::sim_reset(const char* text, uint64_t size) {
  Config config;
  config.devices = g_device_count;
  config.suballocation = g_machine->config.suballocation;
  std::string error;
  if (size != 0 && !ParseConfig({text, size}, &config, &error)) {
    return RefuseControl(error);
  }
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  return Restart(&call, config, nullptr);
}

devrt_status Backend::Reopen(const Config& config) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  // Here the number of devices may change: no handle is valid any more.
  const uint32_t devices = g_machine->config.devices;
  g_machine->config.devices = config.devices;
  devrt_status error = Restart(&call, config, nullptr);
  if (error != nullptr) g_machine->config.devices = devices;
  return error;
}

devrt_status Backend::sim_replay(const char* text, uint64_t size) {
  Token token;
  std::string error;
  if (!ParseToken({text, size}, &token, &error)) return RefuseControl(error);
  if (!token.faults.empty()) {
    return RefuseControl(
        "the token has a sixth part, the rules of the layer faults, which the "
        "simulator cannot follow: replay it by devrt::Simulator");
  }
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  Config config = g_machine->config;
  if (!AdoptToken(token, g_machine->config_hash(), &config, &error)) {
    return MakeError(DEVRT_FAILED_PRECONDITION, 0, error);
  }
  return Restart(&call, config, &token.log);
}

devrt_status Backend::sim_config(char* buffer, uint64_t capacity,
                                 uint64_t* size) {
  Call call(Slot::sim, {}, CallTag::kCallback);
  return CopyText(ConfigText(g_machine->config), buffer, capacity, size);
}

devrt_status Backend::sim_now_ns(uint64_t* now) {
  Call call(Slot::sim, {}, CallTag::kCallback);
  call.TakeTime();  // a loop that waits for a time comes to its end
  *now = g_machine->driver->Now(call.me());
  return nullptr;
}

devrt_status Backend::sim_yield() {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  call.TakeTime();
  HostThread* const me = call.me();
  me->want.clear();
  me->polled_any = UINT8_MAX;  // long past the first soft wait
  devrt_status error = g_machine->driver->SoftWait(me);
  me->polled_same = me->polled_any = 0;
  return error;
}

devrt_status Backend::sim_trace_hash(uint64_t* hash, uint64_t* steps) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  *hash = g_machine->history.trace.hash();
  *steps = g_machine->history.trace.steps();
  return nullptr;
}

devrt_status Backend::sim_token(char* buffer, uint64_t capacity,
                                uint64_t* size) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  if (!g_machine->decisions.log().complete()) {
    return MakeError(DEVRT_FAILED_PRECONDITION, 0,
                     "the run is too long for a replay token: reset the "
                     "simulator just before the part to repeat");
  }
  const std::string text = MakeToken(
      g_machine->config, g_machine->config_hash(), g_machine->decisions.log());
  if (capacity >= text.size()) g_machine->reports.WarnUncontrolled();
  return CopyText(text, buffer, capacity, size);
}

devrt_status Backend::sim_inject(const devrt_sim_fault_v1* fault) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  return g_machine->injection.Arm(devrt::plugin::ReadStruct(fault));
}

devrt_status Backend::sim_timeline_enable(uint32_t on) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  g_machine->history.timeline.Enable(on != 0);
  return nullptr;
}

devrt_status Backend::sim_timeline(void (*visit)(void* arg,
                                                 const devrt_sim_op_v1* op),
                                   void* arg) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  g_machine->history.timeline.VisitAll(visit, arg);
  return nullptr;
}

devrt_status Backend::sim_timeline_take(
    void (*visit)(void* arg, const devrt_sim_op_v1* op), void* arg) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  g_machine->history.timeline.VisitEnded(visit, arg);
  return nullptr;
}

devrt_status Backend::sim_decisions_enable(uint32_t on) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  g_machine->decisions.Keep(on != 0);
  return nullptr;
}

devrt_status Backend::sim_decisions(
    void (*visit)(void* arg, const devrt_sim_decision_v1* made), void* arg) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  for (const Decision& decision : g_machine->decisions.kept()) {
    devrt_sim_decision_v1 out = {};
    out.struct_size = sizeof out;
    out.kind = static_cast<uint32_t>(decision.kind);
    out.count = decision.count;
    out.choice = decision.choice;
    out.stream = decision.stream;
    out.seq = decision.seq;
    out.thread = decision.thread;
    out.line = decision.site.line;
    out.file = decision.site.file;
    visit(arg, &out);
  }
  return nullptr;
}

devrt_status Backend::sim_stats(devrt_sim_stats_v1* stats) {
  Call call(Slot::sim, {}, CallTag::kCallback);
  const Machine& m = *g_machine;
  const History& history = m.history;
  devrt_sim_stats_v1 out = {};
  out.threads = g_threads->list.joined();
  out.live_streams = m.streams.live();
  out.live_events = m.events.live();
  if (const Memory* const memory = m.memory.IfMade()) {
    out.live_blocks = memory->live_blocks();
    out.live_pinned = memory->live_pinned();
    out.live_registered = memory->live_registered();
  }
  out.pending_ops = history.pending_ops;
  out.completed_ops = history.completed_ops;
  out.created_streams = m.streams.created();
  out.created_events = m.events.created();
  out.host_funcs_run = history.host_funcs_run;
  out.kernels_run = history.kernels_run;
  out.uncontrolled = history.uncontrolled;
  out.faults_fired = m.fault_rules.fired();
  out.replay_left = m.decisions.CountLeft();
  out.replay_misfit = m.decisions.misfit().decision;
  out.replay_choice = m.decisions.misfit().choice;
  out.replay_ways = m.decisions.misfit().ways;
  devrt::plugin::WriteStruct(stats, out);
  return nullptr;
}

devrt_status Backend::sim_deadlock_report(char* buffer, uint64_t capacity,
                                          uint64_t* size) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  return CopyText(g_machine->reports.deadlock(), buffer, capacity, size);
}

devrt_status Backend::sim_next_op(uint32_t* thread, uint64_t* index) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  *thread = call.me()->index;
  *index = call.me()->work;
  return nullptr;
}

devrt_status Backend::sim_outcome(uint64_t* hash) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  const Outcome& outcome = g_machine->history.outcome;
  if (!outcome.is_on()) {
    return MakeError(DEVRT_FAILED_PRECONDITION, 0,
                     "the outcome is not collected: start the machine with "
                     "outcome=on, by DEVRT_MTIA or a reset");
  }
  *hash = outcome.Hash(g_machine->memory.IfMade());
  return nullptr;
}

devrt_status Backend::sim_take_part(uint32_t waits, uint32_t* part) {
  if (t_user_code != nullptr || t_helper != nullptr || g_machine->threaded ||
      !g_threads->baton.keeps()) {
    *part = DEVRT_SIM_PART_NONE;
    return nullptr;
  }
  *part = g_threads->IsHere() ? DEVRT_SIM_PART_TAKES : DEVRT_SIM_PART_NOT_YET;
  if (waits == 0 || *part == DEVRT_SIM_PART_TAKES) return nullptr;
  Call call(Slot::sim);
  if (!call.refused()) *part = DEVRT_SIM_PART_TAKES;
  return call.error();
}

devrt_status Backend::sim_pause() {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  call.TakeTime();  // a loop of locks comes to its end
  call.DecideAtEnd();
  return nullptr;
}

devrt_status Backend::sim_await_change(const uint32_t* word, uint32_t value) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  if (g_machine->threaded) {
    return RefuseControl("await_change is for mode=virtual");
  }
  HostThread* const me = call.me();
  me->entry = "devrt::sync";
  me->want.clear();
  me->lock_word = word;
  me->lock_value = value;
  devrt_status error = g_machine->driver->AwaitChange(me);
  me->lock_word = nullptr;
  return error;
}

devrt_status Backend::sim_note_lock(const uint32_t* word, uint32_t state) {
  Locks::User user;
  user.op = HostExecutor::Current();
  if (user.op == nullptr && g_threads->IsHere()) {
    user.index = t_host->index;
    user.site = t_host->site;
  }
  switch (state) {
    case DEVRT_SIM_LOCK_FREE:
      g_machine->locks.GiveBack(word);
      break;
    case DEVRT_SIM_LOCK_HELD:
      g_machine->locks.Take(word, user);
      break;
    case DEVRT_SIM_LOCK_AWAITED:
      g_machine->locks.Await(word, user);
      break;
    default:
      return RefuseControl("state is " + std::to_string(state) +
                           ", expected one of DEVRT_SIM_LOCK_*");
  }
  return nullptr;
}

namespace {

devrt_status CheckHost(const void* host, uint64_t size) {
  if (host != nullptr || size == 0) return nullptr;
  return RefuseControl("the host pointer is null: pass host memory of " +
                       std::to_string(size) + " bytes");
}

}  // namespace

devrt_status Backend::sim_peek(const void* device_ptr, void* host,
                               uint64_t size) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  std::byte* local = nullptr;
  if (devrt_status error = CheckHost(host, size)) return error;
  if (devrt_status error = FindLive(device_ptr, size, &local)) return error;
  if (size != 0) std::memcpy(host, local, size);
  return nullptr;
}

devrt_status Backend::sim_poke(void* device_ptr, const void* host,
                               uint64_t size) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  std::byte* local = nullptr;
  if (devrt_status error = CheckHost(host, size)) return error;
  if (devrt_status error = FindLive(device_ptr, size, &local)) return error;
  if (size != 0) std::memcpy(local, host, size);
  return nullptr;
}

const devrt_sim_v1 kSimTable = {
    sizeof(devrt_sim_v1),
    0,
    devrt::plugin::Thunk<&Backend::sim_reset>,
    devrt::plugin::Thunk<&Backend::sim_config>,
    devrt::plugin::Thunk<&Backend::sim_now_ns>,
    devrt::plugin::Thunk<&Backend::sim_yield>,
    devrt::plugin::Thunk<&Backend::sim_trace_hash>,
    devrt::plugin::Thunk<&Backend::sim_token>,
    devrt::plugin::Thunk<&Backend::sim_replay>,
    devrt::plugin::Thunk<&Backend::sim_inject>,
    devrt::plugin::Thunk<&Backend::sim_timeline_enable>,
    devrt::plugin::Thunk<&Backend::sim_timeline>,
    devrt::plugin::Thunk<&Backend::sim_stats>,
    devrt::plugin::Thunk<&Backend::sim_deadlock_report>,
    devrt::plugin::Thunk<&Backend::sim_peek>,
    devrt::plugin::Thunk<&Backend::sim_poke>,
    devrt::plugin::Thunk<&Backend::sim_timeline_take>,
    devrt::plugin::Thunk<&Backend::sim_next_op>,
    devrt::plugin::Thunk<&Backend::sim_outcome>,
    devrt::plugin::Thunk<&Backend::sim_decisions_enable>,
    devrt::plugin::Thunk<&Backend::sim_decisions>,
    devrt::plugin::Thunk<&Backend::sim_take_part>,
    devrt::plugin::Thunk<&Backend::sim_pause>,
    devrt::plugin::Thunk<&Backend::sim_await_change>,
    devrt::plugin::Thunk<&Backend::sim_note_lock>,
};

}  // namespace devrt::mtia
