# SPDX-License-Identifier: Apache-2.0
"""Of PyTorch's test_cuda: the behaviour in scope that needs arrays.

Each test has the name that it has there, without the prefix; docs/reference/semantics.md
3.2 says what is required.  They run on DEVRT_TEST_BACKEND, mtia without it.
"""

import gc
import threading

import pytest

np = pytest.importorskip("numpy")

import devrt
from devrt.testing import spin

from backend import ZERO, cuda


@pytest.fixture(autouse=True)
def empty():
    gc.collect()
    for index in range(cuda.device_count()):
        cuda.synchronize(index)
    cuda.empty_cache()
    yield
    gc.collect()


def test_copy_non_blocking(zero):
    for pinned_first in (True, False):
        a = devrt.ones(10_000_000, "uint8", device="cpu" if pinned_first else zero)
        if pinned_first:
            a = a.pin()
        b = devrt.empty(10_000_000, "uint8",
                        **({} if pinned_first else dict(pinned=True)))
        b.copy_(a, non_blocking=True)
        event = devrt.current_stream().record()
        event.synchronize()
        assert devrt.array_equal(a, b)
    view = b[1:]
    assert view.is_pinned()
    assert view.ptr != b.ptr and view.storage_ptr == b.storage_ptr


def test_copy_non_blocking_type_conversion(zero):
    a = devrt.ones(1, "float32", device=zero)
    b = devrt.zeros(1, "float32", device="cpu", pinned=True)
    c = devrt.empty(1, "int64", device=zero)
    spin(100)
    b.copy_(a, non_blocking=True)
    c.copy_(b, non_blocking=True)
    assert devrt.array_equal(a.astype("int64"), c)


@pytest.mark.parametrize("non_blocking", [False, True])
@pytest.mark.parametrize("to_host", [False, True])
def test_to_non_blocking(zero, to_host, non_blocking):
    stream = devrt.current_stream(zero)
    a = devrt.full(10**6, 3.0, "float32", device=zero if to_host else "cpu")
    if not to_host and non_blocking:
        a = a.pin()
    stream.synchronize()
    spin(100, stream)
    b = a.to("cpu" if to_host else zero, non_blocking=non_blocking)
    assert stream.query() == (not non_blocking)
    stream.synchronize()
    assert b.is_pinned() == (non_blocking and to_host)
    assert devrt.array_equal(a, b)


def test_to_cpu_blocking_by_default(zero):
    stream = devrt.current_stream(zero)
    a = devrt.full(10**6, 3.0, "float32", device=zero)
    stream.synchronize()
    spin(100, stream)
    b = a.to("cpu")
    assert stream.query()
    assert not b.is_pinned()
    assert devrt.array_equal(a, b)


def test_type_conversions(zero):
    x = devrt.array([1.5, -2.5, 300.0], "float32", device="cpu")
    for first in ("float64", "float32", "int32"):
        there = x.astype(first).to(zero)
        assert there.dtype == first
        back = there.to("cpu").astype("float32")
        expected = x.numpy().astype(first).astype("float32")
        np.testing.assert_array_equal(back.numpy(), expected)


def test_record_stream(zero):
    side, current = devrt.Stream(zero), devrt.current_stream(zero)
    pinned = devrt.array([1, 2, 3, 4], "float32", device="cpu").pin()
    result = devrt.empty(4, "float32", device=zero)
    with side:
        block = devrt.empty(4, "float32")
        block.copy_(pinned, non_blocking=True)
        pointer = block.ptr
    current.wait(side)
    block.record_stream(current)
    spin(50, current)
    result.copy_(block, non_blocking=True)
    del block
    with side:
        other = devrt.empty(4, "float32")
        assert other.ptr != pointer
    assert result.tolist() == [1, 2, 3, 4]
    current.synchronize()
    with side:
        assert devrt.empty(4, "float32").ptr == pointer


def test_noncontiguous_pinned_memory():
    x = devrt.arange(10, device="cpu").reshape(5, 2).T
    y = x.pin()
    assert y.is_pinned() and devrt.array_equal(x, y)


def test_caching_pinned_memory(zero):
    t = devrt.ones(1, "float32", device="cpu", pinned=True)
    pointer = t.ptr
    del t
    t = devrt.ones(1, "float32", device="cpu", pinned=True)
    assert t.ptr == pointer
    on_device = devrt.zeros(1, "float32", device=zero)
    spin(1000)
    on_device.copy_(t, non_blocking=True)
    del t
    t = devrt.full(1, 0.0, "float32", device="cpu", pinned=True)
    assert t.ptr != pointer
    assert on_device.item() == 1


def test_out_of_memory():
    older = devrt.zeros(1024, "float32")
    with pytest.raises(RuntimeError, match=(
            r"Tried to allocate 800000000\.00 GiB\. "
            r"GPU 0 has a total capacity of")):
        devrt.empty(800000000 * 2**30, "int8")
    with pytest.raises(RuntimeError,
                       match="Tried to allocate more than 1EB memory"):
        devrt.empty(8000000000 * 2**30, "int8")
    older.fill(1)
    assert devrt.array_equal(older, devrt.ones(1024, "float32"))


def test_out_of_memory_retry(three_quarters):
    total = devrt.device(ZERO).memory_info()[1]
    size = int(total * 0.5)
    first = devrt.empty(size, "int8", device=ZERO)
    with pytest.raises(RuntimeError, match="Tried to allocate"):
        devrt.empty(size, "int8", device=ZERO)
    del first
    assert devrt.empty(size, "int8", device=ZERO).size == size


def test_set_per_process_memory_fraction(zero):
    """With arrays: an older one is whole after the refusal."""
    older = devrt.zeros(1024, "float32", device=zero)
    total = cuda.get_device_properties().total_memory
    default = cuda.get_per_process_memory_fraction()
    cuda.set_per_process_memory_fraction(0.5)
    try:
        with pytest.raises(RuntimeError, match="out of memory"):
            devrt.empty(int(total * 0.5), "int8", device=zero)
    finally:
        cuda.set_per_process_memory_fraction(default)
    older.fill(1)
    assert older.tolist() == [1] * 1024


def register_and_pin():
    devrt.set_allocator_settings(
        "pinned_use_cuda_host_register:True,pinned_num_register_threads:8")
    assert not devrt.ones(20, "float32", device="cpu").is_pinned()
    for size in (2**21, 2**24):
        pinned = devrt.ones(size, "float32", device="cpu").pin(ZERO)
        assert pinned.is_pinned()


def test_pinned_memory_with_cudaregister():
    try:
        register_and_pin()
    finally:
        devrt.set_allocator_settings("pinned_use_cuda_host_register:False")


def test_pinned_memory_with_cudaregister_multithread():
    errors = []

    def run():
        try:
            register_and_pin()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    devrt.set_allocator_settings("pinned_use_cuda_host_register:False")
    assert not errors


def test_cudart_register():
    x = devrt.ones(20, "float32", device="cpu")
    assert not x.is_pinned()
    devrt.register_host(x.ptr, 80, ZERO)
    assert x.is_pinned() and x[3:].is_pinned()
    devrt.unregister_host(x.ptr, ZERO)
    assert not x.is_pinned()


def test_memory_stats():
    before = devrt.memory_allocated(ZERO)
    x = devrt.empty(256, "float32", device=ZERO)
    assert devrt.memory_allocated(ZERO) == before + 1024
    del x
    assert devrt.memory_allocated(ZERO) == before


def test_generic_stream_event():
    a, b = devrt.ones(1000, "float32"), devrt.ones(1000, "float32")
    with devrt.Stream(ZERO) as stream:
        c = a + b
        event = stream.record()
    event.synchronize()
    assert stream.query() and event.query()
    assert devrt.array_equal(c, np.full(1000, 2, "float32"))


def test_record_stream_on_shifted_view(zero):
    allocating, using = devrt.Stream(zero), devrt.Stream(zero)
    with allocating:
        base = devrt.empty(10, "float32")
        pointer = base.ptr
    view = base[5:]
    assert view.storage_ptr == pointer != view.ptr
    spin(50, using)
    view.record_stream(using)
    del base, view
    allocating.synchronize()
    assert not using.query()
    with allocating:
        assert devrt.empty(10, "float32").ptr != pointer
    using.synchronize()
