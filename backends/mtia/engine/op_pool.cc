// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/op_pool.h"

namespace devrt::mtia {
namespace {

constexpr int kOpsAtOnce = 32;
constexpr uint64_t kKeepScratch = 64u << 10;

}  // namespace

Op* OpPool::New(OpKind kind, StreamCore* s, HostThread* me, const char* name,
                VTime now) {
  if (free_.empty()) {
    for (int i = 0; i < kOpsAtOnce; ++i) free_.push_back(&ops_.emplace_back());
  }
  Op* const op = free_.back();
  free_.pop_back();
  op->next = nullptr;
  op->stream = s;
  op->kind = kind;
  op->engine = EngineClass::kNone;
  op->state = OpState::kPending;
  op->action = Action::kBody;
  op->split = op->declared = op->staged = op->holds_token = false;
  op->runs_elsewhere = op->dropped = false;
  op->device = s->device;
  op->thread = me->index;
  op->call_index = me->calls.load(std::memory_order_relaxed);
  op->next_dep = 0;
  op->submitted = now;
  op->began = op->ended = op->duration = 0;
  op->timeline = kNever;
  op->site = me->site;
  op->name = name;
  op->event = nullptr;
  op->destroy = nullptr;
  op->flag = nullptr;
  op->timeout = 0;
  op->fault_code = 0;
  op->size = 0;
  return op;
}

void OpPool::Recycle(Op* op) {
  if (!op->label.empty()) op->label.clear();
  if (!op->fault_text.empty()) op->fault_text.clear();
  op->deps.clear();
  op->ranges.clear();
  if (op->scratch.capacity() > kKeepScratch) {
    std::vector<std::byte>().swap(op->scratch);
  }
  if (op->snapshot.capacity() > kKeepScratch) {
    std::vector<std::byte>().swap(op->snapshot);
  }
  free_.push_back(op);
}

}  // namespace devrt::mtia
