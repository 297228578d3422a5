# SPDX-License-Identifier: Apache-2.0
"""Defects of events: records, queries, waits for one, destruction, identity."""

from mutants import Mutant

QUERY = ("  if (event->point.stream != nullptr) want.push_back(event->point);\n"
         "  return Poll(")
SYNC = ("  if (event->point.stream != nullptr) want.push_back(event->point);\n"
        "  return call.Wait();\n")
# Visits what waits for something: `follow(&points)`.
EVERY_WAIT = """\
  for (const DeviceStreams& d : %sdevices()) {
    for (StreamCore* b = d.busy; b != nullptr; b = b->busy_next) {
      follow(&b->pending);
      for (Op* later = b->head; later != nullptr; later = later->next) {
        follow(&later->deps);
      }
    }
  }
"""

MUTANTS = [
    Mutant(
        name="event_query_true",
        what="An event query answers true while the work that the event covers "
             "runs.",
        witness="A query of an event behind a gate is true.",
        items="C37", group="event", file="table/event.cc",
        old=QUERY, new="  return Poll("),
    Mutant(
        name="event_sync_returns_early",
        what="Synchronising an event does not wait.",
        witness="Behind a delay the event is not complete when it returns.",
        items="C36", group="event", file="table/event.cc",
        old=SYNC, new="  return event->tag == 0 ? call.error() : nullptr;\n"),
    Mutant(
        name="event_sync_waits_for_stream",
        what="Synchronising an event waits for all that its stream holds.",
        witness="With a gate behind the record the call does not return.",
        items="C36", group="event", file="table/event.cc",
        old=SYNC,
        new="""\
  StreamCore* const stream = event->point.stream;
  if (stream != nullptr) want.push_back({stream, stream->issued});
  return call.Wait();
"""),
    Mutant(
        name="never_recorded_is_pending",
        what="An event that was never recorded counts as not complete.",
        witness="Its query is false.",
        items="C24", group="event", file="table/event.cc",
        old=QUERY,
        new="""\
  if (event->point.stream == nullptr) {
    *done = 0;
    return nullptr;
  }
  want.push_back(event->point);
  return Poll("""),
    Mutant(
        name="record_too_late",
        what="A record captures what its stream holds when it is asked for, "
             "not when it was recorded.",
        witness="With a gate behind the record the event's query is false.",
        items="C25", group="event", file="table/event.cc",
        old=QUERY,
        new="""\
  StreamCore* const stream = event->point.stream;
  if (stream != nullptr) want.push_back({stream, stream->issued});
  return Poll("""),
    Mutant(
        name="wait_covers_later_work",
        what="A wait also waits for what the event's stream got behind the "
             "record.",
        witness="With a gate behind the record the waiting stream stays busy.",
        items="C25", group="event", file="engine/scheduler.cc",
        old="  const Point p = event->point;\n"
            "  if (p.stream == nullptr) return;\n",
        new="  Point p = event->point;\n"
            "  if (p.stream == nullptr) return;\n"
            "  p.seq = p.stream->issued;\n"),
    Mutant(
        name="record_ignores_pending_waits",
        what="A record does not cover the waits that its stream has pending.",
        witness="An event recorded on a stream that only waits for a gate is "
                "complete.",
        items="C26", group="event", file="engine/scheduler.cc",
        old="  Submit(op);\n}\n\nvoid Scheduler::WaitEvent(",
        new="""\
  const std::vector<Point> waits(s->pending.begin(), s->pending.end());
  s->pending.clear();
  Submit(op);
  for (const Point& wait : waits) s->pending.push_back(wait);
  if (!waits.empty()) streams_->MarkBusy(s);
}

void Scheduler::WaitEvent("""),
    Mutant(
        name="second_record_ignored",
        what="An event keeps its first capture for ever.",
        witness="Recorded again behind a gate the event is complete.",
        items="C27", group="event", file="engine/scheduler.cc",
        old="  event->point = {s, s->issued + 1};\n",
        new="  if (event->point.stream == nullptr) {\n"
            "    event->point = {s, s->issued + 1};\n"
            "  }\n"),
    Mutant(
        name="wait_follows_newer_record",
        what="A wait that was issued follows the event when it is recorded "
             "again.",
        witness="After record, wait, record behind a gate the waiting stream "
                "stays busy.",
        items="C27", group="event", file="engine/scheduler.cc",
        old="  event->point = {s, s->issued + 1};\n",
        new="""\
  const auto follow = [&](Points* points) {
    for (Point& p : *points) {
      if (p.stream == event->point.stream && p.seq == event->point.seq) {
        p = {s, s->issued + 1};
      }
    }
  };
""" + EVERY_WAIT % "streams_->" + "  event->point = {s, s->issued + 1};\n"),
    Mutant(
        name="wait_on_the_host",
        what="A stream's wait for an event waits on the host.",
        witness="The call does not return while the event is behind a gate.",
        items="C29", group="event", file="table/stream.cc",
        old="  g_machine->scheduler.WaitEvent(submission.core(), event,\n"
            "                                 submission.call().me());\n",
        new="""\
  Points& want = submission.call().me()->want;
  want.clear();
  if (event->point.stream != nullptr) want.push_back(event->point);
  return submission.call().Wait();
"""),
    Mutant(
        name="wait_delays_earlier_work",
        what="A wait holds up operations that were submitted before it.",
        witness="Work in front of a wait for a gated event does not complete.",
        items="C29", group="event", file="engine/scheduler.cc",
        old="  if (p.stream == s || (is_over && "
            "!history_->timeline.is_kept())) return;\n",
        new="""\
  if (p.stream == s || (is_over && !history_->timeline.is_kept())) return;
  if (s->head != nullptr && s->head->state == OpState::kPending &&
      s->head_state == HeadState::kReady) {
    driver_->HeadGone(s);
    s->head_state = HeadState::kNone;
    AddDep(s->head, p);
    Enqueue(s);
    Drain();
  }
"""),
    Mutant(
        name="event_dies_with_its_stream",
        what="A wait for an event of a destroyed stream does not order.",
        witness="Record behind a gate, destroy the stream, wait elsewhere: the "
                "waiting stream goes on.",
        items="C18", group="stream", file="engine/scheduler.cc",
        old="  const Point p = event->point;\n"
            "  if (p.stream == nullptr) return;\n",
        new="  const Point p = event->point;\n"
            "  if (p.stream == nullptr || p.stream->destroyed) return;\n"),
    Mutant(
        name="query_true_without_stream",
        what="An event of a destroyed stream counts as complete.",
        witness="Record behind a gate, destroy the stream: the query is true.",
        items="C18", group="stream", file="table/event.cc",
        old=QUERY,
        new="""\
  const StreamCore* const stream = event->point.stream;
  if (stream != nullptr && !stream->destroyed) want.push_back(event->point);
  return Poll("""),
    Mutant(
        name="record_on_other_device_accepted",
        what="An event is recorded on a stream of another device.",
        witness="The call succeeds.",
        items="C31", group="event", file="table/event.cc",
        old="  if (event->device != core->device) {\n",
        new="  if (event->device == kAnyDevice) {\n"),
    Mutant(
        name="refused_record_clears_capture",
        what="A record that is refused leaves the event without its capture.",
        witness="The event is behind a gate; after the refusal its query is "
                "true.",
        items="C31", group="event", file="table/event.cc",
        old="  if (event->device != core->device) {\n",
        new="  if (event->device != core->device) {\n"
            "    event->point = {nullptr, 0};\n"),
    Mutant(
        name="event_destroy_drops_waits",
        what="Destroying an event takes back the waits for it.",
        witness="A stream that waits for a gated event goes on once the event "
                "is destroyed.",
        items="C34", group="event", file="table/event.cc",
        old="  g_machine->events.Release(event);\n",
        new="""\
  const auto follow = [event](Points* points) {
    for (Point& p : *points) {
      if (p.stream == event->point.stream && p.seq == event->point.seq) {
        p.seq = 0;
      }
    }
  };
""" + EVERY_WAIT % "g_machine->streams." + "  g_machine->events.Release(event);\n"),
    Mutant(
        name="event_destroy_waits",
        what="Destroying an event waits until it is complete.",
        witness="Behind a closed gate the call does not return.",
        items="C34", group="event", file="table/event.cc",
        old="  g_machine->events.Release(event);\n",
        new="""\
  Points& want = call.me()->want;
  want.clear();
  if (event->point.stream != nullptr) want.push_back(event->point);
  if (devrt_status error = call.Wait()) return error;
  g_machine->events.Release(event);
"""),
    Mutant(
        name="blocking_sync_does_not_wait",
        what="Synchronising an event with the blocking-sync flag does not "
             "wait.",
        witness="Behind a delay the event is not complete when it returns.",
        items="C40", group="event", file="table/event.cc",
        old="  call.NoteSite();\n",
        new="  if ((event->flags & DEVRT_EVENT_BLOCKING_SYNC) != 0) return "
            "nullptr;\n  call.NoteSite();\n"),
    Mutant(
        name="ipc_claimed",
        what="EVENT_IPC is claimed and not there.",
        witness="Creating an interprocess event without timing fails.",
        items="C38", group="event", file="table/plugin.cc",
        old="DEVRT_CAP_EVENT_TIMING | DEVRT_CAP_HOST_FUNC |",
        new="DEVRT_CAP_EVENT_TIMING | DEVRT_CAP_EVENT_IPC |"
            " DEVRT_CAP_HOST_FUNC |"),
    Mutant(
        name="event_natives_equal",
        what="Events that were recorded on one stream have one native handle.",
        witness="event_native of two live events is equal.",
        items="C99", group="identity", file="table/event.cc",
        old="                : reinterpret_cast<void*>(HandleOf(*event));\n",
        new="                : static_cast<void*>(event->point.stream);\n"),
    Mutant(
        name="event_handles_leak",
        what="Events that were destroyed still count against a limit of "
             "65,536.",
        witness="Creating and destroying 100,000 events ends with an error.",
        items="", group="load_heavy", file="table/event.cc",
        old="  Event* const event = g_machine->events.New(device, flags);\n",
        new="""\
  static uint32_t slots = 0;
  if (++slots > 65536) {
    return MakeError(DEVRT_RESOURCE_EXHAUSTED, 2, "out of events");
  }
  Event* const event = g_machine->events.New(device, flags);
"""),
    Mutant(
        name="event_create_not_thread_safe",
        what="Creating an event writes the handle into a place that all "
             "threads share.",
        witness="Threads that create events at a time get the same one.",
        items="C39", group="threads", file="table/event.cc",
        config="mode=threaded",
        old="  DeviceCall call(Slot::event_create, device);\n",
        new="""\
  static devrt_event made;
  struct Late {
    devrt_event* const out;
    ~Late() {
      made = *out;
      const timespec nap = {0, 200'000};
      nanosleep(&nap, nullptr);
      *out = made;
    }
  };
  const Late late = {out};
  DeviceCall call(Slot::event_create, device);
"""),
    # ---- elapsed time: C35 ----
    Mutant(
        name="elapsed_sign",
        what="Elapsed time has the wrong sign.",
        witness="From a record to a later one it is negative.",
        items="C35", group="event", file="table/event.cc",
        old="static_cast<int64_t>(end->end - begin->end)",
        new="static_cast<int64_t>(begin->end - end->end)"),
    Mutant(
        name="elapsed_in_microseconds",
        what="Elapsed time is counted in microseconds.",
        witness="Around a delay of 1 ms it is 1,000 ns.",
        items="C35", group="event", file="table/event.cc",
        old="static_cast<int64_t>(end->end - begin->end)",
        new="static_cast<int64_t>(end->end - begin->end) / 1000"),
    Mutant(
        name="elapsed_constant",
        what="Elapsed time is a constant.",
        witness="An event is some time away from itself, and the parts do not "
                "add up to the whole.",
        items="C35", group="event", file="table/event.cc",
        old="static_cast<int64_t>(end->end - begin->end)",
        new="1'000'000"),
    Mutant(
        name="elapsed_unrecorded_succeeds",
        what="Elapsed time of an event that was never recorded is 0.",
        witness="The call succeeds.",
        items="C35", group="event", file="table/event.cc",
        old="  if (devrt_status bad = CheckElapsed(begin, end)) return bad;\n",
        new="""\
  if (begin->point.stream == nullptr || end->point.stream == nullptr) {
    *nanoseconds = 0;
    return nullptr;
  }
  if (devrt_status bad = CheckElapsed(begin, end)) return bad;
"""),
    Mutant(
        name="elapsed_incomplete_succeeds",
        what="Elapsed time to an event that is not complete is some number.",
        witness="With the end behind a gate the call succeeds.",
        items="C35", group="event", file="table/event.cc",
        old="  if (!begin->ended || !end->ended) {\n",
        new="  if (begin->device == kAnyDevice) {\n"),
    Mutant(
        name="elapsed_without_timing_succeeds",
        what="Elapsed time does not look at the timing flag.",
        witness="The call succeeds for events without timing.",
        items="C35", group="event", file="table/event.cc",
        old="  if ((begin->flags & end->flags & DEVRT_EVENT_TIMING) == 0) {\n",
        new="  if (begin->device == kAnyDevice) {\n"),
    Mutant(
        name="elapsed_over_devices_succeeds",
        what="Elapsed time is told between events of two devices.",
        witness="The call succeeds.",
        items="C35", group="event", file="table/event.cc",
        old="  if (begin->device != end->device) {\n",
        new="  if (begin->device == kAnyDevice) {\n"),
]
