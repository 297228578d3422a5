# SPDX-License-Identifier: Apache-2.0
"""Buffer protocol, array interface, and what NumPy dispatches (E62, E63)."""

import gc
import io
import zlib

import numpy as np
import pytest

import devrt
from conftest_arrays import NUMPY_DTYPES, same
from devrt.testing import spin

FORMATS = dict(bool="?", int8="b", int16="h", int32="i", int64="l", uint8="B",
               uint16="H", uint32="I", uint64="L", float16="e", float32="f",
               float64="d", complex64="Zf", complex128="Zd")


@pytest.fixture(params=[False, True], ids=["cpu", "pinned"])
def on_host(request):
    return dict(device="mtia:0", pinned=True) if request.param else dict(
        device="cpu")


# E62
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_memoryview_shares_the_memory(on_host, host, dtype):
    a = host((2, 3), dtype)
    x = devrt.array(a, **on_host)
    m = memoryview(x)
    assert (m.format, m.itemsize, m.shape, m.strides, m.readonly) == (
        FORMATS[dtype], a.itemsize, a.shape, a.strides, False)
    assert m.tobytes() == a.tobytes()
    shared = np.asarray(x)
    assert shared.dtype == a.dtype
    assert shared.ctypes.data == x.ptr
    shared[0, 0] = 1
    assert x[0, 0].item() == 1
    assert np.asarray(x.T).strides == x.T.strides


def test_a_view_keeps_the_memory(on_host):
    x = devrt.full(1000, 7, "int32", **on_host)
    m = memoryview(x)
    a = x.numpy()
    del x
    gc.collect()
    other = devrt.full(1000, 1, "int32", **on_host)
    assert m[999] == 7 and a.sum() == 7000
    m.release()
    del a, other


# docs/concepts/exchange.md, Strides: consumers of these protocols take them.
def test_negative_strides_leave_without_a_copy(on_host, host):
    a = host((3, 4))
    x = devrt.array(a, **on_host)
    for key in (np.s_[::-1], np.s_[:, ::-1], np.s_[::-1, ::-2], np.s_[1, ::-1]):
        view = x[key]
        for made in (np.asarray(view), view.numpy(), np.asarray(memoryview(view))):
            assert made.ctypes.data == view.ptr and made.strides == view.strides
            assert min(made.strides) < 0 and (made == a[key]).all()
        assert view.__array_interface__["strides"] == view.strides


# E62
def test_requests_that_are_refused(on_host):
    x = devrt.zeros((4, 4), **on_host)
    assert memoryview(x.as_read_only()).readonly
    for target in (x.as_read_only(),):
        with pytest.raises(TypeError):  # readinto wants to write
            io.BytesIO(b"abc").readinto(target)
    with pytest.raises(BufferError):
        zlib.crc32(x[::2])
    zlib.crc32(x)
    assert memoryview(x[::2]).strides == (64, 8)
    for dtype in ("bfloat16", "float8_e5m2"):
        with pytest.raises(BufferError):
            memoryview(devrt.zeros(2, dtype, **on_host))


def test_empty_and_0d(on_host):
    assert memoryview(devrt.zeros((0, 3), **on_host)).shape == (0, 3)
    assert memoryview(devrt.array(5, **on_host)).shape == ()
    same(devrt.array(5, **on_host), np.array(5))


# E62
def test_devices_have_no_host_protocols():
    x = devrt.ones(3, device="mtia:0")
    with pytest.raises(TypeError):
        memoryview(x)
    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        np.asarray(x)
    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        np.array(x)
    assert not hasattr(x, "__array_interface__")
    assert not hasattr(x, "__cuda_array_interface__")


def test_array_interface(on_host, host):
    a = host((2, 3))
    x = devrt.array(a, **on_host)
    assert x.__array_interface__ == {
        "shape": (2, 3), "typestr": "<f4", "strides": None,
        "data": (x.ptr, False), "version": 3}
    assert x.T.__array_interface__["strides"] == (4, 12)
    assert x.as_read_only().__array_interface__["data"] == (x.ptr, True)
    assert not hasattr(devrt.zeros(2, "bfloat16", **on_host),
                       "__array_interface__")


def test_array_method(on_host, host):
    a = host((2, 3))
    x = devrt.array(a, **on_host)
    assert np.shares_memory(x.__array__(), x.numpy())
    assert not np.shares_memory(x.__array__(copy=True), x.numpy())
    assert x.__array__("float64").dtype == "float64"
    with pytest.raises(ValueError):
        x.__array__("float64", copy=False)
    with pytest.raises(TypeError):
        x.__array__("float64", False, 1)


# E43
def test_pinned_memory_is_waited_for(two):
    x = devrt.ones(4, "float32", device=two[0])
    for read in (lambda p: np.asarray(p), lambda p: memoryview(p),
                 lambda p: p.__array_interface__, lambda p: p.numpy(),
                 lambda p: p.tolist()):
        pinned = devrt.zeros(4, "float32", device=two[0], pinned=True)
        spin(5)
        pinned.copy_(x, non_blocking=True)
        assert not pinned.is_ready()
        read(pinned)
        assert pinned.is_ready()
        assert pinned.tolist() == [1] * 4


# ---- NumPy's dispatch (E63) --------------------------------------------------


def test_ufuncs_of_numpy_take_arrays(host):
    a, b = host((2, 3)), host((2, 3))
    x, y = devrt.array(a), devrt.array(b)
    for name in ("add", "subtract", "multiply", "maximum", "minimum", "equal",
                 "not_equal", "less", "less_equal", "greater", "greater_equal",
                 "logical_and", "logical_or"):
        ufunc = getattr(np, name)
        same(ufunc(x, y), ufunc(a, b))
        same(ufunc(x, 2), ufunc(a, 2))
        same(ufunc(np.float32(2), x), ufunc(np.float32(2), a))
    for ufunc in (np.negative, np.absolute, np.logical_not):
        same(ufunc(x), ufunc(a))
    out = devrt.empty((2, 3), "float32")
    assert np.add(x, y, out=out) is out
    same(out, a + b)
    same(np.add.reduce(x), a.sum(0))
    same(np.maximum.reduce(x, axis=1, keepdims=True), a.max(1, keepdims=True))


def test_functions_of_numpy_take_arrays(host):
    a = host((2, 3))
    x = devrt.array(a)
    for name in ("sum", "prod", "min", "max", "mean", "any", "all"):
        made = getattr(np, name)(x)
        assert isinstance(made, devrt.Array) and made.shape == ()
        np.testing.assert_allclose(made.item(), getattr(np, name)(a), rtol=1e-5)
        made = getattr(np, name)(x, axis=1, keepdims=True)
        assert made.shape == (2, 1)
    for call in (lambda v: np.reshape(v, (3, 2)), np.transpose,
                 lambda v: np.transpose(v, (1, 0)), np.ravel, np.copy,
                 lambda v: np.broadcast_to(v, (4, 2, 3)), np.zeros_like,
                 np.ones_like, lambda v: np.full_like(v, 3),
                 lambda v: np.squeeze(v[:1]), lambda v: np.expand_dims(v, 0),
                 lambda v: np.where(v > 0, v, np.float32(0))):
        same(call(x), call(a))
    assert np.empty_like(x).shape == (2, 3)
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((2, 3), 2, 6)
    assert np.array_equal(x, x.copy())
    target = devrt.zeros((2, 3), "float32")
    np.copyto(target, x)
    same(target, a)


def test_host_arrays_are_never_moved(host):
    a = host((2, 3))
    x = devrt.array(a)
    for call in (lambda: np.add(x, a), lambda: np.add(a, x), lambda: a + x,
                 lambda: np.add(a, 1, out=(x,)), lambda: np.where(a > 0, x, x),
                 lambda: np.copyto(a, x), lambda: np.array_equal(a, x)):
        with pytest.raises(TypeError):
            call()


def test_what_devrt_does_not_have_is_a_type_error(host):
    x = devrt.array(host((2, 3)))
    for call in (lambda: np.sin(x), lambda: np.linalg.norm(x),
                 lambda: np.concatenate([x, x]), lambda: np.add(x, [1, 2, 3]),
                 lambda: np.add(x, 1, where=x > 0), lambda: np.add(x, 1, dtype="f8"),
                 lambda: np.sum(x, initial=1),
                 lambda: np.sort(x), lambda: np.median(x)):
        with pytest.raises(TypeError):
            call()


def test_other_types_win():
    class Other:
        __array_ufunc__ = None

        def __radd__(self, other):
            return "other"

    assert devrt.ones(2) + Other() == "other"
    assert devrt.Array.__array_priority__ == 100


def test_buffers_of_any_request():
    """Without shapes (flags 0 to 7) a buffer is one row of bytes."""
    if not hasattr(devrt.Array, "__buffer__"):
        pytest.skip("from Python 3.12 on")
    for x in (devrt.ones((2, 2), device="cpu"), devrt.ones((), device="cpu"),
              devrt.ones((2, 0, 3), device="cpu")):
        for flags in range(0x400):
            try:
                view = x.__buffer__(flags)
            except BufferError:
                continue
            assert view.nbytes == x.nbytes
            assert view.ndim == (x.ndim if flags & 8 else 1)


def test_a_buffer_of_more_axes_than_an_array_can_have():
    """No argument is wrong: the layout cannot be described (E64)."""
    deep = memoryview(b"x").cast("B", (1,) * 33)
    for function in (devrt.asarray, devrt.array):
        with pytest.raises(BufferError, match="33") as caught:
            function(deep)
        assert not isinstance(caught.value, ValueError)
    assert devrt.asarray(memoryview(b"x").cast("B", (1,) * 32)).ndim == 32
