# SPDX-License-Identifier: Apache-2.0
"""What calls on cuda cost, beside the driver's calls and PyTorch's C++."""

import pathlib

from gpu_check import c10
from gpu_check.result import at_most, bench_row
from gpu_check.rows import add_bench_rows, nanoseconds, run_google_benchmark
from gpu_check.runner import Skip

PROGRAM = "bench/cuda_bench"
CALLS, LARGE_COPIES = "Calls on cuda", "Copies of 1 GiB"


# A bar is its text, and a function from the driver's time to the most time.
def most(nanoseconds):
    return f"{nanoseconds} ns", lambda raw: nanoseconds


def part(of):
    return f"{of} of the driver", lambda raw: raw and of * raw


def more(nanoseconds):
    return f"the driver + {nanoseconds} ns", lambda raw: raw and raw + nanoseconds


# (text, devrt's row, the driver's, PyTorch's, the bar).
COSTS = [
    ("current device", "DevrtCurrentDevice", "RawCurrentContext", None, more(4)),
    ("enter the current device", "DevrtDeviceGuardSame", "RawEnterSame",
     "C10CudaGuardSame", more(4)),
    ("switch and back", "DevrtDeviceGuardSwitch", "RawSwitchAndBack",
     "C10CudaGuardSwitch", most(70)),
    ("current stream", "DevrtCurrentStream", None, "C10CurrentStream", most(5)),
    ("stream guard, same device", "DevrtStreamGuard", None, "C10StreamGuard", most(40)),
    ("stream from the recycler", "DevrtStreamCreateDestroy",
     "RawStreamCreateDestroy", "C10StreamFromPool", most(80)),
    ("event create + record + destroy", "DevrtEventCreateRecordDestroy",
     "RawEventCreateRecordDestroy", "AtEventCreateRecordDestroy", part(0.6)),
    ("event record among 10,000 streams", "DevrtRecordAmongStreams/10000",
     "RawRecordAmongStreams/10000", None, part(1.1)),
    ("event record among 10 streams", "DevrtRecordAmongStreams/10",
     "RawRecordAmongStreams/10", None, part(1.1)),
    ("stream waits for stream", "DevrtStreamWaitsForStream",
     "RawStreamWaitsForStream", "AtStreamWaitsForStream", more(60)),
    ("stream query, idle", "DevrtStreamQuery", "RawStreamQuery", "C10StreamQuery",
     most(1360)),
    ("launch of an own kernel", "DevrtLaunch/real_time", "RawLaunch/real_time", None,
     part(1.1)),
    *((f"to the {place}, 4 KiB, a call", f"DevrtCopyTo{name}/4096/real_time",
       f"RawCopyTo{name}/4096/real_time", None, part(1.15))
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
    for text, ours, driver, torch, (bar, limit) in COSTS:
        devrt, raw = time(ours), time(driver)
        if devrt is not None:  # a row of two devices is missing beside one
            made.append(bench_row(
                CALLS, text, "ns", devrt, {"driver": raw, "PyTorch": time(torch)},
                {bar: at_most(devrt, limit(raw))}))
    for text, name in COPIES:
        devrt, raw = rate(f"Devrt{name}"), rate(f"Raw{name}")
        if devrt and raw:
            made.append(bench_row(LARGE_COPIES, text, "GiB/s", devrt, {"driver": raw},
                                  {f"{LEAST} of the driver":
                                   at_most(LEAST * raw, devrt)}))
    return made
