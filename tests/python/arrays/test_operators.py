# SPDX-License-Identifier: Apache-2.0
"""Operators, functions and reductions against NumPy."""

import itertools
import operator

import numpy as np
import pytest

import devrt
from conftest_arrays import NUMPY_DTYPES, same

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt,
               operator.ge]
SHAPES = [((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 2)),
          ((0, 3), (3,)), ((), ())]


def expected_of(function, *operands):
    with np.errstate(all="ignore"):
        return function(*operands)


def not_offered(function, dtype_a, dtype_b):
    """Returns true for operators that devrt, and partly NumPy, does not have."""
    if function is operator.sub and dtype_a == dtype_b == "bool":
        return True
    unordered = "complex" in dtype_a + dtype_b
    return unordered and function in COMPARISONS[2:]


def test_operators_are_numpys(rng, host):
    for function in ARITHMETIC + COMPARISONS:
        for dtype_a, dtype_b in itertools.product(NUMPY_DTYPES, repeat=2):
            shape_a, shape_b = SHAPES[rng.integers(0, len(SHAPES))]
            a, b = host(shape_a, dtype_a), host(shape_b, dtype_b)
            a, b = np.asarray(a, dtype_a), np.asarray(b, dtype_b)
            x, y = devrt.array(a), devrt.array(b)
            if not_offered(function, dtype_a, dtype_b):
                with pytest.raises(devrt.UnsupportedError):
                    function(x, y)
                continue
            made = function(x, y)
            expected = np.asarray(expected_of(function, a, b))
            assert made.dtype == expected.dtype, (function, dtype_a, dtype_b)
            np.testing.assert_allclose(
                made.numpy(), expected, rtol=1e-3 if "float16" in (
                    dtype_a, dtype_b) else 1e-6)


# NumPy's: test_numbers.py.
@pytest.mark.parametrize("number", [2, 2.5, True])
def test_numbers_on_either_side(host, number):
    a = host((2, 3), "float32")
    x = devrt.array(a)
    for function in ARITHMETIC:
        for made, expected in [
            (function(x, number), expected_of(function, a, number)),
            (function(number, x), expected_of(function, number, a)),
        ]:
            assert made.dtype == devrt.float32 == expected.dtype
            np.testing.assert_allclose(made.numpy(), expected, rtol=1e-6)


def test_unary_operators_are_as_numpys(host):
    a = host((2, 3), "int32")
    x = devrt.array(a)
    same(-x, -a)
    same(+x, a)
    same(abs(x), abs(a))
    assert not (+x).shares_storage(x)
    same(devrt.logical_not(x), np.logical_not(a))
    same(devrt.negative(x), -a)
    same(devrt.absolute(x), abs(a))


def test_in_place(host):
    a = host((2, 3), "float32")
    x = devrt.array(a)
    y, pointer = x, x.ptr
    x += 1
    x *= devrt.array(a)
    x -= x[0]
    x /= 2
    expected = a + 1
    expected *= a
    expected -= expected[0].copy()
    expected /= 2
    assert x is y and x.ptr == pointer
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6)
    with pytest.raises((ValueError, TypeError)):
        integers = devrt.ones(3, "int32")
        integers += 0.5
    with pytest.raises(ValueError):
        view = devrt.ones(3).as_read_only()
        view += 1


def test_functions_write_out(host):
    a = host((2, 3), "float32")
    x, out = devrt.array(a), devrt.empty((2, 3), "float32")
    assert devrt.add(x, 1, out=out) is out
    same(out, a + 1)
    assert devrt.negative(x, out) is out
    same(out, -a)
    same(devrt.maximum(x, 0), np.maximum(a, 0))
    same(devrt.minimum(x, x[0]), np.minimum(a, a[0]))
    same(devrt.where(x > 0, x, 0.0), np.where(a > 0, a, np.float32(0)))
    same(devrt.logical_and(x, x > 0), np.logical_and(a, a > 0))
    same(devrt.logical_or(x, x > 0), np.logical_or(a, a > 0))
    with pytest.raises(ValueError):
        devrt.add(x, 1, out=devrt.empty(2, "float32"))


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean", "any",
                                  "all"])
def test_reductions_are_numpys(host, name):
    for dtype in ("bool", "int8", "uint32", "int64", "float32", "float64"):
        a = host((2, 3, 4), dtype)
        x = devrt.array(a)
        for axis in (None, 0, 1, -1, (0, 2), (0, 1, 2), ()):
            for keepdims in (False, True):
                made = getattr(x, name)(axis, keepdims=keepdims)
                expected = np.asarray(
                    getattr(a, name)(axis=axis, keepdims=keepdims))
                assert made.dtype == expected.dtype, (dtype, axis)
                assert made.shape == expected.shape
                np.testing.assert_allclose(
                    made.numpy(), expected, rtol=1e-5, atol=1e-4)
                again = getattr(devrt, name)(x, axis, keepdims=keepdims)
                np.testing.assert_array_equal(again.numpy(), made.numpy())


def test_reductions_that_cannot_be():
    x = devrt.ones((2, 3))
    for call, error in [
        (lambda: x.sum(2), ValueError), (lambda: x.sum((0, 0)), ValueError),
        (lambda: x.sum("0"), TypeError), (lambda: x.sum(0.5), TypeError),
        (lambda: x.sum(keepdims=1), TypeError), (lambda: x.sum(2**70), ValueError),
        (lambda: x.max(dtype="int8"), TypeError),
        (lambda: devrt.zeros((0,)).max(), ValueError),
        (lambda: devrt.sum([1]), TypeError), (lambda: devrt.sum(), TypeError),
    ]:
        with pytest.raises(error):
            call()
    assert np.isnan(devrt.zeros(0).mean().item())
    same(x.sum(dtype="int32"), np.int32(6))


def test_operands_that_cannot_be(host):
    x = devrt.ones((2, 3))
    for other in ([1, 2, 3], "a", None, object(), host((2, 3))):
        for function in ARITHMETIC:
            with pytest.raises(TypeError):
                function(x, other)
            with pytest.raises(TypeError):
                function(other, x)
    for call, error in [
        (lambda: x + devrt.ones(2), ValueError),
        (lambda: x + devrt.ones(3, device="mtia:1"), ValueError),
        (lambda: devrt.ones(2, "int64") + 2**80, ValueError),
        (lambda: devrt.ones(2, "uint8") + 300, ValueError),
        (lambda: x % 2, TypeError), (lambda: x @ x, TypeError),
        (lambda: devrt.add(1, 2), TypeError), (lambda: devrt.add(x), TypeError),
        (lambda: devrt.add(x, [1]), TypeError),
        (lambda: devrt.add(x, 1, out=3), TypeError),
        (lambda: devrt.where(1, x, x), TypeError),
        (lambda: devrt.where(x, x, "a"), TypeError),
        (lambda: devrt.ones(2, device="cpu") + 1, devrt.UnsupportedError),
        (lambda: devrt.ones(2, "float8_e5m2") + 1, devrt.UnsupportedError),
    ]:
        with pytest.raises(error):
            call()
    assert (x == None) is False  # noqa: E711
    assert (x == "a") is False


def test_as_a_number():
    one = devrt.array([[2.5]])
    assert (float(one), int(one), bool(one)) == (2.5, 2, True)
    assert complex(devrt.array(1 + 2j)) == 1 + 2j
    assert complex(one) == 2.5
    assert not devrt.zeros(1)
    for call, error in [
        (lambda: bool(devrt.ones(2)), ValueError),
        (lambda: bool(devrt.ones(0)), ValueError),
        (lambda: float(devrt.ones(2)), TypeError),
        (lambda: int(devrt.ones(0)), TypeError),
        (lambda: float(devrt.array(1j)), TypeError),
        (lambda: range(devrt.array(1.0)), TypeError),
        (lambda: range(devrt.array([1])), TypeError),
        (lambda: devrt.ones(2).item(), ValueError),
    ]:
        with pytest.raises(error):
            call()
    assert list(range(devrt.array(2))) == [0, 1]


def test_array_equal(host):
    a = host((2, 3))
    x = devrt.array(a)
    assert devrt.array_equal(x, a)
    assert devrt.array_equal(x, devrt.array(a, device="mtia:1"))
    assert not devrt.array_equal(x, x + 1)
    assert not devrt.array_equal(x, x.T)
    assert not devrt.array_equal(x, [1.0])
    with pytest.raises(TypeError):
        devrt.array_equal(a, x)


def test_the_call_that_a_benchmark_makes():
    add = devrt._core._add_times
    x, y = devrt.ones((4, 8)), devrt.ones((4, 8))
    assert add(x, y, 3) is None and add(x, y, 0) is None
    with pytest.raises(ValueError, match="broadcast"):
        add(x, devrt.ones(3), 1)
    with pytest.raises(ValueError, match="times is -1, expected 0 or more"):
        add(x, y, -1)
    with pytest.raises(ValueError, match=f"times is {2**70}, expected 0 to 10000"):
        add(x, y, 2**70)
    with pytest.raises(TypeError, match="needs a devrt.Array as b, not int"):
        add(x, 1, 1)
