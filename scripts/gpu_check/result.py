# SPDX-License-Identifier: Apache-2.0
"""The result file of one run: what it holds, how it is written and checked.

A file is a JSON object:

    format      1
    date        day and time in UTC, "2026-11-28T14:03Z", or the day alone
    commit      the commit of the sources that were built, "" if it is unknown
    dirty       true if these sources differed from the commit
    quick       true for --quick: fewer random programs, medians of fewer figures
    machine     gpus and devices (names), architectures ("sm_90"), driver, cuda (its
                version), system, processor, libraries (versions by name)
    parts       the parts that ran, by name; without those that were left out

A part:

    outcome     "passed", "failed" or "skipped"
    passed, failed, skipped, unsupported, deviates
                numbers of tests; of commands, where a part has no tests
    seconds     how long its commands ran
    failures    each test that failed, or what went wrong
    skips       the reason of each skip
    figures     short facts by name, numbers or texts
    partial     what of the part ran, if not the whole part
    note        what a reader has to know about it
    rows        rows of benchmarks

A row:

    topic       the table that the row belongs to
    row         what was measured
    unit        a key of UNITS
    devrt       devrt's figure; each figure is a median
    peers       figures of others, by name
    ratio       devrt's figure divided by the best of the peers'
    bars        the limits by their texts: true if the limit is met

Only `format`, `date`, `commit`, `machine`, `parts`, a part's `outcome`, and a row's
`topic`, `row`, `unit` and `devrt` are required.
"""

import json
import pathlib
import re

FORMAT = 1
OUTCOMES = ["failed", "passed", "skipped"]  # the worst first
# How the better of two figures is found.
UNITS = {"ns": min, "MiB": min, "GB/s": max, "GiB/s": max, "runs/s": max,
         "%": max, "x": max}
COUNTS = ["passed", "failed", "skipped", "unsupported", "deviates"]
NUMBER = (int, float)
DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\dZ)?")
COMMIT = re.compile(r"([0-9a-f]{7,40})?")

# The members of each kind of object, with their types; (required, optional).
RUN = ({"format": int, "date": str, "commit": str, "machine": dict, "parts": dict},
       {"dirty": bool, "quick": bool})
MACHINE = ({}, {"gpus": list, "architectures": list, "devices": list,
                "driver": str, "cuda": str,
                "system": str, "processor": str, "libraries": dict})
PART = ({"outcome": str},
        {**dict.fromkeys(COUNTS, int), "seconds": NUMBER, "failures": list,
         "skips": list, "figures": dict, "partial": str, "note": str,
         "rows": list})
ROW = ({"topic": str, "row": str, "unit": str, "devrt": NUMBER},
       {"peers": dict, "ratio": NUMBER, "bars": dict})


class BadResult(Exception):
    """A file is no result file.  The text names the file and the wrong member."""


# ---- Rows of benchmarks -----------------------------------------------------


def ratio_of(unit, devrt, peers):
    """Returns devrt's figure divided by the best of the peers', or None."""
    best = UNITS[unit](peers.values()) if peers else None
    return short(devrt / best) if best else None


def bench_row(topic, name, unit, devrt, peers=None, bars=None):
    """Returns a row.  Leaves out peers and bars whose value is None."""
    made = {"topic": topic, "row": name, "unit": unit, "devrt": short(devrt)}
    peers = {peer: short(value) for peer, value in (peers or {}).items()
             if value is not None}
    if peers:
        made.update(peers=peers, ratio=ratio_of(unit, made["devrt"], peers))
    bars = {text: met for text, met in (bars or {}).items() if met is not None}
    return {**made, "bars": bars} if bars else made


def short(value):
    """Returns a number with the digits that a reader needs."""
    return round(value) if abs(value) >= 1000 else float(f"{value:.3g}")


def at_most(value, most):
    """Returns True or False, or None if there is nothing to compare."""
    return None if value is None or most is None else value <= most


# ---- From a run to its file -------------------------------------------------


def part_of(check, name):
    """Returns what the file has about a part."""
    rows = check.rows_of(name)
    outcomes = {row.outcome.lower() for row in rows}
    part = {"outcome": next(word for word in OUTCOMES if word in outcomes)}
    for row in rows:
        for outcome, count in row.counts.items():
            part[outcome] = part.get(outcome, 0) + count
    part["seconds"] = round(sum(command.seconds for command in check.commands
                                if command.part == name), 1)
    failures = [text for row in rows for text in row.failures]
    skips = [row.detail for row in rows if row.outcome == "skipped"]
    more = {"failures": failures, "skips": skips,
            "figures": check.figures.get(name), "partial": check.partial.get(name),
            "rows": check.bench_rows.get(name)}
    return {**part, **{key: value for key, value in more.items() if value}}


def result_of(check, facts):
    names = dict.fromkeys(row.part for row in check.rows if not row.left_out)
    return {"format": FORMAT, **facts,
            "parts": {name: part_of(check, name) for name in names}}


def text_of(result):
    """Returns JSON with one line for each member, part and row."""
    def line(value):
        return json.dumps(value, ensure_ascii=False)

    lines = [f" {line(key)}: {line(value)}" for key, value in result.items()
             if key != "parts"]
    parts = []
    for name, part in result["parts"].items():
        members = [f"{line(key)}: {line(value)}" for key, value in part.items()
                   if key != "rows"]
        if "rows" in part:
            rows = ",\n    ".join(map(line, part["rows"]))
            members.append(f'"rows": [\n    {rows}]')
        parts.append(f"  {line(name)}: {{" + ",\n   ".join(members) + "}")
    lines.append(' "parts": {\n' + ",\n".join(parts) + "}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


# ---- From a file ------------------------------------------------------------


def wrong_members(value, kind, where):
    """Returns what is wrong with an object's members, one text each."""
    required, optional = kind
    if not isinstance(value, dict):
        yield f"{where} is no object"
        return
    for key in required:
        if key not in value:
            yield f"{where} has no {key}"
    for key, member in value.items():
        wanted = {**required, **optional}.get(key)
        if wanted is None:
            yield f"{where} has an unknown member {key}"
        elif not isinstance(member, wanted) or (
                isinstance(member, bool) and wanted is not bool):
            yield f"{where}: {key} has the wrong type"


def wrong_part(name, part):
    yield from wrong_members(part, PART, f"part {name}")
    if part["outcome"] not in OUTCOMES:
        yield f"part {name}: outcome is {part['outcome']!r}, not one of {OUTCOMES}"
    if part["outcome"] != "failed" and (part.get("failed") or part.get("failures")):
        yield f"part {name} has failures, and its outcome is {part['outcome']}"
    if part["outcome"] == "failed" and not part.get("failures"):
        yield f"part {name} failed, and names no failure"
    for row in part.get("rows", []):
        where = f"part {name}, row {row.get('row') if isinstance(row, dict) else row}"
        yield from wrong_members(row, ROW, where)
        if row["unit"] not in UNITS:
            yield f"{where}: unit is {row['unit']!r}, not one of {list(UNITS)}"
        ratio = ratio_of(row["unit"], row["devrt"], row.get("peers"))
        if row.get("ratio") != ratio:
            yield f"{where}: ratio is {row.get('ratio')}, its figures give {ratio}"


def wrong_run(run):
    yield from wrong_members(run, RUN, "the file")
    if run["format"] != FORMAT:
        yield f"format is {run['format']}, this program reads {FORMAT}"
    if not DATE.fullmatch(run["date"]):
        yield f"date is {run['date']!r}, not YYYY-MM-DD or YYYY-MM-DDThh:mmZ"
    if not COMMIT.fullmatch(run["commit"]):
        yield f"commit is {run['commit']!r}, not 7 to 40 hexadecimal digits"
    yield from wrong_members(run["machine"], MACHINE, "machine")
    for name, part in run["parts"].items():
        yield from wrong_part(name, part)


def load(path):
    """Returns the result in a file.  Raises BadResult with the first error."""
    try:
        run = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadResult(f"{path}: {error}") from None
    for problem in wrong_run(run):  # stops at the first: later ones rely on it
        raise BadResult(f"{path}: {problem}")
    return run
