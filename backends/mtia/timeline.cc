// SPDX-License-Identifier: Apache-2.0
//
// The record of what ran when, for devrt.sim/1.
#include "backends/mtia/engine.h"

namespace devrt::mtia {

void Engine::TimelineSubmit(Op* op) {
  op->timeline = timeline.size();
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
}

void Engine::TimelineUpdate(const Op* op) {
  if (op->timeline >= timeline.size()) return;
  devrt_sim_op_v1& out = timeline[op->timeline].op;
  out.state = static_cast<uint32_t>(op->state);
  out.begin_ns = op->began;
  out.end_ns = op->ended;
}

}  // namespace devrt::mtia
