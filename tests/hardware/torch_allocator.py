#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch on devrt's memory, through libdevrt_torch.so (interop.md, rule 20).

    torch_allocator.py LIBDEVRT_TORCH LIBDEVRT

Each scene has a process of its own, since PyTorch takes an allocator once.
Exit code 0: all passed; 1: something failed; 77: no PyTorch with a GPU.
"""

import ctypes
import subprocess
import sys

NOTHING_THERE = 77
MIB = 1 << 20


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

    def replace(self):
        self.torch.cuda.memory.change_current_allocator(
            self.allocator("devrt_torch_alloc"))


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


def capture(scene):
    """Nothing is asked of the driver while a stream captures: memory of before
    serves, more is refused, and the graph stays valid."""
    torch = scene.torch
    scene.replace()
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


SCENES = [current_allocator, out_of_memory, pool, capture]


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
