# SPDX-License-Identifier: Apache-2.0
"""The CUDA Array Interface of devrt's arrays (E47, E13-E15), on CUDA or the library
that stands for its driver."""

import gc
import weakref

import numpy as np
import pytest

import devrt
from devrt.testing import Flag
from cai_exporter import CUDA, Exporter, array
from conftest_arrays import NUMPY_DTYPES

pytestmark = pytest.mark.skipif(not CUDA, reason="no CUDA device")
SPIN = 50_000_000  # ns


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_export_of_all_dtypes(dtype):
    x = array(np.ones((2, 3)), dtype)
    assert x.__cuda_array_interface__ == {
        "shape": (2, 3), "typestr": np.dtype(dtype).str, "strides": None,
        "data": (x.ptr, False), "version": 3, "stream": None}


def test_each_reader_has_a_dict_of_its_own():
    for version in (2, 3):
        x, y = array([[1.0, 2.0]]), array(np.arange(6).reshape(2, 3))[:, ::2]
        x.cai_export_version = y.cai_export_version = version
        before = x.__cuda_array_interface__, y.__cuda_array_interface__
        assert (before[0]["strides"], before[1]["strides"]) == (None, (12, 8))
        for key in x.__cuda_array_interface__:
            read = x.__cuda_array_interface__
            read[key] = "changed"
        read.clear()
        assert (x.__cuda_array_interface__, y.__cuda_array_interface__) == before


# E13
def test_arrays_that_offer_the_interface():
    x = array(np.arange(6).reshape(2, 3))
    assert x.T.__cuda_array_interface__["strides"] == (4, 12)
    assert x[:, ::2].__cuda_array_interface__["strides"] == (12, 8)
    assert x.as_read_only().__cuda_array_interface__["data"] == (x.ptr, True)
    for other in (x[::-1], array([1], "int8").astype("bfloat16"),
                  devrt.ones(3, device="cpu"), devrt.ones(3, "float8_e5m2",
                                                          device="cuda:0"),
                  devrt.ones(3, device="cuda:0", pinned=True)):
        assert not hasattr(other, "__cuda_array_interface__")
        with pytest.raises(AttributeError):
            other.__cuda_array_interface__
    pinned = devrt.ones(3, device="cuda:0", pinned=True)
    pinned.ready()
    mapped = pinned.as_mapped()
    assert mapped.__cuda_array_interface__["data"] == (pinned.ptr, False)
    with pytest.raises(ValueError):
        x.as_mapped()


# 2.4: torch ends the process on one.
def test_negative_strides_do_not_leave():
    x = array(np.arange(12).reshape(3, 4))
    mapped = devrt.ones((3, 4), device="cuda:0", pinned=True).as_mapped()
    mapped.ready()
    for whole in (x, mapped):
        assert hasattr(whole, "__cuda_array_interface__")
        for view in (whole[::-1], whole[:, ::-1], whole[::-1, ::-1], whole[::-1].T,
                     whole[2:0:-1], whole[1, ::-2]):
            with pytest.raises(AttributeError, match="negative"):
                view.__cuda_array_interface__
            assert hasattr(view.contiguous(), "__cuda_array_interface__") == (
                whole is x)


# E13
def test_views_of_mapped_memory_are_mapped():
    pinned = devrt.ones((4, 6), "float32", device="cuda:0", pinned=True)
    pinned.ready()
    mapped = pinned.as_mapped()
    views = (mapped.T, mapped[1:, ::2], mapped[2], mapped[..., None],
             mapped.reshape(6, 4), mapped.transpose(1, 0), mapped.permute(1, 0),
             mapped[:1].squeeze(), mapped[:1].squeeze(0), mapped.expand_dims(0),
             mapped[0].broadcast_to(2, 6), mapped.view("int32"),
             mapped.as_read_only(), next(iter(mapped)), mapped[1:].T[::2])
    for view in views:
        interface = view.__cuda_array_interface__
        assert interface["data"] == (view.ptr, view.read_only)
        assert interface["shape"] == view.shape
    # Other memory, and what is over it without as_mapped().
    for other in (mapped.copy(), mapped.reshape(24, copy=True), pinned.T,
                  mapped[::-1]):
        assert not hasattr(other, "__cuda_array_interface__")


# E14
def test_export_counts_as_a_use_of_the_current_stream():
    """By whose work its memory is nobody else's yet."""
    home, current = devrt.Stream("cuda:0"), devrt.Stream("cuda:0")
    gate = Flag("cuda:0")
    with home:
        x = devrt.empty(512, "uint8", device="cuda:0")
    x.ready()
    with current:
        pointer = x.__cuda_array_interface__["data"][0]
    gate.wait_on(current)
    del x
    home.synchronize()
    with home:
        early = devrt.empty(512, "uint8", device="cuda:0")
        gate.set()
        current.synchronize()
        late = devrt.empty(512, "uint8", device="cuda:0")
    assert early.ptr != pointer == late.ptr


# E35
def test_a_dict_keeps_nothing():
    x = array(range(1000))
    before = devrt.memory_allocated("cuda:0")
    interface = x.__cuda_array_interface__
    del x
    assert interface["data"][0] and devrt.memory_allocated("cuda:0") < before


def test_no_elements_have_no_address():
    for shape in ((0,), (0, 3)):
        x = devrt.empty(shape, "float32", device="cuda:0")
        assert x.__cuda_array_interface__["data"] == (0, False)
        y = devrt.asarray(Exporter(x))
        assert y.shape == shape


def test_what_means_nothing_may_be_anything():
    x = array([1, 2, 3], "int8")
    assert x[:1][::-1].__cuda_array_interface__["shape"] == (1,)
    assert devrt.asarray(Exporter(x, typestr=">i1")).tolist() == [1, 2, 3]
    one = array([[1.0, 2.0]])
    assert devrt.asarray(Exporter(one, strides=(3, 4))).tolist() == [[1.0, 2.0]]
    none = array(np.ones((0, 3)))
    assert devrt.asarray(Exporter(none, strides=(5, 2**62))).shape == (0, 3)


def test_version_per_array_and_thread():
    x = array([1.0])
    five = {"shape", "strides", "typestr", "data", "version"}
    x.cai_export_version = 2
    assert x.cai_export_version == 2
    assert set(x.__cuda_array_interface__) == five
    assert x.__cuda_array_interface__["version"] == 2
    x.cai_export_version = None
    assert set(x.__cuda_array_interface__) == five | {"stream"}
    former = devrt.interop.set_cai_export_version(2)
    assert former is None
    try:
        assert set(x.__cuda_array_interface__) == five
        x.cai_export_version = 3
        assert x.__cuda_array_interface__["version"] == 3
    finally:
        assert devrt.interop.set_cai_export_version(None) == 2
    for value, error in [(1, ValueError), (4, ValueError), ("2", TypeError),
                         (True, TypeError), (2.0, TypeError)]:
        with pytest.raises(error):
            x.cai_export_version = value
        with pytest.raises(error):
            devrt.interop.set_cai_export_version(value)


# E14
def test_pending_work_exports_the_current_stream():
    x = array(np.ones(4))
    stream = devrt.Stream("cuda:0")
    handle = stream.native_handle
    with stream:
        devrt._core._spin(SPIN, stream)  # so that it is pending
        x += 1
        exported = x.__cuda_array_interface__["stream"]
        assert exported == handle
    # The array keeps what it has named: the handle becomes no other stream's.
    alive = weakref.ref(stream)
    del stream
    gc.collect()
    assert alive() is not None
    other = array(np.ones(4))
    with alive():
        devrt._core._spin(SPIN, alive())
        other += 1
        assert other.__cuda_array_interface__["stream"] == handle
    del x
    assert alive() is not None
    del other
    assert alive() is None
    x = array(np.ones(4))
    x.ready()
    assert x.__cuda_array_interface__["stream"] is None
    x += 1
    assert x.__cuda_array_interface__["stream"] in (None, 1)
