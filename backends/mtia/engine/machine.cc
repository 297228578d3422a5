// SPDX-License-Identifier: Apache-2.0
//
// The life of the machine: its beginning, its memory, starting afresh.
#include <algorithm>

#include "backends/mtia/engine/engine.h"
#include "backends/mtia/threads/host_threads.h"

namespace devrt::mtia {

Engine* g_engine = nullptr;
uint32_t g_device_count = 0;

const char* SlotName(Slot slot) {
  static constexpr const char* kNames[] = {
#define DEVRT_SLOT(name, required, capability) #name,
#include "devrt/backends/abi/devrt_slots.inc"
      "launch",
      "spin",
      "flag_create",
      "flag_destroy",
      "flag_wait",
      "flag_set",
      "flag_set_async",
      "fault",
      "elementwise.fill",
      "elementwise.apply",
      "reduce",
      "virtual_memory.info",
      "virtual_memory.reserve",
      "virtual_memory.release",
      "virtual_memory.create",
      "virtual_memory.destroy",
      "virtual_memory.map",
      "virtual_memory.unmap",
      "sim"};
  return kNames[static_cast<uint32_t>(slot)];
}

Engine::Engine() = default;

// Puts everything of the old machine back into the pools.
class EngineReset {
 public:
  explicit EngineReset(Engine* engine) : e_(engine) {}

  void Run() {
    for (DeviceState& d : e_->devices) {
      while (d.busy != nullptr) Clear(&d, d.busy);
    }
    for (StreamCore* const s : e_->failed_cores_) {
      s->failed_from = kNever;
      e_->free_cores_.push_back(s);
    }
    e_->failed_cores_.clear();
    e_->streams.ForEachLive([this](Stream* stream) {
      StreamCore* const core = stream->core;
      if (!stream->adopted && core->in_use && !core->destroyed) {
        e_->PoolCore(core);
      }
      e_->streams.Release(stream);
    });
    e_->events.ForEachLive([this](Event* event) { e_->events.Release(event); });
    e_->flags.ForEachLive([this](Flag* flag) { e_->flags.Release(flag); });
    e_->parked.clear();
    e_->api_faults.clear();
    e_->op_faults.clear();
    // A tracer goes on with the next machine.
    e_->timeline_base += e_->timeline.size();
    e_->timeline.clear();
    e_->timeline_on = false;
    e_->deadlock_report.clear();
    e_->nondeterministic = false;
    e_->to_evaluate_.clear();
    e_->trace.Clear();
    e_->steps = e_->last_stream_number = 0;
    e_->last_op_id = 0;
    e_->last_event_number = e_->last_flag_number = 0;
    e_->pending_ops = e_->completed_ops = 0;
    e_->created_streams = e_->created_events = e_->live_streams = 0;
    e_->host_funcs_run = e_->kernels_run = 0;
  }

 private:
  void Clear(DeviceState* d, StreamCore* s) {
    d->busy = s->busy_next;
    s->busy = false;
    s->waiters = s->waits_on = nullptr;
    s->queued_eval = s->in_token_list = false;
    s->heap_index = 0;
    s->failed_from = kNever;
    s->pending.clear();
    Op* op = s->head;
    s->head = s->tail = nullptr;
    s->head_state = HeadState::kNone;
    s->queued_work = 0;
    s->completed = s->issued;
    while (op != nullptr) {
      Op* const next = op->next;
      if (op->abroad) {
        if (op->kind == OpKind::kCopy) ++e_->discarded_copies;
        op->stream = nullptr;
      } else {
        if (op->kind == OpKind::kHostFunc) {
          e_->orphans.push_back({op->host_func, op->arg, Fault()});
        }
        e_->Retire(op);
      }
      op = next;
    }
    if (s->destroyed) e_->PoolCore(s);
  }

  Engine* const e_;
};

devrt_status Engine::Reset(const Config& next, const ChoiceLog* log) {
  if (next.devices != config.devices) {
    return MakeError(DEVRT_FAILED_PRECONDITION, 0,
                     "the number of devices cannot change: " +
                         std::to_string(config.devices) + ", not " +
                         std::to_string(next.devices));
  }
  Memory* const old = memory();
  std::string text;
  if (old != nullptr && !old->Prepare(next, &text)) {
    return MakeError(DEVRT_RESOURCE_EXHAUSTED, 2,
                     "the simulated memories cannot be mapped, and the machine "
                     "goes on as it was: " +
                         text);
  }
  driver->Stop();
  EngineReset(this).Run();
  ++epoch;
  Start(next);
  if (log != nullptr) decisions.StartReplay(config.seed, *log);
  if (old != nullptr) old->Reset(config);
  return nullptr;
}

void Engine::Start(const Config& next) {
  config = next;
  threaded = config.mode == Mode::kThreaded;
  g_device_count = config.devices;
  driver = threaded ? TheThreadedDriver() : TheVirtualDriver();
  driver->Start();
  decisions.Start(config.seed);
  devices.resize(config.devices);
  for (uint32_t i = 0; i < config.devices; ++i) {
    DeviceState& d = devices[i];
    d.ordinal = i;
    d.fault = Fault();
    d.busy = nullptr;
    d.legacy = nullptr;
    d.legacy_handle = nullptr;
    for (Tokens& tokens : d.tokens) {
      tokens.used = tokens.pending = 0;
      tokens.limit = 1;
      tokens.waiting.clear();
    }
    d.tokens[static_cast<uint32_t>(EngineClass::kCompute)].limit = config.slots;
    d.tokens[static_cast<uint32_t>(EngineClass::kNone)].limit = kUnlimited;
  }
}

Memory* Engine::GetMemory(devrt_status* error) {
  if (Memory* const existing = memory()) return existing;
  std::string text;
  std::unique_ptr<Memory> made = Memory::Create(config, &text);
  if (made == nullptr) {
    *error = MakeError(DEVRT_RESOURCE_EXHAUSTED, 2,
                       "the simulated memories cannot be mapped: " + text);
    return nullptr;
  }
  memory_.store(made.get(), std::memory_order_release);
  return made.release();
}

}  // namespace devrt::mtia
