# SPDX-License-Identifier: Apache-2.0
"""Numbers beside arrays and in them, by NumPy's rules."""

import operator

import numpy as np
import pytest

import devrt
from conftest_arrays import NUMPY_DTYPES, same

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt,
               operator.ge]
SCALARS = [np.bool_(True), np.int8(2), np.uint8(200), np.int16(300),
           np.int64(1000), np.uint64(3), np.longlong(7), np.float16(1.5),
           np.float32(1.1), np.float64(0.1), np.complex64(1 + 2j),
           np.complex128(0.5j)]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
            "uint64"]
FAR = [-1, 128, -129, 300, 2**31, -2**31 - 1, 2**63 - 1, 2**63, -2**63 - 1,
       2**64 - 1, 2**64, 2**200, -2**200, 10**400]


def expected_of(function, *operands):
    with np.errstate(all="ignore"):
        return function(*operands)


@pytest.mark.parametrize("number", SCALARS, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_numpys_scalars_have_a_dtype(dtype, number):
    a = np.array([0, 1, 2, 100], dtype)
    x = devrt.array(a)
    for function in ARITHMETIC + COMPARISONS:
        for operands, mine in [((a, number), (x, number)),
                               ((number, a), (number, x))]:
            try:
                expected = expected_of(function, *operands)
            except TypeError:  # NumPy has no difference of bools
                continue
            unordered = "complex" in (dtype + type(number).__name__)
            if unordered and function in COMPARISONS[2:]:
                continue  # devrt has no order of complex numbers
            made = function(*mine)
            assert made.dtype == expected.dtype, (function, number)
            np.testing.assert_allclose(
                made.numpy(), expected,
                rtol=2e-3 if expected.dtype == np.float16 else 1e-6)


def test_a_scalars_value_is_not_rounded_to_the_arrays():
    x = devrt.array([0.1], "float32")
    assert not (x == np.float64(0.1)).item()
    assert (x == 0.1).item()
    assert np.float64(0.1) not in x and 0.1 in x
    assert (x + np.float64(1)).dtype == devrt.float64
    assert (devrt.ones(1, "int8") + np.int64(1000)).item() == 1001
    x += np.float64(1)
    assert x.dtype == devrt.float32 and x.item() == np.float32(1.1)


def test_functions_and_choices():
    x = devrt.array([1, 0], "float32")
    assert devrt.maximum(x, np.float64(0.1)).dtype == devrt.float64
    assert devrt.add(np.int8(1), devrt.ones(2, "bool")).dtype == devrt.int8
    assert np.add(np.float64(1), x).dtype == devrt.float64
    assert devrt.logical_and(x, np.float64(0.5)).tolist() == [True, False]
    mask = x > 0
    for a, b in [(x, np.float64(2)), (np.float32(1), 2.0), (2, np.int8(1)),
                 (np.int8(1), np.float16(3)), (1, 2.5), (x, 7)]:
        expected = np.where(mask.numpy(), *(
            v.numpy() if isinstance(v, devrt.Array) else v for v in (a, b)))
        same(devrt.where(mask, a, b), expected)


def test_ml_dtypes_scalars():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    half = ml_dtypes.bfloat16(1.5)
    assert (devrt.ones(2, "bfloat16") * half).dtype == devrt.bfloat16
    assert (devrt.ones(2, "float16") * half).dtype == devrt.float32
    narrow = ml_dtypes.float8_e5m2(2)
    assert (devrt.ones(2, "float32") * narrow).tolist() == [2, 2]
    assert devrt.array(narrow).dtype == devrt.float8_e5m2
    assert devrt.array([narrow, narrow]).dtype == devrt.float8_e5m2
    with pytest.raises(ValueError):
        devrt.array([narrow, 1.0])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_comparisons_beyond_the_dtype(dtype):
    limits = np.iinfo(dtype)
    a = np.array([limits.min, 0, 5, limits.max], dtype)
    x = devrt.array(a)
    for number in FAR:
        for function in COMPARISONS:
            same(function(x, number), function(a, number))
            same(function(number, x), function(number, a))
        assert (number in x) == (number in a.tolist())


def test_comparisons_of_bools_and_floats_with_large_ints():
    same(devrt.ones(1, "bool") < 2**70, np.array([True]))
    same(devrt.ones(1, "bool") == 2**63, np.array([False]))
    same(devrt.array([2.0**70]) == 2**70, np.array([True]))
    out = devrt.empty(2, "bool")
    assert devrt.less(devrt.ones(2, "uint8"), 300, out=out) is out
    assert out.tolist() == [True, True]
    with pytest.raises(ValueError, match="shape"):
        devrt.less(devrt.ones(3, "uint8"), 300, out=out)


def test_large_ints_in_floats():
    same(devrt.ones(1) + 2**70, np.ones(1) + 2**70)
    same(devrt.full(1, 2**70, "float64"), np.full(1, 2.0**70))
    same(devrt.array([2.0, 2**70]), np.array([2.0, 2.0**70]))
    same(devrt.array([2**70], "float32"), np.array([2.0**70], "float32"))
    x = devrt.zeros(1, "float64")
    x[0] = -2**70
    assert x.item() == -2.0**70
    for call in [lambda: devrt.ones(1, "int64") + 2**70,
                 lambda: devrt.ones(1) + 10**400,
                 lambda: devrt.ones(1) < 10**400,
                 lambda: devrt.full(1, 2**70), lambda: devrt.array([2**70]),
                 lambda: devrt.array(2**70), lambda: devrt.arange(2**70),
                 lambda: devrt.where(devrt.ones(1), 2**70, 1),
                 lambda: devrt.full(1, 2**64, "uint64"),
                 lambda: x.fill(10**400)]:
        with pytest.raises(ValueError, match="int"):
            call()


# Ways to give an element a value, each of (value, dtype).
def _setitem(value, dtype):
    x = devrt.zeros(2, dtype)
    x[1] = value
    return x[1].item()


def _slice(value, dtype):
    x = devrt.zeros(2, dtype)
    x[...] = [0, value]
    return x[1].item()


def _copy(value, dtype):
    return devrt.zeros(2, dtype).copy_([value, value])[0].item()


WAYS = {
    "setitem": _setitem, "list": _slice, "copy_": _copy,
    "fill": lambda v, dtype: devrt.zeros(1, dtype).fill(v).item(),
    "full": lambda v, dtype: devrt.full((), v, dtype).item(),
    "full_like": lambda v, dtype: devrt.full_like(
        devrt.zeros((), dtype), v).item(),
    "array": lambda v, dtype: devrt.array(v, dtype).item(),
    "array_of_list": lambda v, dtype: devrt.array([[v]], dtype).item(),
    "asarray": lambda v, dtype: devrt.asarray([v], dtype, device="cpu").item(),
}
NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize("way", WAYS)
def test_assignment_loses_nothing_in_silence(way):
    assign = WAYS[way]
    for value, dtype, error in [
        (1j, "float32", TypeError), (1 + 0j, "int8", TypeError),
        (np.complex64(1j), "float64", TypeError),
        (NAN, "int32", ValueError), (INFINITY, "int32", ValueError),
        (-INFINITY, "uint64", ValueError), (np.float32(NAN), "int8", ValueError),
        (300.0, "uint8", ValueError), (-1.0, "uint8", ValueError),
        (1e30, "int64", ValueError), (2.0**63, "int64", ValueError),
        (2.0**64, "uint64", ValueError), (128.5, "int8", ValueError),
        (300, "uint8", ValueError), (np.int64(-1), "uint8", ValueError),
        (2**64, "uint64", ValueError),
    ]:
        with pytest.raises(error, match=dtype + " cannot hold|fits no dtype"):
            assign(value, dtype)
    for value, dtype, expected in [
        (1.9, "int32", 1), (-0.9, "uint8", 0), (255.9, "uint8", 255),
        (-128.9, "int8", -128), (2.0**63, "uint64", 2**63),
        (1j, "complex64", 1j), (5, "bool", True), (NAN, "bool", True),
        (0.0, "bool", False), (1j, "bool", True), (INFINITY, "float16", INFINITY),
        (np.float32(1.5), "int8", 1), (True, "float32", 1.0),
        (np.bool_(True), "int8", 1), (2**63, "uint64", 2**63),
    ]:
        assert assign(value, dtype) == expected, (value, dtype)


def test_dtypes_of_numbers():
    for value in [np.float32(1), np.int8(1), np.bool_(True), np.uint64(1),
                  np.complex64(1), np.longlong(1)]:
        for made in (devrt.full(1, value), devrt.array(value),
                     devrt.array([value]), devrt.array([value, value])):
            assert made.dtype == value.dtype, value
    for values in [[np.float32(1), 2], [np.float32(1), 2.0], [np.int8(1), 2],
                   [np.int8(1), np.uint8(2)], [True, np.int8(2)],
                   [np.float16(1), 1j], [np.uint64(1), np.int8(1)], [2**63],
                   [True, 1], [1, 2.0]]:
        same(devrt.array(values), np.array(values))
    same(devrt.arange(np.int8(3)), np.arange(np.int8(3)))
    same(devrt.arange(np.float32(3)), np.arange(np.float32(3)))
    for value in [np.longdouble(1), np.datetime64(1, "s"),
                  np.timedelta64(5, "ns")]:
        with pytest.raises(TypeError):
            devrt.ones(1) + value


def test_numpys_bools_are_no_indices():
    x = devrt.arange(4)
    for key in (np.bool_(True), np.bool_(False)):
        for call in (lambda: x[key], lambda: x[key, ...], lambda: x[None, key],
                     lambda: x.__setitem__(key, 1), lambda: devrt.zeros(key),
                     lambda: devrt.zeros((2, key)), lambda: x.sum(key),
                     lambda: x.squeeze(key)):
            with pytest.raises(TypeError):
                call()
    assert x[np.int8(2)].item() == 2


def test_shapes_of_numpy():
    assert devrt.zeros(np.array([2, 3])).shape == (2, 3)
    assert devrt.zeros(np.array(2)).shape == (2,)
    assert devrt.zeros(np.int64(2)).shape == (2,)
    assert devrt.zeros([np.int64(2), 3]).shape == (2, 3)
    for shape in (np.array([2.0]), np.array([True]), np.array([[1]]),
                  devrt.array([2, 3])):
        with pytest.raises(TypeError):
            devrt.zeros(shape)


def test_a_class_that_operates_itself_wins():
    class Own(int):
        __array_ufunc__ = None

        def __radd__(self, other):
            return "own"

    class Other(float):
        def __radd__(self, other):
            return "other"

    assert devrt.ones(1) + Own(1) == "own"
    assert (devrt.ones(1) + Other(1)).tolist() == [2]
