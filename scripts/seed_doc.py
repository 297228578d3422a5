#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of the seed tests in Python for docs/evidence/seed-tests.md.

usage: seed_doc.py [--append FILE]  prints the tables, or adds them to FILE
       seed_doc.py --check          checks that the results and the tests agree
       seed_doc.py --run NAME --package DIR --machine TEXT [--backend BACKEND]
                                    runs tests/python/seed, and keeps the result as NAME

tests/python/seed/results.json has, for each run, how many tests passed and the names of
the others.  The list of tests is that of docs/reference/semantics.md, section 3.
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
sys.path.insert(0, str(ROOT / "scripts"))
from gpu_check import machine  # noqa: E402

RESULTS = SEED / "results.json"

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
    """Returns the kept runs: {"name", "machine", "date", "commit", "passed": number,
    "skipped" and "failed": {test: reason}}.
    """
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def keep(run, results):
    """Replaces the run of that name."""
    outcomes = [outcome for outcome, _ in results.values()]
    run.update(passed=outcomes.count("passed"), **{
        word: {test: why for test, (outcome, why) in sorted(results.items())
               if outcome == word} for word in ("skipped", "failed")})
    kept = [run, *(other for other in runs() if other["name"] != run["name"])]
    lines = ",\n".join(" " + json.dumps(of)
                       for of in sorted(kept, key=lambda of: of["name"]))
    RESULTS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def said(run, keys):
    """Returns one run's answer for a row, which may have several tests."""
    if any(key in run["failed"] for key in keys):
        return "failed"
    if any(key not in run["skipped"] for key in keys):
        return "passed"
    return f"skipped: {run['skipped'][keys[0]]}" if keys else "not run"


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
    lines = ["### Runs", "", "| Run | Date | Commit | Machine | Passed | Skipped | Failed |",
             "|---|---|---|---|---|---|---|"]
    for run in all_runs:
        counts = [str(run["passed"]), str(len(run["skipped"])), str(len(run["failed"]))]
        lines.append("| " + " | ".join(
            [run["name"], run["date"], run.get("commit", "not recorded"),
             run["machine"], *counts]) + " |")
    lines += [""]
    for number, heading, files in GROUPS:
        lines += group_lines(all_runs, number, heading, files, tests)
    lines += guide_lines(all_runs) + scope_lines()
    return "\n".join(lines) + "\n"


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
    for run in runs():
        named = {*run["skipped"], *run["failed"]}
        for key in sorted(named - known):
            yield f"{run['name']}: {key} is gone"
        yield from (f"{run['name']}: {key} failed" for key in run["failed"])
        if run["passed"] + len(named) != len(known):
            yield (f"{run['name']} ran {run['passed'] + len(named)} tests of "
                   f"{len(known)}: seed_doc.py --run")


def check():
    found = list(problems())
    for problem in found:
        print(problem)
    return 1 if found else 0


def run_tests(options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "results.json"
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/python/run_pytest.py"), str(SEED)],
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
          "date": datetime.date.today().isoformat(),
          "commit": options.commit or machine.described()}, results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", metavar="NAME")
    parser.add_argument("--package", type=pathlib.Path)
    parser.add_argument("--backend", default="mtia")
    parser.add_argument("--machine", default="")
    parser.add_argument("--commit", help="of the package, if it is not of this tree")
    parser.add_argument("--append", metavar="FILE", type=pathlib.Path)
    options = parser.parse_args()
    if options.check:
        return check()
    if options.run:
        if options.package is None or not options.machine:
            parser.error("--run needs --package and --machine")
        run_tests(options)
    elif options.append:
        with open(options.append, "a", encoding="utf-8") as file:
            file.write("\n" + generated())
    else:
        print(generated(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
