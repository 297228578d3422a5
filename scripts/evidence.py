#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the pages of evidence from the results of runs.

usage: scripts/evidence.py --out FOLDER [--results FOLDER]

Reads docs/evidence/results/*.json, which scripts/gpu-check --result writes, and
writes into FOLDER a page of hardware, a page of benchmarks, and a picture of ratios
for each topic that has peers.
The first page shows the newest result of each part; an older one stays if no newer run
had as many GPUs, or if the newer ran only a piece of the part.  What no file shows has
never run.  The second page shows the newest figure of each row; a row that lacks a
peer of an older one does not replace it.  Runs are in the order of their dates, and of one date in the
order of their files' names.  Ages are counted to the date of the newest commit, or to
today where there is no repository.

Exit code 1: a file is no result, with one line that says why; 2: wrong usage.
"""

import argparse
import datetime
import functools
import json
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs/evidence/results"
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench")]
import ratio_chart  # noqa: E402
from gpu_check import result  # noqa: E402

MADE = "<!-- Made by scripts/evidence.py; do not edit. -->"
GPU = "backends/gpu backends/cuda backends/tensor"
HIP = "backends/gpu backends/hip backends/tensor"
FLOORS = f"runtime streams {GPU}"
MEMORY, ARRAYS = f"memory {FLOORS}", f"arrays memory {FLOORS}"
PYTHON = f"python {ARRAYS}"
MTIA = "backends/mtia"
# The parts of each backend, with the folders whose code they run.
PARTS = {
    "cuda": {
        "kernels": GPU, "conformance": GPU, "contexts": FLOORS, "bad_input": FLOORS,
        "environment": FLOORS, "faults": FLOORS, "interprocess": FLOORS,
        "coexistence": FLOORS, "nccl": f"collectives {FLOORS}", "soak": FLOORS, "memory": MEMORY,
        "memory_soak": MEMORY, "arrays": ARRAYS, "examples": f"examples {ARRAYS}",
        "python": PYTHON, "interop": PYTHON, "sanitizer": FLOORS,
        "validate": f"layers {ARRAYS}", "validate_python": f"layers {PYTHON}",
        "benchmarks": FLOORS, "memory_benchmarks": MEMORY,
        "arrays_benchmarks": ARRAYS, "python_benchmarks": PYTHON,
        "nccl_benchmarks": f"collectives {PYTHON}",
        "validate_benchmarks": f"layers {FLOORS}"},
    "hip": {"hip_conformance": HIP, "hip_costs": f"runtime streams {HIP}",
            "three_backends": f"runtime streams {HIP}"},
    "mtia": {"mtia_conformance": MTIA, "mtia_tests": f"{PYTHON} tools layers {MTIA}",
             "mtia_examples": f"examples {ARRAYS}", "mtia_python": PYTHON,
             "mtia_interop": PYTHON, "mtia_python_benchmarks": PYTHON,
             "mtia_validate_python": f"layers {PYTHON} {MTIA}",
             "guards_bench": f"guards runtime {MTIA}",
             "streams_bench": f"streams runtime {MTIA}", "simulator_bench": MTIA,
             "layers_bench": "layers runtime", "memory_bench": f"memory {MTIA}",
             "pinned_bench": f"memory {MTIA}", "traces_bench": f"memory {MTIA}"},
}
# What limits devrt's figure and is no other way to do the work, so no peer.
WAITS = "driver's waits alone"
BOUNDS = {"driver's copy", WAITS}
# Why rows miss their bars, where a profile tells: {topic: {row: reason}}; the row "*" is
# all others of the topic.
REASONS = json.loads((ROOT / "docs/evidence/reasons.json").read_text(encoding="utf-8"))
MOST_NAMES = 3  # of rows with one reason
ONE_LOOP = (
    "512 B, 1 MiB and mixed sizes are measured twice, under Allocators by `memory_bench` "
    "and under Stream-ordered memory by `async_alloc_bench`. Both programs run one loop, "
    "which takes blocks of devrt's cache and frees them. The first counts the "
    "processor's time, the second the wall clock. This does not explain how far the two "
    "figures of one run differ; the reason is not known.")
NOTES = {"Allocators": ONE_LOOP, "Stream-ordered memory": ONE_LOOP}
# Who makes the GPUs that a backend is for.
MAKERS = {"cuda": "NVIDIA", "hip": "AMD"}
# What ran instead, where no GPU of the maker ran a backend.
INSTEAD = {"hip": "These parts ran over `hip_on_cuda`, a library that forwards HIP to "
                  "CUDA's driver: [what that shows](hip.md)."}
HIP_BUILD = ROOT / "backends/hip/meson.build"  # names the architectures of its images


class Run:
    """One result file."""

    def __init__(self, path):
        self.data = result.load(path)
        self.name = path.stem
        self.date, self.commit = self.data["date"], self.data["commit"]
        self.gpus = self.data["machine"].get("gpus", [])

    @property
    def age(self):
        """The date, and the days from then to the newest commit."""
        days = (newest_date() - datetime.date.fromisoformat(self.date[:10])).days
        return f"{self.date[:10]}, " + ("1 day" if days == 1 else f"{days} days")

    @property
    def at(self):
        commit = f"`{self.commit[:8]}`" if self.commit else "not recorded"
        return commit + ", changed" * self.data.get("dirty", False)

    @property
    def quick(self):
        return ", `--quick`" if self.data.get("quick") else ""

    @property
    def where(self):
        machine = self.data["machine"]
        names = dict.fromkeys(self.gpus)
        if machine.get("driver") == "simulated":
            return "simulated driver"
        return ", ".join(f"{self.gpus.count(name)} x {name}" for name in names) or (
            machine.get("processor", "no GPU"))


@functools.lru_cache(None)
def newest_date():
    """Returns the date of the newest commit, or today's without a repository."""
    told = subprocess.run(["git", "log", "-1", "--format=%cs"], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) if (
        ROOT / ".git").exists() else None
    return datetime.date.fromisoformat(told.stdout.strip()) if (
        told and told.returncode == 0) else datetime.date.today()


def load(folder):
    """Returns the runs, the newest first."""
    runs = [Run(path) for path in sorted(pathlib.Path(folder).glob("*.json"))]
    return sorted(runs, key=lambda run: (run.date, run.name), reverse=True)


def covers(newer, older, name):
    """Returns True if the newer run's result replaces the older one's."""
    new, old = (run.data["parts"][name] for run in (newer, older))
    return len(newer.gpus) >= len(older.gpus) and new.get("partial") in (
        None, old.get("partial"))


def results_of(runs, name):
    """Returns the runs whose result of a part no newer one replaces."""
    having = [run for run in runs if name in run.data["parts"]]
    ran = [run for run in having if run.data["parts"][name]["outcome"] != "skipped"]
    kept = []
    for run in ran or having[:1]:  # a skip says something only if nothing ran
        if not any(covers(newer, run, name) for newer in kept):
            kept.append(run)
    return kept


@functools.lru_cache(None)
def changed_since(commit, folders):
    """Returns what git knows of changes of the folders since the commit."""
    if not commit or not (ROOT / ".git").exists():
        return "not known"
    told = subprocess.run(
        ["git", "diff", "--shortstat", f"{commit}..HEAD", "--", *folders.split()],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if told.returncode != 0:
        return "not known"
    numbers = re.findall(r"(\d+) (file|insertion|deletion)", told.stdout)
    found = {what: number for number, what in numbers}
    return (f"{found['file']} file{'s' * (found['file'] != '1')}, +{found.get('insertion', 0)} "
            f"-{found.get('deletion', 0)} lines") if found else "nothing"


def without_empty_columns(header, rows):
    kept = [i for i in range(len(header)) if any(row[i] != "" for row in rows)]
    return [[line[i] for i in kept] for line in [header, *rows]]


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def table(header, rows):
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header),
            *("| " + " | ".join(map(cell, row)) + " |" for row in rows), ""]


# ---- What holds -------------------------------------------------------------


def of_maker(run, maker):
    return any(name.startswith(maker) for name in run.gpus)


def part_row(run, name, folders):
    part = run.data["parts"][name]
    outcome = "**failed**" if part["outcome"] == "failed" else part["outcome"]
    what = f"`{name}`" + (f": {part['partial']}" if "partial" in part else "")
    return (what, outcome, *(part.get(of, "") for of in
                             ["passed", "failed", "skipped"]),
            run.age, run.at, run.where, changed_since(run.commit, folders))


def part_notes(run, name):
    """Returns a list of what the table has no room for."""
    part = run.data["parts"][name]
    lines = [f"failed: {text}" for text in part.get("failures", [])]
    if part["outcome"] == "skipped":
        lines += [f"skipped: {text}" for text in part.get("skips", [])]
    lines += [part["note"]] if "note" in part else []
    lines += [f"{of}: {part[of]}" for of in ["unsupported", "deviates"] if part.get(of)]
    lines += [f"{key}: {value}" for key, value in part.get("figures", {}).items()]
    if lines:
        yield f"- `{name}`, {run.at}"
        yield from (f"  - {line}" for line in lines)


def what_holds(parts, backend):
    """Returns a sentence about the newest results of a backend's parts."""
    outcomes = {}
    for run, name, _ in parts:
        outcomes.setdefault(name, set()).add(run.data["parts"][name]["outcome"])
    by_outcome = {word: [] for word in [*result.OUTCOMES, "never run"]}
    for name in PARTS[backend]:  # the worst of a part's results
        found = outcomes.get(name, {"never run"})
        next(names for word, names in by_outcome.items() if word in found).append(name)
    told = [f"{len(by_outcome.pop('passed'))} of {len(PARTS[backend])} parts passed"]
    told += [f"{word}: {', '.join(f'`{name}`' for name in names)}"
             for word, names in by_outcome.items() if names]
    return "; ".join(told) + "."


def backend_section(runs, backend):
    parts = [(run, name, folders) for name, folders in PARTS[backend].items()
             for run in results_of(runs, name)]
    yield f"## {backend}\n"
    yield what_holds(parts, backend) + "\n"
    maker = MAKERS.get(backend)
    if parts and maker and not any(of_maker(run, maker) for run, _, _ in parts):
        yield f"**No GPU of {maker}'s ran them.** {INSTEAD.get(backend, '')}".strip() + "\n"
    yield from table(["Part", "Outcome", "Passed", "Failed", "Skipped", "Age",
                      "Commit", "Machine", "Changed since, in its folders"],
                     [part_row(*of) for of in parts])
    notes = [line for run, name, _ in parts for line in part_notes(run, name)]
    yield from ["Failures, notes and figures:\n", *notes, ""] if notes else []


def machines(runs):
    yield "## Runs\n"
    for run in runs:
        machine = run.data["machine"]
        facts = [run.where, *(f"{key} {machine[key]}" for key in
                              ["driver", "cuda"] if machine.get(key)),
                 machine.get("system", ""),
                 *(f"{name} {version}" for name, version in
                   machine.get("libraries", {}).items())]
        yield (f"- {run.date}, {run.at}{run.quick}: "
               f"{', '.join(fact for fact in facts if fact)}.")
    yield ""


def listed(names):
    return ", ".join(sorted(set(names)))


def short_name(text):
    """Returns the name of a system with its release, such as Debian 12 or Ubuntu 24.04,
    or the name of a processor.
    """
    system = re.match(r"(Debian|Ubuntu)\D* (\d+(?:\.\d+)?)", text)
    return f"{system[1]} {system[2]}" if system else re.split(r",| \(", text)[0]


def never(runs):
    """Yields what no result file shows."""
    yield "## Never run\n"
    machines = [run.data["machine"] for run in runs]
    ran = {name for run in runs for name, part in run.data["parts"].items()
           if part["outcome"] != "skipped"}
    for backend, parts in PARTS.items():
        yield from (f"- The part `{name}` of `{backend}`."
                    for name in parts if name not in ran)
    for backend, maker in MAKERS.items():
        if not any(of_maker(run, maker) for run in runs):
            yield f"- The backend `{backend}` on a GPU of {maker}'s." + (
                " [What ran instead](hip.md)." if backend == "hip" else "")
    architectures = {of for machine in machines
                     for of in machine.get("architectures", [])}
    if architectures:
        yield f"- A GPU of another architecture than {listed(architectures)}."
    images = set(re.findall(r"'(gfx\w+)'", HIP_BUILD.read_text(encoding="utf-8")))
    if images - architectures:
        yield f"- Images of `hip` for {listed(images - architectures)}."
    yield f"- More GPUs in one run than {max([len(run.gpus) for run in runs] or [0])}."
    for key, what in {"system": "operating system", "processor": "processor"}.items():
        named = listed(short_name(machine[key]) for machine in machines
                       if machine.get(key))
        if named:
            yield f"- Another {what} than {named}."
    yield ""


def hardware_page(runs):
    lines = [
        "# What ran on which hardware\n", MADE + "\n",
        "This page lists the newest result of each part of `scripts/gpu-check`, with "
        "its commit, age and machine. It is for readers who want to know what holds on "
        "which backend. A failed part stays failed until a newer run passes.\n",
        f"Ages are counted to {newest_date()}. A part that no result file has is under "
        "[Never run](#never-run).\n",
        "A run on fewer GPUs, or of less than the whole part, does not replace an older "
        "one: both are listed. The last column counts what changed in the part's "
        "folders since the commit that ran.\n"]
    for backend in PARTS:
        lines += backend_section(runs, backend)
    return "\n".join([*lines, *never(runs), *machines(runs)]).rstrip("\n") + "\n"


# ---- Benchmarks -------------------------------------------------------------


def without_bounds(row):
    """Returns the row with a ratio that leaves bounds out."""
    peers = {name: of for name, of in row.get("peers", {}).items()
             if name not in BOUNDS}
    ratio = result.ratio_of(row["unit"], row["devrt"], peers)
    kept = {key: value for key, value in row.items() if key != "ratio"}
    return kept if ratio is None else {**kept, "ratio": ratio}


def newest_rows(runs):
    """Returns {topic: {(name of the row, its peers): (row, run)}}."""
    topics = {}
    for run in reversed(runs):  # a newer row replaces an older one in its place
        for part in run.data["parts"].values():
            for row in part.get("rows", []):
                found = topics.setdefault(row["topic"], {})
                key = row["row"], frozenset(row.get("peers", {}))
                for name, peers in [*found]:
                    if name == key[0] and peers < key[1]:
                        del found[name, peers]
                found[key] = (without_bounds(row), run)
    return dict(sorted(topics.items()))


def figure(row, value):
    return "" if value is None else f"{value:,.10g} {row['unit']}"


def bars(row):
    return ", ".join(text if met else f"{text} **missed**"
                     for text, met in row.get("bars", {}).items())


def missed(row):
    return [text for text, met in row.get("bars", {}).items() if not met]


def reason(topic, row):
    """Returns why a row misses its bar, or None where this is not known."""
    peers = row.get("peers", {})
    driver = peers.get("driver", peers.get(WAITS))
    limits = [float(text[:-3]) for text in missed(row)
              if re.fullmatch(r"[\d.]+ ns", text)]
    if driver and limits and row["devrt"] >= driver >= min(limits):
        return "the driver alone takes as long as the bar"
    known = REASONS.get(topic, {})
    return known.get(row["row"], known.get("*"))


def reasons(topic, rows):
    """Yields why rows miss their bars, a paragraph for each reason."""
    by_reason = {}
    for row in rows:
        by_reason.setdefault(reason(topic, row), []).append(row["row"])
    for text, names in by_reason.items():
        who = "; ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} rows"
        yield f"- **{topic}**, {who}: {text or 'not known'}."


def bars_table(topics):
    """Yields how many bars are missed, in all and by topic, and why."""
    rows, why, total, total_missed = [], [], 0, 0
    for topic, found in topics.items():
        count = sum(len(row.get("bars", {})) for row, _ in found.values())
        missing = [row for row, _ in found.values() if missed(row)]
        count_missed = sum(len(missed(row)) for row in missing)
        total, total_missed = total + count, total_missed + count_missed
        if count:
            rows.append((topic, count, count_missed))
            why += reasons(topic, missing)
    yield (f"**{total_missed} of {total} bars are missed.** A bar is a limit that a figure "
           "should keep, on a machine with nothing else to do. "
           "[bench/README.md](../../bench/README.md) says how a figure is made.\n")
    yield from table(["Topic", "Bars", "Missed"], rows)
    if why:
        yield ("Why rows miss their bars; instructions are those of callgrind over a fake driver "
               "or the simulator:\n")
        yield from [*why, ""]


def picture_name(topic):
    return f"ratios-{re.sub('[^a-z0-9]+', '-', topic.lower()).strip('-')}.svg"


def pictures(topics):
    """Returns {name of the file: picture} of the topics that have peers."""
    drawn = {topic: [row for row, _ in found.values() if "ratio" in row]
             for topic, found in topics.items()}
    return {picture_name(topic): ratio_chart.chart(topic, rows)
            for topic, rows in drawn.items() if rows}


def topic_section(topic, found):
    peers = list(dict.fromkeys(
        peer for row, _ in found.values() for peer in row.get("peers", {})))
    runs = dict.fromkeys(f"{run.age}, {run.at}{run.quick}, {run.where}"
                         for _, run in found.values())
    rows = [(row["row"], figure(row, row["devrt"]),
             *(figure(row, row.get("peers", {}).get(peer)) for peer in peers),
             f"{row['ratio']:.3g}" if "ratio" in row else "", bars(row),
             "" if len(runs) == 1 else f"{run.at}, {run.where}")
            for row, run in found.values()]
    header, *rows = without_empty_columns(
        ["Row", "devrt", *(f"{peer} (a bound)" if peer in BOUNDS else peer
                           for peer in peers), "Ratio", "Bar", "Run"], rows)
    picture = [f"![Times better than the best of the others]({picture_name(topic)})\n"
               ] if "Ratio" in header else []
    note = [f"{NOTES[topic]}\n"] if topic in NOTES else []
    return [f"## {topic}\n", f"Run: {'; '.join(runs)}.\n", *picture,
            *table(header, rows), *note]


def benchmarks_page(topics):
    lines = [
        "# Benchmarks\n", MADE + "\n",
        "This page has the newest figure of each benchmark, beside other libraries "
        "that were measured in the same run. It is for readers who want to know what a "
        "call costs, and which limits devrt misses.\n",
        *bars_table(topics),
        "Each figure is a median. A run with `--quick` takes it of 3 repetitions of 0.02 s "
        "instead of 9 of 0.1 s (7 before 2026-11-29), and in Python of 5 rounds "
        "instead of 15. Such a run is marked above its table.\n",
        "The ratio in a table is devrt's figure divided by the best of the others', "
        "without those that are a bound. For times and memory (ns, MiB) a ratio below 1 "
        "is good; for speeds (GB/s, %, x) one above 1. Ratios can be compared between "
        "machines, absolute figures cannot.\n",
        "A picture shows instead how many times better devrt is, on a logarithmic scale: "
        "a time with the ratio 0.25 is 4 times better. A bar to the right is better, one "
        "to the left worse.\n"]
    for topic, found in topics.items():
        lines += topic_section(topic, found)
    return "\n".join(lines).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", metavar="FOLDER", required=True, type=pathlib.Path)
    parser.add_argument("--results", metavar="FOLDER", default=RESULTS)
    args = parser.parse_args()
    try:
        runs = load(args.results)
    except result.BadResult as error:
        print(f"evidence: {error}", file=sys.stderr)
        return 1
    topics = newest_rows(runs)
    args.out.mkdir(parents=True, exist_ok=True)
    for name, text in {"hardware.md": hardware_page(runs),
                       "benchmarks.md": benchmarks_page(topics),
                       **pictures(topics)}.items():
        (args.out / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
