# SPDX-License-Identifier: Apache-2.0
"""CuPy's guide to interoperability: each section, without a GPU.

docs/reference/semantics.md 3.6 says what is required.  CUDA Array Interface runs on the
library that stands for CUDA's driver, if there is one; the rest on
DEVRT_TEST_BACKEND, mtia without it, and host memory.
"""

import gc
import weakref

import pytest

np = pytest.importorskip("numpy")

import devrt

from backend import BACKEND, ZERO

LAST = devrt.devices(BACKEND)[-1]


def test_numpy_ufuncs_and_functions():
    arr = devrt.arange(6, dtype="float32").reshape(2, 3)
    total = np.sum(arr)
    assert isinstance(total, devrt.Array)
    assert (total.device, total.shape, total.item()) == (arr.device, (), 15)
    both = np.add(arr, arr)
    assert isinstance(both, devrt.Array)
    np.testing.assert_array_equal(both.numpy(), 2 * arr.numpy())
    for call in (lambda: np.sin(arr), lambda: np.add(arr, np.ones(3)),
                 lambda: np.linalg.inv(arr)):
        with pytest.raises(TypeError):
            call()


def test_dlpack_both_ways_without_a_copy():
    theirs = np.arange(6, dtype="float32")
    mine = devrt.from_dlpack(theirs)
    assert mine.ptr == theirs.ctypes.data
    mine[0] = 42
    assert theirs[0] == 42
    back = np.from_dlpack(mine)
    assert back.ctypes.data == theirs.ctypes.data
    pair = devrt.ones(3, device=LAST).__dlpack_device__()
    assert pair == ({"mtia": 12, "cuda": 2, "hip": 10}[BACKEND], LAST.index)


def test_dlpack_capsules_are_consumed_once():
    x = devrt.arange(4, device=ZERO)
    for options in ({}, {"max_version": (1, 3)}):
        capsule = x.__dlpack__(**options)
        y = devrt.from_dlpack(capsule)
        assert y.ptr == x.ptr
        with pytest.raises(ValueError):
            devrt.from_dlpack(capsule)


def test_memory_stays_when_the_exporter_is_gone():
    x = devrt.arange(4, device=ZERO)
    pointer, capsule = x.ptr, x.__dlpack__()
    del x
    gc.collect()
    y = devrt.from_dlpack(capsule)
    assert y.ptr == pointer and y.tolist() == [0, 1, 2, 3]


def test_device_memory_pointers():
    memory = devrt.arange(8, dtype="int32", device=LAST)

    class Owner:
        kept = memory

    owner = Owner()
    gone = weakref.ref(owner)
    x = devrt.from_pointer(memory.ptr, 8, "int32", owner=owner)
    del owner
    assert gone() is not None
    assert (x.ptr, x.nbytes, x.device) == (memory.ptr, 32, memory.device)
    with pytest.raises(ValueError):
        devrt.from_pointer(memory.ptr, 2**50, "int32")


def test_stream_pointers(two):
    own = devrt.Stream(two[1])
    theirs = devrt.Stream.from_external(own.native_handle, device=two[1])
    assert theirs.native_handle == own.native_handle
    assert theirs.device is two[1]
    with pytest.raises(ValueError):
        devrt.Stream.from_external(own.native_handle, device=two[0])


def test_mpi_waits_by_synchronize():
    from devrt.testing import spin

    x = devrt.zeros(4, device=ZERO)
    spin(10)
    x += 1
    assert not x.is_ready()
    x.synchronize()
    assert x.is_ready()


def test_shared_pool_counts_as_the_guide_says():
    before = devrt.memory_allocated(ZERO)
    x = devrt.zeros(10, "int64", device=ZERO)
    assert devrt.memory_allocated(ZERO) - before == 512
    del x
    assert devrt.memory_allocated(ZERO) == before
