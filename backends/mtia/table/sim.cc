// SPDX-License-Identifier: Apache-2.0
//
// devrt.sim/1: calls that only a simulated accelerator can have.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>

#include "backends/mtia/engine/machine.h"
#include "backends/mtia/engine/replay_token.h"
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
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  Config config = g_machine->config;
  config.seed = token.seed;
  config.strategy = token.strategy;
  if (ConfigHash(config) != token.config_hash) {
    char words[160];
    std::snprintf(words, sizeof words,
                  "the token was made under another configuration (hash "
                  "%" PRIx64 ", here %" PRIx64 "): reset to that one first",
                  token.config_hash, ConfigHash(config));
    return MakeError(DEVRT_FAILED_PRECONDITION, 0, words);
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
  *now = g_machine->driver->Now(call.me());
  return nullptr;
}

devrt_status Backend::sim_yield() {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
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
  return CopyText(MakeToken(g_machine->config, g_machine->decisions.log()),
                  buffer, capacity, size);
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
  devrt::plugin::WriteStruct(stats, out);
  return nullptr;
}

devrt_status Backend::sim_deadlock_report(char* buffer, uint64_t capacity,
                                          uint64_t* size) {
  Call call(Slot::sim);
  if (call.refused()) return call.error();
  return CopyText(g_machine->reports.deadlock(), buffer, capacity, size);
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
};

}  // namespace devrt::mtia
