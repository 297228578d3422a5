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
    "import devrt": 15_000_000,
}
# Rows whose time is no backend's.
OF_NO_BACKEND = {"import devrt"}


EXCHANGE_API = "__dlpack_c_exchange_api__"


class Empty:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None


def with_loop(context):
    """A function that enters and leaves `context` ten times."""

    def loop():
        with context: pass  # noqa: E701
        with context: pass  # noqa: E701
        with context: pass  # noqa: E701
        with context: pass  # noqa: E701
        with context: pass  # noqa: E701
        with context: pass  # noqa: E701
        with context: pass  # noqa: E701
        with context: pass  # noqa: E701
        with context: pass  # noqa: E701
        with context: pass  # noqa: E701

    return loop, 10


def call_loop(function, *arguments):
    """A function that calls `function` ten times."""

    def none():
        function(); function(); function(); function(); function()  # noqa: E702
        function(); function(); function(); function(); function()  # noqa: E702

    def one():
        x = arguments[0]
        function(x); function(x); function(x); function(x)  # noqa: E702
        function(x); function(x); function(x); function(x)  # noqa: E702
        function(x); function(x)  # noqa: E702

    return (one if arguments else none), 10


class Row:
    """A loop of `calls` calls and its samples; `rest` keeps queues short."""

    def __init__(self, loop, calls, rest):
        self.loop, self.calls, self.rest = loop, calls, rest
        self.number = 10
        while self.time() < 0.004 and self.number < 100_000:
            self.number *= 2
            self.rest()
        self.samples = []

    def time(self):
        return timeit.timeit(self.loop, number=self.number)

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


def event_record(make, stream):
    def loop():
        make().record(stream)
        make().record(stream)

    return loop, 2


def empty_loop(make, shape, **options):
    """A function that makes and drops ten arrays."""
    if not options:
        return call_loop(make, shape)

    def loop():
        make(shape, **options); make(shape, **options)  # noqa: E702
        make(shape, **options); make(shape, **options)  # noqa: E702
        make(shape, **options); make(shape, **options)  # noqa: E702
        make(shape, **options); make(shape, **options)  # noqa: E702
        make(shape, **options); make(shape, **options)  # noqa: E702

    return loop, 10


def view_loop(x):
    def loop():
        x[1]; x[1]; x[1]; x[1]; x[1]; x[1]; x[1]; x[1]; x[1]; x[1]  # noqa

    return loop, 10


def shape_loop(x):
    def loop():
        x.shape; x.shape; x.shape; x.shape; x.shape  # noqa
        x.shape; x.shape; x.shape; x.shape; x.shape  # noqa

    return loop, 10


def add_loop(x, y):
    def loop():
        x + y; x + y  # noqa

    return loop, 2


def cai_loop(x):
    def loop():
        x.__cuda_array_interface__; x.__cuda_array_interface__  # noqa
        x.__cuda_array_interface__; x.__cuda_array_interface__  # noqa
        x.__cuda_array_interface__; x.__cuda_array_interface__  # noqa
        x.__cuda_array_interface__; x.__cuda_array_interface__  # noqa
        x.__cuda_array_interface__; x.__cuda_array_interface__  # noqa

    return loop, 10


def array_loops(empty):
    """Rows that each library of arrays has."""
    x, y = empty((4, 8)), empty((4, 8))
    loops = {
        "empty array, 4 KiB": empty_loop(empty, 1024),
        "array view x[1]": view_loop(x),
        "array x.shape": shape_loop(x),
        "array x + y": add_loop(x, y),
    }
    if hasattr(x, "__cuda_array_interface__"):
        loops["read __cuda_array_interface__"] = cai_loop(x)
    return loops


def arrays_of_devrt(device):
    dtype = devrt.float32

    def pinned_loop():
        make = devrt.empty
        return empty_loop(make, 1024, dtype=dtype, device=device, pinned=True)

    loops = array_loops(devrt.empty)
    # 4 KiB of float32 by the call that programs write.
    loops["empty array, 4 KiB"] = empty_loop(devrt.empty, 1024, dtype=dtype)
    loops["empty pinned array, 4 KiB"] = pinned_loop()
    return loops


def arrays_of_torch():
    import torch

    own = devrt.empty((4, 8), device="cuda:0")

    def empty(shape):
        return torch.empty(shape, device="cuda")

    loops = array_loops(empty)
    loops["empty array, 4 KiB"] = empty_loop(torch.empty, 1024, device="cuda")
    loops["empty pinned array, 4 KiB"] = empty_loop(
        torch.empty, 1024, pin_memory=True)
    loops["import by __dlpack__"] = call_loop(torch.from_dlpack, own)
    # Of its own tensor, as devrt imports it.
    loops["import by the exchange API"] = call_loop(
        torch.from_dlpack, torch.empty((4, 8), device="cuda"))
    return loops


def arrays_of_cupy():
    import cupy

    own = devrt.empty((4, 8), device="cuda:0")
    loops = array_loops(cupy.empty)
    loops["empty array, 4 KiB"] = empty_loop(
        cupy.empty, 1024, dtype=cupy.float32)
    loops["import by __dlpack__"] = call_loop(cupy.from_dlpack, own)
    return loops


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
    """Loops by row, and what brings the device to rest."""
    devices = devrt.devices(backend)
    first, last = devices[0], devices[-1]
    devrt.set_device(first)
    a, b = devrt.Stream(first), devrt.Stream(first)
    event = devrt.Event()
    event.record(a)
    loops = {
        "with device, same": with_loop(first),
        "with stream": with_loop(a),
        "current stream": call_loop(devrt.current_stream),
        "current device": call_loop(devrt.current_device),
        "event record": call_loop(event.record, a),
        "Event() and record": event_record(devrt.Event, a),
        "stream waits for stream": call_loop(b.wait, a),
        "empty with": with_loop(Empty()),
        "import devrt": ImportRow("devrt"),
    }
    if last is not first:
        loops["with device, switch"] = with_loop(last)
    if hasattr(a, "__cuda_stream__"):
        loops["__cuda_stream__"] = call_loop(a.__cuda_stream__)

    loops.update(arrays_of_devrt(first))
    slow, fast = foreign_arrays(first)
    loops["import by __dlpack__"] = call_loop(devrt.from_dlpack, slow)
    loops["import by the exchange API"] = call_loop(devrt.from_dlpack, fast)

    def rest():
        first.synchronize()

    return loops, rest


def of_torch():
    import torch

    torch.cuda.init()
    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    event = torch.cuda.Event()
    event.record(a)
    loops = {
        "with device, same": with_loop(torch.cuda.device(0)),
        "with stream": with_loop(torch.cuda.stream(a)),
        "current stream": call_loop(torch.cuda.current_stream),
        "current device": call_loop(torch.cuda.current_device),
        "event record": call_loop(event.record, a),
        "Event() and record": event_record(torch.cuda.Event, a),
        "stream waits for stream": call_loop(b.wait_stream, a),
    }
    if torch.cuda.device_count() > 1:
        loops["with device, switch"] = with_loop(torch.cuda.device(1))
    loops.update(arrays_of_torch())
    return loops, torch.cuda.synchronize


def of_cupy():
    import cupy

    a = cupy.cuda.Stream(non_blocking=True)
    event = cupy.cuda.Event(disable_timing=True)
    event.record(a)

    def make():
        return cupy.cuda.Event(disable_timing=True)

    loops = {
        "with device, same": with_loop(cupy.cuda.Device(0)),
        "with stream": with_loop(a),
        "current stream": call_loop(cupy.cuda.get_current_stream),
        "event record": call_loop(event.record, a),
        "Event() and record": event_record(make, a),
    }
    if cupy.cuda.runtime.getDeviceCount() > 1:
        loops["with device, switch"] = with_loop(cupy.cuda.Device(1))
    loops.update(arrays_of_cupy())
    return loops, a.synchronize


def of_numba():
    from numba import cuda

    loops = {
        "with device, same": with_loop(cuda.gpus[0]),
        "read __cuda_array_interface__": cai_loop(cuda.device_array((4, 8))),
    }
    if len(cuda.gpus) > 1:
        loops["with device, switch"] = with_loop(cuda.gpus[1])
    return loops, cuda.synchronize


def peers():
    """(name, loops by row, what brings it to rest) of those that are there."""
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
        name: {row: loop if isinstance(loop, ImportRow) else Row(*loop, rest)
               for row, loop in loops.items()}
        for name, loops, rest in libraries
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
