# SPDX-License-Identifier: Apache-2.0
"""PyTorch's test_numba_integration: what does not need Numba itself.

Each test has the name that it has there; docs/reference/semantics.md 3.5 says what is
required.  They run on CUDA, or on the library that stands for its driver; the
half that Numba does is done by an object with the same interface.
"""

import weakref

import pytest

np = pytest.importorskip("numpy")

import devrt

try:
    CUDA = devrt.devices("cuda")
except devrt.Error:
    CUDA = []
pytestmark = pytest.mark.skipif(not CUDA, reason="no CUDA device")

ADAPTED = ["complex64", "complex128", "float16", "float32", "float64", "uint8",
           "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
           "bool"]


class DeviceArray:
    """Has the interface of Numba's array and nothing else."""

    def __init__(self, source):
        self.keep = source
        self.__cuda_array_interface__ = source.__cuda_array_interface__


def on_device(values, dtype, device="cuda:0"):
    made = devrt.array(np.asarray(values, dtype), device=device)
    made.ready()
    return made


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64",
                                   "int32", "int16", "int8", "uint8"])
def test_cuda_array_interface(dtype):
    host = devrt.array(np.arange(10).astype(dtype), device="cpu")
    assert not hasattr(host, "__cuda_array_interface__")
    x = on_device(np.arange(10), dtype)
    x.cai_export_version = 2
    assert x.__cuda_array_interface__ == {
        "shape": (10,), "strides": None, "typestr": np.dtype(dtype).str,
        "data": (x.ptr, False), "version": 2}


@pytest.mark.parametrize("dtype", ADAPTED)
def test_array_adaptor(dtype):
    host = devrt.array(np.arange(10).astype(dtype), device="cpu")
    with pytest.raises(AttributeError):
        host.__cuda_array_interface__
    with pytest.raises(AttributeError):
        devrt.from_cuda_array_interface(host)
    x = on_device(np.arange(10), dtype)
    view = devrt.asarray(DeviceArray(x))
    assert (view.dtype, view.strides, view.shape) == (x.dtype, x.strides, x.shape)
    view[:5] = 11
    expected = np.arange(10).astype(dtype)
    expected[:5] = 11
    np.testing.assert_array_equal(x.numpy(), expected)
    x.ready()
    strided = DeviceArray(x[::2])
    assert strided.__cuda_array_interface__["strides"] == (2 * x.itemsize,)
    np.testing.assert_array_equal(
        devrt.asarray(strided).numpy(), expected[::2])


def test_conversion_errors():
    assert not hasattr(devrt.ones(10, device="cpu"), "__cuda_array_interface__")
    for dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        x = devrt.empty(3, dtype, device="cuda:0")
        with pytest.raises(AttributeError):
            x.__cuda_array_interface__


def test_active_device():
    if len(CUDA) < 2:
        pytest.skip("one device")
    x = on_device(np.arange(10), "float64", "cuda:1")
    for current in CUDA:
        with devrt.device(current):
            assert x.__cuda_array_interface__["data"] == (x.ptr, False)
            assert devrt.asarray(DeviceArray(x)).device is CUDA[1]
            assert devrt.current_device() is current


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float16",
                                   "float64", "int64", "int32", "int16", "int8",
                                   "uint8"])
def test_from_cuda_array_interface(dtype):
    for values, view in [(3, ()), (np.arange(6).reshape(2, 3), ()),
                         (np.arange(6), slice(1, None)),
                         (np.arange(6), (slice(None), None))]:
        theirs = DeviceArray(on_device(values, dtype)[view])
        mine = devrt.asarray(theirs)
        assert mine.__cuda_array_interface__ == theirs.__cuda_array_interface__
        mine += 42
        np.testing.assert_array_equal(theirs.keep.numpy(), mine.numpy())
        before = mine.numpy().copy()
        for copy in (devrt.asarray(theirs, device="cpu"), devrt.array(theirs)):
            copy[...] = 0
            np.testing.assert_array_equal(mine.numpy(), before)


def test_from_cuda_array_interface_inferred_strides():
    x = on_device(np.arange(6).reshape(2, 3), "float64")
    assert x.__cuda_array_interface__["strides"] is None
    assert devrt.asarray(DeviceArray(x)).is_contiguous


def test_from_cuda_array_interface_lifetime():
    theirs = DeviceArray(on_device(np.arange(6), "float64"))
    gone = weakref.ref(theirs)
    mine = devrt.asarray(theirs)
    del theirs
    assert gone() is not None
    assert mine.tolist() == list(range(6))
    del mine
    devrt.synchronize("cuda:0")
    for _ in range(100000):
        if gone() is None:
            break
    assert gone() is None


def test_from_cuda_array_interface_active_device():
    if len(CUDA) < 2:
        pytest.skip("one device")
    theirs = DeviceArray(on_device(np.arange(6), "float64"))
    mine = devrt.asarray(theirs, device="cuda:1")
    np.testing.assert_array_equal(mine.numpy(), np.arange(6))
    mine.ready()
    a, b = dict(mine.__cuda_array_interface__), dict(
        theirs.__cuda_array_interface__)
    assert a.pop("data") != b.pop("data")
    assert a == b
