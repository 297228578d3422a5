// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/scheduler.h"

#include <algorithm>

#include "backends/mtia/engine/cost.h"
#include "backends/mtia/engine/dependencies.h"

namespace devrt::mtia {

// ---- submission ----

Op* Scheduler::NewOp(OpKind kind, StreamCore* s, HostThread* me,
                     const char* name) {
  return pool_.New(kind, s, me, name, driver_->Now(me));
}

void Scheduler::Recycle(Op* op) { pool_.Recycle(op); }

void Scheduler::Append(Op* op, StreamCore* s) {
  op->seq = ++s->issued;
  op->id = last_op_id_.load(std::memory_order_relaxed) + 1;
  last_op_id_.store(op->id, std::memory_order_relaxed);
  if (s->tail != nullptr) {
    s->tail->next = op;
  } else {
    s->head = op;
  }
  s->tail = op;
  if (IsWork(op)) ++s->queued_work;
  ++history_->pending_ops;
  ++history_->progress;
}

void Scheduler::Submit(Op* op) {
  StreamCore* const s = op->stream;
  streams_->MarkBusy(s);
  CollectDeps(*streams_, op, s);
  if (op->duration == 0) op->duration = CostOf(*op, *config_);
  Append(op, s);
  history_->trace.Add(
      1u << 8 | static_cast<uint32_t>(op->kind), s->number,
      static_cast<uint64_t>(op->thread) << 48 | (op->seq - s->base));
  if (history_->timeline.is_kept()) history_->timeline.Add(op);
  if (s->head == op) {
    Enqueue(s);
    Drain();
  }
}

void Scheduler::Drop(const Point& p) {
  if (Done(p)) return;
  Op* op = p.stream->head;
  while (op->seq != p.seq) op = op->next;
  op->dropped = true;
}

void Scheduler::Record(Event* event, StreamCore* s, HostThread* me) {
  Op* const op = NewOp(OpKind::kRecord, s, me, "record");
  op->event = event;
  op->capture = ++event->capture;
  event->ended = false;
  event->point = {s, s->issued + 1};
  Submit(op);
}

void Scheduler::WaitEvent(StreamCore* s, Event* event, HostThread* me) {
  const Point p = event->point;
  if (p.stream == nullptr) return;
  if (s->kind == StreamKind::kLegacy) {
    Op* const op = NewOp(OpKind::kWait, s, me, "wait");
    AddDep(op, p);
    Submit(op);
    return;
  }
  const bool is_over = Done(p) && !Failed(p);
  if (p.stream == s || (is_over && !history_->timeline.is_kept())) return;
  for (Point& known : s->pending) {
    if (known.stream == p.stream) {
      known.seq = std::max(known.seq, p.seq);
      return;
    }
  }
  s->pending.push_back(p);
  if (s->failed_from == kNever) s->failure_reported = false;
  streams_->MarkBusy(s);
}

void Scheduler::ReleaseStream(Stream* stream, HostThread* me) {
  StreamCore* const core = stream->core;
  const bool owner = !stream->adopted && stream->life == core->life;
  streams_->ReleaseHandle(stream);
  if (!owner) return;
  // The waits become an operation, so that a wait for all work of the device
  // still covers them.
  const bool waits = std::any_of(core->pending.begin(), core->pending.end(),
                                 [](const Point& p) { return !Done(p); });
  if (waits && core->failed_from == kNever) {
    Submit(NewOp(OpKind::kWait, core, me, "wait"));
  }
  core->destroyed = true;
  streams_->LeaveBusyIfIdle(core);
}

// ---- dependencies ----

void Scheduler::Enqueue(StreamCore* s) {
  if (s->queued_eval) return;
  s->queued_eval = true;
  to_evaluate_.push_back(s);
}

void Scheduler::Drain() {
  if (draining_) return;
  draining_ = true;
  for (size_t i = 0; i < to_evaluate_.size(); ++i) {
    StreamCore* const s = to_evaluate_[i];
    s->queued_eval = false;
    if (s->head != nullptr) EvaluateHead(s);
  }
  to_evaluate_.clear();
  draining_ = false;
  if (discarded_) {
    discarded_ = false;
    driver_->Discarded();
  }
}

void Scheduler::EvaluateHead(StreamCore* s) {
  Op* const op = s->head;
  if (s->head_state == HeadState::kNone) {
    s->when = std::max(s->last_end, op->submitted + config_->latency);
  }
  for (; op->next_dep < op->deps.size(); ++op->next_dep) {
    const Point p = op->deps[op->next_dep];
    if (Failed(p) && op->next_dep < op->implicit) {
      Fail(s, p.stream->origin);
      return;
    }
    if (!Done(p)) {
      BlockOn(s, p);
      return;
    }
    if (p.stream->completed == p.seq) {
      s->when = std::max(s->when, p.stream->last_end);
    }
  }
  s->head_state = HeadState::kReady;
  driver_->HeadReady(s);
}

void Scheduler::BlockOn(StreamCore* s, const Point& p) {
  s->head_state = HeadState::kBlocked;
  s->waits_on = p.stream;
  s->waits_seq = p.seq;
  s->next_waiter = p.stream->waiters;
  p.stream->waiters = s;
}

void Scheduler::StopWaiting(StreamCore* s) {
  StreamCore** link = &s->waits_on->waiters;
  while (*link != s) link = &(*link)->next_waiter;
  *link = s->next_waiter;
  s->waits_on = nullptr;
}

void Scheduler::WakeWaiters(StreamCore* s) {
  StreamCore** link = &s->waiters;
  while (*link != nullptr) {
    StreamCore* const waiter = *link;
    if (s->completed < waiter->waits_seq) {
      link = &waiter->next_waiter;
      continue;
    }
    *link = waiter->next_waiter;
    waiter->waits_on = nullptr;
    waiter->when = std::max(waiter->when, s->last_end);
    Enqueue(waiter);
  }
}

// ---- ends of operations ----

void Scheduler::Complete(Op* op, VTime end) {
  StreamCore* const s = op->stream;
  if (op->state != OpState::kFailed) op->state = OpState::kDone;
  op->ended = end;
  if (op->holds_token) tokens_->Release(op);
  s->last_end = end;
  if (op->event != nullptr && op->event->capture == op->capture) {
    op->event->end = end;
    op->event->ended = true;
  }
  if (op->kind == OpKind::kKernel) ++history_->kernels_run;
  if (op->timeline != kNever) history_->timeline.Update(op);
  PopHead(s);
  s->completed = op->seq;
  Retire(op);
  ++history_->completed_ops;
  ++history_->progress;
  if (s->waiters != nullptr) WakeWaiters(s);
  if (s->head != nullptr) {
    Enqueue(s);
  } else {
    streams_->LeaveBusyIfIdle(s);
  }
  Drain();
}

void Scheduler::PopHead(StreamCore* s) {
  Op* const op = s->head;
  s->head = op->next;
  if (s->head == nullptr) s->tail = nullptr;
  s->head_state = HeadState::kNone;
  if (IsWork(op)) --s->queued_work;
  --history_->pending_ops;
}

void Scheduler::Retire(Op* op) {
  if (op->kind == OpKind::kKernel && op->destroy != nullptr) {
    deferred_.closures.push_back({op->destroy, op->arg});
  }
  if (op->part != nullptr) collectives_->Retire(op);
  pool_.Recycle(op);
}

// ---- failures ----

void Scheduler::FailStreams(uint32_t device, const Fault* origin) {
  // Failed streams stay in the list.
  for (StreamCore* s = streams_->of(device).busy; s != nullptr;
       s = s->busy_next) {
    if (s->failed_from == kNever) Fail(s, origin);
  }
}

void Scheduler::Fail(StreamCore* s, const Fault* origin) {
  s->failed_from = s->completed + 1;
  s->failure_reported = false;
  s->origin = origin;
  DiscardAll(s);
}

void Scheduler::DiscardAll(StreamCore* s) {
  discarded_ = true;
  if (s->head_state == HeadState::kBlocked && s->waits_on != nullptr) {
    StopWaiting(s);
  }
  if (s->head_state == HeadState::kReady ||
      s->head_state == HeadState::kParked) {
    driver_->HeadGone(s);
  }
  Op* op = s->head;
  s->head = s->tail = nullptr;
  s->head_state = HeadState::kNone;
  s->queued_work = 0;
  s->pending.clear();
  s->completed = s->issued;
  const Fault fault = *s->origin;
  while (op != nullptr) {
    Op* const next = op->next;
    --history_->pending_ops;
    DiscardOp(op, fault);
    op = next;
  }
  if (s->waiters != nullptr) WakeWaiters(s);
}

void Scheduler::DiscardOp(Op* op, const Fault& fault) {
  if (op->holds_token) tokens_->Release(op);
  if (op->state != OpState::kFailed) op->state = OpState::kDiscarded;
  if (op->timeline != kNever) history_->timeline.Update(op);
  if (op->runs_elsewhere) {
    if (op->kind == OpKind::kCopy) ++running_discarded_copies_;
    op->stream = nullptr;  // the thread that runs it retires it
    return;
  }
  if (op->kind == OpKind::kHostFunc) {
    deferred_.host_funcs.push_back({op->host_func, op->arg, fault});
  }
  if (op->kind == OpKind::kFree) execution_->DropBlock(op);
  Retire(op);
}

// ---- reset ----

void Scheduler::Reset() {
  for (const DeviceStreams& d : streams_->devices()) {
    while (d.busy != nullptr) ThrowAway(d.busy);
  }
  to_evaluate_.clear();
  last_op_id_ = 0;
}

void Scheduler::ThrowAway(StreamCore* s) {
  s->waiters = s->waits_on = nullptr;
  s->queued_eval = s->in_token_list = false;
  s->heap_index = 0;
  Op* op = s->head;
  s->head = s->tail = nullptr;
  s->head_state = HeadState::kNone;
  s->queued_work = 0;
  s->completed = s->issued;
  while (op != nullptr) {
    Op* const next = op->next;
    if (op->runs_elsewhere) {
      if (op->kind == OpKind::kCopy) ++running_discarded_copies_;
      op->stream = nullptr;
    } else {
      if (op->kind == OpKind::kHostFunc) {
        deferred_.host_funcs.push_back({op->host_func, op->arg, Fault()});
      }
      Retire(op);
    }
    op = next;
  }
  streams_->Clear(s);
}

}  // namespace devrt::mtia
