// SPDX-License-Identifier: Apache-2.0
//
// The record of what ran when, for devrt.sim/1.
#include <algorithm>

#include "backends/mtia/engine/engine.h"

namespace devrt::mtia {

void Engine::TimelineSubmit(Op* op) {
  op->timeline = timeline_base + timeline.size();
  TimelineEntry& entry = timeline.emplace_back();
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
  // What stream_native answers.
  const uint64_t native = s->kind == StreamKind::kPerThread ? 2 : s->native;
  out.native_stream = reinterpret_cast<const void*>(native);
  out.host_stream = s->host_number;
}

void Engine::TimelineUpdate(const Op* op) {
  const uint64_t index = op->timeline - timeline_base;
  if (op->timeline < timeline_base || index >= timeline.size()) return;
  devrt_sim_op_v1& out = timeline[index].op;
  out.state = static_cast<uint32_t>(op->state);
  out.begin_ns = op->began;
  out.end_ns = op->ended;
}

devrt_sim_op_v1 TimelineEntry::View() const {
  devrt_sim_op_v1 view = op;
  view.name = name.c_str();
  view.file = file.empty() ? nullptr : file.c_str();
  view.dep_count = static_cast<uint32_t>(dep_stream.size());
  view.dep_stream = dep_stream.data();
  view.dep_seq = dep_seq.data();
  return view;
}

void Engine::TimelineTake(void (*visit)(void* arg, const devrt_sim_op_v1* op),
                          void* arg) {
  if (!timeline_taken_from) {
    timeline_taken_from = true;
    timeline_next = timeline_base + timeline.size();
  }
  const uint64_t end = timeline_base + timeline.size();
  bool all_before = true;
  for (uint64_t i = std::max(timeline_next, timeline_base); i < end; ++i) {
    TimelineEntry& entry = timeline[i - timeline_base];
    const bool ended = entry.op.state >= DEVRT_SIM_DONE;
    if (ended && !entry.taken) {
      entry.taken = true;
      const devrt_sim_op_v1 view = entry.View();
      visit(arg, &view);
    }
    all_before = all_before && ended;
    if (all_before) timeline_next = i + 1;
  }
  while (!timeline_on && timeline_base < timeline_next && !timeline.empty()) {
    timeline.pop_front();
    ++timeline_base;
  }
}

}  // namespace devrt::mtia
