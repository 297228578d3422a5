# SPDX-License-Identifier: Apache-2.0
"""The Python package on GPUs: its tests, the interop matrix, and figures.

All need the package for the Python that runs gpu-check: --python DIR|WHEEL.
"""

import pathlib
import sys
import zipfile

from gpu_check.rows import add_command
from gpu_check.runner import FAILED, PASSED, SKIPPED, Skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench/python_bench.py"
MATRIX = ROOT / "tests/interop/matrix.py"
NOTHING_THERE = 77
SWITCH = "with device, switch"
# These test mtia's answers, or expect mtia to be the first backend, and run as they do
# without a GPU.
OF_MTIA = ["test_backends.py", "test_errors.py", "test_events.py",
           "test_facades.py", "test_interop.py", "test_memory.py",
           "test_mtia_backend.py",
           "test_process.py", "test_simulator.py", "test_streams.py",
           "test_testing_plugin.py", "test_waits.py"]


def package(check, options):
    """Returns the folder that contains the package.  Unpacks a wheel."""
    if options.python is None:
        raise Skip("needs --python DIR|WHEEL, the module for this Python")
    where = pathlib.Path(options.python).resolve()
    if where.suffix == ".whl":
        folder = check.folder / "wheel"
        with zipfile.ZipFile(where) as wheel:
            wheel.extractall(folder)
        where = folder
    if not list(where.glob("devrt/_core.*.so")):
        raise Skip(f"{where} holds no devrt/_core.*.so")
    return where


def can_import(check, where):
    command = check.run(
        [sys.executable, "-c", "import devrt; devrt.Device('cuda:0')"], 120,
        {"PYTHONPATH": str(where)})
    if command.code != 0:
        check.add(command.part, FAILED,
                  "import devrt: " + command.tail.splitlines()[-1])
    return command.code == 0


def tests(check, options):
    """Runs tests/python with the cuda backend beside mtia."""
    where = package(check, options)
    if not can_import(check, where):
        return
    if check.run([sys.executable, "-c", "import pytest"], 60).code != 0:
        raise Skip("this Python has no pytest")
    files = sorted((ROOT / "tests/python").rglob("test_*.py"))
    for file in files:
        command = check.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "--tb=short", file], 600,
            {"PYTHONPATH": str(where), **backends(file),
             "DEVRT_TEST_PYTHON_PACKAGE": str(where),
             "PYTHONDONTWRITEBYTECODE": "1"})
        lines = command.output.strip().splitlines() or [""]
        if command.code == 5:  # pytest collected nothing
            check.add(command.part, SKIPPED, f"{file.name}: {lines[-1]}")
        else:
            add_command(check, command, f"{file.name}: {lines[-1].strip('= ')}")


def backends(file):
    if file.name in OF_MTIA:
        return {"DEVRT_BACKENDS": "mtia"}
    return {"DEVRT_BACKENDS": "cuda,mtia", "DEVRT_TEST_BACKEND": "cuda"}


def interop(check, options):
    where = package(check, options)
    if not can_import(check, where):
        return
    json_file = check.file("interop.json")
    command = check.run(
        [sys.executable, MATRIX, "--package", where, "--json", json_file,
         *(["--quick"] if options.quick else [])], 3600,
        {"PYTHONDONTWRITEBYTECODE": "1"})
    result = check.read_json(json_file)
    if result is None:
        add_command(check, command, "no result")
        return
    add_cases(check, command, result)
    rows = [(case["id"], case["code"], case["outcome"], case["note"][:120])
            for case in result["cases"]]
    check.tables.append((command.part, "interop matrix",
                         ["Case", "Code", "Outcome", "Note"], rows))


def add_cases(check, command, result):
    """Adds a row for each first part of the ids, and one for each failure."""
    groups = {}
    for case in result["cases"]:
        first = "/".join(case["id"].split("/")[:2])
        groups.setdefault(first, []).append(case)
    for name, cases in groups.items():
        ran = [case for case in cases if case["outcome"] != "skipped"]
        failed = [case for case in cases if case["outcome"] == "failed"]
        deviates = [case for case in cases if case["outcome"] == "deviates"]
        for case in failed:
            check.add(command.part, FAILED,
                      f"{case['id']}: {case['note'][:300]}", case["seconds"])
        if not ran:
            check.add(command.part, SKIPPED,
                      f"{name}: {cases[0]['note'][:120]}")
        elif not failed:
            more = f", {len(deviates)} known deviations" if deviates else ""
            check.add(command.part, PASSED,
                      f"{name}: {len(ran)} cases{more}",
                      sum(case["seconds"] for case in ran))
    if command.code not in (0, 1, NOTHING_THERE):
        add_command(check, command, "matrix.py")


def benchmarks(check, options):
    """Measures the cost of calls, in one run beside PyTorch, CuPy and Numba."""
    where = package(check, options)
    if not can_import(check, where):
        return
    json_file = check.file("python_bench.json")
    rounds = 2 if options.simulated else 5 if options.quick else 15
    command = check.run(
        [sys.executable, BENCH, "--backend=cuda", f"--rounds={rounds}",
         "--json", json_file], 600,
        {"PYTHONPATH": str(where), "PYTHONDONTWRITEBYTECODE": "1"})
    result = check.read_json(json_file)
    if result is None:
        add_command(check, command, "no figures")
        return
    own, *peers = result["ns"]
    rows = [figures_row(name, bar, result["ns"][own],
                        [result["ns"][peer] for peer in peers])
            for name, bar in result["bars"].items()]
    check.tables.append(
        (command.part, f"ns per call, medians of {rounds}",
         ["Call", "devrt", *peers, "Bar", "", "Best of the others / devrt"],
         rows))
    add_command(check, command, f"{len(rows)} rows beside "
                f"{', '.join(peers) or 'no other library'}")
    if options.simulated:
        check.add(command.part, SKIPPED,
                  "verdicts: figures of a simulated driver say nothing")
        return
    barred = [name for name, bar in result["bars"].items() if bar]
    missing = [name for name in barred if name not in result["ns"][own]]
    if result["devices"] == 1 and SWITCH in missing:
        missing.remove(SWITCH)
        check.add(command.part, SKIPPED, f"{SWITCH}: takes two devices")
    barred = [name for name in barred if name in result["ns"][own]]
    if missing:
        check.add(command.part, FAILED, f"without rows: {', '.join(missing)}")
    over = [f"{row[0]} {row[1]} > {row[-3]}" for row in rows
            if row[-2] == "over"]
    check.add(command.part, PASSED,
              f"{len(barred)} bars; missed: {', '.join(over) or 'none'}")


def figures_row(name, bar, own, peers):
    """Returns a line of the table: devrt's figure, the others', the bar, the ratio."""
    mine = own.get(name)
    theirs = [peer.get(name) for peer in peers]
    known = [ns for ns in theirs if ns is not None]
    verdict = ""
    if bar and mine is not None:
        verdict = "over" if mine > bar else "ok"
    ratio = f"{min(known) / mine:.1f}" if known and mine else ""
    cells = ["-" if ns is None else f"{ns:.0f}" for ns in [mine, *theirs]]
    return (name, *cells, str(bar or "-"), verdict, ratio)
