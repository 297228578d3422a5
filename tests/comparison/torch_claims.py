# SPDX-License-Identifier: Apache-2.0
"""Claims of docs/coming-from/pytorch.md about PyTorch and c10."""

import inspect
import pathlib

import claims
import concurrency
import gpu
from claims import expect

library = claims.Library("torch", ["torch"], ["torch"],
                         "https://docs.pytorch.org/docs/stable/cuda.html")
BYTES = 5 << 20  # a block of its own, not cut from a smaller segment


def torch():
    import torch

    torch.zeros(1, device="cuda").add_(1).item()  # what compiles or loads at first
    return torch


def block(t):
    return t.empty(BYTES, dtype=t.uint8, device="cuda")


def handle(t):
    return t.cuda.current_stream().cuda_stream


def header(name):
    import torch

    path = pathlib.Path(torch.__path__[0]) / "include" / name
    if not path.exists():
        raise claims.Skip(f"this build of torch has no header {name}")
    return path.read_text(encoding="utf-8")


# ---- Streams and devices


@library.claim("PT1", "33 torch.cuda.Stream() share at most 32 native streams")
def pool():
    t = torch()
    streams = [t.cuda.Stream() for _ in range(33)]
    distinct = len({s.cuda_stream for s in streams})
    expect(distinct <= 32, f"{distinct} handles")
    expect(streams[0] == streams[32], "the first and the 33rd are unequal")
    return f"{distinct} handles; the first equals the 33rd"


@library.claim("PT2", "torch.cuda.Stream() is non-blocking")
def non_blocking():
    expect(gpu.is_non_blocking(torch().cuda.Stream().cuda_stream), "blocking")
    return "cuStreamGetFlags says non-blocking"


@library.claim("PT3", "the default stream has the handle 0")
def default_stream():
    found = torch().cuda.default_stream().cuda_stream
    expect(found == 0, f"handle {found}")
    return "handle 0"


@library.claim("PT4", "ExternalStream(0) is another stream than the default one, "
               "and ExternalStream(1) fails")
def external_numbers():
    t = torch()
    found = t.cuda.ExternalStream(0).cuda_stream
    expect(found != 0, "handle 0")
    error = claims.error_of(lambda: t.cuda.ExternalStream(1).cuda_stream)
    return f"0: handle {found:#x}; 1: {claims.named(error)}"


@library.claim("PT5", "a torch.cuda.stream(s) object that is entered twice leaves "
               "s current")
def stream_entered_twice():
    t = torch()
    stream = t.cuda.Stream()
    context = t.cuda.stream(stream)
    try:
        with context:
            with context:
                pass
        left = handle(t)
    finally:
        t.cuda.set_stream(t.cuda.default_stream())
    expect(left == stream.cuda_stream, f"current is {left:#x}")
    return "s is current after both"


@library.claim("PT6", "a torch.cuda.device(1) object that is entered twice leaves "
               "device 1 current", devices=2)
def device_entered_twice():
    t = torch()
    context = t.cuda.device(1)
    try:
        with context:
            with context:
                pass
        left = t.cuda.current_device()
    finally:
        t.cuda.set_device(0)
    expect(left == 1, f"current is {left}")
    return "device 1 is current after both"


@library.claim("PT7", "with torch.cuda.stream(s) makes the device of s current, "
               "and restores device and stream", devices=2)
def stream_of_other_device():
    t = torch()
    stream = t.cuda.Stream(device=1)
    with t.cuda.stream(stream):
        inside = t.cuda.current_device()
    expect((inside, t.cuda.current_device()) == (1, 0),
           f"inside {inside}, after {t.cuda.current_device()}")
    return "device 1 inside, 0 after"


@library.claim("PT33", "torch.cuda.set_stream(s) makes the device of s current too",
               devices=2)
def set_stream_of_other_device():
    t = torch()
    stream = t.cuda.Stream(device=1)
    try:
        t.cuda.set_stream(stream)
        found = t.cuda.current_device()
    finally:
        t.cuda.set_stream(t.cuda.default_stream(1))
        t.cuda.set_device(0)
    expect(found == 1, f"device {found}")
    return "device 1"


@library.claim("PT34", "ExternalStream takes a stream of device 1 as one of device 0",
               devices=2)
def external_device():
    t = torch()
    stream = t.cuda.Stream(device=1)
    found = t.cuda.ExternalStream(stream.cuda_stream, device=0)
    expect(found.device.index == 0, f"{found.device}")
    return f"accepted as a stream of {found.device}"


@library.claim("PT8", "a new thread starts on the default stream, whatever the "
               "thread that started it has")
def new_thread():
    t = torch()
    stream = t.cuda.Stream()
    with t.cuda.stream(stream):
        there = concurrency.in_thread(lambda: handle(t))
        expect(handle(t) == stream.cuda_stream, "not current here")
    expect(there == 0, f"the thread has {there:#x}")
    return "handle 0 in the thread"


@library.claim("PT9", "asyncio tasks of one thread share the current stream: after "
               "an await a task has another task's")
def tasks():
    t = torch()
    first, second = t.cuda.Stream(), t.cuda.Stream()
    try:
        seen, left = concurrency.two_tasks(t.cuda.stream, lambda: handle(t), first,
                                           second)
    finally:
        t.cuda.set_stream(t.cuda.default_stream())
    expect(seen == second.cuda_stream, f"the first task sees {seen:#x}")
    return ("the first task sees the second's; after both the thread has "
            + ("the first's" if left == first.cuda_stream else f"{left:#x}"))


@library.claim("PT10", "an index that is out of range raises a RuntimeError and "
               "changes nothing")
def bad_index():
    t = torch()
    error = claims.error_of(t.cuda.set_device, 99)
    expect(isinstance(error, RuntimeError), claims.named(error))
    expect(t.cuda.current_device() == 0, "the current device changed")
    return claims.named(error)


@library.claim("PT11", "priorities of streams are 0 to -3, where the driver has "
               "0 to -5")
def priorities():
    t = torch()
    found = t.cuda.Stream.priority_range()
    expect(tuple(found) == (0, -3), f"{found}")
    lowest = t.cuda.Stream(priority=-100).priority
    return f"range {found}; priority=-100 gives {lowest}"


@library.claim("PT12", "torch.accelerator knows one kind of device in a process")
def one_accelerator():
    t = torch()
    found = t.accelerator.current_accelerator()
    expect(isinstance(found, t.device), repr(found))
    return repr(found)


# ---- Order and lifetimes


@library.claim("PT13", "work on two streams is not ordered: a read after a write on "
               "another stream gets the old value")
def unordered():
    t = torch()
    x, side = t.zeros(1024, device="cuda"), t.cuda.Stream()
    with t.cuda.stream(side):
        x.fill_(0)
    x.clone()
    t.cuda.synchronize()
    gpu.hold(side.cuda_stream)
    with t.cuda.stream(side):
        x.fill_(1)
    value = x.clone()[0].item()
    expect(gpu.is_busy(side.cuda_stream), "the write was over")
    expect(value == 0, f"read {value}")
    return "the read got the old value"


def reused_while_busy(t, mark):
    t.cuda.synchronize()
    t.cuda.empty_cache()
    side, x = t.cuda.Stream(), block(t)
    address = x.data_ptr()
    gpu.hold(side.cuda_stream)
    with t.cuda.stream(side):
        x.fill_(1)
    if mark:
        x.record_stream(side)
    del x
    y = block(t)
    expect(gpu.is_busy(side.cuda_stream), "the side stream's work was over")
    return y.data_ptr() == address


@library.claim("PT14", "without record_stream a freed block is handed out again while "
               "another stream still uses it; with it the block is not")
def record_stream():
    t = torch()
    bare, marked = reused_while_busy(t, False), reused_while_busy(t, True)
    expect(bare and not marked, f"reused: {bare} without, {marked} with the mark")
    return "reused at once without the mark, not with it"


@library.claim("PT15", "a freed block serves only requests of its stream")
def block_of_a_stream():
    t = torch()
    t.cuda.synchronize()
    t.cuda.empty_cache()
    x, side = block(t), t.cuda.Stream()
    address = x.data_ptr()
    del x
    with t.cuda.stream(side):
        other = block(t)
    own = block(t)
    expect(other.data_ptr() != address and own.data_ptr() == address,
           f"{other.data_ptr():#x} and {own.data_ptr():#x}, freed {address:#x}")
    return "another stream gets another block, the stream its own"


@library.claim("PT16", "one byte counts as 512 in memory_allocated")
def rounding():
    t = torch()
    before = t.cuda.memory_allocated()
    x = t.empty(1, dtype=t.uint8, device="cuda")
    counted = t.cuda.memory_allocated() - before
    expect(x.nbytes == 1 and counted == 512, f"{counted} bytes")
    return "512 bytes"


@library.claim("PT17", "OutOfMemoryError is a RuntimeError and no MemoryError; the "
               "next request works")
def out_of_memory():
    t = torch()
    error = claims.error_of(t.empty, 1 << 44, dtype=t.uint8, device="cuda")
    expect(isinstance(error, t.OutOfMemoryError), claims.named(error))
    expect(isinstance(error, RuntimeError) and not isinstance(error, MemoryError),
           str(type(error).__mro__))
    t.ones(1, device="cuda").item()
    return claims.named(error)


@library.claim("PT18", "change_current_allocator fails once CUDA is initialised",
               alone=True)
def late_allocator():
    t = torch()
    allocator = t.cuda.memory.CUDAPluggableAllocator("libc.so.6", "malloc", "free")
    error = claims.error_of(t.cuda.memory.change_current_allocator, allocator)
    expect(isinstance(error, RuntimeError), claims.named(error))
    return claims.named(error)


# ---- Events


@library.claim("PT19", "an event has no native event before its first record")
def lazy_event():
    t = torch()
    event = t.cuda.Event()
    before = event.cuda_event
    event.record()
    expect(not before and event.cuda_event, f"{before}, {event.cuda_event}")
    return "0, then a handle"


@library.claim("PT20", "an event has no timing unless asked for, and elapsed_time of "
               "such events raises")
def no_timing():
    t = torch()
    begin, end = t.cuda.Event(), t.cuda.Event()
    begin.record()
    end.record()
    t.cuda.synchronize()
    error = claims.error_of(begin.elapsed_time, end)
    return claims.named(error)


@library.claim("PT21", "elapsed_time raises while an event is pending")
def pending_elapsed():
    t = torch()
    begin, end = t.cuda.Event(enable_timing=True), t.cuda.Event(enable_timing=True)
    side = t.cuda.Stream()
    begin.record(side)
    gpu.hold(side.cuda_stream)
    end.record(side)
    error = claims.error_of(begin.elapsed_time, end)
    return claims.named(error)


@library.claim("PT22", "streams and events cannot be awaited, and a stream takes no "
               "host function")
def absent():
    t = torch()
    said = [claims.expect_absent(t.cuda.Stream, [
                "__await__", "launch_host_func", "add_callback"]),
            claims.expect_absent(t.cuda.Event, ["__await__"])]
    return "; ".join(said)


# ---- Errors, processes, captures


@library.claim("PT23", "after a device fault every call raises, and nothing in the "
               "process recovers", alone=True)
def fault():
    t = torch()
    x = t.zeros(8, device="cuda")
    gpu.fault(handle(t))
    first = claims.error_of(t.cuda.synchronize)
    second = claims.error_of(t.cuda.synchronize)
    third = claims.error_of(t.ones, 8, device="cuda")
    del x
    expect(all(isinstance(e, RuntimeError) for e in (first, second, third)),
           f"{first!r}, {second!r}, {third!r}")
    return f"{claims.named(first)}; again {type(third).__name__}"


@library.claim("PT24", "a forked child of a process that has used CUDA gets a "
               "RuntimeError", alone=True)
def fork():
    t = torch()
    said = gpu.in_forked_child(lambda: claims.named(claims.error_of(
        t.zeros, 1, device="cuda")))
    expect(said.startswith("RuntimeError") and "fork" in said, said)
    return said


@library.claim("PT25", "a query of another stream's event inside torch.cuda.graph "
               "raises and ends the capture", alone=True)
def query_in_capture():
    t = torch()
    x, other, event = t.zeros(8, device="cuda"), t.cuda.Stream(), t.cuda.Event()
    event.record(other)
    graph, inner = t.cuda.CUDAGraph(), []
    t.cuda.synchronize()

    def capture():
        with t.cuda.graph(graph):
            x.add_(1)
            inner.append(claims.error_of(event.query))
            x.add_(1)

    outer = claims.error_of(capture)
    expect(inner, f"the query did not raise; {claims.named(outer)}")
    return f"{claims.named(inner[0])}; then {claims.named(outer)}"


@library.claim("PT26", "torch.cuda.graph captures and replays")
def graph():
    t = torch()
    x, captured = t.zeros(8, device="cuda"), t.cuda.CUDAGraph()
    x.add_(1)
    x.zero_()
    with t.cuda.graph(captured):
        x.add_(1)
    before = x[0].item()
    captured.replay()
    captured.replay()
    t.cuda.synchronize()
    expect((before, x[0].item()) == (0, 2), f"{before}, {x[0].item()}")
    return "0 after the capture, 2 after two replays"


# ---- Exchange


@library.claim("PT27", "__cuda_array_interface__ has version 2 and no stream; "
               "bfloat16 is exported as '<V2'")
def interface():
    t = torch()
    found = t.zeros(1, device="cuda").__cuda_array_interface__
    expect(found["version"] == 2 and "stream" not in found, str(sorted(found)))
    kind = t.zeros(1, device="cuda",
                   dtype=t.bfloat16).__cuda_array_interface__["typestr"]
    expect(kind == "<V2", kind)
    return f"{sorted(found)}; bfloat16 {kind}"


@library.claim("PT28", "as_tensor ignores the stream of a CUDA Array Interface")
def ignored_stream():
    t = torch()
    x, side = t.zeros(1024, device="cuda"), t.cuda.Stream()
    with t.cuda.stream(side):
        x.fill_(0)
    x.clone()
    t.cuda.synchronize()
    gpu.hold(side.cuda_stream)
    with t.cuda.stream(side):
        x.fill_(1)
    y = t.as_tensor(gpu.Interface(x, side.cuda_stream), device="cuda")
    value = y.clone()[0].item()
    expect(gpu.is_busy(side.cuda_stream) and value == 0, f"read {value}")
    return "the read got the old value"


@library.claim("PT29", "Tensor.__dlpack__ has the default stream=-1: no order")
def dlpack_default():
    t = torch()
    found = inspect.signature(t.Tensor.__dlpack__).parameters["stream"].default
    expect(found == -1, repr(found))
    return "stream=-1"


# ---- Names


@library.claim("PT30", "the Python names of the table exist")
def names():
    return claims.expect_names(torch(), [
        "cuda.device", "cuda.set_device", "cuda.current_device", "cuda.stream",
        "cuda.Stream", "cuda.Stream.wait_stream", "cuda.Stream.wait_event",
        "cuda.Stream.record_event", "cuda.Event", "cuda.ExternalStream",
        "cuda.set_stream", "cuda.current_stream", "cuda.default_stream",
        "cuda.synchronize", "cuda.empty_cache", "cuda.memory_stats",
        "cuda.mem_get_info", "cuda.caching_allocator_alloc", "cuda.graph",
        "cuda.set_per_process_memory_fraction", "cuda.OutOfMemoryError",
        "Tensor.record_stream", "Tensor.pin_memory", "accelerator.set_device_index",
        "accelerator.current_stream", "accelerator.synchronize",
        "cuda.memory.change_current_allocator", "cuda.memory._snapshot",
        "cuda.memory._record_memory_history", "cuda.Stream.priority_range"])


@library.claim("PT31", "the C++ names of the table exist in torch's headers")
def names_in_headers():
    wanted = {
        "c10/cuda/CUDAGuard.h": [
            "CUDAGuard() = delete", "struct OptionalCUDAGuard",
            "struct CUDAStreamGuard", "struct CUDAMultiStreamGuard"],
        "c10/cuda/CUDAStream.h": [
            "getStreamFromPool", "getStreamFromExternal", "getDefaultCUDAStream",
            "getCurrentCUDAStream", "setCurrentCUDAStream"],
        "c10/cuda/CUDAEvent.h": ["struct CUDAEvent", "void block(",
                                 "float elapsed_time("],
        "c10/cuda/CUDACachingAllocator.h": [
            "raw_alloc_with_stream", "raw_delete", "inline void recordStream",
            "inline void emptyCache", "inline void setMemoryFraction"],
    }
    missing = [f"{name}: {word}" for name, words in wanted.items()
               for word in words if word not in header(name)]
    expect(not missing, "; ".join(missing))
    return f"{sum(map(len, wanted.values()))} names in {len(wanted)} headers"


@library.claim("PT32", "c10's multi-stream guard restores in the order in which it "
               "entered, and takes streams of one kind of device")
def multi_stream_guard():
    text = header("c10/core/impl/InlineStreamGuard.h")
    body = text.split("~InlineMultiStreamGuard()")[1].split("\n  }\n")[0]
    expect("for (const Stream& s : original_streams_)" in body, body)
    expect("mix of device types" in text, "no check of the device type")
    return "the destructor walks original_streams_ forwards"
