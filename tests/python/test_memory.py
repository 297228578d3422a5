# SPDX-License-Identifier: Apache-2.0
"""Memory without arrays: addresses, statistics, settings, snapshots."""

import ctypes
import gc

import pytest

import devrt
from devrt.testing import Flag


@pytest.fixture(autouse=True)
def fresh(two):
    gc.collect()
    for device in two:
        devrt.synchronize(device)
        devrt.empty_cache(device)
        devrt.reset_peak_memory_stats(device)
        devrt.reset_accumulated_memory_stats(device)
    yield


def test_sizes_and_statistics(two):
    before = devrt.memory_allocated()
    pointer = devrt.caching_allocator_alloc(1)
    assert devrt.memory_allocated() == before + 512
    stats = devrt.memory_stats()
    assert len(stats) == 122
    assert stats["requested_bytes.all.current"] >= 1
    assert stats["reserved_bytes.small_pool.current"] == 2 << 20
    devrt.caching_allocator_delete(pointer)
    assert devrt.memory_allocated() == before
    assert devrt.memory_reserved() == 2 << 20
    assert devrt.max_memory_allocated() == before + 512
    devrt.empty_cache()
    assert devrt.memory_reserved() == 0
    assert devrt.max_memory_reserved() == 2 << 20
    devrt.reset_peak_memory_stats()
    assert devrt.max_memory_reserved() == 0


@pytest.mark.parametrize("ask", [
    lambda: devrt.memory_allocated("mtia:1"),
    lambda: devrt.memory_stats("mtia:1")["allocated_bytes.all.current"],
    lambda: devrt.memory_snapshot("mtia:1")["statistics"][
        "allocated_bytes.all.current"],
    lambda: devrt.mtia.memory_allocated(1),
    lambda: devrt.reset_peak_memory_stats("mtia:1") or
    devrt.max_memory_allocated("mtia:1"),
    lambda: devrt.reset_accumulated_memory_stats("mtia:1") or
    devrt.memory_stats("mtia:1")["allocated_bytes.all.allocated"],
])
def test_what_other_libraries_gave_back_is_counted_as_free(ask):
    """Their deleters only leave a note, since they may run anywhere."""
    x = devrt.zeros(1000, device="mtia:1")
    capsule = x.__dlpack__(max_version=(1, 0))
    del x
    assert devrt.memory_allocated("mtia:1") > 0
    del capsule
    assert ask() == 0


@pytest.mark.parametrize("ask", [
    lambda: devrt.host_memory_stats()["active_bytes.current"],
    lambda: devrt.reset_peak_host_memory_stats() or
    devrt.host_memory_stats()["active_bytes.peak"],
])
def test_pinned_memory_that_others_gave_back_is_counted_as_free(ask):
    x = devrt.zeros(1000, device="mtia:1", pinned=True)
    capsule = x.__dlpack__(max_version=(1, 0))
    del x
    assert devrt.host_memory_stats()["active_bytes.current"] > 0
    del capsule
    assert ask() == 0


def test_memory_is_of_the_streams_device(two):
    pointer = devrt.caching_allocator_alloc(100, devrt.default_stream(two[1]))
    info = devrt.pointer_info(pointer + 7)
    assert (info["kind"], info["device"], info["host_readable"]) == (
        "device", two[1], False)
    assert devrt.memory_allocated(two[1]) == 512 and devrt.memory_allocated(two[0]) == 0
    devrt.caching_allocator_delete(pointer)


def test_zero_bytes():
    assert devrt.caching_allocator_alloc(0) == 0
    devrt.caching_allocator_delete(0)
    assert devrt.pinned_alloc(0) == 0
    devrt.pinned_delete(0)


@pytest.mark.parametrize("size", [-1, -(2**70)])
def test_negative_sizes(size):
    for function in (devrt.caching_allocator_alloc, devrt.pinned_alloc):
        with pytest.raises(ValueError, match="0 or more bytes"):
            function(size)


@pytest.mark.parametrize("pointer", [1, 4096, 2**64 - 1])
def test_wrong_addresses(pointer):
    for function in (devrt.caching_allocator_delete, devrt.pinned_delete):
        with pytest.raises(devrt.InvalidArgumentError):
            function(pointer)
    with pytest.raises(ValueError):
        devrt.caching_allocator_delete(-1)
    with pytest.raises(ValueError):
        devrt.caching_allocator_delete(2**64)


def test_freed_twice():
    pointer = devrt.caching_allocator_alloc(100)
    devrt.caching_allocator_delete(pointer)
    with pytest.raises(devrt.InvalidArgumentError):
        devrt.caching_allocator_delete(pointer)


# F14, F15
def test_a_mark_holds_a_block_back(two):
    own, other, gate = devrt.Stream(), devrt.Stream(), Flag()
    pointer = devrt.caching_allocator_alloc(4096, own)
    other.wait(own)
    gate.wait_on(other)
    devrt.record_stream(pointer, other)
    devrt.caching_allocator_delete(pointer)
    for idle in (own, devrt.default_stream()):
        idle.synchronize()
    second = devrt.caching_allocator_alloc(4096, own)
    assert second != pointer
    gate.set()
    other.synchronize()
    third = devrt.caching_allocator_alloc(4096, own)
    assert third == pointer
    for p in (second, third):
        devrt.caching_allocator_delete(p)


def test_memory_fraction_limits_the_process(two):
    default = devrt.get_per_process_memory_fraction()
    try:
        for fraction in (0.0, 1.0, 0.1234567890123, 0.5):
            devrt.set_per_process_memory_fraction(fraction)
            assert devrt.get_per_process_memory_fraction() == fraction
        total = devrt.get_device_properties().total_memory
        with pytest.raises(devrt.OutOfMemoryError, match="out of memory"):
            devrt.caching_allocator_alloc(int(0.51 * total))
        for wrong in (-0.1, 2.0, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="Invalid fraction value"):
                devrt.set_per_process_memory_fraction(wrong)
        for wrong in (1, True, "0.5", None):
            with pytest.raises(TypeError, match="Invalid type"):
                devrt.set_per_process_memory_fraction(wrong)
    finally:
        devrt.set_per_process_memory_fraction(default)


def test_pinned_memory_is_cached_and_counted(two):
    devrt.synchronize(two[0])
    devrt.empty_host_cache("mtia")  # of tests before
    before = devrt.host_memory_stats("mtia")
    assert len(before) == 28
    pointer = devrt.pinned_alloc(40960, two[1])
    after = devrt.host_memory_stats("mtia")
    assert after["active_bytes.current"] - before["active_bytes.current"] == 65536
    assert devrt.is_pinned(pointer) and devrt.is_pinned(pointer + 100)
    info = devrt.pointer_info(pointer)
    assert info["kind"] == "pinned" and info["host_readable"]
    ctypes.memset(pointer, 7, 40960)
    devrt.pinned_delete(pointer)
    assert devrt.pinned_alloc(40960) == pointer  # reused
    devrt.pinned_delete(pointer)
    devrt.empty_host_cache("mtia")
    assert not devrt.is_pinned(pointer)


def test_host_registration(two):
    buffer = ctypes.create_string_buffer(1 << 16)
    address = ctypes.addressof(buffer)
    assert not devrt.is_pinned(address)
    devrt.register_host(address, len(buffer), two[0])
    assert devrt.is_pinned(address + 5)
    with pytest.raises(devrt.Error) as info:
        devrt.register_host(address, 80, two[0])
    assert info.value.code == "ALREADY_EXISTS"
    devrt.unregister_host(address, two[0])
    assert not devrt.is_pinned(address)
    with pytest.raises(devrt.Error) as info:
        devrt.unregister_host(address, two[0])
    assert info.value.code == "NOT_FOUND"


def test_allocator_settings_are_set_and_read():
    text = devrt.allocator_settings()
    try:
        devrt.set_allocator_settings("pinned_use_cuda_host_register:True")
        assert "pinned_use_cuda_host_register:True" in devrt.allocator_settings()
        with pytest.raises(ValueError, match="no_such_key"):
            devrt.set_allocator_settings("no_such_key:1")
        with pytest.raises(TypeError):
            devrt.set_allocator_settings(3)
    finally:
        devrt.set_allocator_settings("pinned_use_cuda_host_register:False")
    assert devrt.allocator_settings() == text


def test_snapshot_and_report(two):
    assert ": record_memory_history begins" in devrt.memory_report(two[1])
    devrt.record_memory_history(device=two[0])
    pointer = devrt.caching_allocator_alloc(1000)
    snapshot = devrt.memory_snapshot()
    assert snapshot["schema"] == "devrt.memory/1"
    assert "mtia:0" in devrt.memory_report()
    assert snapshot["segments"]
    devrt.caching_allocator_delete(pointer)
    assert len(devrt.memory_snapshot()["events"]) >= 2
    devrt.record_memory_history(False, device=two[0])
    devrt.caching_allocator_delete(devrt.caching_allocator_alloc(1000))
    assert devrt.memory_snapshot()["events"] == []
    with pytest.raises(ValueError):
        devrt.record_memory_history(events=0)


# Memory of arrays is theirs, whatever address a program passes.
def test_arrays_keep_their_memory():
    x = devrt.ones(100, device="mtia:0")
    h = devrt.ones(100, pinned=True)
    for free, pointer in (
        (devrt.caching_allocator_delete, x.ptr),
        (devrt.mtia.caching_allocator_delete, x.ptr),
        (devrt.interop.caching_allocator_delete, x.ptr),
        (devrt.pinned_delete, h.ptr),
    ):
        with pytest.raises(devrt.InvalidArgumentError, match="did not give"):
            free(pointer)
    assert (x.numpy() == 1).all() and (h.numpy() == 1).all()
    pointer = devrt.caching_allocator_alloc(100)
    devrt.interop.caching_allocator_delete(pointer)
    with pytest.raises(devrt.InvalidArgumentError, match="given back before"):
        devrt.caching_allocator_delete(pointer)
