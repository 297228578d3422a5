# SPDX-License-Identifier: Apache-2.0
"""HIP's plugin on CUDA's driver, through the library that forwards to it.

This runs the plugin on a GPU, and shows nothing about AMD's runtime.
"""

import os
import pathlib

from gpu_check.rows import add_command, run_google_benchmark, run_suite
from gpu_check.runner import FAILED, PASSED, Skip

PLUGIN = "lib/devrt/libdevrt_hip.so"
FORWARDER = "tests/fakes/hip_on_cuda/libamdhip64.so.7"
COSTS = "bench/backends_bench"
EXAMPLE = "examples/three_backends"
BAR = 1.1
# What `pack` copies, if it was built.
FILES = [PLUGIN, FORWARDER, COSTS, EXAMPLE]


def over_cuda(check, *needed):
    """Returns the variables that make the library HIP's runtime."""
    for name in [PLUGIN, FORWARDER, *needed]:
        if not pathlib.Path(check.path(name)).exists():
            raise Skip(f"there is no {name}: it was built without HIP's "
                       "headers, or not at all")
    folder = os.path.dirname(check.path(FORWARDER))
    return {"LD_LIBRARY_PATH":
            f"{folder}:{check.environment['LD_LIBRARY_PATH']}"}


def conformance(check, options):
    run_suite(check, options, PLUGIN, over_cuda(check))


def costs(check, options):
    variables = over_cuda(check, COSTS)
    if options.simulated:
        raise Skip("figures of a simulated driver say nothing")
    rows = run_google_benchmark(check, pathlib.Path(check.path(COSTS)),
                                options, variables)
    table = beside(rows)
    if not table:
        check.add(check.part, FAILED, "no row of both backends")
        return
    check.tables.append((check.part, "HIP's plugin beside CUDA's",
                         ["Row", "cuda", "hip", "Ratio"], table))
    above = [f"{row[0]} {row[3]}" for row in table if float(row[3]) > BAR]
    check.add(check.part, PASSED,
              f"{len(table)} rows; above {BAR} times CUDA's plugin: "
              f"{', '.join(above) or 'none'}")


def beside(rows):
    """Returns (row, CUDA's time, HIP's, ratio) of rows named NAME/BACKEND."""
    times = {}
    for row in rows:
        name, _, backend = row["run_name"].partition("/")
        times.setdefault(name, {})[backend] = row
    return [(name, *(f"{of[backend]['real_time']:.4g} "
                     f"{of[backend]['time_unit']}"
                     for backend in ["cuda", "hip"]),
             f"{of['hip']['real_time'] / of['cuda']['real_time']:.2f}")
            for name, of in times.items() if {"cuda", "hip"} <= set(of)]


def three_backends(check, options):
    variables = over_cuda(check, EXAMPLE)
    command = check.run([check.path(EXAMPLE), "mtia", "cuda", "hip"], 120,
                        variables)
    last = command.output.strip().splitlines()[-1:]
    add_command(check, command, last[0] if last else "no output")
