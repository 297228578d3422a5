# SPDX-License-Identifier: Apache-2.0
"""Of PyTorch's test_cuda: the behaviour in scope that needs no arrays.

Each test has the name that it has there, without the prefix; docs/reference/semantics.md
3.2 says what is required.  They run on the facade of DEVRT_TEST_BACKEND, mtia
without it.
"""

import ctypes
import gc

import pytest

import devrt
from devrt.testing import spin

from backend import BACKEND, cuda


@pytest.fixture(autouse=True)
def empty():
    gc.collect()
    for index in range(cuda.device_count()):
        cuda.synchronize(index)
    cuda.empty_cache()
    yield
    gc.collect()


def test_memory_allocation():
    before = cuda.memory_allocated()
    memory = cuda.caching_allocator_alloc(1)
    assert cuda.memory_allocated() == before + 512
    cuda.caching_allocator_delete(memory)
    assert cuda.memory_allocated() == before


def test_memory_stats():
    cuda.reset_peak_memory_stats()
    cuda.reset_accumulated_memory_stats()
    before = cuda.memory_allocated(), cuda.memory_reserved()
    assert before == (cuda.max_memory_allocated(), cuda.max_memory_reserved())
    active = cuda.memory_stats()["active_bytes.all.current"]
    memory = cuda.caching_allocator_alloc(256 * 4)
    stats = cuda.memory_stats()
    assert stats["active_bytes.all.current"] == active + 1024
    assert stats["active_bytes.all.freed"] == 0
    cuda.caching_allocator_delete(memory)
    cuda.empty_cache()
    stats = cuda.memory_stats()
    assert stats["active_bytes.all.current"] == active
    assert stats["active_bytes.all.freed"] == 1024
    cuda.reset_peak_memory_stats()
    assert before == (cuda.max_memory_allocated(), cuda.max_memory_reserved())


def test_host_memory_stats(run_program):
    """In a fresh process: all 0 at first."""
    done = run_program(
        """
        import devrt
        import sys
        cuda = getattr(devrt, sys.argv[1])
        devrt.set_device(sys.argv[1] + ":0")
        keys = [f"{a}.{b}" for a in ("allocations", "active_requests",
                                     "allocated_bytes", "active_bytes")
                for b in ("allocated", "current", "freed", "peak")]
        keys += ["num_host_alloc", "num_host_free", "host_alloc_time.count",
                 "host_free_time.count"]
        cuda.host_empty_cache()
        expected = dict.fromkeys(keys, 0)
        def check():
            stats = cuda.host_memory_stats()
            got = {key: stats[key] for key in keys}
            assert got == expected, {k: (got[k], expected[k]) for k in keys
                                     if got[k] != expected[k]}
        check()
        live = []
        for size, counted in ((40960, 65536), (81920, 131072)):
            live.append(devrt.pinned_alloc(size))
            for key in ("allocations", "active_requests"):
                for what in ("allocated", "current", "peak"):
                    expected[f"{key}.{what}"] += 1
            for key in ("allocated_bytes", "active_bytes"):
                for what in ("allocated", "current", "peak"):
                    expected[f"{key}.{what}"] += counted
            expected["num_host_alloc"] += 1
            expected["host_alloc_time.count"] += 1
            check()
        cuda.host_empty_cache()
        check()
        cuda.reset_peak_host_memory_stats()
        cuda.reset_accumulated_host_memory_stats()
        print("ok")
        """,
        BACKEND,
    )
    assert done.stdout == "ok\n", done.stderr


def test_cudart_register():
    buffer = ctypes.create_string_buffer(80)
    pointer = ctypes.addressof(buffer)
    devrt.register_host(pointer, 80)
    assert devrt.is_pinned(pointer)
    devrt.unregister_host(pointer)
    assert not devrt.is_pinned(pointer)


@pytest.mark.parametrize("setting", ["True", "False"])
def test_pinned_memory_empty_cache(setting):
    try:
        devrt.set_allocator_settings(f"pinned_use_cuda_host_register:{setting}")
        pointer = devrt.pinned_alloc(4 << 20)
        assert devrt.is_pinned(pointer)
        devrt.pinned_delete(pointer)
        cuda.host_empty_cache()
    finally:
        devrt.set_allocator_settings("pinned_use_cuda_host_register:False")


def test_pinned_memory_with_cudaregister():
    devrt.set_allocator_settings(
        "pinned_use_cuda_host_register:True,pinned_num_register_threads:8")
    try:
        plain = ctypes.create_string_buffer(80)
        assert not devrt.is_pinned(ctypes.addressof(plain))
        for elements in (1 << 21, 1 << 24):
            pointer = devrt.pinned_alloc(4 * elements)
            assert devrt.is_pinned(pointer)
            devrt.pinned_delete(pointer)
    finally:
        devrt.set_allocator_settings("pinned_use_cuda_host_register:False")
        cuda.host_empty_cache()


def test_pinned_memory_use_background_threads(run_program):
    done = run_program(
        """
        import devrt
        devrt.set_allocator_settings("pinned_use_background_threads:True")
        devrt.pinned_alloc(1024)
        """
    )
    assert done.returncode == 0, done.stderr


def test_check_error():
    devrt.cuda.check_error(0)
    with pytest.raises(devrt.cuda.CudaError, match="out of memory|hipErrorOutOfMemory"):
        devrt.cuda.check_error(2)


def test_cuda_get_device_name():
    current = cuda.current_device()
    assert cuda.get_device_name(None) == cuda.get_device_name() == cuda.get_device_name(current)


def test_cuda_get_device_capability():
    current = cuda.current_device()
    assert (cuda.get_device_capability(None) == cuda.get_device_capability()
            == cuda.get_device_capability(current))


def test_cuda_get_device_properties():
    current = cuda.current_device()
    assert (cuda.get_device_properties(None) == cuda.get_device_properties()
            == cuda.get_device_properties(current))
    if cuda.device_count() > 1:
        assert cuda.get_device_properties(0) != cuda.get_device_properties(1)


def test_out_of_memory():
    with pytest.raises(RuntimeError, match=r"Tried to allocate 800000000\.00 GiB\. GPU 0 "
                                           r"has a total capacity of"):
        cuda.caching_allocator_alloc(858993459200000000)
    with pytest.raises(RuntimeError, match="Tried to allocate more than 1EB memory"):
        cuda.caching_allocator_alloc(8000000000 << 30)


def test_out_of_memory_retry(three_quarters):
    total = cuda.get_device_properties().total_memory
    size = int(total * 0.5)
    first = cuda.caching_allocator_alloc(size)
    with pytest.raises(RuntimeError, match="Tried to allocate"):
        cuda.caching_allocator_alloc(size)
    cuda.caching_allocator_delete(first)
    second = cuda.caching_allocator_alloc(size)
    cuda.caching_allocator_delete(second)


def test_set_per_process_memory_fraction():
    default = cuda.get_per_process_memory_fraction()
    try:
        with pytest.raises(TypeError, match="Invalid type"):
            cuda.set_per_process_memory_fraction(1)
        for wrong in (-0.1, 2.0):
            with pytest.raises(ValueError, match="Invalid fraction value"):
                cuda.set_per_process_memory_fraction(wrong)
        total = cuda.get_device_properties().total_memory
        cuda.set_per_process_memory_fraction(0.5)
        cuda.reset_peak_memory_stats()
        memory = cuda.caching_allocator_alloc(
            int(total * 0.499) - cuda.max_memory_reserved())
        cuda.caching_allocator_delete(memory)
        cuda.empty_cache()
        # floor(0.5 * total) bytes fit exactly where nothing is reserved.
        small = cuda.caching_allocator_alloc(1)
        with pytest.raises(RuntimeError, match="out of memory"):
            cuda.caching_allocator_alloc(int(total * 0.5))
        cuda.caching_allocator_delete(small)
    finally:
        cuda.set_per_process_memory_fraction(default)


def test_get_per_process_memory_fraction():
    default = cuda.get_per_process_memory_fraction()
    try:
        for value in (1.0, 0.0, 0.123456789, 0.987654321, 1 / 3):
            cuda.set_per_process_memory_fraction(value)
            assert cuda.get_per_process_memory_fraction() == value
    finally:
        cuda.set_per_process_memory_fraction(default)


def test_uuid():
    uuid = cuda.get_device_properties(0).uuid
    assert len(str(uuid)) == 36 and len(uuid.bytes) == 16
    assert uuid == cuda.get_device_properties(0).uuid


def test_specify_improper_device_name():
    with pytest.raises(RuntimeError, match="Invalid device string"):
        devrt.device("cuda0")


def test_get_device_index():
    with pytest.raises(RuntimeError, match="Invalid device string"):
        cuda.get_device_index("cuda0")
    with pytest.raises(ValueError, match=f"Expected a {BACKEND} device"):
        cuda.get_device_index("cpu")


def test_streams():
    default = cuda.current_stream()
    user = cuda.Stream()
    assert cuda.current_stream() == default == cuda.default_stream()
    assert default != user
    assert default.stream_id == 0 and user.native_handle != 0
    with cuda.stream(user):
        assert cuda.current_stream() == user
    assert user.query()
    default.synchronize()
    assert default.query()


def test_stream_event_repr():
    s, e = cuda.Stream(), cuda.Event()
    assert "Stream" in repr(s) and "Event" in repr(e)
    e.record(s)
    assert "Event" in repr(e)


def test_events():
    s = cuda.current_stream()
    e = cuda.Event(enable_timing=True)
    assert e.query()
    start = cuda.Event(enable_timing=True)
    s.record_event(start)
    spin(50, s)
    s.record_event(e)
    assert not e.query()
    e.synchronize()
    assert e.query() and start.elapsed_time(e) > 0
    fresh = cuda.Event(enable_timing=True)
    assert fresh.native_handle == 0 and fresh.event_id == 0
    fresh.record()
    assert fresh.native_handle != 0 and fresh.event_id != 0
    s.synchronize()


def test_events_elapsedtime():
    with pytest.raises(ValueError, match="enable_timing=True"):
        cuda.Event().elapsed_time(cuda.Event())
    with pytest.raises(ValueError, match="must be recorded"):
        cuda.Event(enable_timing=True).elapsed_time(cuda.Event(enable_timing=True))


def test_generic_stream_event():
    stream = devrt.Stream(BACKEND)
    assert stream.device_index == cuda.current_device()
    own = cuda.Stream(stream_id=stream.stream_id, device_index=stream.device_index,
                      device_type=stream.device_type)
    assert isinstance(own, devrt.Stream) and issubclass(type(own), devrt.Stream)
    assert own == stream and stream.stream_id != cuda.current_stream().stream_id
    first = devrt.Event(BACKEND, enable_timing=True)
    last = devrt.Event(BACKEND, enable_timing=True)
    assert first.event_id == 0
    with cuda.stream(own):
        first.record(stream)
        spin(1, stream)
        last.record(stream)
    stream.synchronize()
    assert first.query() and last.query()
    assert first.event_id != last.event_id and first.elapsed_time(last) > 0
    assert issubclass(cuda.Event, devrt.Event)


def test_stream_compatibility():
    accelerator = devrt.accelerator
    with cuda.stream(cuda.current_stream()):
        s = devrt.Stream(BACKEND)
        accelerator.set_stream(s)
        assert accelerator.current_stream().stream_id == s.stream_id
        with pytest.raises(RuntimeError, match="Device index value .* is out of index range"):
            accelerator.current_stream(accelerator.device_count())


def test_device_context_manager():
    before = devrt.accelerator.current_device_index()
    with devrt.accelerator.device_index(None):
        assert devrt.accelerator.current_device_index() == before
    with devrt.accelerator.device_index(0):
        assert devrt.accelerator.current_device_index() == 0
    assert devrt.accelerator.current_device_index() == before


def test_cuda_stream_protocol():
    """CUDA's own: on other backends streams have not got it."""
    stream = cuda.Stream()
    if BACKEND != "cuda":
        assert not hasattr(stream, "__cuda_stream__")
        pytest.skip("CUDA's own")
    assert stream.__cuda_stream__() == (0, stream.native_handle)
    external = cuda.ExternalStream(stream.native_handle)
    assert external.__cuda_stream__() == (0, stream.native_handle)


def test_multi_device_context_manager(two):
    assert cuda.current_device() == 0
    with cuda.device_index(1):
        assert cuda.current_device() == 1
    assert cuda.current_device() == 0


def test_stream_context_manager():
    before = cuda.current_stream()
    with devrt.Stream() as s:
        assert cuda.current_stream() == s
    assert cuda.current_stream() == before


def test_multi_device_stream_context_manager(two):
    zero, one = cuda.current_stream(0), cuda.current_stream(1)
    with devrt.Stream(1) as s:
        assert cuda.current_device() == 1
        assert cuda.current_stream(1) == s and cuda.current_stream(0) == zero
    assert cuda.current_device() == 0
    assert cuda.current_stream(0) == zero and cuda.current_stream(1) == one


def test_record_stream():
    """Without the arrays: what the marks do."""
    side, current = cuda.Stream(), cuda.current_stream()
    pointer = cuda.caching_allocator_alloc(16, stream=side)
    current.wait_stream(side)
    devrt.record_stream(pointer, current)
    spin(50, current)
    cuda.caching_allocator_delete(pointer)
    second = cuda.caching_allocator_alloc(16, stream=side)
    assert second != pointer
    current.synchronize()
    third = cuda.caching_allocator_alloc(16, stream=side)
    assert third == pointer
    cuda.caching_allocator_delete(second)
    cuda.caching_allocator_delete(third)
