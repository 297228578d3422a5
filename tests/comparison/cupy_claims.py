# SPDX-License-Identifier: Apache-2.0
"""Claims of docs/coming-from/cupy.md about CuPy."""

import claims
import concurrency
import gpu
from claims import expect

library = claims.Library("cupy", ["cupy"], ["cupy-cuda13x", "cupy-cuda12x", "cupy"],
                         "https://docs.cupy.dev/en/stable/reference/cuda.html")
BYTES = 5 << 20


def cupy():
    import cupy

    x = cupy.zeros(8)  # what compiles or loads at first
    x += 1
    x.fill(0)
    x.copy().get()
    return cupy


def block(c):
    return c.empty(BYTES, "uint8")


def handle(c):
    return c.cuda.get_current_stream().ptr


def side_stream(c):
    return c.cuda.Stream(non_blocking=True)


# ---- Streams and devices


@library.claim("CP1", "cupy.cuda.Stream() is a blocking stream, non_blocking=True is "
               "not")
def blocking():
    c = cupy()
    plain, side = c.cuda.Stream(), side_stream(c)
    expect(not gpu.is_non_blocking(plain.ptr), "non-blocking")
    expect(gpu.is_non_blocking(side.ptr), "blocking")
    return "cuStreamGetFlags says so"


@library.claim("CP2", "Stream.null has the handle 0 and Stream.ptds the handle 2")
def default_streams():
    c = cupy()
    found = (c.cuda.Stream.null.ptr, c.cuda.Stream.ptds.ptr)
    expect(found == (0, 2), str(found))
    return str(found)


@library.claim("CP3", "Stream.ptds compares equal in two threads, although each "
               "thread's work goes to a stream of its own")
def per_thread():
    c = cupy()
    here = c.cuda.Stream.ptds
    equal = concurrency.in_thread(
        lambda: here == c.cuda.Stream.ptds and hash(here) == hash(
            c.cuda.Stream.ptds))
    expect(equal, "unequal")
    return "equal, with equal hashes"


@library.claim("CP4", "devices and streams that are entered twice restore what was "
               "current")
def entered_twice():
    c = cupy()
    stream, device = side_stream(c), c.cuda.Device(0)
    with stream, device:
        with stream, device:
            expect(handle(c) == stream.ptr, "not current")
    expect(handle(c) == 0 and c.cuda.Device().id == 0, f"{handle(c):#x}")
    return "stream 0 and device 0 are current after both"


@library.claim("CP5", "a stream cannot be entered while another device is current",
               devices=2)
def other_device():
    c = cupy()
    with c.cuda.Device(1):
        stream = side_stream(c)

    def enter():
        with stream:
            pass

    return claims.named(claims.error_of(enter))


@library.claim("CP6", "a new thread starts on the null stream")
def new_thread():
    c = cupy()
    with side_stream(c) as stream:
        there = concurrency.in_thread(lambda: handle(c))
        expect(handle(c) == stream.ptr, "not current here")
    expect(there == 0, f"the thread has {there:#x}")
    return "handle 0 in the thread"


@library.claim("CP7", "asyncio tasks of one thread share the current stream: after "
               "an await a task has another task's")
def tasks():
    c = cupy()
    first, second = side_stream(c), side_stream(c)
    try:
        seen, left = concurrency.two_tasks(lambda s: s, lambda: handle(c), first,
                                           second)
    finally:
        c.cuda.Stream.null.use()
    expect(seen == second.ptr, f"the first task sees {seen:#x}")
    return f"the first task sees the second's; after both the thread has {left:#x}"


@library.claim("CP8", "Stream.from_external takes an object and no number, and the "
               "stream has the device -1")
def external():
    c = cupy()
    own = side_stream(c)
    error = claims.error_of(c.cuda.Stream.from_external, own.ptr)
    expect(isinstance(error, TypeError), claims.named(error))
    found = c.cuda.Stream.from_external(gpu.StreamLike(own.ptr, own)).device_id
    expect(found == -1, f"device {found}")
    return f"{claims.named(error)}; device_id {found}"


@library.claim("CP9", "an index that is out of range raises CUDARuntimeError and "
               "changes nothing")
def bad_index():
    c = cupy()
    error = claims.error_of(c.cuda.Device(99).use)
    expect(isinstance(error, c.cuda.runtime.CUDARuntimeError), claims.named(error))
    expect(c.cuda.Device().id == 0, "the current device changed")
    return claims.named(error)


# ---- Order and lifetimes


@library.claim("CP12", "a freed block serves only requests of its stream")
def block_of_a_stream():
    c = cupy()
    c.cuda.runtime.deviceSynchronize()
    c.get_default_memory_pool().free_all_blocks()
    x = block(c)
    address = x.data.ptr
    del x
    with side_stream(c):
        other = block(c).data.ptr
    own = block(c).data.ptr
    expect(other != address and own == address, f"{other:#x} and {own:#x}")
    return "another stream gets another block, the stream its own"


@library.claim("CP13", "one byte counts as 512 in used_bytes")
def rounding():
    c = cupy()
    pool = c.get_default_memory_pool()
    before = pool.used_bytes()
    x = c.empty(1, "uint8")
    counted = pool.used_bytes() - before
    expect(x.nbytes == 1 and counted == 512, f"{counted} bytes")
    return "512 bytes"


@library.claim("CP14", "OutOfMemoryError is a MemoryError and no RuntimeError")
def out_of_memory():
    c = cupy()
    error = claims.error_of(c.empty, 1 << 44, "uint8")
    expect(isinstance(error, MemoryError) and not isinstance(error, RuntimeError),
           str(type(error).__mro__))
    c.ones(1).get()
    return claims.named(error)


@library.claim("CP15", "set_allocator inside using_allocator raises ValueError")
def allocator_in_scope():
    c = cupy()
    own = c.cuda.MemoryPool().malloc

    def inside():
        with c.cuda.using_allocator(own):
            c.cuda.set_allocator(own)

    error = claims.error_of(inside)
    expect(isinstance(error, ValueError), claims.named(error))
    return claims.named(error)


@library.claim("CP16", "operations with a NumPy array raise TypeError")
def host_operand():
    import numpy

    c = cupy()
    error = claims.error_of(lambda: c.ones(1) + numpy.ones(1))
    expect(isinstance(error, TypeError), claims.named(error))
    return claims.named(error)


@library.claim("CP17", "cupy.asarray copies an array of another device to the current "
               "one", devices=2)
def silent_copy():
    c = cupy()
    with c.cuda.Device(1):
        x = c.ones(4)
    y = c.asarray(gpu.Interface(x, 1))
    expect(y.device.id == 0 and y.data.ptr != x.data.ptr, f"device {y.device.id}")
    return "the result is on device 0"


# ---- Events and host functions


@library.claim("CP18", "an event has timing unless disable_timing is passed, and a "
               "native event at once")
def events():
    c = cupy()
    begin, end = c.cuda.Event(), c.cuda.Event()
    expect(begin.ptr != 0, "no native event")
    begin.record()
    end.record()
    end.synchronize()
    found = c.cuda.get_elapsed_time(begin, end)
    return f"get_elapsed_time gives {found:.3f}"


@library.claim("CP19", "elapsed time of a pending event raises CUDARuntimeError")
def pending_elapsed():
    c = cupy()
    begin, end, side = c.cuda.Event(), c.cuda.Event(), side_stream(c)
    begin.record(side)
    gpu.hold(side.ptr)
    end.record(side)
    error = claims.error_of(c.cuda.get_elapsed_time, begin, end)
    expect(isinstance(error, c.cuda.runtime.CUDARuntimeError), claims.named(error))
    return claims.named(error)


@library.claim("CP20", "launch_host_func runs a function in stream order, and returns "
               "no future")
def host_function():
    c = cupy()
    side, seen = side_stream(c), []
    gpu.hold(side.ptr)
    result = side.launch_host_func(seen.append, 1)
    early = list(seen)
    side.synchronize()
    expect((result, early, seen) == (None, [], [1]), f"{result}, {early}, {seen}")
    return "None; the function ran before synchronize returned"


@library.claim("CP21", "streams and events cannot be awaited; a stream waits for "
               "events only, and has done instead of query")
def absent():
    c = cupy()
    expect(isinstance(c.cuda.Stream.null.done, bool), "done is no bool")
    return (claims.expect_absent(c.cuda.Stream, ["__await__", "wait_stream", "query"])
            + "; events: " + claims.expect_absent(c.cuda.Event, ["__await__"]))


# ---- Errors, processes, captures


@library.claim("CP22", "after a device fault every call raises, and nothing in the "
               "process recovers", alone=True)
def fault():
    c = cupy()
    x = c.zeros(8)
    gpu.fault(handle(c))
    synchronize = c.cuda.runtime.deviceSynchronize
    first = claims.error_of(synchronize)
    second = claims.error_of(synchronize)
    third = claims.error_of(c.ones, 8)
    del x
    return f"{claims.named(first)}; {claims.named(second)}; {claims.named(third)}"


@library.claim("CP23", "a forked child of a process that has used CUDA gets a "
               "CUDARuntimeError", alone=True)
def fork():
    c = cupy()
    said = gpu.in_forked_child(lambda: claims.named(claims.error_of(c.zeros, 1)))
    expect(said.startswith("CUDARuntimeError"), said)
    return said


@library.claim("CP24", "begin_capture and end_capture give a graph that launches")
def capture():
    c = cupy()
    x, side = c.zeros(8), side_stream(c)
    with side:
        x += 1
        x.fill(0)
        side.synchronize()
        side.begin_capture()
        x += 1
        graph = side.end_capture()
        side.synchronize()
        before = float(x.get(stream=side)[0])
        graph.launch()
        side.synchronize()
        after = float(x.get(stream=side)[0])
    expect((before, after) == (0, 1), f"{before}, {after}")
    return "0 after the capture, 1 after a launch"


# ---- Exchange


@library.claim("CP25", "cupy.asarray waits on the host for the stream of a CUDA Array "
               "Interface")
def waits_on_host():
    c = cupy()
    x, side = c.zeros(1024), side_stream(c)
    c.asarray(gpu.Interface(x, side.ptr))
    gpu.hold(side.ptr)
    seconds = gpu.seconds_of(c.asarray, gpu.Interface(x, side.ptr))
    expect(seconds > 0.8 * gpu.HOLD, f"{seconds:.3f} s")
    return f"{seconds:.3f} s beside a stream that is busy for {gpu.HOLD} s"


@library.claim("CP27", "an array of device 1 exports the current stream of the "
               "current device", devices=2)
def exported_stream():
    c = cupy()
    with c.cuda.Device(1):
        x = c.ones(4)
    with side_stream(c) as stream:
        found = x.__cuda_array_interface__["stream"]
        expect(found == stream.ptr, f"{found:#x}")
    return "a stream of device 0"


# ---- Names


@library.claim("CP26", "the names of the table exist")
def names():
    import cupyx

    return claims.expect_names(cupy(), [
        "cuda.Device", "cuda.Device.use", "cuda.Device.synchronize",
        "cuda.Device.mem_info", "cuda.runtime.getDeviceCount",
        "cuda.runtime.deviceCanAccessPeer", "cuda.runtime.deviceEnablePeerAccess",
        "cuda.Stream", "cuda.Stream.null", "cuda.Stream.null.ptr", "cuda.Stream.ptds",
        "cuda.Stream.use", "cuda.Stream.wait_event", "cuda.Stream.record",
        "cuda.Stream.done", "cuda.Event.done", "cuda.Stream.begin_capture",
        "cuda.Stream.end_capture",
        "cuda.Stream.synchronize", "cuda.Stream.from_external",
        "cuda.Stream.launch_host_func", "cuda.get_current_stream", "cuda.Event",
        "cuda.get_elapsed_time", "cuda.MemoryPool", "cuda.MemoryPool.set_limit",
        "cuda.MemoryPool.free_all_blocks", "cuda.MemoryPool.used_bytes",
        "cuda.MemoryPool.total_bytes", "cuda.MemoryPool.free_bytes",
        "cuda.MemoryAsyncPool", "cuda.PinnedMemoryPool", "cuda.alloc_pinned_memory",
        "cuda.PinnedMemoryPool.free_all_blocks", "cuda.PinnedMemoryPool.n_free_blocks",
        "cuda.malloc_managed", "cuda.set_allocator", "cuda.using_allocator",
        "cuda.UnownedMemory", "cuda.PythonFunctionAllocator", "cuda.MemoryHook",
        "get_default_memory_pool", "get_default_pinned_memory_pool", "asarray",
        "asnumpy", "from_dlpack", "RawKernel", "ElementwiseKernel", "ndarray.get",
        "ndarray.data"]) + "; cupyx: " + claims.expect_names(
            cupyx, ["zeros_pinned", "empty_pinned"])
