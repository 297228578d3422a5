# SPDX-License-Identifier: Apache-2.0
"""Defects of events: records, queries, elapsed time, destruction."""

from mutants import Mutant

MUTANTS = [
    Mutant(
        name="event_query_true",
        what="An event query answers true while the work that the event covers "
             "runs.",
        witness="A query of an event behind a gate is true.",
        items="C19 C37", group="event", file="event.cc",
        old="  if (event->point.stream != nullptr) want.push_back(event->point);"
            "\n  return Poll(",
        new="  return Poll("),
    Mutant(
        name="wait_follows_newer_record",
        what="A wait that was issued follows the event when it is recorded "
             "again.",
        witness="After record, wait, record behind a gate the waiting stream "
                "stays busy.",
        items="C27", group="event", file="engine.cc",
        old="  event->point = {s, s->issued + 1};\n",
        new="""\
  for (DeviceState& d : devices) {
    for (StreamCore* b = d.busy; b != nullptr; b = b->busy_next) {
      const auto follow = [&](Points* points) {
        for (Point& p : *points) {
          if (p.stream == event->point.stream && p.seq == event->point.seq) {
            p = {s, s->issued + 1};
          }
        }
      };
      follow(&b->pending);
      for (Op* later = b->head; later != nullptr; later = later->next) {
        follow(&later->deps);
      }
    }
  }
  event->point = {s, s->issued + 1};
"""),
    Mutant(
        name="never_recorded_is_pending",
        what="An event that was never recorded counts as not complete.",
        witness="Its query is false.",
        items="C24", group="event", file="event.cc",
        old="  if (event->point.stream != nullptr) want.push_back(event->point);"
            "\n  return Poll(",
        new="""\
  if (event->point.stream == nullptr) {
    *done = 0;
    return nullptr;
  }
  want.push_back(event->point);
  return Poll("""),
]
