#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the results of the seed tests in Python into docs/evidence/seed-tests.md.

usage: seed_doc.py                 from tests/python/seed/results/*.jsonl
       seed_doc.py --check         checks that the page, the results and the tests agree
       seed_doc.py --run NAME --package DIR --machine TEXT [--backend BACKEND]
                   [FILE ...]      runs tests/python/seed, all or these files, keeps
                                   the results as NAME, and writes the page

This program writes the page's part between the markers.  The rest is written by hand.
The list of tests is that of docs/reference/semantics.md, section 3.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SEED = ROOT / "tests/python/seed"
PAGE = ROOT / "docs/evidence/seed-tests.md"
BEGIN = "<!-- Written by scripts/seed_doc.py from here on; do not edit. -->\n"
END = "<!-- Written by hand from here on. -->\n"

# (section of semantics.md, heading, files with its tests).
GROUPS = [
    ("3.2", "PyTorch's test_cuda",
     ["test_cuda_without_arrays.py", "test_cuda_arrays.py"]),
    ("3.4", "PyTorch's test_cpp_extensions_mtia_backend",
     ["test_mtia_backend.py"]),
    ("3.5", "PyTorch's test_numba_integration", ["test_numba_integration.py"]),
]
# By section of CuPy's guide: tests of test_cupy_guide.py, and other places that show
# it.
MATRIX = "[interop matrix](interop.md)"
GUIDE = {
    "Numba": ([], f"test_numba_integration above; {MATRIX}"),
    "mpi4py": (["test_mpi_waits_by_synchronize"], MATRIX),
    "PyTorch, CAI": ([], f"{MATRIX}, on GPUs"),
    "PyTorch, DLPack": ([], f"{MATRIX}, on GPUs"),
    "PyTorch, shared pool and stream":
        (["test_shared_pool_counts_as_the_guide_says"], f"{MATRIX}, on GPUs"),
    "custom kernels": (["test_memory_stays_when_the_exporter_is_gone"], ""),
    "RMM": ([], "tests/python/test_allocators_libraries.py"),
    "DLPack": (["test_dlpack_both_ways_without_a_copy",
                "test_dlpack_capsules_are_consumed_once"], ""),
    "DLPack protocol": ([], "tests/python/test_dlpack.py, test_from_dlpack.py"),
    "Device memory pointers": (["test_device_memory_pointers"], ""),
    "CUDA stream pointers": (["test_stream_pointers"], ""),
    "NumPy": (["test_numpy_ufuncs_and_functions"], ""),
    "TensorFlow": ([], MATRIX),
}


def section(number):
    text = (ROOT / "docs/reference/semantics.md").read_text(encoding="utf-8")
    return re.split(r"\n##+ ", text.split(f"\n### {number} ")[1])[0]


def seeds(number):
    """Returns the names of a section's table, in its order."""
    rows = re.findall(r"^\| ([a-z][\w, ]*?)(?: \((?:part|\d)\))? \|",
                      section(number), re.M)
    return [name for row in rows for name in row.split(", ")]


def test_files():
    """Returns {file: names of its tests}, without their prefix."""
    return {path.name: re.findall(r"^def test_(\w+)",
                                  path.read_text(encoding="utf-8"), re.M)
            for path in sorted(SEED.glob("test_*.py"))}


def runs():
    """Returns the kept runs: {"name", "machine", "date", "results": {test: answer}}."""
    found = []
    for path in sorted((SEED / "results").glob("*.jsonl")):
        run, *answers = map(json.loads,
                            path.read_text(encoding="utf-8").splitlines())
        found.append({**run, "results": {test: [outcome, why]
                                         for test, outcome, why in answers}})
    return found


def keep(run, results):
    """Writes one line about the run, then one line for each test."""
    lines = [run, *([test, *results[test]] for test in sorted(results))]
    (SEED / "results" / f"{run['name']}.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def said(run, keys):
    """Returns one run's answer for a row, which may have several tests."""
    found = [run["results"][key] for key in keys if key in run["results"]]
    for outcome in ("failed", "passed"):
        if any(f[0] == outcome for f in found):
            return outcome
    return f"skipped: {found[0][1]}" if found else "not run"


def group_lines(all_runs, number, heading, files, tests):
    lines = [f"### {heading}", "",
             "| Test | File | " + " | ".join(r["name"] for r in all_runs) + " |",
             "|---|---|" + "---|" * len(all_runs)]
    for name in seeds(number):
        where = [f for f in files if name in tests[f]]
        keys = [f"{f}::test_{name}" for f in where]
        lines.append("| " + " | ".join(
            [name, ", ".join(where) or "**missing**",
             *(said(r, keys) for r in all_runs)]) + " |")
    return [*lines, ""]


def guide_lines(all_runs):
    lines = ["### CuPy's guide to interoperability", "",
             "| Section | Tests of test_cupy_guide.py | "
             + " | ".join(r["name"] for r in all_runs) + " | Also |",
             "|---|---|" + "---|" * (len(all_runs) + 1)]
    for name, (tests, also) in GUIDE.items():
        keys = [f"test_cupy_guide.py::{test}" for test in tests]
        answers = [said(r, keys) if tests else "" for r in all_runs]
        shown = ", ".join(t.replace("test_", "", 1) for t in tests)
        lines.append("| " + " | ".join([name, shown, *answers, also]) + " |")
    return [*lines, ""]


def scope_lines():
    rows = re.findall(r"^\|.*\|$", section("3.7"), re.M)
    return ["### Out of scope", "", *rows, ""]


def generated():
    all_runs, tests = runs(), test_files()
    lines = ["## In Python", "",
             "The tests are in `tests/python/seed/`, under the names that they have "
             "upstream.", "`DEVRT_TEST_BACKEND` says on which backend they run.", "",
             "| Run | Date | Machine | Passed | Skipped | Failed |",
             "|---|---|---|---|---|---|"]
    for run in all_runs:
        outcomes = [outcome for outcome, _ in run["results"].values()]
        counts = [str(outcomes.count(o)) for o in ("passed", "skipped", "failed")]
        lines.append("| " + " | ".join(
            [run["name"], run["date"], run["machine"], *counts]) + " |")
    lines += [""]
    for number, heading, files in GROUPS:
        lines += group_lines(all_runs, number, heading, files, tests)
    lines += guide_lines(all_runs) + scope_lines()
    return "\n".join(lines) + "\n"


def page_with(text):
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + "\n" + text + END + after


def problems():
    tests = test_files()
    known = {f"{file}::test_{name}" for file, names in tests.items()
             for name in names}
    for number, heading, files in GROUPS:
        for name in seeds(number):
            if not any(name in tests[file] for file in files):
                yield f"{heading}: {name} has no test"
    listed = re.findall(r"^\| ([A-Za-z][\w, 4]*?) \|", section("3.6"), re.M)
    for name in sorted(set(listed) - {"Section"} ^ set(GUIDE)):
        yield f"CuPy's guide: {name} is only in one of semantics.md and GUIDE"
    for test in [t for names, _ in GUIDE.values() for t in names]:
        if f"test_cupy_guide.py::{test}" not in known:
            yield f"test_cupy_guide.py has no {test}"
    ran = set()
    for run in runs():
        ran |= set(run["results"])
        for key, (outcome, _) in run["results"].items():
            if key not in known:
                yield f"{run['name']}: {key} is gone"
            if outcome == "failed":
                yield f"{run['name']}: {key} failed"
    for key in sorted(known - ran):
        yield f"{key} has no result: seed_doc.py --run"
    if page_with(generated()) != PAGE.read_text(encoding="utf-8"):
        yield "docs/evidence/seed-tests.md is not what the results say: seed_doc.py"


def check():
    found = list(problems())
    for problem in found:
        print(problem)
    return 1 if found else 0


def run_tests(options):
    files = [str(SEED / file) for file in options.files] or [str(SEED)]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "results.json"
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/python/run_pytest.py"), *files],
            # The tests' conftest.py uses mtia too.
            env={"DEVRT_BACKENDS": ",".join({options.backend: 0, "mtia": 0}),
                 **os.environ,
                 "DEVRT_TEST_BACKEND": options.backend,
                 "DEVRT_TEST_PYTHON_PACKAGE": str(options.package.resolve()),
                 "PYTHONDONTWRITEBYTECODE": "1",
                 "DEVRT_SEED_RESULTS": str(path)})
        if not path.exists():
            sys.exit(f"no results: pytest ended with {done.returncode}")
        results = json.loads(path.read_text(encoding="utf-8"))
    keep({"name": options.run, "machine": options.machine,
          "date": datetime.date.today().isoformat()}, results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", metavar="NAME")
    parser.add_argument("--package", type=pathlib.Path)
    parser.add_argument("--backend", default="mtia")
    parser.add_argument("--machine", default="")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    if options.check:
        return check()
    if options.run:
        if options.package is None or not options.machine:
            parser.error("--run needs --package and --machine")
        run_tests(options)
    PAGE.write_text(page_with(generated()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
