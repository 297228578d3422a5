#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of docs/evidence/interop.md.

usage: scripts/interop_doc.py --package DIR [--append FILE] [--results FOLDER]

The tables are the cases of tests/interop/matrix.py, which needs NumPy and the Python
package in DIR, such as build/python.  What passed comes from docs/evidence/results/:
the newest results of the parts `interop` and `mtia_interop` of scripts/gpu-check.  A
case of theirs passed unless the result names it as failed or lacked what it needs.
Prints the tables, or adds them to FILE, as scripts/docs does with its copy of the page.
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[1]
MATRIX = ROOT / "tests/interop"
sys.path[:0] = [str(ROOT / "scripts"), str(MATRIX)]
import deviations  # noqa: E402
import evidence  # noqa: E402

PARTS = {"interop": "cuda", "mtia_interop": "mtia"}  # with their backends
ROW_NAMES = {"cuda": "cuda", "cuda_ro": "cuda, read-only", "managed": "managed",
             "pinned": "pinned", "pinned_mapped": "pinned, mapped view",
             "mtia_pinned": "pinned (mtia)", "mtia": "mtia", "cpu": "cpu"}
COLUMNS = 6  # of one table
# The worst first.
WORDS = {"failed": "**failed**", "deviates": "**deviates**", "not run": "*not run*",
         "passed": "ok"}


@dataclasses.dataclass
class Cell:
    """A case of the matrix, as far as the page needs it."""
    id: str
    code: str
    peers: tuple = ()
    backend: str = "cpu"
    devices: int = 1


class Result:
    """The newest result of a part: which cases it ran, and which failed."""

    def __init__(self, run, name):
        self.run, self.backend = run, PARTS[name]
        self.part = run.data["parts"][name]
        self.absent = set(re.findall(r"\bno (\w+_peer)",
                                     "; ".join(self.part.get("skips", []))))

    def count(self, *outcomes):
        return sum(self.part.get(of, 0) for of in outcomes)

    def ran(self, case):
        if case.backend == "cuda" and (
                self.backend != "cuda" or case.devices > len(self.run.gpus)):
            return False
        return not self.absent & set(case.peers)

    def failed(self, case):
        return any(text.startswith(f"{case.id}:")
                   for text in self.part.get("failures", []))


def known_deviations():
    """Returns {pattern: entry} of deviations that do not depend on a library's version.
    """
    return {name: entry for name, entry in deviations.load().items()
            if "note" not in entry}


def deviation(case):
    return next((entry for name, entry in known_deviations().items()
                 if re.fullmatch(re.escape(name).replace(r"\*", ".*"), case.id)), None)


def outcome(case, results):
    ran = [result for result in results if result.ran(case)]
    if any(result.failed(case) for result in ran):
        return "failed"
    if not ran:
        return "not run"
    return "deviates" if deviation(case) else "passed"


def summed(cases, results):
    """Returns the code of a group of cases, and the word for their worst outcome."""
    found = [outcome(case, results) for case in cases]
    if any(word != "not run" for word in found):
        found = [word for word in found if word != "not run"]
    code = cases[0].code.split("!")[0]
    other = next((entry["table"] for entry in map(deviation, cases)
                  if entry and "table" in entry), None)
    return (f"{other}, here {code}" if other else code,
            WORDS[next(word for word in WORDS if word in found)])


def groups_of(cases, first, depth):
    """Returns {the id's words behind `first`, up to `depth`: cases}."""
    groups = collections.OrderedDict()
    for case in cases:
        words = case.id.split("/")
        if words[0] == first:
            groups.setdefault(tuple(words[1:depth]), []).append(case)
    return groups


def runs_table(cases, results):
    yield "## Runs\n"
    yield from evidence.table(
        ["Backend", "Age", "Commit", "Machine", "Passed", "Deviates", "Failed",
         "Skipped", "Of"],
        [(result.backend, result.run.age, result.run.at, result.run.where,
          *(result.count(of) for of in ["passed", "deviates", "failed", "skipped"]),
          result.count("passed", "deviates", "failed", "skipped"))
         for result in results])
    yield f"The matrix has {len(cases)} cases now.\n"
    for result in results:
        libraries = result.run.data["machine"].get("libraries", {})
        yield f"- {result.backend}: " + ", ".join(
            f"{name} {version}" for name, version in libraries.items()) + "."
        yield from (f"  - skipped: {text}" for text in result.part.get("skips", []))
        yield from (f"  - **failed**: {text}" for text in result.part.get("failures", []))
    yield ""


def producer_tables(cases, results):
    cells = groups_of(cases, "producer", 3)
    columns = list(dict.fromkeys(column for _, column in cells))
    yield "## An array of devrt in other libraries\n"
    for begin in range(0, len(columns), COLUMNS):
        part = columns[begin:begin + COLUMNS]
        yield from evidence.table(
            ["Array"] + [f"`{column}`" for column in part],
            [[text] + [" ".join(summed(cells[row, column], results))
                       if (row, column) in cells else "" for column in part]
             for row, text in ROW_NAMES.items()])


def consumer_table(cases, results):
    yield "## Arrays of other libraries in devrt\n"
    yield from evidence.table(
        ["Library", "Where", "By", "Code", "Result"],
        [(*(words + ("", ""))[:3], *summed(group, results))
         for words, group in groups_of(cases, "consumer", 4).items()])


def other_table(cases, results):
    yield "## Scenarios, proofs of order, captures\n"
    rows = []
    for first in dict.fromkeys(case.id.split("/")[0] for case in cases):
        if first not in ("producer", "consumer"):
            for words, group in groups_of(cases, first, 2).items():
                found = collections.Counter(outcome(case, results) for case in group)
                rows.append((f"`{'/'.join((first, *words))}`", ", ".join(
                    f"{found[word]} {text}" for word, text in WORDS.items()
                    if found[word])))
    yield from evidence.table(["Cases", "Result"], rows)


def deviations_list():
    names_of = collections.OrderedDict()
    for name, entry in deviations.load().items():
        names_of.setdefault(entry["why"], []).append(f"`{name}`")
    yield "## Deviations\n"
    yield "Each line names cases that differ from the specification, and says why.\n"
    yield from (f"- {', '.join(names)}: {why}" for why, names in names_of.items())


def tables(cases, results):
    lines = []
    for part in (runs_table, producer_tables, consumer_table, other_table):
        lines += part(cases, results)
    lines += deviations_list()
    return "\n".join(lines).rstrip("\n") + "\n"


def newest(folder):
    """Returns the newest result of each backend."""
    runs = evidence.load(folder)
    found = {name: evidence.results_of(runs, name)[:1] for name in PARTS}
    return [Result(run, name) for name, some in found.items() for run in some]


def cases_of(package):
    sys.path.insert(0, str(package))
    import matrix
    return [Cell(case.id, case.code, case.peers, case.backend, case.devices)
            for case in matrix.all_cases(matrix.MODULES).values()]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--package", metavar="DIR", required=True, type=pathlib.Path)
    parser.add_argument("--append", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--results", metavar="FOLDER", default=evidence.RESULTS)
    args = parser.parse_args()
    try:
        cases = cases_of(args.package.resolve())
    except ModuleNotFoundError as error:
        sys.exit(f"interop_doc: {error}; the cases need NumPy and the Python package")
    text = tables(cases, newest(args.results))
    if args.append is None:
        print(text, end="")
    else:
        with open(args.append, "a", encoding="utf-8") as file:
            file.write("\n" + text)


if __name__ == "__main__":
    main()
