#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch on devrt's memory, through libdevrt_torch.so (E20).

    torch_allocator.py LIBDEVRT_TORCH LIBDEVRT

Each scene has a process of its own, since PyTorch takes an allocator once.
Exit code 0: all passed; 1: something failed; 77: no PyTorch with a GPU.
"""

import ctypes
import subprocess
import sys
import time

NOTHING_THERE = 77
MIB = 1 << 20


# PyTorch's setter of each function, and devrt's function:
# docs/how-to/pytorch-allocator.md.
FUNCTIONS = {
    "set_record_stream_fn": "devrt_torch_record_stream",
    "set_reset_fn": "devrt_torch_empty_cache",
    "set_memory_fraction_fn": "devrt_torch_set_memory_fraction",
    "set_base_alloc_fn": "devrt_torch_base_allocation",
    "set_begin_allocate_to_pool": "devrt_torch_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "devrt_torch_end_allocate_to_pool",
    "set_release_pool": "devrt_torch_release_pool",
}


class Stats(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved0", ctypes.c_uint32)
                ] + [(name, ctypes.c_int64) for name in (
                    "allocated_bytes", "allocated_bytes_peak", "active_bytes",
                    "active_bytes_peak", "reserved_bytes",
                    "reserved_bytes_peak", "requested_bytes", "allocations",
                    "alloc_retries", "ooms")]


class Scene:
    """devrt's library as PyTorch's process has it."""

    def __init__(self, torch, shim, library):
        self.torch = torch
        self.shim = shim
        self.devrt = ctypes.CDLL(library)

    def stats(self):
        stats = Stats(struct_size=ctypes.sizeof(Stats))
        assert self.devrt.devrt_memory_stats_read_v0(
            b"cuda:0", ctypes.byref(stats)) == 0
        return stats

    def allocator(self, alloc):
        return self.torch.cuda.memory.CUDAPluggableAllocator(
            self.shim, alloc, "devrt_torch_free")

    def replace(self, functions=True):
        """By devrt's allocator; `functions`: with all that PyTorch takes."""
        allocator = self.allocator("devrt_torch_alloc")
        shim = ctypes.CDLL(self.shim)
        for setter, name in FUNCTIONS.items() if functions else ():
            address = ctypes.cast(getattr(shim, name), ctypes.c_void_p).value
            getattr(allocator.allocator(), setter)(address)
        self.torch.cuda.memory.change_current_allocator(allocator)

    def spin(self):
        """Some 50 ms of the current stream."""
        self.torch.cuda._sleep(100_000_000)


def current_allocator(scene):
    """Values, the blocks' number and bytes, streams, reuse."""
    torch = scene.torch
    scene.replace()
    x = torch.arange(MIB, dtype=torch.float32, device="cuda")
    assert scene.stats().requested_bytes == 4 * MIB, scene.stats().requested_bytes
    assert float((x * 2).sum()) == float(MIB - 1) * MIB
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x + 1
        y.record_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().wait_stream(side)
    assert float(y[-1]) == MIB
    address = x.data_ptr()
    del x, y
    torch.cuda.synchronize()
    assert scene.stats().allocations == 0
    z = torch.empty(MIB, dtype=torch.float32, device="cuda")
    assert z.data_ptr() == address, "the cached block is handed out again"
    assert torch.empty(0, device="cuda").numel() == 0


def out_of_memory(scene):
    """The text is devrt's; what was there stays."""
    torch = scene.torch
    scene.replace()
    x = torch.ones(1000, device="cuda")
    try:
        torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        assert "out of memory" in str(error).lower(), error
    else:
        raise AssertionError("32 TiB were allocated")
    assert scene.stats().ooms == 1
    assert float(x.sum()) == 1000


def pool(scene):
    """A MemPool tests for null, which becomes PyTorch's own error."""
    torch = scene.torch
    allocator = scene.allocator("devrt_torch_pool_alloc")
    pool = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(pool):
        x = torch.full((MIB,), 3, dtype=torch.int32, device="cuda")
        assert scene.stats().allocated_bytes >= 4 * MIB
        try:
            torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            pass
        else:
            raise AssertionError("32 TiB were allocated")
    assert int(x.sum()) == 3 * MIB


def gradient_bucket(scene):
    """record_stream, as DDP uses it: a bucket is sent on another stream."""
    torch = scene.torch
    scene.replace()
    send = torch.cuda.Stream()
    bucket = torch.ones(MIB, device="cuda")
    out = torch.zeros(MIB, device="cuda")
    address = bucket.data_ptr()
    send.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(send):
        scene.spin()
        out.copy_(bucket)
    bucket.record_stream(send)
    del bucket
    gradient = torch.empty(MIB, device="cuda").fill_(2)
    assert not send.query(), "the stream should spin still"
    assert gradient.data_ptr() != address, "the bucket is in use"
    torch.cuda.synchronize()
    assert float(out.sum()) == MIB, float(out.sum())
    del gradient
    again = [torch.empty(MIB, device="cuda") for _ in range(8)]
    assert address in [tensor.data_ptr() for tensor in again], "never back"


def prefetch(scene):
    """record_stream, as loaders use it: a side stream's memory, used on main."""
    torch = scene.torch
    scene.replace()
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    host = torch.ones(MIB).pin_memory()
    out = torch.ones(MIB, device="cuda").zero_()  # kernels are loaded
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        batch = host.to("cuda", non_blocking=True)
    main.wait_stream(side)
    batch.record_stream(main)
    scene.spin()
    out.copy_(batch)
    del batch
    with torch.cuda.stream(side):
        following = torch.empty(MIB, device="cuda").fill_(2)
    side.synchronize()
    assert not main.query(), "the stream should spin still"
    torch.cuda.synchronize()
    assert float(out.sum()) == MIB, float(out.sum())
    assert float(following.sum()) == 2 * MIB


def fraction_and_cache(scene):
    """set_per_process_memory_fraction limits, empty_cache gives back."""
    torch = scene.torch
    scene.replace()
    torch.empty(MIB, device="cuda")
    torch.cuda.synchronize()
    assert scene.stats().reserved_bytes > 0
    torch.cuda.empty_cache()
    assert scene.stats().reserved_bytes == 0
    torch.cuda.set_per_process_memory_fraction(0.01)
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        torch.empty(total // 50, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        assert "out of memory" in str(error).lower(), error
    else:
        raise AssertionError("more than the fraction was allocated")


def check_graph(torch, graph, x, y, value):
    """The graph's result, and that no eager tensor of before the launch changes."""
    eager = [torch.zeros(MIB, device="cuda") for _ in range(16)]
    x.fill_(value)
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    assert float(y[0]) == float(y[-1]) == 2 * value + 1, float(y[0])
    for tensor in eager:
        assert float(tensor.abs().sum()) == 0, "a launch writes to an eager tensor"


def graph(scene):
    """torch.cuda.graph: temporaries are the graph's, nothing needs a warm-up."""
    torch = scene.torch
    scene.replace()
    for turn in range(2):
        # PyTorch makes state of its own for the first graph.
        torch.cuda.empty_cache()
        before = torch.cuda.mem_get_info()[0]
        x = torch.ones(MIB, device="cuda")
        torch.cuda.synchronize()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            y = x * 2 + 1
        check_graph(torch, g, x, y, 3)
        torch.cuda.empty_cache()
        check_graph(torch, g, x, y, 4)
        result = y
        del y
        g.reset()
        torch.cuda.synchronize()
        assert float(result[0]) == 9, "a result outlives its graph"
        del result, x, g
    # The driver ends a graph on a thread of its own.
    end = time.monotonic() + 20
    while (torch.cuda.mem_get_info()[0] < before - 4 * MIB
           and time.monotonic() < end):
        torch.cuda.empty_cache()
    left = before - torch.cuda.mem_get_info()[0]
    assert left <= 4 * MIB, f"{left} bytes of a pool are left"


def shared_pool(scene):
    """Graphs of one pool share its memory, launched in their order."""
    torch = scene.torch
    scene.replace()
    x = torch.ones(MIB, device="cuda")
    torch.cuda.synchronize()
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        y = x * 2 + 1
    with torch.cuda.graph(second, pool=first.pool()):
        z = y * 2 + 1
    check_graph(torch, first, x, y, 3)
    check_graph(torch, second, y, z, 5)
    first.reset()
    check_graph(torch, second, y, z, 6)


def graph_of_two_streams(scene):
    """A capture that forks: record_stream keeps a block from its own stream."""
    torch = scene.torch
    scene.replace()
    x = torch.ones(MIB, device="cuda")
    out = torch.zeros(MIB, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        main = torch.cuda.current_stream()
        bucket = x * 2
        side.wait_stream(main)
        with torch.cuda.stream(side):
            scene.spin()
            torch.add(bucket, 1, out=out)
        bucket.record_stream(side)
        del bucket
        y = torch.full((MIB,), 7.0, device="cuda")
        main.wait_stream(side)
    for value in (3, 4):
        check_graph(torch, g, x, out, value)
    assert float(y[0]) == 7


def graph_without_functions(scene):
    """With two functions alone: cached memory serves, and is the graph's."""
    torch = scene.torch
    scene.replace(functions=False)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.ones(MIB, device="cuda")
        warm = x * 2, x * 2
        del warm
        stream.synchronize()
        g = torch.cuda.CUDAGraph()
        g.capture_begin()
        y = x * 2 + 1
        g.capture_end()
        check_graph(torch, g, x, y, 3)


def mem_pool_in_a_graph(scene):
    """A MemPool's segments come from devrt in a capture, too."""
    torch = scene.torch
    pool = torch.cuda.MemPool(
        scene.allocator("devrt_torch_pool_alloc").allocator())
    x = torch.ones(MIB, device="cuda")
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, pool=pool.id):
        y = x * 2 + 1
    check_graph(torch, g, x, y, 3)


def mem_pool_needs_pytorchs_own(scene):
    """No MemPool beside a replaced allocator: PyTorch refuses it."""
    torch = scene.torch
    scene.replace()
    try:
        torch.cuda.MemPool()
    except RuntimeError as error:
        assert "createOrIncrefPool" in str(error), error
    else:
        raise AssertionError("docs/how-to/pytorch-allocator.md says that PyTorch refuses this")


def capture(scene):
    """Nothing is asked of the driver for a stream that captures outside pools:
    memory of before serves, more is refused, and the graph stays valid."""
    torch = scene.torch
    scene.replace(functions=False)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.ones(MIB, device="cuda")
        warm = x + 1
        del warm
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        y = x + 1
        try:
            torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
        except RuntimeError as error:
            assert "capturing" in str(error), error
        else:
            raise AssertionError("memory was obtained during a capture")
        graph.capture_end()
        x.fill_(5)
        graph.replay()
        stream.synchronize()
    assert float(y[0]) == 6, float(y[0])


SCENES = [current_allocator, out_of_memory, pool, gradient_bucket, prefetch,
          fraction_and_cache, graph, shared_pool, graph_of_two_streams,
          graph_without_functions, mem_pool_in_a_graph,
          mem_pool_needs_pytorchs_own, capture]


def main():
    shim, library = sys.argv[1:3]
    try:
        import torch
    except Exception as error:  # of GPU libraries, anything may be raised
        print(f"PyTorch cannot be loaded: {error}")
        return NOTHING_THERE
    if len(sys.argv) > 3:
        scene = {scene.__name__: scene for scene in SCENES}[sys.argv[3]]
        scene(Scene(torch, shim, library))
        return 0
    if torch.version.cuda is None:
        print("this PyTorch has no CUDA")
        return NOTHING_THERE
    failed = 0
    for scene in SCENES:
        done = subprocess.run(
            [sys.executable, __file__, shim, library, scene.__name__],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=120, check=False)
        failed += done.returncode != 0
        print(f"{'FAILED' if done.returncode else 'passed'} {scene.__name__}: "
              f"{scene.__doc__.splitlines()[0]}")
        if done.returncode:
            print(done.stdout)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
