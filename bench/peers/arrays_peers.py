# SPDX-License-Identifier: Apache-2.0
"""The rows of arrays_gpu_bench by PyTorch and CuPy, and NCCL's all-reduce.

    python3 bench/peers/arrays_peers.py [--bytes=N] [--json=FILE] [--quick]

Prints JSON: for each library its version and rows, or why there are none.
Bandwidths in bytes a second, the host's costs in seconds.
"""

import argparse
import json
import statistics
import sys
import time

COLUMNS = 8192
# The rows by dtype and shape: dtypes with the bytes of an element, and columns.
SHAPE_DTYPES = [("float32", 4), ("float16", 2), ("int32", 4), ("int8", 1),
                ("float64", 8)]
SHAPE_COLUMNS = [8192, 8191, 1024, 64, 63]
IN_A_ROW = 8       # calls between two events
HOST_IN_A_ROW = 200  # calls that a queue takes without a wait


class Torch:
    """Calls by the names of the rows, and how they are timed."""

    name = "pytorch"

    def __init__(self):
        import torch
        import torch.utils.dlpack
        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch finds no CUDA device")
        self.torch = torch
        self.version = torch.__version__
        self.count = torch.cuda.device_count()
        self.stream = torch.cuda.Stream(0)
        torch.cuda.set_stream(self.stream)
        self.half, self.float = torch.float16, torch.float32

    def zeros(self, shape, dtype=None, device=0):
        return self.torch.zeros(shape, dtype=dtype or self.float,
                                device=f"cuda:{device}")

    def dtype(self, name):
        return getattr(self.torch, name)

    def add_into(self, out, a, b):
        self.torch.add(a, b, out=out)

    def copy(self, to, source):
        to.copy_(source)

    def sum(self, x, axis):
        self.torch.sum(x) if axis is None else self.torch.sum(x, dim=axis)

    def fill(self, x):
        x.fill_(1.5)

    def empty(self):
        self.torch.empty((64, 32), device="cuda:0")

    def round_trip(self, x):
        dlpack = self.torch.utils.dlpack
        dlpack.from_dlpack(dlpack.to_dlpack(x))

    def event(self):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record(self.stream)
        return event

    def seconds_between(self, begin, end):
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def synchronize(self):
        for device in range(self.count):
            self.torch.cuda.synchronize(device)


class CuPy:

    name = "cupy"

    def __init__(self):
        import cupy
        self.count = cupy.cuda.runtime.getDeviceCount()
        self.cupy = cupy
        self.version = cupy.__version__
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.half, self.float = cupy.float16, cupy.float32

    def zeros(self, shape, dtype=None, device=0):
        with self.cupy.cuda.Device(device):
            x = self.cupy.zeros(shape, dtype=dtype or self.float)
            self.cupy.cuda.Device(device).synchronize()
        return x

    def dtype(self, name):
        return getattr(self.cupy, name)

    def add_into(self, out, a, b):
        self.cupy.add(a, b, out=out)

    def copy(self, to, source):
        self.cupy.copyto(to, source, casting="unsafe")

    def sum(self, x, axis):
        x.sum(axis=axis)

    def fill(self, x):
        x.fill(1.5)

    def empty(self):
        self.cupy.empty((64, 32), dtype=self.float)

    def round_trip(self, x):
        self.cupy.from_dlpack(x)

    def event(self):
        event = self.cupy.cuda.Event()
        event.record(self.stream)
        return event

    def seconds_between(self, begin, end):
        end.synchronize()
        return self.cupy.cuda.get_elapsed_time(begin, end) * 1e-3

    def synchronize(self):
        for device in range(self.count):
            self.cupy.cuda.Device(device).synchronize()


def bandwidth_rows(xp, size):
    """(row, bytes of a call, the call); `size` is that of one array."""
    elements = size // 4
    rows = elements // COLUMNS
    a, b, out = (xp.zeros((rows, COLUMNS)) for _ in range(3))
    yield "DeviceCopy", 2 * size, lambda: xp.copy(out, a)
    yield "AddContiguous", 3 * size, lambda: xp.add_into(out, a, b)
    yield "CopyContiguous", 2 * size, lambda: xp.copy(out, a)
    whole = xp.zeros((elements // 4096, 6000))
    part = xp.zeros((elements // 4096, 4096))
    yield "CopyWindow", 2 * size, lambda: xp.copy(part, whole[:, :4096])
    wide = xp.zeros((rows, 2 * COLUMNS))
    yield "CopyEverySecond", 3 * size, lambda: xp.copy(out, wide[:, ::2])
    turned = xp.zeros((COLUMNS, rows))
    yield "CopyTransposed", 2 * size, lambda: xp.copy(out, turned.T)
    halves = xp.zeros((elements,), xp.half)
    floats = xp.zeros((elements,))
    yield "CastFloat32ToFloat16", 1.5 * size, lambda: xp.copy(halves, floats)
    yield "CastFloat16ToFloat32", 1.5 * size, lambda: xp.copy(floats, halves)
    yield "SumOfAll", size, lambda: xp.sum(a, None)
    yield "SumOverRows", size, lambda: xp.sum(a, 0)
    yield "SumOverColumns", size, lambda: xp.sum(a, 1)
    yield "Fill", size, lambda: xp.fill(out)


def shape_rows(xp, size):
    """The rows of arrays_shapes_bench, of arrays of `size` bytes."""
    for name, item in SHAPE_DTYPES:
        dtype = xp.dtype(name)

        def matrix(columns, odd=0, more=0):
            return xp.zeros((size // item // columns | odd, columns + more), dtype)

        x = matrix(8192)
        yield f"Sum_{name}_all", size, lambda: xp.sum(x, None)
        for columns in SHAPE_COLUMNS:
            x = matrix(columns)
            total = size // item // columns * columns * item
            yield f"Sum_{name}_rows_{columns}", total, lambda: xp.sum(x, 0)
            yield f"Sum_{name}_columns_{columns}", total, lambda: xp.sum(x, 1)
        a, b, out = (xp.zeros((size // item,), dtype) for _ in range(3))
        yield f"Add_{name}", 3 * size, lambda: xp.add_into(out, a, b)
        del a, b
        for columns in (8192, 8191):
            odd = columns & 1
            out = matrix(columns, odd)
            total = 2 * item * columns * (size // item // columns | odd)
            turned = xp.zeros((columns, size // item // columns | odd), dtype)
            yield (f"Transpose_{name}_{columns}", total,
                   lambda: xp.copy(out, turned.T))
            out, whole = matrix(columns), matrix(columns, more=64)
            yield (f"Window_{name}_{columns}",
                   2 * item * columns * (size // item // columns),
                   lambda: xp.copy(out, whole[:, 1:1 + columns]))


def host_rows(xp):
    a, b, out = (xp.zeros((1024,)) for _ in range(3))
    matrix = xp.zeros((64, 32))
    yield "LaunchAddInto", lambda: xp.add_into(out, a, b)
    yield "LaunchAdd", lambda: a + b
    yield "ViewSlice", lambda: matrix[8:40:2]
    yield "EmptyCached", xp.empty
    yield "DlpackRoundTrip", lambda: xp.round_trip(matrix)


def device_time(xp, call, times, ahead):
    """Of one of IN_A_ROW calls, behind what takes longer than submission."""
    for _ in range(3):
        call()
    xp.synchronize()
    found = []
    for _ in range(times):
        ahead()
        begin = xp.event()
        for _ in range(IN_A_ROW):
            call()
        end = xp.event()
        found.append(xp.seconds_between(begin, end) / IN_A_ROW)
    return statistics.median(found)


def host_time(xp, call, times):
    def one():
        begin = time.perf_counter()
        for _ in range(HOST_IN_A_ROW):
            call()
        took = time.perf_counter() - begin
        xp.synchronize()
        return took / HOST_IN_A_ROW
    one()
    return statistics.median(one() for _ in range(times))


def wall_time(xp, call, times):
    """Of what runs on several devices."""
    call()
    xp.synchronize()
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        for _ in range(IN_A_ROW):
            call()
        xp.synchronize()
        found.append((time.perf_counter() - begin) / IN_A_ROW)
    return statistics.median(found)


def measure(library, size, times):
    try:
        xp = library()
    except Exception as error:  # not installed, or no device for it
        return {"skipped": f"{type(error).__name__}: {error}"[:200]}
    rows, errors = {}, {}

    def attempt(name, measured):
        try:
            rows[name] = measured()
        except Exception as error:  # the other rows are worth having
            errors[name] = f"{type(error).__name__}: {error}"[:200]

    a, b = xp.zeros((size // 4,)), xp.zeros((size // 4,))

    def ahead():
        for _ in range(4):
            xp.copy(b, a)

    def peer_copy():
        source, to = xp.zeros((size,)), xp.zeros((size,), device=1)
        return wall_time(xp, lambda: xp.copy(to, source), times)

    result = {"version": xp.version, "rows": rows, "errors": errors}
    for rows_of in (bandwidth_rows, shape_rows):
        for name, nbytes, call in rows_of(xp, size):
            attempt(name, lambda: nbytes / device_time(xp, call, times, ahead))
    for name, call in host_rows(xp):
        attempt(name, lambda: host_time(xp, call, 5 * times))
    if xp.count > 1:
        attempt("PeerCopy", lambda: 4 * size / peer_copy())
    if xp.count > 1 and library is Torch:
        result["nccl"] = nccl(xp, 4 * size, times)
    return result


def nccl(xp, nbytes, times):
    """In one process; the bytes that each device sends, a second."""
    data = [xp.zeros((nbytes // 4,), device=i) for i in range(2)]
    try:
        took = wall_time(xp, lambda: xp.torch.cuda.nccl.all_reduce(data), times)
    except Exception as error:
        return {"skipped": f"{type(error).__name__}: {error}"[:200]}
    version = ".".join(str(n) for n in xp.torch.cuda.nccl.version())
    return {"version": version, "bytes_per_second": nbytes / took}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=256 << 20)
    parser.add_argument("--json")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    times = 5 if args.quick else 21
    result = {library.name: measure(library, args.bytes, times)
              for library in [Torch, CuPy]}
    text = json.dumps(result, indent=1)
    print(text)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
