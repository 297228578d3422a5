# SPDX-License-Identifier: Apache-2.0
"""Making arrays, dtypes, and what arrays say of themselves."""

import array as pyarray
import copy
import ctypes
import operator
import pickle
import weakref

import numpy as np
import pytest

import devrt
from conftest_arrays import NUMPY_DTYPES, same


def test_empty_has_shape_dtype_and_place(place):
    x = devrt.empty((2, 3), devrt.int16, **place)
    assert x.shape == (2, 3)
    assert x.strides == (6, 2)
    assert (x.ndim, x.size, x.itemsize, x.nbytes) == (2, 6, 2, 12)
    assert x.dtype is devrt.int16
    assert x.is_contiguous and not x.read_only
    assert x.is_pinned() == bool(place.get("pinned"))
    on_host = place["device"] == "cpu" or place.get("pinned")
    assert x.device == ("cpu" if on_host else devrt.device(place["device"]))
    assert x.ptr == x.storage_ptr != 0


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_filled_arrays_are_numpys(place, dtype):
    same(devrt.zeros((2, 3), dtype, **place), np.zeros((2, 3), dtype))
    same(devrt.ones(3, dtype, **place), np.ones(3, dtype))
    same(devrt.full((), 1, dtype, **place), np.full((), 1, dtype))
    same(devrt.zeros((0, 3), dtype, **place), np.zeros((0, 3), dtype))


def test_dtypes_that_are_not_given_are_numpys():
    for value in (True, 3, 2.5, 1j, 2**63):
        assert devrt.full(2, value).dtype == np.full(2, value).dtype
        assert devrt.array(value).dtype == np.array(value).dtype
    assert devrt.empty(1).dtype is devrt.float64
    assert devrt.arange(3).dtype is devrt.int64
    assert devrt.arange(3.0).dtype is devrt.float64
    assert devrt.array([]).dtype is devrt.float64


@pytest.mark.parametrize("args", [
    (5,), (2, 7), (7, 2), (7, 2, -2), (0,), (1, 2, 0.25), (2.5,), (-3, 3, 2)])
def test_arange_gives_numpys_values(place, args):
    same(devrt.arange(*args, **place), np.arange(*args))


def test_arange_with_a_dtype():
    same(devrt.arange(0, 5, dtype="uint8"), np.arange(0, 5, dtype="uint8"))
    # The first two are checked, the others follow from them.
    wrapped = devrt.arange(250, 260, dtype="uint8")
    same(wrapped, np.array([*range(250, 256), 0, 1, 2, 3], "uint8"))
    for start in (255, 256, -1):
        with pytest.raises(ValueError):
            devrt.arange(start, start + 3, dtype="uint8")
    with pytest.raises(ValueError):
        devrt.arange(0, 5, 0)
    with pytest.raises(TypeError):
        devrt.arange(1j)
    with pytest.raises(TypeError):
        devrt.arange("5")


def test_like_functions_take_place_and_shape(place):
    x = devrt.empty((3, 2), "int8", **place)
    for made, value in [(devrt.zeros_like(x), 0), (devrt.ones_like(x), 1),
                        (devrt.full_like(x, 7), 7)]:
        assert made.place == x.place
        same(made, np.full((3, 2), value, "int8"))
    other = devrt.empty_like(x, "float32", device="mtia:1")
    assert (other.dtype, other.device) == ("float32", devrt.device("mtia:1"))
    assert devrt.empty_like(x, pinned=True).is_pinned()


def test_default_is_the_current_device(two):
    for device in two:
        with device:
            assert devrt.empty(1).device is device
            assert devrt.array([1]).device is device
            assert devrt.empty(1, pinned=True).place.endswith(device.name)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 3), (1, 1, 1)])
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_of_numpy_and_back(place, host, shape, dtype):
    a = host(shape, dtype)
    x = devrt.array(a, **place)
    same(x, a)
    if a.size:
        assert not np.shares_memory(x.numpy(), a)


def test_of_strided_numpy(host):
    a = host((4, 6))
    for view in (a[::2, 1::3], a.T, a[::-1], a[:, ::-2],
                 np.broadcast_to(a[0], (3, 6))):
        same(devrt.array(view), view)
        same(devrt.asarray(view), view)


def test_asarray_shares_host_memory(host):
    a = host((2, 3))
    x = devrt.asarray(a)
    assert (x.device, x.ptr, x.strides) == ("cpu", a.ctypes.data, a.strides)
    x[0, 0] = 99
    assert a[0, 0] == 99
    a[1, 2] = -1
    assert x[1, 2].item() == -1
    a.flags.writeable = False
    assert devrt.asarray(a).read_only
    with pytest.raises(ValueError):
        devrt.asarray(a).fill(0)


def test_asarray_of_an_array_is_itself():
    x = devrt.ones(3, "float32")
    assert devrt.asarray(x) is x
    assert devrt.asarray(x, "float32", device=x.device) is x
    same(devrt.asarray(x, "int8"), np.ones(3, "int8"))
    assert devrt.array(x).ptr != x.ptr
    assert devrt.array(x, copy=False).ptr == x.ptr


def test_array_has_no_copy_where_needed():
    with pytest.raises(TypeError, match="copy must be a bool"):
        devrt.array([1], copy=None)
    assert devrt.asarray([1], copy=None).tolist() == [1]


def test_copy_false_never_copies(host):
    a = host(3)
    assert devrt.asarray(a, copy=False).ptr == a.ctypes.data
    for wish in [dict(dtype="int8"), dict(device="mtia:0"), dict(pinned=True)]:
        with pytest.raises(devrt.CopyRequiredError):
            devrt.asarray(a, copy=False, **wish)
    with pytest.raises(devrt.CopyRequiredError):
        devrt.asarray([1, 2], copy=False)
    assert devrt.asarray(a, copy=True).ptr != a.ctypes.data


def test_of_buffers():
    same(devrt.asarray(memoryview(b"abc")), np.frombuffer(b"abc", "uint8"))
    assert devrt.asarray(memoryview(b"abc")).read_only
    writable = bytearray(b"abc")
    x = devrt.asarray(writable)
    x[0] = 120
    assert writable == b"xbc"
    same(devrt.asarray(pyarray.array("d", [1, 2])), [1.0, 2.0])
    same(devrt.asarray(pyarray.array("l", [1, 2])), [1, 2])
    same(devrt.asarray((ctypes.c_int16 * 2)(3, 4)), np.array([3, 4], "int16"))
    same(devrt.asarray(memoryview(b"abcd").cast("I")),
         np.frombuffer(b"abcd", "uint32"))


def test_of_lists(place):
    for value in ([1, 2, 3], [[1, 2.5], [3, 4]], [[True], [False]], [[], []],
                  (1, [2][0]), [1j, 2], [[[1]]], [2**63, 1],
                  [np.float32(1), 2], [np.int8(1), np.bool_(True)]):
        made = devrt.array(value, **place)
        np.testing.assert_array_equal(made.numpy(), np.array(value))
        assert made.shape == np.array(value).shape
    same(devrt.array([1, 2], "float16", **place), np.array([1, 2], "float16"))


@pytest.mark.parametrize("value", [
    [1, [2]], [[1], [2, 3]], [[1], 2], [[[1]], [2]]])
def test_ragged_lists(value):
    with pytest.raises(ValueError, match="ragged"):
        devrt.array(value)


def test_lists_that_contain_themselves_or_are_too_deep():
    loop = []
    loop.append(loop)
    deep = 1
    for _ in range(33):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises(ValueError, match="deeper"):
            devrt.array(value)
    assert devrt.array(deep[0]).ndim == 32


@pytest.mark.parametrize("value", [
    None, "abc", object(), {1: 2}, {1}, print, [None], ["a"], [object()]])
def test_of_nonsense(value):
    with pytest.raises(TypeError):
        devrt.array(value)
    with pytest.raises(TypeError):
        devrt.asarray(value)


def test_of_an_array_in_a_list():
    with pytest.raises(TypeError, match="item"):
        devrt.array([devrt.ones(())])


@pytest.mark.parametrize("made", [
    np.zeros(2, ">f4"), np.zeros(2, "M8[s]"), np.zeros(2, "S3"),
    np.zeros(2, "longdouble"), np.zeros(2, [("a", "i4")]),
    np.array([None, 1])], ids=lambda a: str(a.dtype))
def test_of_numpy_dtypes_that_there_are_not(made):
    for function in (devrt.array, devrt.asarray):
        with pytest.raises(BufferError):
            function(made)


# Their buffers are bytes that mean something else.
@pytest.mark.parametrize("value, remedy", [
    (np.datetime64("2026-11-24"), "astype"), (np.timedelta64(3, "s"), "astype"),
    (np.datetime64("NaT"), "astype"), (np.longdouble(1), "astype"),
    (np.clongdouble(1), "astype"), (np.void(b"abc"), "astype"),
    (np.zeros(1, [("a", "i4")])[0], "field"), (np.str_("abc"), "text"),
    (np.bytes_(b"abc"), "frombuffer"), (b"abc", "frombuffer"), (b"", "frombuffer"),
    (type("Bytes", (bytes,), {})(b"a"), "frombuffer"),
    (type("Day", (np.datetime64,), {})("2026-11-24"), "astype"), ("abc", "str")],
    ids=lambda value: f"{type(value).__name__}-{value}")
def test_what_is_no_number_is_refused(value, remedy):
    x = devrt.zeros(8, "uint8")
    for call in (lambda: devrt.asarray(value), lambda: devrt.array(value),
                 lambda: devrt.asarray(value, "int64"),
                 lambda: x.__setitem__(..., value), lambda: x.copy_(value),
                 lambda: devrt.array_equal(x, value)):
        with pytest.raises(TypeError, match=remedy) as caught:
            call()
        assert type(value).__name__ in str(caught.value)
    with pytest.raises(TypeError):
        devrt.array([value])
    assert x.tolist() == [0] * 8


@pytest.mark.parametrize("dtype, remedy", [
    ("M8[ns]", "int64"), ("m8[s]", "int64"), ("S3", "uint8"), ("U3", "text"),
    ([("a", "i4")], "field"), ("O", "float64"), ("longdouble", "float64")])
def test_arrays_of_other_than_numbers_are_refused(dtype, remedy):
    a = np.zeros((), dtype)
    for value in (a, np.zeros(2, dtype)):
        with pytest.raises(BufferError, match=remedy) as caught:
            devrt.asarray(value)
        assert str(a.dtype) in str(caught.value)


def test_of_objects_with_numpys_protocols(host):
    a = host((2, 3))

    class Interface:
        __array_interface__ = a.__array_interface__

    class Method:
        def __array__(self, dtype=None, copy=None):
            return a

    class Broken:
        @property
        def __array_interface__(self):
            raise KeyError("broken")

    same(devrt.array(Interface()), a)
    same(devrt.array(Method()), a)
    with pytest.raises(KeyError, match="broken"):
        devrt.array(Broken())


def test_bfloat16_and_float8_of_ml_dtypes(place):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        a = np.array([1.0, -2.0, 0.5]).astype(getattr(ml_dtypes, name))
        x = devrt.array(a, **place)
        assert x.dtype is getattr(devrt, name)
        assert x.dtype == a.dtype and x.dtype.str is None
        back = x.numpy()
        assert back.dtype == a.dtype
        np.testing.assert_array_equal(back.astype("f4"), a.astype("f4"))
        assert x.tolist() == [1.0, -2.0, 0.5]


# ---- Bad input --------------------------------------------------------------


@pytest.mark.parametrize("shape, error", [
    (-1, ValueError), ((2, -3), ValueError), ((1,) * 33, ValueError),
    ((2**40, 2**40), ValueError), (2**80, ValueError), (1.0, TypeError),
    ("3", TypeError), (None, TypeError), ((1, None), TypeError),
    ((True,), TypeError), (True, TypeError), ({}, TypeError),
    (b"ab", TypeError)])
def test_shapes_that_cannot_be(place, shape, error):
    for function in (devrt.empty, devrt.zeros, devrt.ones):
        with pytest.raises(error):
            function(shape, **place)


def test_more_memory_than_there_is():
    with pytest.raises(devrt.OutOfMemoryError, match="Tried to allocate"):
        devrt.empty(2**45, "int8")
    # devrt still works after the error.
    same(devrt.ones(8, "int8"), np.ones(8, "int8"))


@pytest.mark.parametrize("dtype, error", [
    ("float31", ValueError), ("", ValueError), (">f4", ValueError),
    (np.dtype(">i4"), ValueError), (np.dtype("S3"), ValueError),
    (1, TypeError), (b"f4", TypeError), (object(), TypeError),
    (list, TypeError), (np.datetime64, (TypeError, ValueError))])
def test_dtypes_that_cannot_be(dtype, error):
    with pytest.raises(error):
        devrt.empty(1, dtype)
    with pytest.raises(error):
        devrt.DType(dtype)


@pytest.mark.parametrize("device, error", [
    ("mtia:9", RuntimeError), ("nothing", RuntimeError), (1.5, TypeError),
    ("cpu:1", RuntimeError), (b"cpu", TypeError), (True, TypeError)])
def test_devices_that_cannot_be(device, error):
    with pytest.raises(error):
        devrt.empty(1, device=device)


# ---- The host as a device ---------------------------------------------------


def test_the_device_of_an_array_on_the_host():
    x, y = devrt.ones(3, device="cpu"), devrt.ones(3, device="mtia:1")
    pinned = devrt.ones(3, device="mtia:1", pinned=True)
    host = x.device
    assert isinstance(host, devrt.Device) and pinned.device is host
    assert (host.name, host.type, host.backend, host.index) == (
        "cpu", "cpu", "cpu", 0)
    assert host.device_type == devrt.DeviceType.CPU and host.health() is None
    assert str(host) == "cpu" and repr(host) == "devrt.Device('cpu')"
    assert devrt.device("cpu") is host and devrt.Device(host) is host
    assert pickle.loads(pickle.dumps(host)) is host and copy.copy(host) is host
    for made in (devrt.zeros(2, device=host), y.to(host), y.to(device=host),
                 devrt.asarray(y, device=host), devrt.zeros_like(y, device=host),
                 devrt.from_dlpack(x, device=host)):
        assert made.device is host and made.place == "cpu"
    assert devrt.empty(2, device=host, pinned=True).is_pinned()


def test_devices_are_equal_to_their_names():
    host, other = devrt.device("cpu"), devrt.device("mtia:1")
    for device in (host, other, devrt.device("mtia:0")):
        name = device.name
        assert device == name and name == device and not device != name
        assert hash(device) == hash(name) and name in {device}
        for wrong in ("mtia", "", "mtia:01", "cpu:0", "MTIA:1", name.encode(), 0,
                      None):
            assert device != wrong and wrong != device
    assert host != other and host != "mtia:1" and other != "cpu"
    assert len({host, other, "cpu", "mtia:1"}) == 2
    for compare in (operator.lt, operator.ge):
        with pytest.raises(TypeError):
            compare(other, "mtia:2")


def test_the_host_is_no_accelerator():
    host = devrt.device("cpu")
    before = devrt.current_device(), devrt.current_stream()
    for call in (host.synchronize, host.memory_info, host.current_stream,
                 host.default_stream, host.__enter__, host(lambda: None),
                 lambda: devrt.Stream(host), lambda: devrt.Event(host),
                 lambda: devrt.set_device(host), lambda: devrt.synchronize(host),
                 lambda: devrt.current_stream(host), lambda: devrt.memory_stats(host),
                 lambda: devrt.accelerator.set_device(host),
                 lambda: devrt.accelerator.get_device_index(host),
                 lambda: devrt.can_access_peer(host, "mtia:0")):
        with pytest.raises(devrt.InvalidArgumentError,
                           match="Expected an accelerator device, but got: cpu"):
            call()
    with pytest.raises(devrt.InvalidArgumentError, match="a mtia device.*cpu"):
        devrt.mtia.get_device_index(host)
    with pytest.raises(devrt.Error, match="this thread is not inside"):
        host.__exit__()
    assert (devrt.current_device(), devrt.current_stream()) == before


def test_odd_arguments():
    with pytest.raises(TypeError):
        devrt.empty()
    with pytest.raises(TypeError):
        devrt.empty(1, pinned=1)
    with pytest.raises(TypeError):
        devrt.empty(1, unknown=1)
    with pytest.raises(TypeError):
        devrt.empty(1, "int8", "mtia:0")
    with pytest.raises(TypeError):
        devrt.full(1, "x")
    with pytest.raises(TypeError):
        devrt.zeros_like([1])
    with pytest.raises(TypeError):
        devrt.Array()
    with pytest.raises(TypeError):
        type("Sub", (devrt.Array,), {})
    with pytest.raises(ValueError):
        devrt.full(2, 300, "uint8")


# ---- The objects ------------------------------------------------------------


def test_dtype_objects():
    assert devrt.DType("f4") is devrt.float32 is devrt.DType(np.float32)
    assert devrt.float32 == np.dtype("float32") == devrt.float32
    assert devrt.float32 == "float32" and devrt.float32 != "float64"
    assert devrt.float32 != 3
    assert devrt.DType(float) is devrt.float64
    assert devrt.DType(bool) is devrt.bool_
    assert devrt.DType(np.longlong) is devrt.int64
    assert devrt.int8.numpy() == np.dtype("int8")
    assert repr(devrt.float32) == "devrt.float32" and str(devrt.int8) == "int8"
    assert (devrt.uint8.kind, devrt.uint8.itemsize) == ("u", 1)
    assert devrt.uint8.str == "|u1"
    assert {devrt.float32: 1}[devrt.DType("float32")] == 1
    assert pickle.loads(pickle.dumps(devrt.bfloat16)) is devrt.bfloat16
    assert copy.deepcopy(devrt.int8) is devrt.int8


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_dtypes_by_any_name(dtype):
    expected = devrt.DType(dtype)
    numpy_dtype = np.dtype(dtype)
    for given in (dtype, numpy_dtype, numpy_dtype.type, numpy_dtype.str):
        assert devrt.DType(given) is expected
    assert expected.name == dtype
    assert expected.str == numpy_dtype.str


def test_arrays_are_not_pickled_hashed_nor_ordered_by_identity():
    x = devrt.ones(2)
    with pytest.raises(TypeError, match="numpy"):
        pickle.dumps(x)
    with pytest.raises(TypeError):
        hash(x)
    assert weakref.ref(x)() is x
    y = copy.copy(x)
    assert y.ptr != x.ptr and (y == x).all()
    assert copy.deepcopy([x])[0].ptr != x.ptr


def test_repr_shows_values_dtype_and_device():
    x = devrt.array([[1.0, 2.0]], "float32", device="mtia:1")
    assert repr(x) == "array([[1., 2.]], dtype=float32, device='mtia:1')"
    assert len(repr(devrt.zeros((1000, 1000)))) < 2000
