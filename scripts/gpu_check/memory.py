# SPDX-License-Identifier: Apache-2.0
"""The allocators: the seed's tests, a soak, and figures beside c10's."""

import pathlib
import re
import sys

from gpu_check import c10
from gpu_check.rows import google_test, run_google_benchmark, run_soak
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
    ("with a mark of another stream", "PairWithMark", None, None),
    ("to another stream and back", "BetweenStreams", None, None),
    ("512 B pinned", "PinnedPair/512", 60, None),
    ("64 KiB pinned", "PinnedPair/65536", None, None),
    ("mixed pinned sizes, 64 live", "PinnedMixed64", None, None),
]
THREADS = ["PairThreads", "Mixed64Threads", "PinnedPairThreads"]
FASTER = 8  # 16 threads beside one
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
                  f"{', '.join(failed) or command.ending}")
    else:
        check.add(check.part, PASSED, f"PyTorch's allocator: {len(scenes)} "
                  "scenes")


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
    check.tables += [(check.part, *table) for table in figures.tables()]
    if figures.missing:
        check.add(check.part, FAILED,
                  f"without rows: {', '.join(figures.missing)}")
    if not options.simulated:
        missed = [text for text, met in figures.verdicts() if not met]
        check.add(check.part, PASSED,
                  f"{len(list(figures.verdicts()))} bars; missed: "
                  f"{', '.join(missed) or 'none'}")


def time_of(row):
    """Returns nanoseconds: wall time for threads and waits, else the processor's time.
    """
    unit = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[row["time_unit"]]
    name = row["run_name"]
    return row["real_time" if "/real_time" in name else "cpu_time"] * unit


class Figures:
    """The tables of bench/README.md, from Google Benchmark's rows.

    The peer's rows come from c10 and have the names of devrt's.
    """

    def __init__(self, rows):
        self.rows = {row["run_name"]: row for row in rows}
        self.has_peer = any(name.startswith("C10") for name in self.rows)
        self.missing = [name for _, name, _, _ in TIMES
                        if name not in self.rows]

    def time(self, name):
        row = self.rows.get(name)
        return None if row is None else time_of(row)

    def rate(self, name):
        row = self.rows.get(name)
        return None if row is None else row.get("items_per_second")

    def speedup(self, name):
        """Returns the speed of 16 threads beside one."""
        one, many = (self.rate(f"{name}/real_time/threads:{n}")
                     for n in [1, 16])
        return many / one if one and many else None

    def reserved(self, name):
        row = self.rows.get(name)
        return None if row is None else row.get("reserved_MiB")

    def tables(self):
        yield ("Times", ["", "devrt", "c10", "ratio", "bar"],
               [(text, ns(self.time(name)), ns(self.time(f"C10{name}")),
                 ratio(self.time(name), self.time(f"C10{name}")),
                 bars(most, part)) for text, name, most, part in TIMES])
        yield ("16 threads beside one",
               ["", "devrt", "c10", "devrt's beside c10's, 16 threads", "bar"],
               [(name, times(self.speedup(name)),
                 times(self.speedup(f"C10{name}")),
                 times(quotient(
                     self.rate(f"{name}/real_time/threads:16"),
                     self.rate(f"C10{name}/real_time/threads:16"))),
                 f">= {FASTER} x" if name == THREADS[0] else "")
                for name in THREADS])
        yield ("Peaks of reserved memory, MiB",
               ["", "in use", "devrt", "c10", "unused, devrt", "unused, c10"],
               [self.trace(name) for name in TRACES])
        yield ("Stream-ordered memory",
               ["", "cached", "the driver's by devrt", "the driver's alone",
                "cached beside it"],
               [(text, *(ns(self.time(f"{way}{name}/real_time"))
                         for way in ["Cached", "Driver", "RawAsync"]),
                 ratio(self.time(f"Cached{name}/real_time"),
                       self.time(f"RawAsync{name}/real_time")))
                for text, name in ASYNC])

    def trace(self, name):
        ours = self.rows.get(f"TraceOf/{name}")
        theirs = self.rows.get(f"C10TraceOf/{name}")
        return (name, mebibytes(ours, "allocated_MiB"),
                mebibytes(ours, "reserved_MiB"),
                mebibytes(theirs, "reserved_MiB"), unused(ours),
                unused(theirs))

    def verdicts(self):
        """Returns (what, True if it was met) of each bar that can be judged."""
        for text, name, most, part in TIMES:
            ours, theirs = self.time(name), self.time(f"C10{name}")
            if ours and most:
                yield f"{text} {ours:.0f} ns", ours <= most
            if ours and theirs and part:
                yield f"{text} {ours / theirs:.2f} of c10", ours <= part * theirs
        names = {text: name for text, name, _, _ in TIMES}
        growth = quotient(*(self.time(names[text]) for text in GROWTH[:2]))
        if growth:
            yield f"a million live {growth:.2f} x", growth <= GROWTH[2]
        faster = self.speedup(THREADS[0])
        if faster:
            yield f"16 threads {faster:.1f} x", faster >= FASTER
        for name in TRACES:
            ours = self.reserved(f"TraceOf/{name}")
            theirs = self.reserved(f"C10TraceOf/{name}")
            if ours and theirs:
                yield (f"{name} reserves {ours:.0f} of {theirs:.0f} MiB",
                       ours <= theirs)
        other = self.rows.get("BetweenStreams")
        if other is not None:
            yield "the same block between streams", other["other_blocks"] == 0


def quotient(ours, theirs):
    return ours / theirs if ours and theirs else None


def ns(time):
    return "" if time is None else f"{time:.3g} ns" if time < 1000 else (
        f"{time:.0f} ns")


def ratio(ours, theirs):
    value = quotient(ours, theirs)
    return "" if value is None else f"{value:.2f}"


def times(value):
    return "" if value is None else f"{value:.1f} x"


def bars(most, part):
    return ", ".join(text for text in [
        f"{most} ns" if most else "", f"{part} of c10" if part else ""] if text)


def mebibytes(row, name):
    return "" if row is None else f"{row[name]:.0f}"


def unused(row):
    if row is None:
        return ""
    return f"{100 * (1 - row['allocated_MiB'] / row['reserved_MiB']):.1f} %"
