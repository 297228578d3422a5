#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/interop.md from results of the interop matrix.

usage: scripts/interop_doc.py                   writes the page
       scripts/interop_doc.py --check           whether it is up to date
       scripts/interop_doc.py --take NAME FILE...
             keeps a result as docs/interop/NAME.json, then writes the page; of
             several files, runs in parts on one machine, the last counts that
             has a case

Results come of tests/interop/matrix.py --json FILE; docs/interop/ci.json is the
one of machines without a GPU, ci_torch.json of Debian's PyTorch there. Of
several results the page shows each case once per result. Exit code 1: out of
date; 2: usage.
"""

import collections
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs/interop"
PAGE = ROOT / "docs/interop.md"
sys.path.insert(0, str(ROOT / "tests/interop"))
import deviations  # noqa: E402

SCHEMA = "devrt.interop/1"

HEAD = """<!-- Written by scripts/interop_doc.py; do not edit. -->
# What devrt exchanges with which library

Every cell below was run, by `tests/interop/matrix.py`, with the versions named
under [Runs](#runs). How to run it: `scripts/setup --interop`, then
`meson test -C build --suite interop`; with PyTorch's CPU build, of Debian's packages,
`.ci/run torch`; on NVIDIA GPUs `scripts/gpu-check --python build/python`.

| code | meaning |
|---|---|
| Z | zero-copy, ordered by events, no wait on the host |
| H | zero-copy, the other library waits on the host |
| U | zero-copy, not ordered by the other library: order first, `x.ready()` |
| C | a copy, with the right values |
| W | zero-copy after devrt has waited on the host |
| A | address, size and format only |
| E:name | refused, with that exception |

What a cell says after its code: `ok`; **deviates**, explained under
[Deviations](#deviations); **failed**; or `-`, where that run had not got what
it takes, which the run's list of skipped cases names. A cell sums up its
variants (dtypes, shapes, layouts, read-only memory, data on a device that is
not current, each pair of streams), lifetimes and threads, and each Z cell its
repetition through the C exchange API. That one stream costs neither an event
nor a wait is counted, by the trace layer's records; what reads an interface
has the place of its stream recorded. A run of before these were
added has not got them: the lists of cases in `docs/interop/` say.
"""

PRODUCER_ROWS = ("cuda", "cuda_ro", "managed", "pinned", "pinned_mapped",
                 "mtia_pinned", "mtia", "cpu")
ROW_NAMES = {"cuda_ro": "cuda, read-only", "mtia_pinned": "pinned (mtia)",
             "pinned_mapped": "pinned, mapped view"}


def load():
  results = {}
  for path in sorted(RESULTS.glob("*.json")):
    result = json.loads(path.read_text(encoding="utf-8"))
    if result.get("schema") != SCHEMA:
      raise SystemExit(f"{path} is not of schema {SCHEMA}")
    deviations.mark(result["cases"], deviations.load())
    results[path.stem] = result
  return results


def worst(cases):
  """(outcome, code) of a cell of several cases."""
  order = ("failed", "deviates", "passed", "skipped")
  for outcome in order:
    if any(case["outcome"] == outcome for case in cases):
      return outcome
  return "skipped"


WORDS = {"passed": "ok", "failed": "**failed**", "deviates": "**deviates**",
         "skipped": "-"}


def cells_of(result, first):
  """{(row, column): [cases]} of ids FIRST/row/column[/...]."""
  cells = collections.OrderedDict()
  for case in result["cases"]:
    parts = case["id"].split("/")
    if parts[0] == first and len(parts) >= 3:
      cells.setdefault((parts[1], parts[2]), []).append(case)
  return cells


def code_of(cases):
  """Of a cell, and what the specification has, if that is something else."""
  code = cases[0]["code"].split("!")[0]
  for case in cases:
    if "table" in case:
      return f"{case['table']}, here {code}"
  return code


def columns_of(cells):
  found = []
  for _, column in cells:
    if column not in found:
      found.append(column)
  return found


def producer_tables(name, result):
  cells = cells_of(result, "producer")
  columns = [column for column in columns_of(cells)
             if any(worst(cases) != "skipped"
                    for (_, c), cases in cells.items() if c == column)]
  rows = [row for row in PRODUCER_ROWS
          if any(worst(cases) != "skipped"
                 for (r, _), cases in cells.items() if r == row)]
  yield f"### {name}: a devrt array in other libraries\n"
  for begin in range(0, len(columns), 6):
    part = columns[begin:begin + 6]
    yield "| devrt array | " + " | ".join(f"`{c}`" for c in part) + " |"
    yield "|---" * (len(part) + 1) + "|"
    for row in rows:
      texts = []
      for column in part:
        cases = cells.get((row, column))
        texts.append(f"{code_of(cases)} {WORDS[worst(cases)]}" if cases else "")
      yield f"| {ROW_NAMES.get(row, row)} | " + " | ".join(texts) + " |"
    yield ""


def consumer_table(name, result):
  cells = cells_of(result, "consumer")
  yield f"### {name}: arrays of other libraries in devrt\n"
  yield "| from | where | by | code | result |"
  yield "|---|---|---|---|---|"
  grouped = collections.OrderedDict()
  for case in result["cases"]:
    parts = case["id"].split("/")
    if parts[0] == "consumer":
      key = tuple(parts[1:4]) if len(parts) >= 4 else (parts[1], parts[2], "")
      grouped.setdefault(key, []).append(case)
  for (peer, place, how), cases in grouped.items():
    if worst(cases) != "skipped":
      yield (f"| {peer} | {place} | {how} | {code_of(cases)} | "
             f"{WORDS[worst(cases)]} |")
  yield ""
  del cells


def other_table(name, result):
  cases = [case for case in result["cases"]
           if case["id"].split("/")[0] not in ("producer", "consumer")
           and case["outcome"] != "skipped"]
  if not cases:
    return
  yield f"### {name}: scenarios, proofs of order, captures\n"
  yield "| case | result | said |"
  yield "|---|---|---|"
  for case in cases:
    said = [code_of([case])] if "table" in case else []
    note = ": ".join(said + [case["note"]] if case["note"] else said)
    note = note.replace("|", "\\|").replace("\n", " ")[:100]
    yield f"| `{case['id']}` | {WORDS[case['outcome']]} | {note} |"
  yield ""


def runs_table(results):
  yield "## Runs\n"
  yield "| run | date | commit | machine | passed | deviates | failed | skipped |"
  yield "|---|---|---|---|---|---|---|---|"
  for name, result in results.items():
    counts = collections.Counter(case["outcome"] for case in result["cases"])
    yield (f"| {name} | {result['date']} | {result.get('commit') or ''} | "
           f"{result['machine']} | "
           + " | ".join(str(counts[key]) for key in
                        ("passed", "deviates", "failed", "skipped")) + " |")
  yield ""
  for name, result in results.items():
    texts = ", ".join(f"{key} {value}"
                      for key, value in result["versions"].items())
    yield f"{name}: {texts}.\n"


def skipped_list(name, result):
  reasons = collections.OrderedDict()
  for case in result["cases"]:
    if case["outcome"] == "skipped":
      reasons.setdefault(case["note"].split(":")[0], []).append(case["id"])
  if not reasons:
    return
  yield f"### {name}: what did not run\n"
  yield "| why | cases |"
  yield "|---|---|"
  for reason, ids in reasons.items():
    yield f"| {reason.replace('|', '/')} | {len(ids)} |"
  yield ""


def deviations_table():
  known = deviations.load()
  yield "## Deviations\n"
  if not known:
    yield "None is known.\n"
    return
  yield "| case | what happens, and why |"
  yield "|---|---|"
  for name, entry in known.items():
    yield f"| `{name}` | {entry['why']} |"
  yield ""


def page(results):
  lines = [HEAD]
  lines += runs_table(results)
  for name, result in results.items():
    lines += [f"## Results of {name}\n"]
    for part in (producer_tables, consumer_table, other_table, skipped_list):
      lines += part(name, result)
  lines += deviations_table()
  return "\n".join(lines).rstrip("\n") + "\n"


def merged(parts):
  """One result of a run in parts."""
  cases = {case["id"]: case for part in parts for case in part["cases"]}
  commits = dict.fromkeys(part.get("commit") or "unknown" for part in parts)
  return {**parts[-1], "commit": ", ".join(commits),
          "cases": [cases[name] for name in sorted(cases)]}


def main():
  words = sys.argv[1:]
  if words[:1] == ["--take"] and len(words) >= 3:
    RESULTS.mkdir(exist_ok=True)
    parts = [json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
             for file in words[2:]]
    for file, part in zip(words[2:], parts):
      if part.get("schema") != SCHEMA:
        print(f"{file} is not of schema {SCHEMA}", file=sys.stderr)
        return 2
    (RESULTS / f"{words[1]}.json").write_text(
        json.dumps(merged(parts), indent=1) + "\n", encoding="utf-8")
  elif words not in ([], ["--check"]):
    print(__doc__, file=sys.stderr)
    return 2
  text = page(load())
  if words == ["--check"]:
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
      return 0
    print("docs/interop.md is out of date: scripts/interop_doc.py")
    return 1
  PAGE.write_text(text, encoding="utf-8")
  return 0


if __name__ == "__main__":
  sys.exit(main())
