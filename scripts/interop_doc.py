#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/evidence/interop.md from results of the interop matrix.

usage: scripts/interop_doc.py                   writes the page
       scripts/interop_doc.py --check           checks that it is up to date
       scripts/interop_doc.py --take NAME FILE...
             keeps a result as docs/interop/NAME.jsonl, replacing an older one
             of that name, then writes the page. Several files are one run in
             parts: if two files have a case, the later one counts

FILE is written by tests/interop/matrix.py --json FILE. A kept result has one
line about the run, with how many cases were skipped and why, then one line for
each case that ran. The page shows every kept result: ci.jsonl comes from machines
without a GPU, ci_torch.jsonl from Debian's PyTorch there, and the others from GPUs.
Exit code 1: the page is out of date; 2: wrong usage.
"""

import collections
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs/interop"
PAGE = ROOT / "docs/evidence/interop.md"
sys.path.insert(0, str(ROOT / "tests/interop"))
import deviations  # noqa: E402

SCHEMA = "devrt.interop/1"  # of matrix.py's files
KEPT_SCHEMA = "devrt.interop.kept/1"  # of the files in RESULTS

HEAD = """<!-- Written by scripts/interop_doc.py; do not edit. -->
# What devrt exchanges with which library

This page shows which arrays devrt and other libraries pass to each other, as
`tests/interop/matrix.py` found it with the versions named under [Runs](#runs).

On the CPU and mtia, `scripts/setup --interop` installs the libraries, and `meson test -C
build --suite interop` runs the matrix; `.ci/run torch` does with Debian's PyTorch. On
NVIDIA GPUs, `scripts/gpu-check --python build/python` runs it.

| Code | Meaning |
|---|---|
| Z | zero-copy, ordered by events, no wait on the host |
| H | zero-copy, the other library waits on the host |
| U | zero-copy, not ordered by the other library: order first, `x.ready()` |
| C | a copy, with the right values |
| W | zero-copy after devrt has waited on the host |
| A | address, size and format only |
| E:name | refused, with that exception |

After its code a cell says `ok`, **deviates** (explained under
[Deviations](#deviations)) or **failed**. A cell is empty where the run lacked a device
or a library; "what did not run" counts these cases.

A cell sums up its variants (dtypes, shapes, layouts, read-only memory, data on another
device than the current one, pairs of streams), lifetimes and threads. A Z cell is also
repeated through the C exchange API. The trace layer's records show that exchange on one
stream costs neither an event nor a wait.

A run that is older than some cases lacks them. `docs/interop/` has each case of each run.
"""

PRODUCER_ROWS = ("cuda", "cuda_ro", "managed", "pinned", "pinned_mapped",
                 "mtia_pinned", "mtia", "cpu")
ROW_NAMES = {"cuda_ro": "cuda, read-only", "mtia_pinned": "pinned (mtia)",
             "pinned_mapped": "pinned, mapped view"}


def kept(result):
  """Returns the text to keep for a result of matrix.py: a line for each case."""
  skipped = collections.Counter(
      case["note"].split(":")[0] for case in result["cases"]
      if case["outcome"] == "skipped")
  run = {key: value for key, value in result.items() if key != "cases"}
  lines = [{**run, "schema": KEPT_SCHEMA, "skipped": skipped}]
  for case in result["cases"]:
    if case["outcome"] != "skipped":
      lines.append({key: case[key] for key in
                    ("id", "code", "outcome", "note", "table")
                    if case.get(key)})
  return "".join(json.dumps(line) + "\n" for line in lines)


def parsed(text):
  """Returns the result of a kept text, in matrix.py's form, with skipped cases counted.
  """
  result, *cases = [json.loads(line) for line in text.splitlines()]
  if result.get("schema") != KEPT_SCHEMA:
    raise ValueError(f"the schema is not {KEPT_SCHEMA}")
  result["cases"] = [{"note": "", **case} for case in cases]
  deviations.mark(result["cases"], deviations.load())
  return result


def load():
  results = {}
  for path in sorted(RESULTS.glob("*.jsonl")):
    try:
      results[path.stem] = parsed(path.read_text(encoding="utf-8"))
    except ValueError as error:
      raise SystemExit(f"{path}: {error}; "
                       "write it by scripts/interop_doc.py --take") from None
  return results


def worst(cases):
  """Returns the worst outcome of a cell's cases."""
  outcomes = {case["outcome"] for case in cases}
  return next(word for word in WORDS if word in outcomes)


# The worst first.
WORDS = {"failed": "**failed**", "deviates": "**deviates**", "passed": "ok"}


def cells_of(result, first):
  """Returns {(row, column): [cases]} for ids FIRST/row/column[/...]."""
  cells = collections.OrderedDict()
  for case in result["cases"]:
    parts = case["id"].split("/")
    if parts[0] == first and len(parts) >= 3:
      cells.setdefault((parts[1], parts[2]), []).append(case)
  return cells


def code_of(cases):
  """Returns a cell's outcome, and that of the specification if it differs."""
  code = cases[0]["code"].split("!")[0]
  for case in cases:
    if "table" in case:
      return f"{case['table']}, here {code}"
  return code


def producer_tables(name, result):
  cells = cells_of(result, "producer")
  columns = list(dict.fromkeys(column for _, column in cells))
  rows = [row for row in PRODUCER_ROWS if any(r == row for r, _ in cells)]
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
    yield (f"| {peer} | {place} | {how} | {code_of(cases)} | "
           f"{WORDS[worst(cases)]} |")
  yield ""


def said_of(case):
  said = [code_of([case])] if "table" in case else []
  note = ": ".join(said + [case["note"]] if case["note"] else said)
  return note.replace("|", "\\|").replace("\n", " ")[:100]


def other_table(name, result):
  """Yields a row for each group of cases that passed, and one for each other case."""
  groups = collections.OrderedDict()
  for case in result["cases"]:
    parts = case["id"].split("/")
    if parts[0] not in ("producer", "consumer"):
      groups.setdefault("/".join(parts[:2]), []).append(case)
  if not groups:
    return
  yield f"### {name}: scenarios, proofs of order, captures\n"
  yield "| cases | result | said |"
  yield "|---|---|---|"
  for group, cases in groups.items():
    good = [case for case in cases if case["outcome"] == "passed"]
    if good:
      yield f"| `{group}`, {len(good)} | ok | |"
    for case in cases:
      if case["outcome"] != "passed":
        yield f"| `{case['id']}` | {WORDS[case['outcome']]} | {said_of(case)} |"
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
                        ("passed", "deviates", "failed"))
           + f" | {sum(result['skipped'].values())} |")
  yield ""
  for name, result in results.items():
    texts = ", ".join(f"{key} {value}"
                      for key, value in result["versions"].items())
    yield f"- {name}: {texts}."
  yield ""


def skipped_list(name, result):
  if not result["skipped"]:
    return
  yield f"### {name}: what did not run\n"
  yield "| why | cases |"
  yield "|---|---|"
  for reason, count in result["skipped"].items():
    yield f"| {reason.replace('|', '/')} | {count} |"
  yield ""


def deviations_list():
  names_of = collections.OrderedDict()
  for name, entry in deviations.load().items():
    names_of.setdefault(entry["why"], []).append(f"`{name}`")
  yield "## Deviations\n"
  yield "Each line names cases that differ from the specification, and says why.\n"
  for why, names in names_of.items():
    yield f"- {', '.join(names)}: {why}"
  yield ""


def page(results):
  lines = [HEAD]
  lines += runs_table(results)
  for name, result in results.items():
    lines += [f"## Results of {name}\n"]
    for part in (producer_tables, consumer_table, other_table, skipped_list):
      lines += part(name, result)
  lines += deviations_list()
  return "\n".join(lines).rstrip("\n") + "\n"


def merged(parts):
  """Returns one result for the parts of a run."""
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
    (RESULTS / f"{words[1]}.jsonl").write_text(kept(merged(parts)),
                                               encoding="utf-8")
  elif words not in ([], ["--check"]):
    print(__doc__, file=sys.stderr)
    return 2
  text = page(load())
  if words == ["--check"]:
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
      return 0
    print("docs/evidence/interop.md is out of date: scripts/interop_doc.py")
    return 1
  PAGE.write_text(text, encoding="utf-8")
  return 0


if __name__ == "__main__":
  sys.exit(main())
