# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/gpu-check.  Each runs commands and adds rows."""

import dataclasses
import pathlib
import re
import sys

from gpu_check import (arrays, collectives, driver_costs, examples, hip, memory,
                       python, rows, validate)
from gpu_check.rows import (add_command, add_tests, google_test,
                            run_soak, run_suite)
from gpu_check.runner import FAILED, SKIPPED, Skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
COEXISTENCE = ROOT / "tests/hardware/coexistence.py"
NOTHING_THERE = 77


@dataclasses.dataclass
class Options:
    quick: bool
    backend: str = "cuda"  # of the Python package's parts
    soak_seconds: float = 600
    memory_soak_seconds: float = 600
    xfail: str = None
    python: str = None
    simulated: bool = False  # CUDA's runtime and tools cannot use that driver


# ---- The suite --------------------------------------------------------------


def kernels(check, options):
    """Runs each kernel once, before tests that have time limits.

    Without machine code, the driver compiles PTX here, which takes more than 20
    seconds, and keeps the result.
    """
    command = check.run([check.path("tests/hardware/kernel_sweep"),
                         check.path("lib/devrt/libdevrt_cuda.so")], 600)
    launches = re.search(r"^\d+ launches$", command.output, re.MULTILINE)
    add_command(check, command, launches[0] if launches else "no launches")


def conformance(check, options):
    run_suite(check, options, "lib/devrt/libdevrt_cuda.so")


# ---- GoogleTest programs ----------------------------------------------------


def contexts(check, options):
    google_test(check, "context_audit", 120)


def bad_input(check, options):
    google_test(check, "bad_input", 180)


def environment(check, options):
    google_test(check, "environment", 300)


def faults(check, options):
    # As tests/hardware/meson.build does.
    arguments = ["--gtest_filter=-*/runtime_*"]
    google_test(check, "faults", 600,
                *(arguments if options.simulated else []))
    # Every call of a small program fails once, by the layer `faults`.
    sweep = "tests/sim/sim_fault_sweep_backend"
    if pathlib.Path(check.path(sweep)).exists():
        google_test(check, sweep, 300)
    else:
        check.add(check.part, SKIPPED, f"{sweep} is not built")


# ---- Other libraries --------------------------------------------------------


def interprocess(check, options):
    if options.simulated:
        raise Skip("events of a simulated driver do not leave their process")
    google_test(check, "interprocess", 120)


def coexistence(check, options):
    json_file = check.file("coexistence.json")
    command = check.run(
        [sys.executable, COEXISTENCE, "--library",
         check.path("tests/hardware/libcoexistence.so"), "--json", json_file],
        300)
    result = check.read_json(json_file)
    if result is None:
        add_command(check, command, "no report")
        return
    by_class = {}
    for test in result["tests"]:
        of, _, name = test["name"].partition(".")
        by_class.setdefault(of, []).append({**test, "name": name})
    for of, tests in by_class.items():
        reasons = {test["reason"] for test in tests}
        if len(reasons) == 1 and tests[0]["outcome"] == "skipped":
            check.add(command.part, SKIPPED, f"{of}: {reasons.pop()}",
                      {"skipped": len(tests)})
        else:
            add_tests(check, dataclasses.replace(command, code=0), of, tests)
    if command.code != 0 and not any(
            test["outcome"] == "failed" for test in result["tests"]):
        add_command(check, command, "coexistence")


# ---- Long and deep ----------------------------------------------------------


def soak(check, options):
    run_soak(check, "soak", options.soak_seconds)


def threads(tool):
    """Returns the number of threads for a tool.

    Beside threads that allocate and free, initcheck misses what copies from peers
    write: it reports data as uninitialised that the soak has found right.
    """
    return [f"--threads={1 if tool == 'initcheck' else 4}"]


def sanitizer(check, options):
    tool = rows.sanitizer()
    if tool is None:
        raise Skip("there is no compute-sanitizer")
    if options.simulated:
        raise Skip("compute-sanitizer needs a real driver")
    programs = {
        # All kernels of devrt.probe, and copies, on all devices.
        "soak": [check.path("tests/hardware/soak"), "--seconds=5",
                 "--samples=5"],
        # Not the conformance suite, which forks: the tool does not follow that.
        "kernels": [check.path("tests/hardware/kernel_sweep"),
                    check.path("lib/devrt/libdevrt_cuda.so")],
    }
    for name in ["memcheck", "racecheck", "initcheck"]:
        for program, words in programs.items():
            command = check.run(
                [tool, "--tool", name, "--target-processes", "all",
                 *(["--report-api-errors", "no"] if name == "memcheck" else []),
                 *words, *(threads(name) if program == "soak" else [])], 240)
            add_sanitizer(check, command, f"{name} of {program}")


def add_sanitizer(check, command, what):
    """Adds a row by what the tool says.  racecheck has a summary of its own."""
    found = re.findall(r"ERROR SUMMARY: (\d+) error", command.output)
    found += re.findall(r"RACECHECK SUMMARY: (\d+) hazard", command.output)
    errors = sum(int(number) for number in found)
    if not found:
        check.add(command.part, FAILED,
                  f"{what}: no summary, {command.ending}")
    elif errors:
        # The tool's lines, without those that it always prints.
        said = [line.strip("= ") for line in command.output.splitlines()
                if line.startswith("=========")]
        told = [line for line in said
                if line and "SUMMARY" not in line
                and line != "COMPUTE-SANITIZER"]
        check.add(command.part, FAILED,
                  f"{what}: {errors} errors; {'; '.join(told[:3])}")
    else:
        add_command(check, command, f"{what}: no errors")


PARTS = {
    "kernels": kernels,
    "conformance": conformance,
    "contexts": contexts,
    "bad_input": bad_input,
    "environment": environment,
    "faults": faults,
    "interprocess": interprocess,
    "coexistence": coexistence,
    "nccl": collectives.tests,
    "soak": soak,
    "memory": memory.tests,
    "memory_soak": memory.soak,
    "arrays": arrays.tests,
    "examples": examples.tests,
    "python": python.tests,
    "interop": python.interop,
    "validate": validate.tests,
    "validate_python": validate.python_tests,
    "sanitizer": sanitizer,
    "benchmarks": driver_costs.benchmarks,
    "memory_benchmarks": memory.benchmarks,
    "arrays_benchmarks": arrays.benchmarks,
    "python_benchmarks": python.benchmarks,
    "nccl_benchmarks": collectives.benchmarks,
    "validate_benchmarks": validate.benchmarks,
    "hip_conformance": hip.conformance,
    "hip_costs": hip.costs,
    "three_backends": hip.three_backends,
}
