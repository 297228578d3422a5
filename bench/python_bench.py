#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what calls of the Python package cost, beside PyTorch, CuPy and Numba.

    PYTHONPATH=build/python python3 bench/python_bench.py [--backend=cuda]

Prints ns per call, the median of several rounds.  The other libraries are measured
in the same run if they can be imported and have a GPU.  The bars are for a machine
with H200; `over` marks a row above its bar.  On mtia only the import has one, since it
opens no device.  The exit code is 0 if every row works: slowness is no error.
"""

import argparse
import json
import statistics
import subprocess
import sys
import timeit

import ratio_chart

try:
    import devrt
except ImportError as missing:
    sys.exit(f"python_bench: {sys.executable} cannot import devrt: {missing}; install "
             "the package for this Python, or take another one")


BARS = {
    "with device, same": 170,
    "with device, switch": 210,
    "with stream": 200,
    "current stream": 60,
    "current device": 60,
    "event record": 260,
    "Event() and record": 400,
    "stream waits for stream": 600,
    "__cuda_stream__": None,
    "empty with": None,
    "empty array, 4 KiB": 500,
    "empty pinned array, 4 KiB": 400,
    "read __cuda_array_interface__": 400,
    "import by __dlpack__": 1500,
    "import by the exchange API": 600,
    "array view x[1]": None,
    "array x.shape": None,
    "array x + y": None,
    "array x + y, in C++": None,
    "import devrt": 15_000_000,
}
# Rows whose time is no backend's.
OF_NO_BACKEND = {"import devrt"}


EXCHANGE_API = "__dlpack_c_exchange_api__"
ENTER = "with context: pass"


class Empty:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None


def call(text, times=10, **names):
    """A timer of a call that a program writes so often in a row, and `times`."""
    return timeit.Timer("\n".join([text] * times), globals=names), times


class Row:
    """A timer of `calls` calls and its samples; `rest` keeps queues short."""

    def __init__(self, timer, calls, rest):
        self.timer, self.calls, self.rest = timer, calls, rest
        self.number = 10
        self.time()  # the first call may compile a kernel for seconds
        while self.time() < 0.004 and self.number < 100_000:
            self.number *= 2
            self.rest()
        self.samples = []

    def time(self):
        return self.timer.timeit(self.number)

    def sample(self):
        self.samples.append(self.time() / self.number / self.calls)
        self.rest()

    def ns(self):
        return statistics.median(self.samples) * 1e9


class ImportRow:
    """The import of a module in fresh interpreters, without their start."""

    def __init__(self, module):
        self.program = ("import time; t = time.perf_counter(); "
                        f"import {module}; print(time.perf_counter() - t)")
        self.samples = []

    def sample(self):
        self.samples.append(float(subprocess.run(
            [sys.executable, "-c", self.program], stdout=subprocess.PIPE,
            check=True).stdout))

    ns = Row.ns


def array_rows(empty):
    """Rows that each library of arrays has."""
    x, y = empty((4, 8)), empty((4, 8))
    rows = {
        "array view x[1]": call("x[1]", x=x),
        "array x.shape": call("x.shape", x=x),
        "array x + y": call("x + y", times=2, x=x, y=y),
    }
    if hasattr(x, "__cuda_array_interface__"):
        rows["read __cuda_array_interface__"] = call(
            "x.__cuda_array_interface__", x=x)
    return rows


def arrays_of_devrt(device):
    rows = array_rows(devrt.empty)
    # 4 KiB of float32 by the call that programs write.
    empty = {"empty": devrt.empty, "float32": devrt.float32, "device": device}
    rows["empty array, 4 KiB"] = call("empty(1024, dtype=float32)", **empty)
    rows["empty pinned array, 4 KiB"] = call(
        "empty(1024, dtype=float32, device=device, pinned=True)", **empty)
    x, y = devrt.empty((4, 8)), devrt.empty((4, 8))
    timer, _ = call("add(x, y, 100)", times=1, add=devrt._core._add_times, x=x, y=y)
    rows["array x + y, in C++"] = timer, 100
    return rows


def arrays_of_torch():
    import torch

    own = devrt.empty((4, 8), device="cuda:0")

    def empty(shape):
        return torch.empty(shape, device="cuda")

    rows = array_rows(empty)
    rows["empty array, 4 KiB"] = call("empty(1024, device='cuda')", empty=torch.empty)
    rows["empty pinned array, 4 KiB"] = call(
        "empty(1024, pin_memory=True)", empty=torch.empty)
    rows["import by __dlpack__"] = call("take(x)", take=torch.from_dlpack, x=own)
    # Of its own tensor, as devrt imports it.
    rows["import by the exchange API"] = call(
        "take(x)", take=torch.from_dlpack, x=empty((4, 8)))
    return rows


def arrays_of_cupy():
    import cupy

    own = devrt.empty((4, 8), device="cuda:0")
    rows = array_rows(cupy.empty)
    rows["empty array, 4 KiB"] = call(
        "empty(1024, dtype=float32)", empty=cupy.empty, float32=cupy.float32)
    rows["import by __dlpack__"] = call("take(x)", take=cupy.from_dlpack, x=own)
    return rows


class Producer:
    """Another library's array that has __dlpack__ alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def foreign_arrays(device):
    """What devrt imports, of CuPy and torch where they are: an array with
    __dlpack__ alone, and one whose type has the C exchange API."""
    own = devrt.empty((4, 8), device=device)
    slow, fast = Producer(own), own
    if device.backend != "cuda":
        return slow, fast
    try:
        import cupy

        x = cupy.empty((4, 8))
        slow = slow if hasattr(type(x), EXCHANGE_API) else x
    except Exception:  # as in measure
        pass
    try:
        import torch

        x = torch.empty((4, 8), device="cuda")
        fast = x if hasattr(type(x), EXCHANGE_API) else fast
    except Exception:
        pass
    return slow, fast


def of_devrt(backend):
    """Timers by row, and what brings the device to rest."""
    devices = devrt.devices(backend)
    first, last = devices[0], devices[-1]
    devrt.set_device(first)
    a, b = devrt.Stream(first), devrt.Stream(first)
    event = devrt.Event()
    event.record(a)
    rows = {
        "with device, same": call(ENTER, context=first),
        "with stream": call(ENTER, context=a),
        "current stream": call("current()", current=devrt.current_stream),
        "current device": call("current()", current=devrt.current_device),
        "event record": call("event.record(a)", event=event, a=a),
        "Event() and record": call(
            "Event().record(a)", times=2, Event=devrt.Event, a=a),
        "stream waits for stream": call("b.wait(a)", a=a, b=b),
        "empty with": call(ENTER, context=Empty()),
        "import devrt": ImportRow("devrt"),
    }
    if last is not first:
        rows["with device, switch"] = call(ENTER, context=last)
    if hasattr(a, "__cuda_stream__"):
        rows["__cuda_stream__"] = call("a.__cuda_stream__()", a=a)

    rows.update(arrays_of_devrt(first))
    slow, fast = foreign_arrays(first)
    take = devrt.from_dlpack
    rows["import by __dlpack__"] = call("take(x)", take=take, x=slow)
    rows["import by the exchange API"] = call("take(x)", take=take, x=fast)

    def rest():
        first.synchronize()

    return rows, rest


def of_torch():
    import torch

    torch.cuda.init()
    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    event = torch.cuda.Event()
    event.record(a)
    rows = {
        "with device, same": call(ENTER, context=torch.cuda.device(0)),
        "with stream": call(ENTER, context=torch.cuda.stream(a)),
        "current stream": call("current()", current=torch.cuda.current_stream),
        "current device": call("current()", current=torch.cuda.current_device),
        "event record": call("event.record(a)", event=event, a=a),
        "Event() and record": call(
            "Event().record(a)", times=2, Event=torch.cuda.Event, a=a),
        "stream waits for stream": call("b.wait_stream(a)", a=a, b=b),
    }
    if torch.cuda.device_count() > 1:
        rows["with device, switch"] = call(ENTER, context=torch.cuda.device(1))
    rows.update(arrays_of_torch())
    return rows, torch.cuda.synchronize


def of_cupy():
    import cupy

    a = cupy.cuda.Stream(non_blocking=True)
    event = cupy.cuda.Event(disable_timing=True)
    event.record(a)
    rows = {
        "with device, same": call(ENTER, context=cupy.cuda.Device(0)),
        "with stream": call(ENTER, context=a),
        "current stream": call(
            "current()", current=cupy.cuda.get_current_stream),
        "event record": call("event.record(a)", event=event, a=a),
        "Event() and record": call("Event(disable_timing=True).record(a)", times=2,
                                   Event=cupy.cuda.Event, a=a),
    }
    if cupy.cuda.runtime.getDeviceCount() > 1:
        rows["with device, switch"] = call(ENTER, context=cupy.cuda.Device(1))
    rows.update(arrays_of_cupy())
    return rows, a.synchronize


def of_numba():
    from numba import cuda

    rows = {
        "with device, same": call(ENTER, context=cuda.gpus[0]),
        "read __cuda_array_interface__": call(
            "x.__cuda_array_interface__", x=cuda.device_array((4, 8))),
    }
    if len(cuda.gpus) > 1:
        rows["with device, switch"] = call(ENTER, context=cuda.gpus[1])
    return rows, cuda.synchronize


def peers():
    """(name, timers by row, what brings it to rest) of those that are there."""
    for source in (of_torch, of_cupy, of_numba):
        name = source.__name__[3:]
        try:
            yield (name, *source())
        except Exception as missing:  # whatever a peer does without a GPU
            print(f"# without {name}: {missing}", file=sys.stderr)


def measure(libraries, rounds):
    """ns by library and row.  Each round goes through all of them: a machine
    that is slow for some seconds is so for a few samples of every row."""
    columns = {
        name: {row: made if isinstance(made, ImportRow) else Row(*made, rest)
               for row, made in rows.items()}
        for name, rows, rest in libraries
    }
    for _ in range(rounds):
        for rows in columns.values():
            for row in rows.values():
                row.sample()
    return {name: {row: of.ns() for row, of in rows.items()}
            for name, rows in columns.items()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--backend", default=None,
                        help="of devrt (default: the active one)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-peers", action="store_true",
                        help="measure devrt alone")
    parser.add_argument("--json", metavar="FILE",
                        help="also write the figures; - prints them alone")
    parser.add_argument("--picture", metavar="FILE",
                        help="also draw devrt beside the best of the others, as SVG")
    args = parser.parse_args()
    try:
        backend = args.backend or devrt.current_device().backend
        if not devrt.devices(backend):
            sys.exit(f"python_bench: the backend {backend} has no device")
        libraries = [(f"devrt/{backend}", *of_devrt(backend))]
    except devrt.Error as error:
        sys.exit(f"python_bench: {error}")
    libraries += [] if args.no_peers else peers()
    columns = measure(libraries, args.rounds)
    if args.picture:
        draw(columns, args.picture)
    figures = {"backend": backend, "python": sys.version,
               "devices": len(devrt.devices(backend)), "ns": columns, "bars": BARS}
    if args.json == "-":
        print(json.dumps(figures, indent=1))
        return
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
    print_table(columns, backend)


def draw(columns, path):
    """Draws the rows that another library has as well."""
    own, *others = columns.values()
    rows = [{"row": row, "unit": "ns",
             "ratio": own[row] / min(other[row] for other in others if row in other)}
            for row in own if any(row in other for other in others)]
    if not rows:
        print("# no picture: no other library was measured", file=sys.stderr)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(ratio_chart.chart("Calls of Python", rows))


def print_table(columns, backend):
    print("| ns per call | " + " | ".join(columns) + " | bar | |")
    print("|---|" + "---|" * (len(columns) + 2))
    own = columns[f"devrt/{backend}"]
    for row, bar in BARS.items():
        bar = bar if backend != "mtia" or row in OF_NO_BACKEND else None
        cells = [f"{f[row]:.0f}" if row in f else "-" for f in columns.values()]
        over = bar is not None and row in own and own[row] > bar
        print(f"| {row} | " + " | ".join(cells)
              + f" | {bar or '-'} | {'over' if over else ''} |")


if __name__ == "__main__":
    main()
