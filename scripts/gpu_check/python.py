# SPDX-License-Identifier: Apache-2.0
"""The Python package on a backend: its tests, the interop matrix, and figures.

All need the package for the Python that runs gpu-check: --python DIR|WHEEL.
"""

import collections
import concurrent.futures
import os
import pathlib
import re
import sys
import zipfile

from gpu_check.result import at_most, bench_row
from gpu_check.rows import add_bench_rows, add_command
from gpu_check.runner import FAILED, PASSED, SKIPPED, Skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench/python_bench.py"
MATRIX = ROOT / "tests/interop/matrix.py"
NOTHING_THERE = 77
SWITCH = "with device, switch"
PEERS = {"torch": "PyTorch", "cupy": "CuPy", "numba": "Numba"}
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


def can_import(check, options, where):
    command = check.run(
        [sys.executable, "-c", f"import devrt; devrt.Device('{options.backend}:0')"], 120,
        {"PYTHONPATH": str(where)})
    if command.code != 0:
        check.add(command.part, FAILED,
                  "import devrt: " + command.tail.splitlines()[-1])
    return command.code == 0


def tests(check, options):
    """Runs tests/python, with the cuda backend beside mtia or with mtia alone."""
    where = package(check, options)
    if not can_import(check, options, where):
        return
    for file, command in run_files(check, options, where, test_files(check, options)):
        lines = command.output.strip().splitlines() or [""]
        said = f"{file.name}: {lines[-1].strip('= ')}"
        counts = counts_of(lines[-1])
        if command.code == 5:  # pytest collected nothing
            check.add(command.part, SKIPPED, said)
        elif command.code == 0:
            check.add(command.part, PASSED, said, counts)
        else:
            counts.setdefault("failed", 1)
            check.add(command.part, FAILED, f"{said}: {command.ending}", counts,
                      failed_of(command.output) or [f"{said}: {command.ending}"])


def run_files(check, options, where, files, variables=lambda file: {}):
    """Returns pairs: a file of tests, and the command that ran it.

    Files run beside each other, or a part would take ten minutes.  Only two use the GPU
    at a time, since their tests allow a call little time.
    """
    with (concurrent.futures.ThreadPoolExecutor(2) as on_gpu,
          concurrent.futures.ThreadPoolExecutor(workers()) as on_mtia):
        started = [(on_mtia if mtia_alone(options, file) else on_gpu).submit(
            run_tests, check, options, where, file, variables(file)) for file in files]
    return [(file, future.result()) for file, future in zip(files, started)]


def workers():
    """Returns how many files of mtia run at a time."""
    return max(1, min(8, len(os.sched_getaffinity(0)) // 2))


def test_files(check, options):
    if check.run([sys.executable, "-c", "import pytest"], 60).code != 0:
        raise Skip("this Python has no pytest")
    return [file for file in sorted((ROOT / "tests/python").rglob("test_*.py"))
            if options.backend == "cuda" or not file.stem.endswith("_cuda")]


def run_tests(check, options, where, file, variables=None):
    tool = check.root / "tools/devrt"
    return check.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "--tb=short", file], 600,
        {"PYTHONPATH": str(where), **backends(options, file),
         **({"DEVRT_TOOL": str(tool)} if tool.exists() else {}),
         "DEVRT_TEST_PYTHON_PACKAGE": str(where),
         "PYTHONDONTWRITEBYTECODE": "1", **(variables or {})})


def counts_of(line):
    """Returns the counts in pytest's last line: 3 passed, 1 skipped in 0.2s."""
    words = {"error": "failed", "errors": "failed"}
    counts = {}
    for number, word in re.findall(
            r"(\d+) (passed|failed|skipped|errors?)\b", line):
        word = words.get(word, word)
        counts[word] = counts.get(word, 0) + int(number)
    return counts


def failed_of(output):
    """Returns the tests that pytest's summary names."""
    return re.findall(r"^(?:FAILED|ERROR) (?:\S*/)?(\S+)", output, re.MULTILINE)


def mtia_alone(options, file):
    return file.name in OF_MTIA or options.backend == "mtia"


def backends(options, file):
    if mtia_alone(options, file):
        return {"DEVRT_BACKENDS": "mtia"}
    return {"DEVRT_BACKENDS": "cuda,mtia", "DEVRT_TEST_BACKEND": "cuda"}


def interop(check, options):
    where = package(check, options)
    if not can_import(check, options, where):
        return
    command, result = run_matrix(check, options, where)
    if result is None:
        add_command(check, command, "no result")
        return
    add_cases(check, command, result)


def run_matrix(check, options, where, variables=None, words=()):
    """Returns the command, and its result or None."""
    json_file = check.file("interop.json")
    command = check.run(
        [sys.executable, MATRIX, "--package", where, "--json", json_file,
         *(["--quick"] if options.quick else []), *words], 3600,
        {"PYTHONDONTWRITEBYTECODE": "1", **(variables or {})})
    return command, check.read_json(json_file)


def add_cases(check, command, result):
    """Adds a row for each first part of the ids, each failure, and each reason to skip.
    """
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
                      f"{case['id']}: {case['note'][:300]}")
        if ran:
            good = len(ran) - len(failed)
            more = f", {len(deviates)} known deviations" if deviates else ""
            check.add(command.part, PASSED, f"{name}: {good} cases{more}",
                      {"passed": good - len(deviates),
                       **({"deviates": len(deviates)} if deviates else {})})
    reasons = collections.Counter(case["note"][:120] for case in result["cases"]
                                  if case["outcome"] == "skipped")
    for reason, count in reasons.items():
        check.add(command.part, SKIPPED, f"{reason}: {count} cases", {"skipped": count})
    if command.code not in (0, 1, NOTHING_THERE):
        add_command(check, command, "matrix.py")


def benchmarks(check, options):
    """Measures the cost of calls, on GPUs in one run beside PyTorch, CuPy and Numba."""
    where = package(check, options)
    if not can_import(check, options, where):
        return
    json_file = check.file("python_bench.json")
    rounds = 2 if options.simulated else 5 if options.quick else 15
    command = check.run(
        [sys.executable, BENCH, f"--backend={options.backend}", f"--rounds={rounds}",
         "--json", json_file,
         *(["--no-peers"] if options.backend == "mtia" else [])], 600,
        {"PYTHONPATH": str(where), "PYTHONDONTWRITEBYTECODE": "1"})
    result = check.read_json(json_file)
    if result is None:
        add_command(check, command, "no figures")
        return
    if options.simulated:
        check.add(command.part, SKIPPED,
                  "verdicts: figures of a simulated driver say nothing")
    own, *_ = result["ns"]
    judged = options.backend == "cuda" and not options.simulated  # mtia has no bars
    missing = [name for name, bar in result["bars"].items()
               if judged and bar and name not in result["ns"][own]]
    if result["devices"] == 1 and SWITCH in missing:
        missing.remove(SWITCH)
        check.add(command.part, SKIPPED, f"{SWITCH}: takes two devices")
    add_command(check, command, f"{len(result['ns'][own])} rows, medians of {rounds}")
    topic = "Python, a call" + " on mtia" * (options.backend == "mtia")
    add_bench_rows(check, bench_rows(topic, result, judged=judged), missing)


# (row, the peer, the part of the peer's time that is the bar).
BESIDE = [("event record", "cupy", 0.6), ("import by the exchange API", "torch", 0.4)]
# A row of devrt beside another one of devrt.
ADD, ADD_IN_CPP = "array x + y", "array x + y, in C++"


def bars_of(name, result):
    """Returns the bars of a row, with True for those that are met."""
    own, *_ = result["ns"]
    ours, bar = result["ns"][own][name], result["bars"][name]
    text = f"{bar / 1e6:g} ms" if bar and bar >= 1e6 else f"{bar} ns"
    bars = {text: at_most(ours, bar)}
    for row, peer, part in BESIDE:
        theirs = result["ns"].get(peer, {}).get(name)
        if row == name and theirs:
            bars[f"{part} of {PEERS[peer]}'s"] = ours <= part * theirs
    in_cpp = result["ns"][own].get(ADD_IN_CPP)
    if name == ADD and in_cpp:
        bars["1.3 of the C++ call's"] = ours <= 1.3 * in_cpp
    return bars


def bench_rows(topic, result, judged):
    """Returns rows of python_bench.py's figures."""
    own, *peers = result["ns"]
    return [bench_row(topic, name, "ns", result["ns"][own][name],
                      {PEERS[peer]: result["ns"][peer].get(name) for peer in peers},
                      bars_of(name, result) if judged else {})
            for name in result["bars"] if name in result["ns"][own]]
