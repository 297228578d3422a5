# SPDX-License-Identifier: Apache-2.0
"""Defects of streams: queries, destruction, default streams, identity."""

from mutants import Mutant

MUTANTS = [
    Mutant(
        name="stream_query_true",
        what="A stream query answers true while work runs.",
        witness="A query of a stream that a gate holds is true.",
        items="C19", group="stream", file="stream.cc",
        old="  if (!core->busy && core->kind != StreamKind::kLegacy) {\n",
        new="  if (core->kind != StreamKind::kLegacy) {\n"),
]
