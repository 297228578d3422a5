# SPDX-License-Identifier: Apache-2.0
"""Arrays: their tests, and figures beside those of CuPy, PyTorch and NCCL."""

import pathlib
import re
import sys

from gpu_check import examples, machine
from gpu_check.rows import add_command, google_test, run_google_benchmark
from gpu_check.runner import FAILED, PASSED, SKIPPED, Skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench/peers/arrays_peers.py"
FILES = ["bench/arrays_gpu_bench", "bench/arrays_bench",
         "bench/exchange_bench"]
TINY = {"DEVRT_BENCH_ARRAY_BYTES": "65536"}  # small, to see that it runs on mtia
COPY, RAW_PEER = "RawDeviceCopy", "RawPeerCopy"

# The rows of the tables.  A bandwidth has the least percentage of the driver's copy, a
# time the most nanoseconds.
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
PEER_COPIES = [
    ("peer copy by the driver", RAW_PEER, None),
    ("peer copy of arrays, 1 GiB", "PeerCopy", 99),
]
TIMES = [
    ("launch of an empty kernel by the driver", "RawEmptyLaunch", None),
    ("add, 1024 elements, into an array", "LaunchAddInto", 2000),
    ("add, 1024 elements, a new array", "LaunchAdd", 2000),
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
    check.tables += [(check.part, *table) for table in figures.tables()]
    if options.simulated:
        check.add(check.part, SKIPPED, "CuPy, PyTorch, and verdicts: figures "
                  "of a simulated device say nothing")
    missing = figures.missing(raw=not options.simulated,
                              peer=options.simulated or len(machine.gpus()) > 1)
    if missing:
        check.add(check.part, FAILED, f"without rows: {', '.join(missing)}")
    if not options.simulated:
        verdicts = list(figures.verdicts())
        missed = [text for text, met in verdicts if not met]
        check.add(check.part, PASSED, f"{len(verdicts)} bars; missed: "
                  f"{', '.join(missed) or 'none'}")


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
                      f"{len(of['rows'])} rows")
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
    """The tables of bench/README.md.

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
        unit = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[row["time_unit"]]
        which = "real_time" if "manual" in row["run_name"] else "cpu_time"
        return row[which] * unit

    def peer(self, library, name, scale):
        value = self.theirs[library].get("rows", {}).get(name)
        return value and value * scale

    def percent(self, name):
        """Returns the percentage of the driver's copy of that kind."""
        raw = RAW_PEER if "Peer" in name else COPY
        ours, most = self.rate(name), self.rate(raw)
        return 100 * ours / most if ours and most else None

    def missed(self, verdict):
        return "missed" if verdict is False and self.judged else ""

    def missing(self, raw, peer):
        """Returns the missing rows.  `raw`: needs the driver's; `peer`: needs two
        devices.
        """
        wanted = [name for _, name, _ in
                  BANDWIDTHS + TIMES + (PEER_COPIES if peer else [])]
        return [name for name in wanted
                if name not in self.rows and (raw or "Raw" not in name)]

    def tables(self):
        titles = [TITLES[name] for name in LIBRARIES]
        yield ("Bandwidth, GB/s", ["", "devrt", "of the driver's copy", "bar",
                                   *titles, "devrt's beside the better", ""],
               [self.bandwidth(*row) for row in BANDWIDTHS + PEER_COPIES])
        yield ("The host's time", ["", "devrt", "bar", *titles,
                                   "devrt's beside the better", ""],
               [self.host(*row) for row in TIMES])
        if self.ring:
            yield self.ring_table()

    def bandwidth(self, text, name, least):
        theirs = [self.peer(library, name, 1) for library in LIBRARIES]
        percent = self.percent(name)
        return (text, giga(self.rate(name)), part(percent),
                f">= {least} %" if least else "", *map(giga, theirs),
                beside(self.rate(name),
                       max(filter(None, theirs), default=None)),
                self.missed(met(percent, least, True)))

    def host(self, text, name, most):
        theirs = [self.peer(library, name, 1e9) for library in LIBRARIES]
        ours = self.time(name)
        return (text, ns(ours), f"<= {most} ns" if most else "",
                *map(ns, theirs),
                beside(ours, min(filter(None, theirs), default=None)),
                self.missed(met(ours, most, False)))

    def ring_table(self):
        """Returns the table of the ring and NCCL.  One peer copy bounds both."""
        nccl = self.theirs["pytorch"].get("nccl", {})
        theirs = nccl.get("bytes_per_second")
        link = self.ring.get("one peer copy")
        return ("All-reduce on two devices", [
            "", "GB/s sent by each", "of the bound", "bar", ""],
            [("one peer copy, the bound", f"{link or 0:.1f}", "", "", ""),
             ("ring_allreduce", f"{self.ring.get('all-reduce', 0):.1f}",
              part(self.ring.get("percent")), f">= {examples.BAR} %",
              self.missed(met(self.ring.get("percent"), examples.BAR, True))),
             (f"NCCL {nccl.get('version', '')}".strip(), giga(theirs, 1),
              part(theirs and link and theirs / link * 1e-7), "", "")])

    def verdicts(self):
        """Returns (what, True if it was met) of each bar that can be judged."""
        for text, name, least in BANDWIDTHS + PEER_COPIES:
            percent = self.percent(name)
            if percent and least:
                yield f"{text} {percent:.1f} %", met(percent, least, True)
        for text, name, most in TIMES:
            time = self.time(name)
            if time and most:
                yield f"{text} {time:.0f} ns", met(time, most, False)
        percent = self.ring.get("percent")
        if percent:
            yield f"ring all-reduce {percent:.1f} %", percent >= examples.BAR


def met(value, bar, at_least):
    """Returns None if there is nothing to judge."""
    if value is None or bar is None:
        return None
    return value >= bar if at_least else value <= bar


def giga(rate, digits=0):
    return "" if rate is None else f"{rate * 1e-9:.{digits}f}"


def part(percent):
    return "" if percent is None else f"{percent:.1f} %"


def ns(time):
    return "" if time is None else f"{time:.0f} ns"


def beside(ours, theirs):
    return f"{ours / theirs:.2f}" if ours and theirs else ""
