# SPDX-License-Identifier: Apache-2.0
"""HIP's plugin on CUDA's driver, through the library that forwards to it.

This runs the plugin on a GPU, and shows nothing about AMD's runtime.
"""

import os
import pathlib

from gpu_check.result import bench_row
from gpu_check.rows import (add_bench_rows, add_command, nanoseconds,
                            run_google_benchmark, run_suite)
from gpu_check.runner import Skip

PLUGIN = "lib/devrt/libdevrt_hip.so"
FORWARDER = "tests/fakes/hip_on_cuda/libamdhip64.so.7"
COSTS = "bench/backends_bench"
EXAMPLE = "examples/three_backends"
BAR = 1.1
TITLES = {
    "CurrentDevice": "current device",
    "DeviceGuardSame": "enter the current device",
    "DeviceGuardSwitch": "switch and back",
    "CurrentStream": "current stream",
    "StreamGuard": "stream guard, same device",
    "StreamCreateDestroy": "stream from the recycler",
    "EventCreateRecordDestroy": "event create + record + destroy",
    "EventRecord": "event record",
    "StreamWaitsForStream": "stream waits for stream",
    "StreamQuery": "stream query, idle",
    "Fill": "fill of 4 KiB and wait",
}
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
    made = beside(rows)
    add_bench_rows(check, made, [] if made else ["rows of both backends"])


def beside(rows):
    """Returns HIP's rows with CUDA's as the peer; they are named NAME/BACKEND."""
    times = {}
    for row in rows:
        name, _, backend = row["run_name"].partition("/")
        times.setdefault(name, {})[backend] = nanoseconds(row, "real_time")
    return [bench_row("hip beside cuda, on CUDA's driver", TITLES.get(name, name), "ns",
                      of["hip"], {"cuda": of["cuda"]},
                      {f"{BAR} of cuda": of["hip"] <= BAR * of["cuda"]})
            for name, of in times.items() if {"cuda", "hip"} <= set(of)]


def three_backends(check, options):
    variables = over_cuda(check, EXAMPLE)
    command = check.run([check.path(EXAMPLE), "mtia", "cuda", "hip"], 120,
                        variables)
    last = command.output.strip().splitlines()[-1:]
    add_command(check, command, last[0] if last else "no output")
