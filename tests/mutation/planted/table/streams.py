# SPDX-License-Identifier: Apache-2.0
"""Defects of streams: queries, order within one, destruction, default streams,
who holds what."""

from mutants import Mutant

MUTANTS = [
    Mutant(
        name="stream_query_true",
        what="A stream query answers true while work runs.",
        witness="A query of a stream that a gate holds is true.",
        items="C19", group="stream", file="table/stream.cc",
        old="  if (!core->busy && core->kind != StreamKind::kLegacy) {\n",
        new="  if (core->kind != StreamKind::kLegacy) {\n"),
    Mutant(
        name="stream_query_skips_running",
        what="A stream query does not count the operation that runs.",
        witness="A query is true where a gate is the only and last operation.",
        items="C19", group="stream", file="table/stream.cc",
        old="  if (!core->busy && core->kind != StreamKind::kLegacy) {\n",
        new="""\
  const bool at_most_one =
      core->pending.empty() && core->issued <= core->completed + 1;
  if (at_most_one && core->kind != StreamKind::kLegacy) {
"""),
    Mutant(
        name="stream_sync_returns_early",
        what="Synchronising a stream does not wait.",
        witness="Behind a delay the stream is not complete when it returns.",
        items="C21", group="stream", file="table/stream.cc",
        old="""\
  AddFrontier(g_machine->streams, submission.core(), &want);
  return submission.call().Wait();
""",
        new="  return nullptr;\n"),
    Mutant(
        name="fill_overtakes_fill",
        what="Of two fills that wait in a stream the second goes first.",
        witness="Behind a gate, fills with 1 and then 2 leave a 1.",
        items="C6", group="stream", file="engine/scheduler.cc",
        old="void Scheduler::Append(Op* op, StreamCore* s) {\n",
        new="""\
void Scheduler::Append(Op* op, StreamCore* s) {
  Op* const last = s->tail;
  if (op->kind == OpKind::kFill && last != s->head &&
      last->kind == OpKind::kFill) {
    Op* before = s->head;
    while (before->next != last) before = before->next;
    before->next = op;
    op->next = last;
    op->seq = last->seq;
    op->id = ++last_op_id_;
    last->seq = ++s->issued;
    ++s->queued_work;
    ++history_->pending_ops;
    ++history_->progress;
    return;
  }
"""),
    Mutant(
        name="queue_limit_not_declared",
        what="A stream takes 500 operations and then makes its caller wait, "
             "though queue_depth says that there is no limit.",
        witness="Behind a gate the 501st fill does not return.",
        items="C6", group="stream", file="table/submit.cc",
        old="  const uint32_t depth = g_machine->config.queue_depth;\n",
        new="  const uint32_t depth = 500;\n"),
    Mutant(
        name="destroy_drops_work",
        what="Destroying a busy stream drops what it has not begun.",
        witness="A fill behind a gate in a destroyed stream never happens.",
        items="C17", group="stream", file="engine/scheduler.cc",
        old="  core->destroyed = true;\n",
        new="""\
  for (Op* op = core->head; op != nullptr; op = op->next) {
    if (op->state == OpState::kPending && IsWork(op)) op->dropped = true;
  }
  core->destroyed = true;
"""),
    Mutant(
        name="destroy_waits",
        what="Destroying a busy stream waits for its work.",
        witness="Behind a closed gate the call does not return.",
        items="C17", group="stream", file="table/stream.cc",
        old="  g_machine->scheduler.ReleaseStream(stream, call.me());\n",
        new="""\
  Points& want = call.me()->want;
  want.clear();
  AddFrontier(g_machine->streams, stream->core, &want);
  if (devrt_status error = call.Wait()) return error;
  g_machine->scheduler.ReleaseStream(stream, call.me());
"""),
    Mutant(
        name="default_stream_destroyed",
        what="Destroying a default stream is accepted.",
        witness="stream_destroy of the legacy stream answers OK.",
        items="C14", group="stream", file="table/stream.cc",
        old="  if (stream->is_default) {\n",
        new="  if (stream->is_default) return nullptr;\n"
            "  if (stream->is_default) {\n"),
    Mutant(
        name="per_thread_is_legacy",
        what="The per-thread stream is the legacy stream.",
        witness="A gate in one thread's per-thread stream holds another "
                "thread's.",
        items="C12", group="stream", file="engine/streams.cc",
        old="""\
    stream = NewStream(
        NewCore(device, StreamKind::kPerThread, config_->priority_least));
    stream->is_default = true;
    stream->core->thread = me->index;
""",
        new="""\
    stream = NewStream(Legacy(device));
    stream->is_default = true;
"""),
    Mutant(
        name="legacy_sync_is_alone",
        what="Synchronising and querying the legacy stream cover its own work "
             "alone.",
        witness="With a blocking stream behind a gate its query is true.",
        items="C21", group="stream", file="engine/dependencies.cc",
        old="  if (s->kind != StreamKind::kLegacy) return;\n",
        new="  return;\n"),
    Mutant(
        name="priority_out_of_range_refused",
        what="A priority out of range is an error instead of being clamped.",
        witness="Creating a stream of priority greatest - 5 fails.",
        items="C22", group="stream", file="table/stream.cc",
        old="      stream = Create(device, desc);\n",
        new="""\
      if (desc.priority < g_machine->config.priority_greatest ||
          desc.priority > g_machine->config.priority_least) {
        return InvalidArgument("no such priority");
      }
      stream = Create(device, desc);
"""),
    Mutant(
        name="work_changes_current_device",
        what="Enqueueing leaves the stream's device as the thread's current "
             "one.",
        witness="With device 0 current, work on a stream of device 1 makes 1 "
                "current.",
        items="C15 C16", group="device", file="table/submit.cc",
        old="  core_ = found->core;\n",
        new="""\
  core_ = found->core;
  extern __thread uint32_t t_device;
  t_device = core_->device;
"""),
    Mutant(
        name="stream_pool_aliases",
        what="Streams come from a pool of 32, and the 33rd is the first.",
        witness="Of 1,000 live streams many have the same handle.",
        items="C101", group="identity", file="table/stream.cc",
        old="      stream = Create(device, desc);\n",
        new="""\
    {
      static uint64_t pool[32];
      static uint32_t next = 0;
      uint64_t& slot = pool[next++ % 32];
      stream = g_machine->streams.Find(slot);
      if (stream == nullptr || stream->core->device != device) {
        stream = Create(device, desc);
        slot = HandleOf(*stream);
      }
    }
"""),
    Mutant(
        name="streams_share_a_queue",
        what="A new stream has the queue of the one that was made before it.",
        witness="A gate in one of two fresh streams holds the other.",
        items="C7 C101", group="stream", file="engine/streams.cc",
        old="  core->native = HandleOf(*stream);\n",
        new="""\
  core->native = HandleOf(*stream);
  static uint64_t last = 0;
  const Stream* const before = handles_.Find(last);
  if (before != nullptr && before->core->device == device &&
      before->core->kind == core->kind && before->life == before->core->life) {
    stream->core = before->core;
    stream->life = before->life;
    stream->adopted = true;
  }
  last = HandleOf(*stream);
"""),
    Mutant(
        name="stream_handles_leak",
        what="Streams that were destroyed still count against a limit of "
             "8,192.",
        witness="Creating and destroying 10,000 streams ends with an error.",
        items="C100", group="load_heavy", file="table/stream.cc",
        old="  Stream* stream = nullptr;\n  switch (desc.kind) {\n",
        new="""\
  static uint32_t slots = 0;
  if (desc.kind == DEVRT_STREAM_CREATE && ++slots > 8192) {
    return MakeError(DEVRT_RESOURCE_EXHAUSTED, 2, "out of streams");
  }
  Stream* stream = nullptr;
  switch (desc.kind) {
"""),
    Mutant(
        name="stream_create_not_thread_safe",
        what="Creating a stream writes the handle into a place that all "
             "threads share.",
        witness="Threads that create streams at a time get the same one.",
        items="C101", group="threads", file="table/stream.cc",
        config="mode=threaded",
        old="  DeviceCall call(Slot::stream_create, device);\n",
        new="""\
  static devrt_stream made;
  struct Late {
    devrt_stream* const out;
    ~Late() {
      made = *out;
      const timespec nap = {0, 200'000};
      nanosleep(&nap, nullptr);
      *out = made;
    }
  };
  const Late late = {out};
  DeviceCall call(Slot::stream_create, device);
"""),
    Mutant(
        name="adopts_for_any_device",
        what="A stream is adopted for a device that it is not of.",
        witness="Adopting a stream of device 0 for device 1 succeeds.",
        items="C104", group="identity", file="table/stream.cc",
        old="    if (core->device != device) {\n",
        new="    if (core->device == kAnyDevice) {\n"),
    Mutant(
        name="adopted_stream_destroyed",
        what="Giving up an adopted stream destroys it for its owner.",
        witness="The owner's next call on the stream fails.",
        items="C104", group="identity", file="engine/scheduler.cc",
        old="  const bool owner = !stream->adopted && stream->life == core->life;"
            "\n",
        new="  const bool owner = stream->life == core->life;\n"),
]
