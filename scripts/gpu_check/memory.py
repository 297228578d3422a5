# SPDX-License-Identifier: Apache-2.0
"""The allocators: the seed's tests, a soak, and figures beside c10's."""

import pathlib
import re
import sys

from gpu_check import c10
from gpu_check.result import at_most, bench_row
from gpu_check.rows import (add_bench_rows, google_test, nanoseconds,
                            run_google_benchmark, run_soak)
from gpu_check.runner import FAILED, PASSED, SKIPPED, Skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORCH_ALLOCATOR = ROOT / "tests/hardware/torch_allocator.py"
SHIM = "memory/torch/libdevrt_torch.so"
PROGRAMS = ["memory_bench", "memory_threads_bench", "pinned_bench",
            "traces_bench", "async_alloc_bench"]
TRACES = ["training", "inference", "mixed"]
TRACES_FOLDER = "tools/bench/traces"
BENCHMARKS = [f"bench/{name}" for name in PROGRAMS]
FILES = BENCHMARKS + [f"{TRACES_FOLDER}/{name}.trace" for name in TRACES]
DEVICE = {"DEVRT_BENCH_DEVICE": "cuda:0"}
# Room for a million live blocks, and the traces.
ROOM = {"DEVRT_MTIA": "mode=threaded,memory=4GiB"}

# The rows of the table: name, our benchmark, and the most time, absolute and beside the
# peer's row of that name.
TIMES = [
    ("512 B, allocate and free", "Pair/512", 60, 0.2),
    ("300,000 B", "Pair/300000", None, None),
    ("1 MiB", "Pair/1048576", None, None),
    ("4 MiB", "Pair/4194304", None, None),
    ("mixed sizes, 64 live", "Mixed64", 150, 0.25),
    ("beside 1,000 live", "BesideLive/live:1000/random:0", None, None),
    ("beside 1,000,000 live", "BesideLive/live:1000000/random:0", None, None),
    ("a random one of 1,000", "BesideLive/live:1000/random:1", None, None),
    ("a random one of 1,000,000", "BesideLive/live:1000000/random:1", None,
     None),
    ("with a mark of another stream", "PairWithMark", 600, None),
    ("to another stream and back", "BetweenStreams", 1000, None),
    ("512 B pinned", "PinnedPair/512", 60, None),
    ("64 KiB pinned", "PinnedPair/65536", None, None),
    ("mixed pinned sizes, 64 live", "PinnedMixed64", None, 1),
]
# 16 threads beside one: our benchmark, the name of the row, the least ratio.
THREADS = [("PairThreads", "512 B", 12),
           ("Mixed64Threads", "mixed sizes, 64 live", None),
           ("PinnedPairThreads", "512 B pinned", 10)]
GROWTH = ("beside 1,000,000 live", "beside 1,000 live", 2)
ASYNC = [("512 B", "Pair/512"), ("1 MiB", "Pair/1048576"),
         ("mixed sizes, 64 live", "Mixed64")]


def tests(check, options):
    google_test(check, "memory_tests", 60)
    torch_allocator(check, options)


def torch_allocator(check, options):
    """Runs PyTorch on devrt's memory, and adds a row for each scene."""
    if options.simulated:
        check.add(check.part, SKIPPED, "PyTorch needs a real driver")
        return
    command = check.run(
        [sys.executable, TORCH_ALLOCATOR, check.path(SHIM),
         check.path("lib/libdevrt.so.0")], 500)
    scenes = re.findall(r"^(passed|FAILED) (\w+): ", command.output, re.MULTILINE)
    failed = [name for outcome, name in scenes if outcome == "FAILED"]
    if command.code == 77:
        check.add(check.part, SKIPPED, f"PyTorch: {command.tail}")
    elif command.code != 0 or not scenes or failed:
        check.add(check.part, FAILED, "PyTorch's allocator: "
                  f"{', '.join(failed) or command.ending}",
                  {"failed": max(1, len(failed))})
    else:
        check.add(check.part, PASSED, f"PyTorch's allocator: {len(scenes)} "
                  "scenes", {"passed": len(scenes)})


def soak(check, options):
    run_soak(check, "memory_soak", options.memory_soak_seconds)


# ---- Figures ----------------------------------------------------------------


def benchmarks(check, options):
    if not pathlib.Path(check.path(FILES[0])).exists():
        raise Skip(f"there is no {FILES[0]}: Google Benchmark was missing when "
                   "it was built")
    variables = {**DEVICE,
                 "DEVRT_BENCH_TRACES": str(check.root / TRACES_FOLDER),
                 **(ROOM if options.simulated else {})}
    rows = []
    for name in BENCHMARKS:
        rows += run_google_benchmark(check, pathlib.Path(check.path(name)),
                                     options, variables)
    if options.simulated:
        check.add(check.part, SKIPPED,
                  "c10, and verdicts: figures of a simulated driver say nothing")
        theirs = None
    else:
        theirs = c10.build(check, "c10_memory_bench")
    if theirs is not None:
        rows += run_google_benchmark(check, theirs, options, variables)
    figures = Figures(rows)
    add_bench_rows(check, figures.bench_rows(judged=not options.simulated),
                   figures.missing)


class Figures:
    """The rows for the result file, from Google Benchmark's rows.

    The peer's rows come from c10 and have the names of devrt's.
    """

    def __init__(self, rows):
        self.rows = {row["run_name"]: row for row in rows}
        self.missing = [name for _, name, _, _ in TIMES
                        if name not in self.rows]

    def time(self, name):
        """Returns nanoseconds: wall time for threads and waits, else the processor's.
        """
        if name not in self.rows:
            return None
        return nanoseconds(self.rows[name],
                           "real_time" if "/real_time" in name else "cpu_time")

    def figure(self, name, key):
        return self.rows.get(name, {}).get(key)

    def speedup(self, name):
        """Returns the speed of 16 threads beside one."""
        one, many = (self.figure(f"{name}/real_time/threads:{n}", "items_per_second")
                     for n in [1, 16])
        return many / one if one and many else None

    def bench_rows(self, judged=True):
        made = [*self.times(), *self.threads(), *self.traces(), *self.ordered()]
        found = [bench_row(*row) for row in made if row[3] is not None]
        if not judged:
            for row in found:
                row.pop("bars", None)
        return found

    def times(self):
        few = self.time(dict(row[:2] for row in TIMES)[GROWTH[1]])
        for text, name, most, part in TIMES:
            ours, theirs = self.time(name), self.time(f"C10{name}")
            bars = {f"{most} ns": at_most(ours, most),
                    f"{part} of c10": at_most(
                        ours, part * theirs if part and theirs else None)}
            if text == GROWTH[0] and few:
                bars[f"{GROWTH[2]} x that {GROWTH[1]}"] = at_most(
                    ours, GROWTH[2] * few)
            if name == "BetweenStreams":
                bars["the same block"] = at_most(
                    self.figure(name, "other_blocks"), 0)
            peers = {"c10": theirs}
            if name == "BetweenStreams":
                peers["driver's waits alone"] = self.time("RawWaitsBetweenStreams")
            yield "Allocators", text, "ns", ours, peers, bars

    def threads(self):
        for name, text, least in THREADS:
            ours = self.speedup(name)
            yield ("Allocators, 16 threads beside one", text, "x", ours,
                   {"c10": self.speedup(f"C10{name}")},
                   {f"{least} x": at_most(least, ours)} if least else {})

    def traces(self):
        for name in TRACES:
            ours, theirs = (self.figure(f"{of}TraceOf/{name}", "reserved_MiB")
                            for of in ["", "C10"])
            used = self.figure(f"TraceOf/{name}", "allocated_MiB") or 0
            yield ("Allocators, peaks of reserved memory",
                   f"{name}, {used:.0f} MiB in use", "MiB", ours, {"c10": theirs},
                   {"at most c10's": at_most(ours, theirs)})

    def ordered(self):
        for text, name in ASYNC:
            cached, ours, raw = (self.time(f"{way}{name}/real_time")
                                 for way in ["Cached", "Driver", "RawAsync"])
            yield ("Stream-ordered memory", f"{text}, cached", "ns", cached,
                   {"the driver's by devrt": ours, "driver": raw}, {})
