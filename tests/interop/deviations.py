# SPDX-License-Identifier: Apache-2.0
"""Known deviations of the matrix from the specification's tables."""

import fnmatch
import json
import pathlib

FILE = pathlib.Path(__file__).resolve().parent / "deviations.json"


def load(file=FILE):
  return json.loads(pathlib.Path(file).read_text(encoding="utf-8"))


def mark(cases, known):
  """Cases that pass as something else than the table has: they deviate.

  Those of entries with "table", which is what the table has; their names are
  patterns, and "note" is how the note of such a case begins.
  """
  for case in cases:
    for pattern, entry in known.items():
      if ("table" in entry and case["outcome"] == "passed"
          and fnmatch.fnmatchcase(case["id"], pattern)
          and case["note"].startswith(entry.get("note", ""))):
        case.update(outcome="deviates", table=entry["table"], why=entry["why"])
