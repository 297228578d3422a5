# SPDX-License-Identifier: Apache-2.0
"""The race detector: it finds planted mistakes, nothing in correct programs, and costs
little.
"""

import concurrent.futures
import json
import pathlib
import statistics

from gpu_check import examples, python
from gpu_check.result import at_most, bench_row
from gpu_check.rows import (add_bench_rows, add_command, google_test,
                            run_google_benchmark, sanitizer)
from gpu_check.runner import FAILED, PASSED, SKIPPED, Skip

LAYER = "lib/devrt/layers/libdevrt_layer_validate.so"
CORPUS = "tests/layers/layers_validate"
FILES = [LAYER, CORPUS]
# Programs whose work is ordered.
CORRECT = {
    "tests/hardware/arrays_tests": [],
    "tests/hardware/memory_tests": [],
    examples.PIPELINE: ["--backend=cuda", "--devices=1", "--timeline="],
    examples.HALO: ["--backend=cuda", "--devices=1", "--timeline="],
}
# Mistakes that tests make on purpose are told by other findings than races.
NO_RACES = {"deadlock", "leak"}
BENCHMARK, STEP = "bench/cuda_bench", "DevrtTrainingStep/real_time"
TOPIC, MOST = "The race detector on cuda", 1.1  # times the calls without it
TOOLS = ["memcheck", "racecheck"]
ROUNDS = 5
NO_TESTS = 5  # pytest's exit code if it finds no test to run
# Tests of the package, and folders of them, that make races on purpose.
WITH_RACES = ["docs", "test_exploration.py", "test_host_order.py",
              "test_testing_afresh.py", "test_validate.py"]


def tests(check, options):
    need(check, LAYER)
    if options.simulated:
        raise Skip("corpus and programs: a simulated driver runs no kernels")
    need(check, CORPUS)
    mistakes(check)


def need(check, name):
    if not pathlib.Path(check.path(name)).exists():
        raise Skip(f"there is no {name}: it was not built")


def mistakes(check):
    # The host's pointers are watched on the simulator alone.
    without = "Host/*"
    if examples.count_devices(check) < 2:
        without += ":*AKernelUsesMemoryOfAnother*:*Peer*:*TwoDevices*:*AnotherDevice*"
    google_test(check, CORPUS, 300, f"--gtest_filter=-{without}",
                variables={"DEVRT_TEST_BACKEND": "cuda"})
    for program, words in CORRECT.items():
        if pathlib.Path(check.path(program)).exists():
            correct(check, program, words)


def layer(findings):
    """Returns variables with which a program writes its findings to that file."""
    return {"DEVRT_LAYERS": "validate", "DEVRT_RACE": "report",
            "DEVRT_RACE_FILE": str(findings), "DEVRT_LOG": "off"}


def read(findings):
    """Returns what programs have written to a file, or None if there is none."""
    try:
        lines = findings.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return [entry for entry in map(entry_of, lines) if "kind" in entry]


def entry_of(line):
    """Returns what a line of findings has.  A process that ends while it writes leaves
    half a line.
    """
    try:
        return json.loads(line)
    except ValueError:
        return {"kind": f"a line that is no JSON: {line[:100]}"}


def correct(check, program, words):
    findings = check.file("findings.json")
    command = check.run([check.path(program), *words], 300, layer(findings))
    name = pathlib.Path(program).name
    found = read(findings)
    if found is None:
        check.add(command.part, FAILED, f"{name}: the layer wrote no file")
    elif found:
        check.add(command.part, FAILED,
                  f"{name}: {len(found)} findings; {place(found[0])}")
    else:
        add_command(check, command, f"{name}: no findings")


# ---- What it costs -----------------------------------------------------------


def benchmarks(check, options):
    """Measures a training step of empty kernels: without the layer, with it, and under
    compute-sanitizer.
    """
    program = pathlib.Path(check.path(BENCHMARK))
    need(check, LAYER)
    need(check, BENCHMARK)
    simulated = options.simulated
    plain, layered = [], []
    for _ in range(1 if simulated else ROUNDS):  # in turn: the machine's pace may change
        plain.append(launch(check, options, program))
        layered.append(launch(check, options, program,
                              {"DEVRT_LAYERS": "validate", "DEVRT_RACE": "report",
                               "DEVRT_LOG": "off"}))
    tool = None if simulated else sanitizer()
    under = {name: [launch(check, options, program, tool=[tool, "--tool", name])]
             for name in TOOLS} if tool else {}
    if tool is None:
        check.add(check.part, SKIPPED, "compute-sanitizer's times: it is not there, or "
                  "the driver is simulated")
    missing = [name for name, times in
               {"without": plain, "validate": layered, **under}.items()
               if None in times]
    if missing:
        add_bench_rows(check, [], [f"{STEP}, {name}" for name in missing])
        return
    row = bench_row_of(plain, layered, under, judged=not simulated)
    add_bench_rows(check, [row])
    times = {"validate": row["devrt"], **row["peers"]}
    without = times.pop("without")
    check.figures[check.part] = {f"{name}, times as long as without": f"{time / without:.3g}"
                                 for name, time in times.items()}


def launch(check, options, program, variables=None, tool=()):
    """Returns the nanoseconds of a launch with its share of the other calls, or None."""
    rows = run_google_benchmark(check, program, options, variables,
                                chosen=STEP.split("/", 1)[0], tool=tool)
    return next((1e9 / row["items_per_second"] for row in rows
                 if row["run_name"] == STEP), None)


def bench_row_of(plain, layered, under, judged):
    """Returns the row of the medians.  `under` has the times under each tool."""
    others = {name: statistics.median(times)
              for name, times in {"without": plain, **under}.items()}
    own = statistics.median(layered)
    most = MOST * others["without"] if judged else None
    return bench_row(TOPIC, "a launch of a training step", "ns", own, others,
                     {f"{MOST} of without": at_most(own, most)})


# ---- Python ------------------------------------------------------------------


def python_tests(check, options):
    """Runs the tests of the package, and the interop matrix, under the layer.

    Their outcomes are those of other parts: some test what a layer changes.
    """
    need(check, LAYER)
    where = python.package(check, options)
    if not python.can_import(check, options, where):
        return
    findings = {
        file: check.file(f"{name_of(file).replace('/', '.')}.findings.json")
        for file in python.test_files(check, options)
        if file.parent.name not in WITH_RACES and file.name not in WITH_RACES}
    of_matrix = check.file("interop.findings.json")
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        matrix = beside.submit(python.run_matrix, check, options, where,
                               layer(of_matrix), ["--no-controls"])
        ran = python.run_files(check, options, where, list(findings),
                               lambda file: layer(findings[file]))
    seen = []
    for file, command in ran:
        found = read(findings[file])
        if found is None and ran_nothing(command):
            continue
        wrong = None if command.code in (0, 1, NO_TESTS) else command.ending
        seen.append((name_of(file), wrong, found))
    judge(check, "tests of the package", seen)
    command, result = matrix.result()
    wrong = f"no result: {command.ending}" if result is None else None
    judge(check, "interop matrix", [("matrix.py", wrong, read(of_matrix))])


def name_of(file):
    """Returns the path in tests/python: two folders may have a file of one name."""
    return str(file.relative_to(python.ROOT / "tests/python"))


def ran_nothing(command):
    """Returns true if pytest found no test, or skipped all."""
    *_, last = command.output.strip().splitlines() or [""]
    return command.code == NO_TESTS or (
        command.code == 0 and set(python.counts_of(last)) == {"skipped"})


def judge(check, what, seen):
    """Adds a row for each race, and for each program that was not watched to its end.

    `seen` has triples: a program, what went wrong with its run or None, and its findings
    or None if the layer wrote no file.
    """
    failures = [] if seen else [f"{what}: no program ran"]
    for name, wrong, found in seen:
        if wrong is None and found is None:
            wrong = "the layer wrote no file"
        if wrong is not None:
            failures.append(f"{name}: {wrong}")
        failures += [f"{name}: {place(entry)}" for entry in found or []
                     if entry["kind"] not in NO_RACES]
    for text in failures:
        check.add(check.part, FAILED, text)
    if not failures:
        check.add(check.part, PASSED, f"{what}: no findings in {len(seen)} programs")


def place(finding):
    if "earlier" not in finding:
        return finding["kind"]
    earlier, later = finding["earlier"]["site"], finding["later"]["site"]
    return f"{finding['kind']}: {earlier} and {later}"
