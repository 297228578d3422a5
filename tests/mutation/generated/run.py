#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation testing of the whole product.

usage: run.py [OPTIONS] prepare|cover|run|again|table

  prepare  copies the checkout and its compiled build folder (hard links)
  cover    runs the tests once with instrumented libraries: which lines each runs
  run      makes mutants, room by room in turn, and runs the tests that execute the
           mutated line, until one fails; goes on where it was stopped
  again    tries those that survived once more, for tests that are new
  table    prints the figures by room and the survivors

README.md beside this file has the whole; .ci/run mutation does it.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import functools
import json
import operator
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import sample
import tree as trees

HERE = pathlib.Path(__file__).resolve().parent
EQUIVALENT = HERE / "equivalent.txt"
# These run no code of the product, or take minutes.
NO_TESTS = {"headers", "checks", "docs", "install", "mutants", "interop", "mpi",
            "examples", "abi"}
# A mutant of a header with more objects would take minutes to make.
MOST_OBJECTS = 12
SLOWEST = 60  # seconds: slower tests are left out
# Where there is no coverage yet: whose tests come first.
SUITES = {"runtime": ["unit", "exit"], "guards": ["unit"], "streams": ["unit"],
          "memory": ["memory"], "arrays": ["arrays"],
          "backends/gpu": ["gpu", "fakes", "hardware"],
          "layers": ["layers", "tools"], "python/src": ["python"],
          "sim": ["sim", "python"]}
# In a mount namespace of its own: a mutant may write anywhere.
READ_ONLY = ["unshare", "--mount", "sh", "-c", "mount --bind /usr /usr && "
             "mount -o remount,bind,ro /usr && exec \"$@\"", "sh"]
COVERAGE = ["-O0", "-fprofile-instr-generate", "-fcoverage-mapping", "-mllvm",
            "-runtime-counter-relocation"]
# Neither made, nor different, nor known to change nothing: what counts.
COUNTED = ("killed", "survived", "uncovered", "open")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+",
                        choices=["prepare", "cover", "run", "again", "table"])
    parser.add_argument("--build", default=str(sample.ROOT / "build"))
    parser.add_argument("--folder", default=str(sample.ROOT / "build-mutation"))
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument("--each", type=int, default=56,
                        help="compiled mutants of a room")
    parser.add_argument("--rooms", default=",".join(sample.ROOMS))
    parser.add_argument("--minutes", type=float, default=1e9,
                        help="no mutant is begun later")
    parser.add_argument("--budget", type=float, default=1e9, metavar="S",
                        help="seconds of tests a mutant; then it is open")
    parser.add_argument("--patience", type=float, default=10,
                        help="a test hangs after so many times its usual seconds")
    parser.add_argument("--tests", default="*", help="of `again`: which, a pattern")
    parser.add_argument("--keys", default="", help="of `again`: which mutants")
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT",
                        help="of `table`: fails with less, or below 400 mutants")
    return parser.parse_args()


# ---- Coverage ----------------------------------------------------------------


class Coverage:
    """Seconds of each test, and for each line a mask of the tests that run it."""

    def __init__(self, path):
        self.path = path
        self.seconds, self.lines, self.shares = {}, {}, {}
        if path.exists():
            kept = json.loads(path.read_text())
            self.seconds = kept["seconds"]
            self.lines = {file: {int(n): int(mask, 16) for n, mask in l.items()}
                          for file, l in kept["lines"].items()}
        self.names = list(self.seconds)

    def save(self):
        lines = {file: {n: f"{mask:x}" for n, mask in l.items()}
                 for file, l in self.lines.items()}
        self.path.write_text(json.dumps({"seconds": self.seconds, "lines": lines}))

    def add(self, name, seconds, lcov, tree):
        bit = 1 << len(self.seconds)
        self.seconds[name] = seconds
        self.names.append(name)
        lines = None
        for record in lcov.splitlines():
            if record.startswith("SF:"):
                lines = self.lines.setdefault(tree.name_of(record[3:]), {})
            elif record.startswith("DA:"):
                number, count = record[3:].split(",")[:2]
                mask = bit if int(count) > 0 else 0
                lines[int(number)] = lines.get(int(number), 0) | mask

    def share(self, file, name):
        """How much of the file a test runs: small where the test aims at a part."""
        if file not in self.shares:
            masks = self.lines.get(file, {}).values()
            self.shares[file] = [
                sum(mask >> i & 1 for mask in masks) / (len(masks) or 1)
                for i in range(len(self.names))]
        return self.shares[file][self.names.index(name)]

    def of(self, file, line):
        """The tests that run the line. A constant or a member has no count: then
        all that run anything of the file."""
        lines = self.lines.get(file, {})
        mask = lines.get(line)
        if mask is None:
            mask = functools.reduce(operator.or_, lines.values(), 0)
        return [n for i, n in enumerate(self.names) if mask >> i & 1]


def cover(options, tree, rooms):
    files = {m.file for mutants in rooms.values() for m in mutants}
    objects = sorted({o for file in files for o in tree.objects_of[file]
                      if len(tree.objects_of[file]) <= MOST_OBJECTS})
    made = []

    def make(output):
        said = tree.compile(output, COVERAGE)
        if said is not None:
            print(f"{output}: not instrumented: {said.splitlines()[0]}")
        else:
            made.append(output)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(make, objects))
    for output in made:
        tree.replace(output, tree.out / (output + ".new"))
    binaries = tree.users_of(made)
    flags = ["-fprofile-instr-generate"]

    def link(target):
        said = tree.link(target, made, flags)
        if said is not None:
            print(f"{target}: not instrumented: {said.splitlines()[0]}")
        return said is None

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        linked = list(pool.map(link, binaries))
    binaries = [b for b, well in zip(binaries, linked) if well]
    coverage = Coverage(options.folder / "coverage.json")
    coverage.seconds, coverage.lines, coverage.names = {}, {}, []
    tests = tree.tests(NO_TESTS)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        profiles = pool.map(lambda item: profile(tree, binaries, *item),
                            tests.items())
        for name, verdict, seconds, lcov in profiles:
            print(f"{name:<40} {verdict:<8} {seconds:6.1f} s", flush=True)
            if verdict == "passed" and lcov and seconds <= SLOWEST:
                coverage.add(name, seconds, lcov, tree)
    coverage.save()
    tree.restore(made + binaries)


def is_library(target):
    return ".so" in target


def profile(tree, binaries, name, test):
    """Runs a test; its lines in lcov's format."""
    folder = tree.folder / "profiles" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # %c: also what a process counted that was killed or left by _exit.
    verdict, seconds = tree.run(test, 4 * SLOWEST, {
        "LLVM_PROFILE_FILE": f"{folder}/%c%m.profraw"})
    raw = [str(p) for p in folder.glob("*.profraw")]
    if not raw:
        return name, verdict, seconds, ""
    merged = folder / "merged"
    merging = subprocess.run(["llvm-profdata", "merge", "-sparse", *raw, "-o",
                              str(merged)], stderr=subprocess.PIPE, text=True)
    if merging.returncode != 0:
        return name, f"{verdict}: {merging.stderr.strip()}", seconds, ""
    mine = set(tree.programs_of(test))
    objects = [b for b in binaries if b in mine or is_library(b)]
    others = [word for b in objects[1:] for word in ("-object", b)]
    lcov = subprocess.run(
        ["llvm-cov", "export", "-format=lcov", "-instr-profile", str(merged),
         objects[0], *others], cwd=tree.out, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL).stdout
    shutil.rmtree(folder)
    return name, verdict, seconds, lcov


# ---- Results -----------------------------------------------------------------


class Results:
    """One line a mutant: key, status, by what, file:line, text. The last counts."""

    def __init__(self, path):
        self.path = path
        self.rows = {}
        if path.exists():
            for line in path.read_text().splitlines():
                key, *rest = line.split("\t")
                self.rows[key] = rest

    def status(self, mutant):
        return self.rows.get(mutant.key, ["", ""])[0]

    def add(self, mutant, status, by):
        row = [status, by, f"{mutant.file}:{mutant.line}", mutant.text]
        self.rows[mutant.key] = row
        with self.path.open("a") as file:
            file.write("\t".join([mutant.key, *row]) + "\n")
        print(f"{status:<10} {by:<28.28} {row[2]} {mutant.text}", flush=True)


def equivalents():
    """Keys of the mutants that a person found to change nothing, with the reason."""
    found, key = {}, None
    for line in EQUIVALENT.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith(" "):
            found[key] = f"{found[key]} {line.strip()}".strip()
            continue
        file, _, text = line.partition(": ")
        old, _, new = text.partition(" ==> ")
        key = sample.digest(file, old, new)[:12]
        found[key] = ""
    return found


# ---- Mutants -----------------------------------------------------------------


class Campaign:
    def __init__(self, options, tree, rooms):
        self.options, self.tree, self.rooms = options, tree, rooms
        self.coverage = Coverage(options.folder / "coverage.json")
        self.results = Results(options.folder / "results.tsv")
        self.tests = tree.tests(NO_TESTS)
        self.kills = collections.Counter()  # of (file or room, test)
        for mutant in (m for mutants in rooms.values() for m in mutants):
            if self.results.status(mutant) == "killed":
                self.note_kill(mutant, self.results.rows[mutant.key][1])
        self.seconds = {}  # of a test, where there is no coverage
        self.end = time.monotonic() + 60 * options.minutes

    def note_kill(self, mutant, by):
        for place in (mutant.file, mutant.room):
            self.kills[place, by.removesuffix(" hangs")] += 1

    def write(self, mutant):
        path = self.tree.root / mutant.file
        lines = path.read_text(encoding="utf-8").splitlines()
        if lines[mutant.line - 1] != mutant.old:
            raise SystemExit(f"{path}:{mutant.line} has changed: prepare again")
        lines[mutant.line - 1] = mutant.new
        new = path.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.tree.replace(path, new)

    def is_same_code(self, mutant, objects, flag="-O2"):
        """Returns true if the compiler's output is equal for both: with -O2 that of the
        optimiser, with -E that of the preprocessor, which is faster and sees code for
        devices, too."""
        made = {}
        for side in ("old", "new"):
            if side == "new":
                self.write(mutant)
            made[side] = []
            for output in objects:
                target = self.tree.folder / "compared.o"
                self.tree.compile(output, [flag], target)
                made[side].append(target.read_bytes())
        self.tree.restore([self.tree.root / mutant.file])
        return made["old"] == made["new"]

    def order(self, mutant):
        """The tests that run the line, the best chance of a second first: what killed
        others of the file and of the room, and what runs little else of the file.
        Without coverage all tests, those with names like the file's first."""
        if self.coverage.lines:
            names = self.coverage.of(mutant.file, mutant.line)

            def chance(name):
                kills = (4 * self.kills[mutant.file, name] +
                         self.kills[mutant.room, name])
                return ((1 + kills) / (0.2 + self.coverage.seconds[name]) /
                        (0.1 + self.coverage.share(mutant.file, name)))
            return sorted(names, key=chance, reverse=True)
        words = set(re.findall("[a-z]+", mutant.file.rpartition("/")[2][:-3]))

        def place(name):
            suites = {s.split(":")[-1] for s in self.tests[name]["suite"]}
            near = suites & set(SUITES[mutant.room])
            return (-self.kills[mutant.file, name], not near,
                    -len(words & set(re.findall("[a-z]+", name))),
                    self.seconds.get(name, self.tests[name]["timeout"] / 100), name)
        return sorted(self.tests, key=place)

    def kill(self, names, objects, stale):
        """The status and the test. `stale`: programs to link when they are due."""
        spent, unlinked = 0, []
        for name in names:
            if spent > self.options.budget:
                return "open", f"{names.index(name)} of {len(names)}"
            test = self.tests[name]
            programs = self.tree.programs_of(test)
            mine = [t for t in programs if t in stale]
            stale -= set(mine)
            unlinked += [t for t in mine if self.tree.link(t, objects) is not None]
            if set(unlinked) & set(programs):
                continue
            limit = self.options.patience * max(
                3, self.coverage.seconds.get(name, 10))
            verdict, seconds = self.tree.run(test, limit)
            spent += seconds
            self.seconds.setdefault(name, seconds)
            # By chance, or as the machine is loaded.
            if verdict in ("failed", "timeout"):
                verdict, _ = self.tree.run(test, limit)
            if verdict in ("failed", "timeout"):
                return "killed", name + (" hangs" if verdict == "timeout" else "")
        return "survived", f"{len(names)} tests"

    def attempt(self, mutant, names):
        objects = self.tree.objects_of[mutant.file]
        if not 0 < len(objects) <= MOST_OBJECTS:
            return self.results.add(mutant, "unmade", f"{len(objects)} objects")
        # A line without a count may be one that is compiled elsewhere only.
        lines = self.coverage.lines.get(mutant.file, {})
        if lines and mutant.line not in lines and self.is_same_code(
                mutant, objects, "-E"):
            return self.results.add(mutant, "same", "the compiler's result")
        self.write(mutant)
        users = self.tree.users_of(objects)
        try:
            status = self.verdict(mutant, names, objects, users)
        finally:
            self.tree.restore([self.tree.root / mutant.file, *objects, *users])
        if status[0] == "killed":
            self.note_kill(mutant, status[1])
        if status[0] in ("uncovered", "survived") and self.is_same_code(
                mutant, objects):
            status = "same", "the compiler's result"
        return self.results.add(mutant, *status)

    def verdict(self, mutant, names, objects, users):
        for output in objects:
            if self.tree.compile(output, ["-O0"]) is not None:
                return "uncompiled", ""
        for output in objects:
            self.tree.replace(output, self.tree.out / (output + ".new"))
        for target in filter(is_library, users):
            if self.tree.link(target, objects) is not None:
                return "uncompiled", "not linked"
        if not names:
            return "uncovered", ""
        return self.kill(names, objects, set(users) - set(filter(is_library, users)))

    def run(self):
        """A mutant of each room in turn, until each has its number."""
        known = equivalents()
        turns = {}
        for room, mutants in self.rooms.items():
            counted = sum(self.results.status(m) in COUNTED for m in mutants)
            # Open mutants come first.
            queue = sorted(mutants, key=lambda m: self.results.status(m) != "open")
            turns[room] = [counted, iter(queue)]
        while turns and time.monotonic() < self.end:
            for room, turn in list(turns.items()):
                # With coverage there are fewer tests for what was left open.
                left = [""] if turn[0] < self.options.each else []
                left += ["open"] if self.coverage.lines else []
                mutant = next((m for m in turn[1] if m.key not in known and
                               self.results.status(m) in left), None)
                if mutant is None:
                    turns.pop(room)
                    continue
                was = self.results.status(mutant)
                self.attempt(mutant, self.order(mutant))
                now = self.results.status(mutant)
                turn[0] += (now in COUNTED) - (was in COUNTED)

    def again(self):
        keys = self.options.keys.split(",") if self.options.keys else None
        for mutants in self.rooms.values():
            for mutant in mutants:
                status = self.results.status(mutant)
                if status not in ("survived", "uncovered", "open") or (
                        keys and mutant.key not in keys):
                    continue
                if time.monotonic() > self.end:
                    return
                names = fnmatch.filter(self.tests, self.options.tests)
                if self.options.tests == "*":
                    fresh = [n for n in names if n not in self.coverage.seconds]
                    names = fresh + self.order(mutant)
                self.attempt(mutant, names)

    # ---- What comes out -----------------------------------------------------

    def table(self):
        known = equivalents()
        row = ("| {:<12} | {:>5} | {:>8} | {:>9} | {:>6} | {:>10} | {:>9} | {:>4} | "
               "{:>5} |")
        print(row.format("room", "tried", "compiled", "same code", "killed",
                         "equivalent", "surviving", "open", "%"))
        print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
        total = [0] * 7
        survivors = []
        for room, mutants in self.rooms.items():
            states = [self.results.status(m) for m in mutants]
            tried = sum(s not in ("", "unmade") for s in states)
            same = states.count("same")
            killed = states.count("killed")
            alive = [m for m, s in zip(mutants, states)
                     if s in COUNTED and s != "killed"]
            equal = sum(m.key in known for m in alive)
            survivors += [m for m in alive if m.key not in known]
            left = sum(self.results.status(m) == "open" and m.key not in known
                       for m in alive)
            line = [tried, same + killed + len(alive), same, killed, equal,
                    len(alive) - equal - left, left]
            total = [a + b for a, b in zip(total, line)]
            print(row.format(room, *line, percent(line)))
        print(row.format("all", *total, percent(total)))
        print()
        for mutant in survivors:
            status, by, *_ = self.results.rows[mutant.key]
            print(f"{mutant.key} {status} {by}\n  {mutant.file}:{mutant.line}: "
                  f"{mutant.text}")
        return total


def percent(line):
    killed, alive = line[3], line[5] + line[6]
    return f"{100 * killed / (killed + alive):.1f}" if killed + alive else "-"


def keep_usr():
    """Goes on with /usr read-only, where a test of root's could write into it."""
    kept = "MUTATION_KEEPS_USR"
    if os.geteuid() != 0 or kept in os.environ or not shutil.which("unshare"):
        return
    if subprocess.run([*READ_ONLY, "true"]).returncode != 0:
        print("a mutant may write into /usr: it cannot be made read-only here")
        return
    os.environ[kept] = "1"
    os.execvp("unshare", [*READ_ONLY, sys.executable, *sys.argv])


def main():
    options = arguments()
    if {"cover", "run", "again"} & set(options.what):
        keep_usr()
    options.folder = pathlib.Path(options.folder).resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    tree = trees.Tree(options.build, options.folder)
    if "prepare" in options.what:
        tree.make()
    tree.open()
    rooms = {room: mutants for room, mutants in
             sample.sample(options.seed, options.folder).items()
             if room in options.rooms.split(",")}
    if "cover" in options.what:
        cover(options, tree, rooms)
    campaign = Campaign(options, tree, rooms)
    if "run" in options.what:
        campaign.run()
    if "again" in options.what:
        campaign.again()
    if "table" in options.what:
        total = campaign.table()
        if options.least and (total[1] - total[2] < 400 or
                              float(percent(total)) < options.least):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
