# SPDX-License-Identifier: Apache-2.0
"""Claims of docs/coming-from/cuda-core.md about cuda.core."""

import claims
import concurrency
import gpu
from claims import expect

library = claims.Library("cuda.core", ["cuda.core"], ["cuda-core", "cuda-bindings"],
                         "https://nvidia.github.io/cuda-python/cuda-core/latest/")
BYTES = 1 << 20


def core():
    import cuda.core as core

    device = core.Device(0)
    device.set_current()
    return core, device


def handle(stream):
    return int(stream.handle)


# ---- Streams and devices


@library.claim("CC1", "create_stream() makes a non-blocking stream")
def non_blocking():
    _, device = core()
    stream = device.create_stream()
    expect(stream.is_nonblocking and gpu.is_non_blocking(handle(stream)), "blocking")
    return "is_nonblocking, and cuStreamGetFlags says so"


@library.claim("CC2", "there is no current stream, and a device is no context "
               "manager: set_current stays")
def no_scope():
    c, device = core()
    return (claims.expect_absent(c.Device, ["__enter__"]) + "; streams: "
            + claims.expect_absent(device.create_stream(), ["__enter__"]) + "; module: "
            + claims.expect_absent(c, ["current_stream", "set_stream"]))


@library.claim("CC3", "Device(1).set_current() changes what is current for other "
               "libraries, until another set_current", devices=2)
def set_current():
    import ctypes

    c, device = core()
    c.Device(1).set_current()
    found = ctypes.c_int(-1)
    gpu.check(gpu.driver().cuCtxGetDevice(ctypes.byref(found)), "cuCtxGetDevice")
    device.set_current()
    expect(found.value == 1, f"device {found.value}")
    return "cuCtxGetDevice says 1"


@library.claim("CC4", "a new thread must call set_current before it makes a stream")
def new_thread():
    c, _ = core()
    error = concurrency.in_thread(
        lambda: claims.error_of(c.Device(0).create_stream))
    return claims.named(error)


@library.claim("CC5", "the default streams have the handles 1 and 2")
def default_streams():
    c, device = core()
    found = (handle(c.LEGACY_DEFAULT_STREAM), handle(c.PER_THREAD_DEFAULT_STREAM),
             handle(device.default_stream))
    expect(found[:2] == (1, 2), str(found))
    return f"{found[:2]}; Device.default_stream is {found[2]}"


@library.claim("CC6", "the per-thread default stream compares equal in two threads")
def per_thread():
    c, device = core()
    here = c.PER_THREAD_DEFAULT_STREAM

    def there():
        c.Device(0).set_current()
        other = c.Stream.from_handle(2)
        return here == other and hash(here) == hash(other)

    expect(concurrency.in_thread(there), "unequal")
    return "equal, with equal hashes"


@library.claim("CC7", "create_stream adopts an object and no number; numbers need "
               "Stream.from_handle")
def external():
    c, device = core()
    own = device.create_stream()
    error = claims.error_of(device.create_stream, handle(own))
    expect(isinstance(error, TypeError), claims.named(error))
    adopted = device.create_stream(gpu.StreamLike(handle(own), own))
    expect(handle(adopted) == handle(own), "another handle")
    expect(handle(c.Stream.from_handle(handle(own))) == handle(own),
           "another handle by number")
    return claims.named(error)


@library.claim("CC8", "an index that is out of range raises ValueError")
def bad_index():
    c, _ = core()
    error = claims.error_of(c.Device, 99)
    expect(isinstance(error, ValueError), claims.named(error))
    return claims.named(error)


# ---- Memory


@library.claim("CC9", "allocate needs a stream, by keyword")
def stream_needed():
    _, device = core()
    error = claims.error_of(device.allocate, 16)
    expect(isinstance(error, TypeError), claims.named(error))
    return claims.named(error)


@library.claim("CC10", "a buffer that is closed on its stream is handed out again "
               "while another stream still uses it, and no call marks the use")
def reused():
    c, device = core()
    own, side = device.create_stream(), device.create_stream()
    buffer = device.allocate(BYTES, stream=own)
    address = int(buffer.handle)
    device.sync()
    gpu.hold(handle(side))
    buffer.fill(1, stream=side)
    buffer.close(own)
    other = device.allocate(BYTES, stream=own)
    expect(gpu.is_busy(handle(side)), "the side stream's work was over")
    expect(int(other.handle) == address, "another block")
    return "reused at once; " + claims.expect_absent(c.Buffer, ["record_stream",
                                                                "record_use"])


@library.claim("CC11", "a buffer can be given another stream for its end")
def deallocation_stream():
    _, device = core()
    buffer = device.allocate(BYTES, stream=device.create_stream())
    buffer.set_deallocation_stream(device.create_stream())
    buffer.close()
    return "set_deallocation_stream, then close()"


@library.claim("CC12", "out of memory is a CUDAError, which is neither a RuntimeError "
               "nor a MemoryError")
def out_of_memory():
    _, device = core()
    stream = device.create_stream()
    error = claims.error_of(device.allocate, 1 << 44, stream=stream)
    expect(not isinstance(error, (RuntimeError, MemoryError)),
           str(type(error).__mro__))
    return claims.named(error)


@library.claim("CC13", "Buffer.__dlpack__ takes any stream number and orders nothing")
def dlpack_stream():
    _, device = core()
    buffer = device.allocate(BYTES, stream=device.default_stream)
    capsule = buffer.__dlpack__(stream=123456789, max_version=(1, 0))
    return f"{type(capsule).__name__} for stream=123456789"


# ---- Events


@library.claim("CC14", "an event has no timing unless asked for, and the difference "
               "of such events raises")
def no_timing():
    _, device = core()
    stream = device.create_stream()
    begin, end = stream.record(), stream.record()
    stream.sync()
    return claims.named(claims.error_of(lambda: end - begin))


@library.claim("CC15", "the difference of two events is milliseconds, and raises "
               "while one is pending")
def elapsed():
    c, device = core()
    stream, timed = device.create_stream(), c.EventOptions(timing_enabled=True)
    begin = stream.record(options=timed)
    gpu.hold(handle(stream))
    end = stream.record(options=timed)
    error = claims.error_of(lambda: end - begin)
    end.sync()
    found = end - begin
    expect(found > 800 * gpu.HOLD, f"{found}")
    return f"{claims.named(error)}; then {found:.0f} for {gpu.HOLD} s"


@library.claim("CC16", "a stream waits for events and streams; it has no query, no "
               "host function, and cannot be awaited")
def absent():
    _, device = core()
    one, other = device.create_stream(), device.create_stream()
    one.wait(other)
    one.wait(other.record())
    expect(isinstance(other.record().is_done, bool), "is_done is no bool")
    return claims.expect_absent(one, ["query", "is_done", "__await__",
                                      "launch_host_func", "add_callback"])


# ---- Errors and processes


@library.claim("CC17", "after a device fault every call raises, and nothing in the "
               "process recovers", alone=True)
def fault():
    _, device = core()
    stream = device.create_stream()
    gpu.fault(handle(stream))
    errors = [claims.error_of(device.sync), claims.error_of(device.sync),
              claims.error_of(device.create_stream)]
    return "; ".join(map(claims.named, errors))


@library.claim("CC18", "a forked child of a process that has used CUDA gets a "
               "CUDAError", alone=True)
def fork():
    _, device = core()
    said = gpu.in_forked_child(lambda: claims.named(claims.error_of(
        device.create_stream)))
    expect(said.startswith("CUDAError"), said)
    return said


# ---- Names


@library.claim("CC19", "the names of the table exist")
def names():
    c, _ = core()
    return claims.expect_names(c, [
        "Device.set_current", "Device.create_stream", "Device.create_event",
        "Device.default_stream", "Device.allocate", "Device.sync",
        "Device.memory_resource", "Device.properties", "Device.can_access_peer",
        "Device.get_all_devices", "Device.create_context",
        "Device.create_graph_builder", "Stream.record", "Stream.wait", "Stream.sync",
        "Stream.close", "Stream.from_handle", "Event.sync", "Event.is_done",
        "Buffer.copy_to", "Buffer.copy_from", "Buffer.fill", "Buffer.close",
        "Buffer.from_handle", "Buffer.ipc_descriptor", "Buffer.set_deallocation_stream",
        "MemoryResource", "DeviceMemoryResource", "PinnedMemoryResource",
        "ManagedMemoryResource", "VirtualMemoryResource", "LegacyPinnedMemoryResource",
        "DeviceMemoryResourceOptions", "LEGACY_DEFAULT_STREAM",
        "PER_THREAD_DEFAULT_STREAM", "Program", "Linker", "ObjectCode", "Kernel",
        "LaunchConfig", "launch", "graph.GraphBuilder", "system",
        "utils.StridedMemoryView"])
