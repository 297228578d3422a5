# SPDX-License-Identifier: Apache-2.0
"""What calls on cuda cost, beside the driver's calls and PyTorch's C++."""

import pathlib

from gpu_check import c10
from gpu_check.result import at_most, bench_row
from gpu_check.rows import add_bench_rows, nanoseconds, run_google_benchmark
from gpu_check.runner import Skip

PROGRAM = "bench/cuda_bench"
CALLS, LARGE_COPIES = "Calls on cuda", "Copies of 1 GiB"

# (text, devrt's row, the driver's, PyTorch's, the most ns, the most beside the driver).
COSTS = [
    ("current device", "DevrtCurrentDevice", "RawCurrentContext", None, 12, None),
    ("enter the current device", "DevrtDeviceGuardSame", "RawEnterSame",
     "C10CudaGuardSame", 20, None),
    ("switch and back", "DevrtDeviceGuardSwitch", "RawSwitchAndBack",
     "C10CudaGuardSwitch", 70, None),
    ("current stream", "DevrtCurrentStream", None, "C10CurrentStream", 5, None),
    ("stream guard, same device", "DevrtStreamGuard", None, "C10StreamGuard", 40,
     None),
    ("stream from the recycler", "DevrtStreamCreateDestroy",
     "RawStreamCreateDestroy", "C10StreamFromPool", 80, None),
    ("event create + record + destroy", "DevrtEventCreateRecordDestroy",
     "RawEventCreateRecordDestroy", "AtEventCreateRecordDestroy", 215, None),
    ("stream waits for stream", "DevrtStreamWaitsForStream",
     "RawStreamWaitsForStream", "AtStreamWaitsForStream", 450, None),
    ("stream query, idle", "DevrtStreamQuery", "RawStreamQuery", "C10StreamQuery",
     1360, None),
    ("launch of an own kernel", "DevrtLaunch/real_time", "RawLaunch/real_time", None,
     None, 1.1),
    *((f"to the {place}, 4 KiB, a call", f"DevrtCopyTo{name}/4096/real_time",
       f"RawCopyTo{name}/4096/real_time", None, None, 1.15)
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
    for text, ours, driver, torch, most, beside in COSTS:
        devrt, raw = time(ours), time(driver)
        if devrt is not None:  # a row of two devices is missing beside one
            limit = beside * raw if beside and raw else None
            made.append(bench_row(
                CALLS, text, "ns", devrt, {"driver": raw, "PyTorch": time(torch)},
                {f"{most} ns": at_most(devrt, most),
                 f"{beside} of the driver": at_most(devrt, limit)}))
    for text, name in COPIES:
        devrt, raw = rate(f"Devrt{name}"), rate(f"Raw{name}")
        if devrt and raw:
            made.append(bench_row(LARGE_COPIES, text, "GiB/s", devrt, {"driver": raw},
                                  {f"{LEAST} of the driver":
                                   at_most(LEAST * raw, devrt)}))
    return made
