# SPDX-License-Identifier: Apache-2.0
"""Arrays: their tests, and figures beside those of CuPy, PyTorch and NCCL."""

import pathlib
import re
import sys

from gpu_check import examples, machine
from gpu_check.result import at_most, bench_row
from gpu_check.rows import (add_bench_rows, add_command, google_test, nanoseconds,
                            run_google_benchmark)
from gpu_check.runner import FAILED, PASSED, SKIPPED, Skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench/peers/arrays_peers.py"
FILES = ["bench/arrays_gpu_bench", "bench/arrays_bench",
         "bench/exchange_bench"]
TINY = {"DEVRT_BENCH_ARRAY_BYTES": "65536"}  # small, to see that it runs on mtia
COPY, RAW_PEER, EMPTY = "RawDeviceCopy", "RawPeerCopy", "RawEmptyLaunch"
MORE = "the driver's empty launch + 150 ns"

# The rows of the tables.  A bandwidth has the least percentage of the driver's copy, a
# time the most nanoseconds, or MORE.
BANDWIDTHS = [
    ("copy by the driver", COPY, None),
    ("copy by devrt::CopyAsync", "DeviceCopy", None),
    ("add of three contiguous arrays", "AddContiguous", 80),
    ("copy, contiguous", "CopyContiguous", None),
    ("copy of a window, 4096 of 6000 columns", "CopyWindow", 80),
    ("copy of [:, ::2], read lines counted", "CopyEverySecond", 80),
    ("copy of a transpose", "CopyTransposed", 60),
    ("cast, float32 to float16", "CastFloat32ToFloat16", 80),
    ("cast, float16 to float32", "CastFloat16ToFloat32", 80),
    ("sum of all", "SumOfAll", 80),
    ("sum over rows", "SumOverRows", 80),
    ("sum over columns", "SumOverColumns", 80),
    ("fill", "Fill", None),
]
# By dtype and shape: sums have CuPy's rate for a bar, the others a percentage.
SHAPE_DTYPES = ["float32", "float16", "int32", "int8", "float64"]
SHAPES = [
    *[(f"sum of {dtype}, {text}", f"Sum_{dtype}_{name}", "CuPy")
      for dtype in SHAPE_DTYPES
      for text, name in [("all", "all")] + [
          (f"over {axis}, {columns} columns", f"{axis}_{columns}")
          for columns in (8192, 8191, 1024, 64, 63)
          for axis in ("rows", "columns")]],
    *[(f"add of {dtype}", f"Add_{dtype}", 90) for dtype in SHAPE_DTYPES],
    *[(f"copy of a {what}, {dtype}, {columns} columns",
       f"{what.capitalize()}_{dtype}_{columns}", 90)
      for what in ("transpose", "window") for dtype in SHAPE_DTYPES
      for columns in (8192, 8191)],
]
PEER_COPIES = [
    ("peer copy by the driver", RAW_PEER, None),
    ("peer copy of arrays, 1 GiB", "PeerCopy", 99),
]
TIMES = [
    ("launch of an empty kernel by the driver", EMPTY, None),
    ("launch with devrt's parameters by the driver", "RawLaunchWithParameters", None),
    ("add, 1024 elements, into an array", "LaunchAddInto", MORE),
    ("add, 1024 elements, a new array", "LaunchAdd", MORE),
    ("view, a slice", "ViewSlice", 60),
    ("empty, cached", "EmptyCached", 150),
    ("DLPack, out and back", "DlpackRoundTrip", 200),
]
LIBRARIES = ["cupy", "pytorch"]
TITLES = {"cupy": "CuPy", "pytorch": "PyTorch"}


def tests(check, options):
    google_test(check, "arrays_tests", 300)


# ---- Figures ----------------------------------------------------------------


def benchmarks(check, options):
    if not pathlib.Path(check.path(FILES[0])).exists():
        raise Skip(f"there is no {FILES[0]}: Google Benchmark was missing "
                   "when it was built")
    variables = TINY if options.simulated else {"DEVRT_BENCH_DEVICE": "cuda:0"}
    rows = []
    for name in FILES:
        rows += run_google_benchmark(check, pathlib.Path(check.path(name)),
                                     options, variables)
    theirs = {} if options.simulated else peers(check, options)
    ring = all_reduce(check, options)
    figures = Figures(rows, theirs, ring, judged=not options.simulated)
    if options.simulated:
        check.add(check.part, SKIPPED, "CuPy, PyTorch, and verdicts: figures "
                  "of a simulated device say nothing")
    add_bench_rows(
        check, figures.bench_rows(),
        figures.missing(raw=not options.simulated,
                        peer=options.simulated or len(machine.gpus()) > 1))


def peers(check, options):
    """Returns arrays_peers.py's figures for each library.  Adds a row for a missing
    one.
    """
    json_file = check.file("arrays_peers.json")
    command = check.run([sys.executable, PEERS, f"--json={json_file}",
                         *(["--quick"] if options.quick else [])], 600)
    result = check.read_json(json_file)
    if result is None:
        add_command(check, command, "CuPy and PyTorch: no result")
        return {}
    for name in LIBRARIES:
        of = result[name]
        reasons = {"": of.get("skipped"), **of.get("errors", {}),
                   "NCCL": of.get("nccl", {}).get("skipped")}
        for what, reason in reasons.items():
            if reason:
                check.add(check.part, SKIPPED,
                          f"{TITLES[name]} {what}".strip() + f": {reason}")
        if "rows" in of:
            check.add(check.part, PASSED, f"{TITLES[name]} {of['version']}: "
                      f"{len(of['rows'])} rows", {})
    return result


def all_reduce(check, options):
    """Returns the numbers that the example prints, or none if it cannot run."""
    if not pathlib.Path(check.path(examples.RING)).exists():
        check.add(check.part, SKIPPED, f"there is no {examples.RING}")
        return {}
    if not options.simulated and len(machine.gpus()) < 2:
        check.add(check.part, SKIPPED, "ring all-reduce: one device")
        return {}
    backend, size = ("mtia", 4) if options.simulated else ("cuda", 1024)
    command = check.run(
        [check.path(examples.RING), f"--backend={backend}", "--devices=2",
         f"--mebibytes={size}", examples.piece_of(size), "--runs=10",
         "--timeline="], 300)
    add_command(check, command, f"ring all-reduce of {size} MiB")
    return ring_of(command.output) if command.code == 0 else {}


def ring_of(output):
    """Returns the numbers of lines `NAME ...  GB/s`, and the percentage of the bound.
    """
    rates = dict(re.findall(r"^(all-reduce|one peer copy) .*?([\d.]+) GB/s",
                            output, re.MULTILINE))
    percent = re.search(r"^([\d.]+) % of the bound", output, re.MULTILINE)
    found = {name: float(rate) for name, rate in rates.items()}
    if percent:
        found["percent"] = float(percent[1])
    return found


class Figures:
    """The rows for the result file.

    devrt's figures come from Google Benchmark's rows, the others' from arrays_peers.py,
    and the ring's from the example.
    """

    def __init__(self, rows, theirs, ring, judged=True):
        # NAME/iterations:10/manual_time
        self.rows = {row["run_name"].partition("/")[0]: row for row in rows}
        self.theirs = {name: theirs.get(name, {}) for name in LIBRARIES}
        self.ring = ring
        self.judged = judged

    def rate(self, name):
        """Returns bytes a second."""
        return self.rows.get(name, {}).get("bytes_per_second")

    def time(self, name):
        """Returns nanoseconds: wall time for launches, else the processor's time."""
        row = self.rows.get(name)
        if row is None:
            return None
        return nanoseconds(
            row, "real_time" if "manual" in row["run_name"] else "cpu_time")

    def peer(self, library, name, scale):
        value = self.theirs[library].get("rows", {}).get(name)
        return value and value * scale

    def missing(self, raw, peer):
        """Returns the missing rows.  `raw`: needs the driver's; `peer`: needs two
        devices.
        """
        wanted = [name for _, name, _ in
                  BANDWIDTHS + SHAPES + TIMES + (PEER_COPIES if peer else [])]
        return [name for name in wanted
                if name not in self.rows and (raw or "Raw" not in name)]

    def bench_rows(self):
        made = [self.bandwidth(*row)
                for row in BANDWIDTHS + PEER_COPIES + SHAPES]
        made += [self.host(*row) for row in TIMES]
        made.append(self.ring_row())
        found = [bench_row(*row) for row in made if row[3] is not None]
        if not self.judged:
            for row in found:
                row.pop("bars", None)
        return found

    def peers(self, name, scale):
        return {TITLES[library]: self.peer(library, name, scale)
                for library in LIBRARIES}

    def bandwidth(self, text, name, least):
        """Returns GB/s, beside the driver's copy of that kind."""
        raw = RAW_PEER if "Peer" in name else COPY
        ours, most = self.rate(name), self.rate(raw)
        peers = self.peers(name, 1e-9)
        if name != raw and most:
            peers["driver's copy"] = most * 1e-9
        if least == "CuPy":
            bar, least, most = "CuPy's", 100, self.peer("cupy", name, 1)
        else:
            bar = f"{least} % of the driver's copy"
        met = ours >= least / 100 * most if least and ours and most else None
        return ("Arrays, bandwidth", text, "GB/s", ours and ours * 1e-9, peers,
                {bar: met})

    def host(self, text, name, most):
        ours, empty = self.time(name), self.time(EMPTY)
        bar = most if most == MORE else f"{most} ns"
        limit = (empty and empty + 150) if most == MORE else most
        return ("Arrays, the host's time", text, "ns", ours, self.peers(name, 1e9),
                {bar: at_most(ours, limit)})

    def ring_row(self):
        """Returns percentages of one peer copy, which bounds the ring and NCCL."""
        nccl = self.theirs["pytorch"].get("nccl", {}).get("bytes_per_second")
        link = self.ring.get("one peer copy")
        percent = self.ring.get("percent")
        return ("All-reduce on two devices", "ring_allreduce, 1 GiB, of one peer copy",
                "%", percent, {"NCCL": nccl and link and nccl / link * 1e-7},
                {f"{examples.BAR} %": at_most(examples.BAR, percent)})
