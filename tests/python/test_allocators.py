# SPDX-License-Identifier: Apache-2.0
"""devrt.interop's allocators in their hosts' shapes: E20."""

import gc
import pathlib
import sys
import types
import weakref

import pytest

import devrt
from devrt import interop

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import stubs  # noqa: E402


# ---- Allocators (E20, E21) ---------------------------------------------------


def allocated():
    devrt.synchronize("mtia:0")
    devrt.zeros((1,), "float32", device="mtia:0")
    return devrt.memory_allocated("mtia:0")


def test_a_block():
    before = allocated()
    block = interop.Block(4096, "mtia:0")
    assert block.ptr and block.size == 4096 and block.device == "mtia:0"
    assert devrt.memory_allocated("mtia:0") == before + 4096
    del block
    assert allocated() == before


def test_no_bytes():
    assert interop.Block(0, "mtia:0").ptr == 0


def test_no_room():
    with pytest.raises(devrt.OutOfMemoryError) as caught:
        interop.Block(1 << 50, "mtia:0")
    assert isinstance(caught.value, MemoryError)


def test_bad_blocks():
    for size in (-1, "1", 1.5, None):
        with pytest.raises((TypeError, ValueError)):
            interop.Block(size, "mtia:0")
    with pytest.raises(TypeError):
        interop.Block(16, "mtia:0", object())


def test_the_device_is_that_of_the_stream(two):
    s = devrt.Stream("mtia:1")
    alloc, _ = interop.rmm_callbacks("mtia:0")
    for call in (
        lambda: interop.Block(10, "mtia:0", s),
        lambda: interop.caching_allocator_alloc(10, "mtia:0", s),
        lambda: alloc(10, s),
        lambda: devrt.mtia.caching_allocator_alloc(10, 0, s),
    ):
        with pytest.raises(ValueError, match="mtia:0 .*stream of mtia:1"):
            call()
    assert interop.Block(10, "mtia:1", s).device == "mtia:1"


def test_errors_are_those_of_the_calls(run_program):
    done = run_program(
        """
        import devrt
        from devrt import interop
        from devrt.testing import commit_fault
        commit_fault("trap", devrt.default_stream("mtia:1"))
        try:
            devrt.synchronize("mtia:1")
        except devrt.Error:
            pass
        try:
            interop.Block(10, "mtia:1")
        except devrt.DeviceFaultError as error:
            print(error.sticky, error.device)
        """
    )
    assert done.stdout == "True mtia:1\n", done.stderr


def test_streams_of_all_shapes():
    s = devrt.Stream("mtia:0")
    before = allocated()
    handle = s.native_handle
    for stream in (
        None,
        handle,
        s,
        stubs.ExternalStreamStub((0, handle)),
        stubs.RmmStream(handle),
        stubs.CupyStream(handle),
        types.SimpleNamespace(cuda_stream=handle),
    ):
        block = interop.Block(512, "mtia:0", stream)
        assert block.ptr
        del block
    interop.stream_ends(handle, "mtia:0")
    assert allocated() == before
    for answer in ((1, handle), (0,), [0, handle], 5, (0, "1"), (0, True),
                   (False, handle)):
        with pytest.raises(TypeError):
            interop.Block(512, "mtia:0", stubs.ExternalStreamStub(answer))
    # No stream, though it has an address.
    for other in (devrt.ones(3, device="mtia:0"), types.SimpleNamespace(ptr=handle),
                  stubs.CupyEvent(handle)):
        with pytest.raises(TypeError, match="must be a stream"):
            interop.Block(512, "mtia:0", other)


def test_the_names_of_torch():
    """As pytorch-pfn-extras calls them, with a raw handle."""
    s = devrt.Stream("mtia:0")
    before = allocated()
    pointer = interop.caching_allocator_alloc(1000, "mtia:0", s.native_handle)
    assert devrt.memory_allocated("mtia:0") == before + 1024
    interop.caching_allocator_delete(pointer)
    interop.stream_ends(s.native_handle, "mtia:0")
    assert allocated() == before
    with pytest.raises(ValueError):
        interop.caching_allocator_delete(pointer)


def test_kept_streams():
    """devrt keeps the object of an adopted stream until stream_ends() names its
    handle."""
    s = devrt.Stream("mtia:0")
    theirs = stubs.ExternalStreamStub((0, s.native_handle))
    alive = weakref.ref(theirs)
    block = interop.Block(512, "mtia:0", theirs)
    del block, theirs
    gc.collect()
    assert alive() is not None
    interop.stream_ends(s.native_handle, "mtia:0")
    assert alive() is None


@pytest.mark.parametrize("size, error", [
    (1 << 60, devrt.OutOfMemoryError), (-1, ValueError), (None, TypeError)])
def test_a_failed_allocation_keeps_no_stream(size, error):
    s = devrt.Stream("mtia:0")
    theirs = stubs.ExternalStreamStub((0, s.native_handle))
    alive = weakref.ref(theirs)
    with pytest.raises(error) as caught:
        interop.caching_allocator_alloc(size, "mtia:0", theirs)
    assert "_alloc_native" not in str(caught.value)
    del theirs, caught
    gc.collect()
    assert alive() is None
    interop.stream_ends(s.native_handle, "mtia:0")


@pytest.mark.parametrize("pointer", [None, 1.5, "1", -1])
def test_what_is_no_pointer(pointer):
    with pytest.raises((TypeError, ValueError), match="pointer") as caught:
        interop.caching_allocator_delete(pointer)
    assert "_free_native" not in str(caught.value)


def test_a_block_keeps_its_stream():
    s = devrt.Stream("mtia:0")
    alive = weakref.ref(s)
    block = interop.Block(512, "mtia:0", s)
    del s
    gc.collect()
    assert alive() is not None
    del block
    assert alive() is None


def test_memory_without_a_stream_is_for_the_current_stream():
    """Which has it again when it was given back, and no other has."""
    with devrt.Stream("mtia:0"):
        pointer = interop.caching_allocator_alloc(700, "mtia:0")
        interop.caching_allocator_delete(pointer)
        with devrt.default_stream("mtia:0"):
            other = interop.caching_allocator_alloc(700, "mtia:0")
        again = interop.caching_allocator_alloc(700, "mtia:0")
        assert other != pointer == again
        for each in (other, again):
            interop.caching_allocator_delete(each)
