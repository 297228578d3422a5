# SPDX-License-Identifier: Apache-2.0
"""What calls on cuda cost, beside the driver's calls and PyTorch's C++."""

import pathlib
import typing

from gpu_check import c10
from gpu_check.result import at_most, bench_row
from gpu_check.rows import add_bench_rows, nanoseconds, run_google_benchmark
from gpu_check.runner import Skip

PROGRAM = "bench/cuda_bench"
CALLS, LARGE_COPIES = "Calls on cuda", "Copies of 1 GiB"



class Cost(typing.NamedTuple):
    """A call, the rows of benchmarks that measure it, and its bars."""

    text: str
    ours: str
    driver: str | None = None
    torch: str | None = None
    most: float | None = None  # ns
    times: float | None = None  # the driver's time
    more: float | None = None  # ns above the driver's time

    def bars(self, ours, driver):
        """Returns which bars the times keep, None for one with nothing to compare."""
        return {
            f"{self.most} ns": at_most(ours, self.most),
            f"{self.times} of the driver": at_most(
                ours, self.times * driver if self.times and driver else None),
            f"{self.more} ns more than the driver": at_most(
                ours, self.more + driver if self.more and driver else None)}


COSTS = [
    Cost("current device", "DevrtCurrentDevice", "RawCurrentContext", more=4),
    Cost("enter the current device", "DevrtDeviceGuardSame", "RawEnterSame",
         "C10CudaGuardSame", more=4),
    Cost("switch and back", "DevrtDeviceGuardSwitch", "RawSwitchAndBack",
         "C10CudaGuardSwitch", most=70),
    Cost("current stream", "DevrtCurrentStream", None, "C10CurrentStream", most=5),
    Cost("stream guard, same device", "DevrtStreamGuard", None, "C10StreamGuard",
         most=40),
    Cost("stream from the recycler", "DevrtStreamCreateDestroy",
         "RawStreamCreateDestroy", "C10StreamFromPool", most=80),
    Cost("event create + record + destroy", "DevrtEventCreateRecordDestroy",
         "RawEventCreateRecordDestroy", "AtEventCreateRecordDestroy", times=0.6),
    Cost("stream waits for stream", "DevrtStreamWaitsForStream",
         "RawStreamWaitsForStream", "AtStreamWaitsForStream", more=60),
    Cost("stream query, idle", "DevrtStreamQuery", "RawStreamQuery", "C10StreamQuery",
         most=1360),
    Cost("launch of an own kernel", "DevrtLaunch/real_time", "RawLaunch/real_time",
         times=1.1),
    *(Cost(f"to the {place}, 4 KiB, a call", f"DevrtCopyTo{name}/4096/real_time",
           f"RawCopyTo{name}/4096/real_time", times=1.15)
      for place, name in [("device", "Device"), ("host", "Host"), ("peer", "Peer")]),
]
COPIES = [(f"to the {name.lower()}, 1 GiB", f"CopyTo{name}/{1 << 30}/real_time")
          for name in ["Device", "Host", "Peer"]]
LEAST = 0.99  # of the driver's copy


def benchmarks(check, options):
    if options.simulated:
        raise Skip("figures of a simulated driver say nothing")
    ours = pathlib.Path(check.path(PROGRAM))
    if not ours.exists():
        raise Skip(f"there is no {PROGRAM}: Google Benchmark was missing when it was "
                   "built")
    rows = run_google_benchmark(check, ours, options)
    theirs = c10.build(check, "c10_cuda_bench")
    if theirs is not None:
        rows += run_google_benchmark(check, theirs, options)
    add_bench_rows(check, bench_rows(rows))


def bench_rows(rows):
    rows = {row["run_name"]: row for row in rows}

    def time(name):
        return nanoseconds(rows[name], "real_time") if name in rows else None

    def rate(name):
        return rows[name]["bytes_per_second"] / 2**30 if name in rows else None

    made = []
    for cost in COSTS:
        devrt, raw = time(cost.ours), time(cost.driver)
        if devrt is not None:  # a row of two devices is missing beside one
            made.append(bench_row(
                CALLS, cost.text, "ns", devrt,
                {"driver": raw, "PyTorch": time(cost.torch)}, cost.bars(devrt, raw)))
    for text, name in COPIES:
        devrt, raw = rate(f"Devrt{name}"), rate(f"Raw{name}")
        if devrt and raw:
            made.append(bench_row(LARGE_COPIES, text, "GiB/s", devrt, {"driver": raw},
                                  {f"{LEAST} of the driver":
                                   at_most(LEAST * raw, devrt)}))
    return made
