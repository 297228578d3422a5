// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_OP_POOL_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_OP_POOL_H_

#include <deque>
#include <vector>

#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// Owns all operations.  An operation that has ended is used again, and its
// vectors keep their memory, so that a submission allocates nothing.
//
// Threads: every member is called inside the machine.  The members are inline:
// the scheduler calls each of them at one place, for every operation.
class OpPool {
 public:
  // An operation of `s` that is submitted at `now` by `me`.  Fields that only
  // some kinds of operations have are for the caller to set.
  Op* New(OpKind kind, StreamCore* s, HostThread* me, const char* name,
          VTime now) {
    if (free_.empty()) {
      for (int i = 0; i < kOpsAtOnce; ++i) {
        free_.push_back(&ops_.emplace_back());
      }
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
    op->runs_elsewhere = op->hangs = op->dropped = op->shares_slot = false;
    op->device = s->device;
    op->thread = me->index;
    op->index = HasIndex(kind) ? me->work++ : kNoIndex;
    op->next_dep = 0;
    op->rank = 0;
    op->submitted = now;
    op->began = op->ended = op->duration = 0;
    op->timeline = kNever;
    op->site = me->site;
    op->name = name;
    op->event = nullptr;
    op->destroy = nullptr;
    op->flag = nullptr;
    op->part = nullptr;
    op->timeout = 0;
    op->fault_code = 0;
    op->size = 0;
    return op;
  }
  // Takes back an operation that no stream holds.
  void Recycle(Op* op) {
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

 private:
  static constexpr int kOpsAtOnce = 32;
  static constexpr uint64_t kKeepScratch = 64u << 10;

  std::deque<Op> ops_;
  std::vector<Op*> free_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_OP_POOL_H_
