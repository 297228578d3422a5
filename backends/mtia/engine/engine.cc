// SPDX-License-Identifier: Apache-2.0
//
// Submission, dependencies and completion.
#include "backends/mtia/engine/engine.h"

#include <algorithm>

namespace devrt::mtia {
namespace {

constexpr VTime kRecordCost = 100;
constexpr VTime kHostFuncCost = 1'000;
constexpr uint64_t kKeepScratch = 64u << 10;

bool IsBlocking(const StreamCore* s) {
  return s->kind == StreamKind::kBlocking || s->kind == StreamKind::kPerThread;
}

VTime Transfer(uint64_t bytes, uint64_t rate) {
  __extension__ using Wide = unsigned __int128;
  const Wide wide = static_cast<Wide>(bytes) * 1'000'000'000u;
  return static_cast<VTime>(wide / std::max<uint64_t>(rate, 1));
}

}  // namespace

// ---- submission ----

Op* Engine::NewOp(OpKind kind, StreamCore* s, HostThread* me,
                  const char* name) {
  if (free_ops_.empty()) {
    for (int i = 0; i < 32; ++i) free_ops_.push_back(&ops_.emplace_back());
  }
  Op* const op = free_ops_.back();
  free_ops_.pop_back();
  op->next = nullptr;
  op->stream = s;
  op->kind = kind;
  op->engine = EngineClass::kNone;
  op->state = OpState::kPending;
  op->action = Action::kBody;
  op->split = op->declared = op->staged = op->holds_token = false;
  op->abroad = op->dropped = false;
  op->device = s->device;
  op->thread = me->index;
  op->call_index = me->calls.load(std::memory_order_relaxed);
  op->next_dep = 0;
  op->submitted = driver->Now(me);
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

void Engine::Recycle(Op* op) {
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
  free_ops_.push_back(op);
}

VTime Engine::Cost(const Op* op) const {
  VTime cost = 0;
  switch (op->kind) {
    case OpKind::kRecord:
    case OpKind::kWait:
    case OpKind::kAlloc:
    case OpKind::kFree:
      return kRecordCost;
    case OpKind::kHostFunc:
      return kHostFuncCost;
    case OpKind::kFill:
      cost = Transfer(op->size, config.local);
      break;
    case OpKind::kKernel:
      cost = config.kernel;
      for (const Range& r : op->ranges) {
        cost += Transfer(r.size, config.local);
      }
      break;
    case OpKind::kCopy:
      switch (op->engine) {
        case EngineClass::kH2D:
          cost = Transfer(op->size, config.h2d);
          break;
        case EngineClass::kD2H:
          cost = Transfer(op->size, config.d2h);
          break;
        case EngineClass::kP2P:
          cost = Transfer(op->size, config.p2p);
          break;
        default:
          cost = Transfer(op->size, config.local);
      }
      break;
  }
  return std::max<VTime>(cost, 1);
}

void Engine::AddDep(Op* op, const Point& p) {
  for (Point& known : op->deps) {
    if (known.stream == p.stream) {
      known.seq = std::max(known.seq, p.seq);
      return;
    }
  }
  op->deps.push_back(p);
}

// The legacy rule orders; unlike a wait it takes no part in a failure.
void Engine::AddImplicitDep(Op* op, const Point& p) {
  if (Done(p)) return;
  for (size_t i = op->implicit; i < op->deps.size(); ++i) {
    if (op->deps[i].stream != p.stream) continue;
    op->deps[i].seq = std::max(op->deps[i].seq, p.seq);
    return;
  }
  op->deps.push_back(p);
}

void Engine::CollectDeps(Op* op, StreamCore* s) {
  for (const Point& p : s->pending) AddDep(op, p);
  s->pending.clear();
  op->implicit = static_cast<uint32_t>(op->deps.size());
  if (IsBlocking(s)) {
    const StreamCore* const legacy = devices[s->device].legacy;
    if (legacy == nullptr) return;
    AddImplicitDep(op, {devices[s->device].legacy, legacy->issued});
  } else if (s->kind == StreamKind::kLegacy) {
    for (StreamCore *b = devices[s->device].busy, *next; b; b = next) {
      next = b->busy_next;
      if (!IsBlocking(b)) continue;
      if (b->issued != b->completed) op->deps.push_back({b, b->issued});
      for (const Point& wait : b->pending) AddImplicitDep(op, wait);
    }
  }
}

void Engine::Append(Op* op, StreamCore* s) {
  op->seq = ++s->issued;
  op->id = last_op_id.load(std::memory_order_relaxed) + 1;
  last_op_id.store(op->id, std::memory_order_relaxed);
  if (s->tail != nullptr) {
    s->tail->next = op;
  } else {
    s->head = op;
  }
  s->tail = op;
  if (IsWork(op)) ++s->queued_work;
  ++pending_ops;
  ++progress;
}

void Engine::Submit(Op* op) {
  StreamCore* const s = op->stream;
  MarkBusy(s);
  CollectDeps(op, s);
  if (op->duration == 0) op->duration = Cost(op);
  Append(op, s);
  trace.Add(1u << 8 | static_cast<uint32_t>(op->kind), s->number,
            static_cast<uint64_t>(op->thread) << 48 | (op->seq - s->base));
  if (TimelineKept()) TimelineSubmit(op);
  if (s->head == op) {
    Enqueue(s);
    Drain();
  }
}

void Engine::Drop(const Point& p) {
  if (Done(p)) return;
  Op* op = p.stream->head;
  while (op->seq != p.seq) op = op->next;
  op->dropped = true;
}

void Engine::Record(Event* event, StreamCore* s, HostThread* me) {
  Op* const op = NewOp(OpKind::kRecord, s, me, "record");
  op->event = event;
  op->capture = ++event->capture;
  event->ended = false;
  event->point = {s, s->issued + 1};
  Submit(op);
}

void Engine::WaitEvent(StreamCore* s, Event* event, HostThread* me) {
  const Point p = event->point;
  if (p.stream == nullptr) return;
  if (s->kind == StreamKind::kLegacy) {
    Op* const op = NewOp(OpKind::kWait, s, me, "wait");
    AddDep(op, p);
    Submit(op);
    return;
  }
  if (p.stream == s || (Done(p) && !Failed(p) && !TimelineKept())) return;
  for (Point& known : s->pending) {
    if (known.stream == p.stream) {
      known.seq = std::max(known.seq, p.seq);
      return;
    }
  }
  s->pending.push_back(p);
  if (s->failed_from == kNever) s->failure_told = false;
  MarkBusy(s);
}

void Engine::Frontier(StreamCore* s, Points* points) {
  const Point own{s, s->issued};
  if (!Done(own) || Failed(own)) points->push_back(own);
  for (const Point& p : s->pending) {
    if (!Done(p) || Failed(p)) points->push_back(p);
  }
  if (s->kind != StreamKind::kLegacy) return;
  for (StreamCore* b = devices[s->device].busy; b; b = b->busy_next) {
    if (IsBlocking(b)) AddCovered(b, points);
  }
}

void Engine::Predecessors(StreamCore* s, Points* points) {
  Frontier(s, points);
  StreamCore* const legacy = devices[s->device].legacy;
  if (!IsBlocking(s) || legacy == nullptr) return;
  const Point p{legacy, legacy->issued};
  if (!Done(p)) points->push_back(p);
}

void Engine::DeviceFrontier(uint32_t device, Points* points) {
  for (StreamCore* b = devices[device].busy; b; b = b->busy_next) {
    AddCovered(b, points);
  }
}

// What a wait covers besides the stream that it names: a failure that a call
// has returned is none of its business any more.
void Engine::AddCovered(StreamCore* b, Points* points) {
  const Point own{b, b->issued};
  const bool told = b->failure_told;
  if (!Done(own) || (Failed(own) && !told)) points->push_back(own);
  for (const Point& p : b->pending) {
    if (!Done(p) || (Failed(p) && !told)) points->push_back(p);
    if (Failed(p)) b->failure_told = true;
  }
}

// ---- dependencies ----

void Engine::Enqueue(StreamCore* s) {
  if (s->queued_eval) return;
  s->queued_eval = true;
  to_evaluate_.push_back(s);
}

void Engine::Drain() {
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
    driver->Discarded();
  }
}

void Engine::EvaluateHead(StreamCore* s) {
  Op* const op = s->head;
  if (s->head_state == HeadState::kNone) {
    s->when = std::max(s->last_end, op->submitted + config.latency);
  }
  for (; op->next_dep < op->deps.size(); ++op->next_dep) {
    const Point p = op->deps[op->next_dep];
    if (Failed(p) && op->next_dep < op->implicit) {
      Poison(s, p.stream->origin);
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
  driver->HeadReady(s);
}

void Engine::BlockOn(StreamCore* s, const Point& p) {
  s->head_state = HeadState::kBlocked;
  s->waits_on = p.stream;
  s->waits_seq = p.seq;
  s->next_waiter = p.stream->waiters;
  p.stream->waiters = s;
}

void Engine::StopWaiting(StreamCore* s) {
  StreamCore** link = &s->waits_on->waiters;
  while (*link != s) link = &(*link)->next_waiter;
  *link = s->next_waiter;
  s->waits_on = nullptr;
}

void Engine::WakeWaiters(StreamCore* s) {
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

// ---- progress ----

void Engine::Complete(Op* op, VTime end) {
  StreamCore* const s = op->stream;
  if (op->state != OpState::kFailed) op->state = OpState::kDone;
  op->ended = end;
  if (op->holds_token) ReleaseToken(op);
  s->last_end = end;
  if (op->event != nullptr && op->event->capture == op->capture) {
    op->event->end = end;
    op->event->ended = true;
  }
  if (op->kind == OpKind::kKernel) ++kernels_run;
  if (op->timeline != kNever) TimelineUpdate(op);
  PopHead(s);
  s->completed = op->seq;
  Retire(op);
  ++completed_ops;
  ++progress;
  if (s->waiters != nullptr) WakeWaiters(s);
  if (s->head != nullptr) {
    Enqueue(s);
  } else {
    MaybeIdle(s);
  }
  Drain();
}

void Engine::PopHead(StreamCore* s) {
  Op* const op = s->head;
  s->head = op->next;
  if (s->head == nullptr) s->tail = nullptr;
  s->head_state = HeadState::kNone;
  if (IsWork(op)) --s->queued_work;
  --pending_ops;
}

void Engine::Retire(Op* op) {
  if (op->kind == OpKind::kKernel && op->destroy != nullptr) {
    garbage.push_back({op->destroy, op->arg});
  }
  Recycle(op);
}

void Engine::TakeToken(Op* op) {
  if (!NeedsToken(op)) return;
  ++TokensOf(op).used;
  op->holds_token = true;
}

void Engine::ReleaseToken(Op* op) {
  --TokensOf(op).used;
  op->holds_token = false;
}

bool Engine::FlagIsSet(const Op* op) const {
  return op->flag->tag != op->flag_tag || op->flag->value != 0;
}

void Engine::SetFlag(Flag* flag, uint32_t value) {
  flag->value = value;
  ++progress;
  for (size_t i = 0; i < parked.size();) {
    StreamCore* const s = parked[i];
    if (s->head->flag != flag || !FlagIsSet(s->head)) {
      ++i;
      continue;
    }
    parked.erase(parked.begin() + static_cast<std::ptrdiff_t>(i));
    s->head_state = HeadState::kReady;
    driver->Unpark(s);
    i = 0;  // that may have changed the list
  }
}

// ---- busy streams ----

void Engine::MarkBusy(StreamCore* s) {
  if (s->busy) return;
  s->busy = true;
  StreamCore*& first = devices[s->device].busy;
  s->busy_prev = nullptr;
  s->busy_next = first;
  if (first != nullptr) first->busy_prev = s;
  first = s;
}

void Engine::LeaveBusy(StreamCore* s) {
  if (!s->busy) return;
  s->busy = false;
  StreamCore*& first = devices[s->device].busy;
  (s->busy_prev != nullptr ? s->busy_prev->busy_next : first) = s->busy_next;
  if (s->busy_next != nullptr) s->busy_next->busy_prev = s->busy_prev;
}

void Engine::MaybeIdle(StreamCore* s) {
  if (s->head != nullptr) return;
  if (s->failed_from != kNever) {
    // A healthy device must not answer for a stream that is gone, once its
    // failure was told.  Events may still refer to the core.
    if (!s->destroyed || !s->failure_told || !s->in_use) return;
    LeaveBusy(s);
    s->in_use = false;
    ++s->life;
    failed_cores_.push_back(s);
    return;
  }
  if (s->destroyed) s->pending.clear();
  if (!s->pending.empty()) return;
  LeaveBusy(s);
  if (s->destroyed) PoolCore(s);
}

void Engine::NoteTold(StreamCore* s) {
  s->failure_told = true;
  MaybeIdle(s);
}

}  // namespace devrt::mtia
