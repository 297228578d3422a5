# SPDX-License-Identifier: Apache-2.0
"""Claims of docs/coming-from/numba.md about Numba's CUDA target, numba-cuda."""

import asyncio

import claims
import concurrency
import gpu
from claims import expect

library = claims.Library("numba", ["numba.cuda"], ["numba-cuda", "numba"],
                         "https://nvidia.github.io/numba-cuda/reference/memory.html")


def cuda():
    import numpy

    if not hasattr(numpy, "row_stack"):
        numpy.row_stack = numpy.vstack  # numba-cuda 0.30 compiles no kernel without
    from numba import cuda

    cuda.to_device(numpy.zeros(1)).copy_to_host()
    return cuda


def handle(stream):
    return int(stream.handle)


# ---- Streams and devices


@library.claim("NB1", "cuda.stream() is a blocking stream")
def blocking():
    expect(not gpu.is_non_blocking(handle(cuda().stream())), "non-blocking")
    return "cuStreamGetFlags says blocking"


@library.claim("NB2", "there is no current stream: calls and launches take one")
def no_current_stream():
    c = cuda()
    return (claims.expect_absent(c, ["current_stream", "set_stream",
                                     "get_current_stream"])
            + "; streams: " + claims.expect_absent(c.stream(), ["__enter__"]))


@library.claim("NB3", "the default stream has the handle 0, the legacy one 1, the "
               "per-thread one 2")
def default_streams():
    c = cuda()
    found = tuple(int(s.handle) for s in (
        c.default_stream(), c.legacy_default_stream(),
        c.per_thread_default_stream()))
    expect(found == (0, 1, 2), str(found))
    return str(found)


@library.claim("NB4", "external_stream takes an int and nothing else")
def external():
    c = cuda()
    own = c.stream()
    error = claims.error_of(c.external_stream, own)
    expect(isinstance(error, TypeError), claims.named(error))
    expect(handle(c.external_stream(handle(own))) == handle(own), "another handle")
    return claims.named(error)


@library.claim("NB5", "with cuda.gpus[1] makes device 1 current and restores, also "
               "when it is nested", devices=2)
def gpus():
    c = cuda()
    with c.gpus[1]:
        with c.gpus[1]:
            pass
        inside = c.get_current_device().id
    after = c.get_current_device().id
    expect((inside, after) == (1, 0), f"inside {inside}, after {after}")
    return "device 1 inside, 0 after"


@library.claim("NB6", "a new thread starts on device 0, whatever select_device has "
               "chosen on the other", devices=2)
def new_thread():
    c = cuda()

    def chosen():
        c.select_device(1)
        return concurrency.in_thread(lambda: c.get_current_device().id)

    there = concurrency.in_thread(chosen)
    expect(there == 0, f"device {there}")
    return "device 0 in the thread"


@library.claim("NB7", "an index that is out of range is an IndexError")
def bad_index():
    c = cuda()
    error = claims.error_of(lambda: c.gpus[99])
    expect(isinstance(error, IndexError), claims.named(error))
    return claims.named(error)


# ---- Memory


@library.claim("NB10", "out of memory is a CudaAPIError, which is neither a "
               "RuntimeError nor a MemoryError")
def out_of_memory():
    c = cuda()
    error = claims.error_of(c.device_array, 1 << 44, "uint8")
    expect(not isinstance(error, (RuntimeError, MemoryError)),
           str(type(error).__mro__))
    expect(type(error).__name__ == "CudaAPIError", claims.named(error))
    return f"{claims.named(error)}; code {error.code}"


@library.claim("NB11", "an array has the stream that it was made with, or none, and "
               "exports it")
def bound_stream():
    c = cuda()
    stream = c.stream()
    bound = c.device_array(4, stream=stream).__cuda_array_interface__["stream"]
    free = c.device_array(4).__cuda_array_interface__["stream"]
    default = c.device_array(
        4, stream=c.default_stream()).__cuda_array_interface__["stream"]
    expect((bound, free, default) == (handle(stream), None, 0),
           f"{bound}, {free}, {default}")
    return "the handle, None, and 0 for default_stream()"


@library.claim("NB12", "device arrays have no __dlpack__")
def no_dlpack():
    return claims.expect_absent(cuda().device_array(4),
                                ["__dlpack__", "__dlpack_device__"])


@library.claim("NB23", "device arrays have no call that marks a use by another stream")
def no_record_stream():
    return claims.expect_absent(cuda().device_array(4), ["record_stream", "record_use"])


@library.claim("NB13", "a kernel that gets a NumPy array copies it to the device and "
               "back")
def host_argument():
    import numpy
    import warnings

    c = cuda()

    @c.jit
    def increment(a):
        a[0] += 1

    a = numpy.zeros(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        increment[1, 1](a)
    expect(a[0] == 1, f"{a[0]}")
    return "the array on the host has the kernel's result"


@library.claim("NB14", "as_cuda_array waits on the host for the stream of a CUDA Array "
               "Interface")
def waits_on_host():
    c = cuda()
    x, side = c.device_array(1024), c.stream()
    c.as_cuda_array(gpu.Interface(x, handle(side)))
    gpu.hold(handle(side))
    seconds = gpu.seconds_of(c.as_cuda_array, gpu.Interface(x, handle(side)))
    expect(seconds > 0.8 * gpu.HOLD, f"{seconds:.3f} s")
    return f"{seconds:.3f} s beside a stream that is busy for {gpu.HOLD} s"


# ---- Events and host functions


@library.claim("NB15", "an event has timing unless timing=False is passed, and a "
               "native event at once")
def events():
    c = cuda()
    begin, end = c.event(), c.event()
    expect(int(begin.handle) != 0, "no native event")
    begin.record()
    end.record()
    end.synchronize()
    return f"event_elapsed_time gives {c.event_elapsed_time(begin, end):.3f}"


@library.claim("NB16", "elapsed time of a pending event raises CudaAPIError")
def pending_elapsed():
    c = cuda()
    begin, end, side = c.event(), c.event(), c.stream()
    begin.record(side)
    gpu.hold(handle(side))
    end.record(side)
    error = claims.error_of(begin.elapsed_time, end)
    expect(type(error).__name__ == "CudaAPIError", claims.named(error))
    return claims.named(error)


@library.claim("NB17", "auto_synchronize waits for the stream when its scope ends")
def auto_synchronize():
    side = cuda().stream()

    def scope():
        with side.auto_synchronize():
            gpu.hold(handle(side))

    seconds = gpu.seconds_of(scope)
    expect(seconds > 0.8 * gpu.HOLD, f"{seconds:.3f} s")
    return f"the scope of {gpu.HOLD} s of work takes {seconds:.3f} s"


@library.claim("NB18", "async_done and add_callback raise AttributeError with "
               "cuda-bindings 13")
def async_done():
    stream = cuda().stream()

    async def wait():
        await stream.async_done()

    errors = [claims.error_of(asyncio.run, wait()),
              claims.error_of(stream.add_callback, lambda *given: None)]
    expect(all(isinstance(e, AttributeError) for e in errors), repr(errors))
    return claims.named(errors[0])


@library.claim("NB19", "streams wait for events only, cannot be queried, awaited or "
               "captured")
def absent():
    return claims.expect_absent(cuda().stream(), [
        "wait_stream", "wait", "query", "__await__", "begin_capture"])


# ---- Errors and processes


@library.claim("NB20", "after a device fault every call raises, and nothing in the "
               "process recovers", alone=True)
def fault():
    c = cuda()
    gpu.fault(handle(c.stream()))
    errors = [claims.error_of(c.synchronize), claims.error_of(c.synchronize),
              claims.error_of(c.device_array, 1 << 20, "uint8")]
    return "; ".join(map(claims.named, errors))


@library.claim("NB21", "a forked child of a process that has used CUDA gets a "
               "CudaDriverError", alone=True)
def fork():
    c = cuda()
    said = gpu.in_forked_child(lambda: claims.named(claims.error_of(
        c.device_array, 1)))
    expect(said.startswith("CudaDriverError") or "fork" in said, said)
    return said


# ---- Names


@library.claim("NB22", "the names of the table exist")
def names():
    return claims.expect_names(cuda(), [
        "select_device", "gpus", "get_current_device", "stream", "default_stream",
        "per_thread_default_stream", "external_stream", "event", "event_elapsed_time",
        "to_device", "device_array", "pinned_array", "mapped_array", "managed_array",
        "pinned", "as_cuda_array", "is_cuda_array", "synchronize", "defer_cleanup",
        "set_memory_manager", "BaseCUDAMemoryManager", "HostOnlyCUDAMemoryManager",
        "current_context", "jit", "cudadrv.driver.Stream.add_callback",
        "cudadrv.driver.Stream.async_done", "cudadrv.driver.Event.wait"])
