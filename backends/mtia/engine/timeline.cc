// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/timeline.h"

#include <algorithm>

namespace devrt::mtia {

namespace {

void AddAccess(const void* ptr, uint64_t size, uint32_t mode,
               std::vector<devrt_access_v0>* accesses) {
  accesses->push_back({const_cast<void*>(ptr), size, mode, 0});
}

std::vector<devrt_access_v0> AccessesOf(const Op& op) {
  std::vector<devrt_access_v0> accesses;
  if (op.kind == OpKind::kCopy || op.kind == OpKind::kFill) {
    AddAccess(op.dst, op.size, DEVRT_ACCESS_WRITE, &accesses);
    if (op.src != nullptr) {
      AddAccess(op.src, op.size, DEVRT_ACCESS_READ, &accesses);
    }
  }
  for (const Range& range : op.ranges) {
    AddAccess(range.ptr, range.size, range.mode, &accesses);
  }
  const bool any = op.kind == OpKind::kHostFunc ||
                   (op.kind == OpKind::kKernel && op.action == Action::kBody &&
                    !op.declared);
  if (any) {
    AddAccess(nullptr, UINT64_MAX, DEVRT_ACCESS_READ | DEVRT_ACCESS_WRITE,
              &accesses);
  }
  return accesses;
}

}  // namespace

void Timeline::Add(Op* op) {
  op->timeline = base_ + entries_.size();
  Entry& entry = entries_.emplace_back();
  const StreamCore* const s = op->stream;
  entry.name = op->Name();
  entry.file = op->site.file != nullptr ? op->site.file : "";
  for (const Point& p : op->deps) {
    entry.dep_stream.push_back(p.stream->number);
    entry.dep_seq.push_back(p.seq - p.stream->base);
  }
  devrt_sim_op_v1& out = entry.op;
  out.struct_size = sizeof out;
  out.device = op->device;
  out.stream = s->number;
  out.seq = op->seq - s->base;
  out.kind = static_cast<uint32_t>(op->kind);
  out.engine = static_cast<uint32_t>(op->engine);
  out.thread = op->thread;
  out.bytes = op->size;
  out.submit_ns = op->submitted;
  out.line = op->site.line;
  // The answer of stream_native.
  const uint64_t native = s->kind == StreamKind::kPerThread ? 2 : s->native;
  out.native_stream = reinterpret_cast<const void*>(native);
  out.host_stream = s->host_number;
  out.op_index = op->index;
  out.submit_step = trace_->steps();
  out.split = op->split ? 1 : 0;
  entry.accesses = AccessesOf(*op);
}

void Timeline::Update(const Op* op) {
  const uint64_t index = op->timeline - base_;
  if (op->timeline < base_ || index >= entries_.size()) return;
  devrt_sim_op_v1& out = entries_[index].op;
  out.state = static_cast<uint32_t>(op->state);
  out.begin_ns = op->began;
  out.end_ns = op->ended;
  if (out.begin_step == 0) out.begin_step = trace_->steps();
  if (op->state >= OpState::kDone) out.end_step = trace_->steps();
}

devrt_sim_op_v1 Timeline::Entry::View() const {
  devrt_sim_op_v1 view = op;
  view.name = name.c_str();
  view.file = file.empty() ? nullptr : file.c_str();
  view.dep_count = static_cast<uint32_t>(dep_stream.size());
  view.dep_stream = dep_stream.data();
  view.dep_seq = dep_seq.data();
  view.access_count = static_cast<uint32_t>(accesses.size());
  view.accesses = accesses.data();
  return view;
}

void Timeline::VisitAll(Visit visit, void* arg) const {
  for (const Entry& entry : entries_) {
    const devrt_sim_op_v1 view = entry.View();
    visit(arg, &view);
  }
}

void Timeline::VisitEnded(Visit visit, void* arg) {
  if (!taken_from_) {
    taken_from_ = true;
    next_ = base_ + entries_.size();
  }
  const uint64_t end = base_ + entries_.size();
  bool all_before = true;
  for (uint64_t i = std::max(next_, base_); i < end; ++i) {
    Entry& entry = entries_[i - base_];
    const bool ended = entry.op.state >= DEVRT_SIM_DONE;
    if (ended && !entry.taken) {
      entry.taken = true;
      const devrt_sim_op_v1 view = entry.View();
      visit(arg, &view);
    }
    all_before = all_before && ended;
    if (all_before) next_ = i + 1;
  }
  while (!enabled_ && base_ < next_ && !entries_.empty()) {
    entries_.pop_front();
    ++base_;
  }
}

void Timeline::Reset() {
  base_ += entries_.size();
  entries_.clear();
  enabled_ = false;
}

}  // namespace devrt::mtia
