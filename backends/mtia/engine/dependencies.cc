// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/dependencies.h"

#include <algorithm>

namespace devrt::mtia {
namespace {

bool IsBlocking(const StreamCore* s) {
  return s->kind == StreamKind::kBlocking || s->kind == StreamKind::kPerThread;
}

// The legacy rule orders; unlike a wait it does not spread a failure.
void AddImplicitDep(Op* op, const Point& p) {
  if (Done(p)) return;
  for (size_t i = op->implicit; i < op->deps.size(); ++i) {
    if (op->deps[i].stream != p.stream) continue;
    op->deps[i].seq = std::max(op->deps[i].seq, p.seq);
    return;
  }
  op->deps.push_back(p);
}

// Adds the work of a stream that the wait does not name.  A failure that a
// call has returned before is not returned by such a wait again.
void AddCovered(StreamCore* b, Points* points) {
  const Point own{b, b->issued};
  const bool reported = b->failure_reported;
  if (!Done(own) || (Failed(own) && !reported)) points->push_back(own);
  for (const Point& p : b->pending) {
    if (!Done(p) || (Failed(p) && !reported)) points->push_back(p);
    if (Failed(p)) b->failure_reported = true;
  }
}

}  // namespace

void AddDep(Op* op, const Point& p) {
  for (Point& known : op->deps) {
    if (known.stream == p.stream) {
      known.seq = std::max(known.seq, p.seq);
      return;
    }
  }
  op->deps.push_back(p);
}

void CollectDeps(const Streams& streams, Op* op, StreamCore* s) {
  for (const Point& p : s->pending) AddDep(op, p);
  s->pending.clear();
  op->implicit = static_cast<uint32_t>(op->deps.size());
  if (IsBlocking(s)) {
    StreamCore* const legacy = streams.of(s->device).legacy;
    if (legacy == nullptr) return;
    AddImplicitDep(op, {legacy, legacy->issued});
  } else if (s->kind == StreamKind::kLegacy) {
    for (StreamCore *b = streams.of(s->device).busy, *next; b; b = next) {
      next = b->busy_next;
      if (!IsBlocking(b)) continue;
      if (b->issued != b->completed) op->deps.push_back({b, b->issued});
      for (const Point& wait : b->pending) AddImplicitDep(op, wait);
    }
  }
}

void AddFrontier(const Streams& streams, StreamCore* s, Points* points) {
  const Point own{s, s->issued};
  if (!Done(own) || Failed(own)) points->push_back(own);
  for (const Point& p : s->pending) {
    if (!Done(p) || Failed(p)) points->push_back(p);
  }
  if (s->kind != StreamKind::kLegacy) return;
  for (StreamCore* b = streams.of(s->device).busy; b; b = b->busy_next) {
    if (IsBlocking(b)) AddCovered(b, points);
  }
}

void AddPredecessors(const Streams& streams, StreamCore* s, Points* points) {
  AddFrontier(streams, s, points);
  StreamCore* const legacy = streams.of(s->device).legacy;
  if (!IsBlocking(s) || legacy == nullptr) return;
  const Point p{legacy, legacy->issued};
  if (!Done(p)) points->push_back(p);
}

void AddDeviceFrontier(const Streams& streams, uint32_t device,
                       Points* points) {
  for (StreamCore* b = streams.of(device).busy; b; b = b->busy_next) {
    AddCovered(b, points);
  }
}

}  // namespace devrt::mtia
