# SPDX-License-Identifier: Apache-2.0
"""Defects of order between streams: waits and the legacy rule."""

from mutants import Mutant

NEWEST_CAPTURE = ("  const Point p = event->point;\n"
                  "  if (p.stream == nullptr) return;\n")
BLOCKING = """\
bool IsBlocking(const StreamCore* s) {
  return s->kind == StreamKind::kBlocking || s->kind == StreamKind::kPerThread;
}
"""
OTHERS_OF_LEGACY = """\
      if (b->issued != b->completed) op->deps.push_back({b, b->issued});
      for (const Point& wait : b->pending) AddImplicitDep(op, wait);
"""

MUTANTS = [
    Mutant(
        name="wait_ignored",
        what="A stream's wait for an event does nothing.",
        witness="The waiting stream runs while the event is behind a gate.",
        items="C28", group="order", file="engine/scheduler.cc",
        old=NEWEST_CAPTURE,
        new=NEWEST_CAPTURE + "  if (p.seq != 0) return;\n"),
    Mutant(
        name="cross_device_wait_ignored",
        what="A wait for an event of another device does nothing.",
        witness="The waiting stream runs while the event is behind a gate of "
                "the other device.",
        items="C32", group="order", file="engine/scheduler.cc",
        old=NEWEST_CAPTURE,
        new=NEWEST_CAPTURE + "  if (p.stream->device != s->device) return;\n"),
    Mutant(
        name="second_wait_replaces_first",
        what="Of the waits in front of an operation only the last counts.",
        witness="A stream that waits for a gated event and then for a complete "
                "one of a third stream runs.",
        items="C28", group="order", file="engine/scheduler.cc",
        old="  s->pending.push_back(p);\n",
        new="  s->pending.clear();\n  s->pending.push_back(p);\n"),
    Mutant(
        name="newer_wait_ignored",
        what="Of two waits for events of one stream only the first counts.",
        witness="A stream that waits for an event and for a later one behind a "
                "gate goes on after the first.",
        items="C28", group="order", file="engine/scheduler.cc",
        old="""\
      known.seq = std::max(known.seq, p.seq);
      return;
    }
  }
  s->pending.push_back(p);
""",
        new="""\
      return;
    }
  }
  s->pending.push_back(p);
"""),
    Mutant(
        name="fifth_wait_lost",
        what="A stream has room for four pending waits; more are lost.",
        witness="A stream that waits for five others runs before the fifth is "
                "through its gate.",
        items="C28", group="order", file="engine/scheduler.cc",
        old="  s->pending.push_back(p);\n",
        new="  if (s->pending.size() < 4) s->pending.push_back(p);\n"),
    Mutant(
        name="legacy_wait_ignored",
        what="A wait in the legacy stream does nothing.",
        witness="Legacy work runs while its event is behind a gate.",
        items="C9", group="order", file="engine/scheduler.cc",
        old=NEWEST_CAPTURE,
        new=NEWEST_CAPTURE +
        "  if (s->kind == StreamKind::kLegacy) return;\n"),
    Mutant(
        name="legacy_starts_early",
        what="Legacy work does not wait for earlier work of blocking streams.",
        witness="It runs while a blocking stream is behind a gate.",
        items="C8", group="order", file="engine/dependencies.cc",
        old=OTHERS_OF_LEGACY, new=""),
    Mutant(
        name="legacy_is_overtaken",
        what="Work of blocking streams does not wait for earlier legacy work.",
        witness="It runs while the legacy stream is behind a gate.",
        items="C8", group="order", file="engine/dependencies.cc",
        old="    if (legacy == nullptr) return;\n",
        new="    if (legacy == nullptr || op != nullptr) return;\n"),
    Mutant(
        name="legacy_waits_for_one_stream",
        what="Legacy work waits for one blocking stream, not for all.",
        witness="With two blocking streams, one of them behind a gate, it "
                "runs.",
        items="C8", group="order", file="engine/dependencies.cc",
        old=OTHERS_OF_LEGACY,
        new=OTHERS_OF_LEGACY + "      break;\n"),
    Mutant(
        name="legacy_ignores_bare_waits",
        what="Legacy work does not wait for a blocking stream that holds "
             "nothing but a wait.",
        witness="It runs while the stream waits for a gated event.",
        items="C9", group="order", file="engine/dependencies.cc",
        old=OTHERS_OF_LEGACY,
        new="      if (b->issued != b->completed) "
            "op->deps.push_back({b, b->issued});\n"),
    Mutant(
        name="legacy_record_is_alone",
        what="A record in the legacy stream captures that stream alone.",
        witness="With a blocking stream behind a gate its query is true.",
        items="C30", group="event", file="engine/dependencies.cc",
        old=OTHERS_OF_LEGACY,
        new="      if (op->kind == OpKind::kRecord) continue;\n" +
        OTHERS_OF_LEGACY),
    Mutant(
        name="blocking_record_is_alone",
        what="A record in a blocking stream does not wait for earlier legacy "
             "work.",
        witness="With the legacy stream behind a gate its query is true.",
        items="C9", group="order", file="engine/dependencies.cc",
        old="    if (legacy == nullptr) return;\n",
        new="    if (legacy == nullptr || op->kind == OpKind::kRecord) return;"
            "\n"),
    Mutant(
        name="non_blocking_is_blocking",
        what="Non-blocking streams take part in the legacy rule.",
        witness="A gate in a non-blocking stream holds legacy work up.",
        items="C10", group="order", file="engine/dependencies.cc",
        old=BLOCKING,
        new="bool IsBlocking(const StreamCore* s) {\n"
            "  return s->kind != StreamKind::kLegacy;\n}\n"),
    Mutant(
        name="per_thread_is_non_blocking",
        what="Per-thread streams take no part in the legacy rule.",
        witness="Legacy work runs while a per-thread stream is behind a gate.",
        items="C12", group="stream", file="engine/dependencies.cc",
        old=BLOCKING,
        new="bool IsBlocking(const StreamCore* s) {\n"
            "  return s->kind == StreamKind::kBlocking;\n}\n"),
    Mutant(
        name="blocking_streams_in_line",
        what="Work of a blocking stream waits for that of the others.",
        witness="A gate in one of two blocking streams holds the other.",
        items="C11", group="order", file="engine/dependencies.cc",
        old="    AddImplicitDep(op, {legacy, "
            "legacy->issued});\n",
        new="""\
    AddImplicitDep(op, {legacy, legacy->issued});
    for (StreamCore* b = streams.of(s->device).busy; b; b = b->busy_next) {
      if (b != s && IsBlocking(b)) AddImplicitDep(op, {b, b->issued});
    }
"""),
    Mutant(
        name="legacy_joins_all_devices",
        what="The legacy streams of all devices are one.",
        witness="A gate in the legacy stream of one device holds that of "
                "another.",
        items="C13", group="order", file="engine/dependencies.cc",
        old="  } else if (s->kind == StreamKind::kLegacy) {\n",
        new="""\
  } else if (s->kind == StreamKind::kLegacy) {
    for (const DeviceStreams& d : streams.devices()) {
      if (d.legacy == nullptr || d.legacy == s) continue;
      AddImplicitDep(op, {d.legacy, d.legacy->issued});
    }
"""),
]
