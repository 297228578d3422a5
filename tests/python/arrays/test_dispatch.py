# SPDX-License-Identifier: Apache-2.0
"""NumPy's functions, ufuncs and dtypes over arrays."""

import operator

import numpy as np
import pytest

import devrt
from conftest_arrays import same

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt,
               operator.ge]


@pytest.mark.parametrize("number", [
    np.float32(1), np.float64(1), np.int64(1), np.uint8(1), np.bool_(True),
    np.float16(1), np.complex64(1)], ids=lambda x: type(x).__name__)
def test_a_scalar_on_the_left_of_a_comparison(number):
    a = np.array([0, 1, 2], "float32")
    x = devrt.array(a)
    functions = COMPARISONS[:2] if number.dtype.kind == "c" else COMPARISONS
    for function in functions:
        same(function(number, x), function(number, a))


def test_host_arrays_are_not_moved():
    x = devrt.ones(3, "float32")
    for other in (np.ones(3, "float32"), np.ones((1,), "float32")):
        for function in (np.add, np.equal, operator.lt, operator.add):
            for pair in ((other, x), (x, other)):
                with pytest.raises(TypeError):
                    function(*pair)
    with pytest.raises(TypeError):
        np.array(1.0) + x


def test_reductions_by_ufuncs():
    a = np.array([[1, 2], [3, 4]], "float32")
    x = devrt.array(a)
    same(np.add.reduce(x), np.add.reduce(a))
    same(np.add.reduce(x, axis=None), np.add.reduce(a, axis=None))
    same(np.add.reduce(x[0, 0]), np.add.reduce(a[0, 0]))
    same(np.maximum.reduce(x[0, 0], axis=-1), a[0, 0])


def test_reductions_that_are_refused(run_program):
    """In a process of their own: of a method of ufuncs that raises, NumPy 2.0 to
    2.2 never lets the arguments go."""
    done = run_program("""
        import devrt, numpy as np
        x = devrt.ones((2, 2), "float32")
        for call in (lambda: np.add.reduce(x[0, 0], axis=1),
                     lambda: np.add.reduce(x, axis=2),
                     lambda: np.add.accumulate(x)):
            try:
                print(call())
            except (ValueError, TypeError) as error:
                print(type(error).__name__)
    """)
    assert done.stdout.split() == ["InvalidArgumentError"] * 2 + ["TypeError"], (
        done.stdout + done.stderr)


def test_host_memory_computes_by_numpy_only_where_that_is_asked():
    c = devrt.ones(3, device="cpu")
    pinned = devrt.ones(3, device="mtia:0", pinned=True)
    x = devrt.ones(3, device="mtia:0")
    for call in (lambda: np.add(c, c), lambda: np.sum(c),
                 lambda: np.add.reduce(c), lambda: np.add(c, x),
                 lambda: np.where(c, x, x), lambda: np.add(x, x, out=c),
                 lambda: np.add(x, devrt.ones(3, device="mtia:1"))):
        with pytest.raises(TypeError):
            call()
    same(np.add(pinned, x), np.full(3, 2.0))
    assert np.reshape(c, (3, 1)).shape == (3, 1)
    np.testing.assert_array_equal(np.add(c.numpy(), 1), np.full(3, 2.0))


# What may be given as it is by default, and what not.
@pytest.mark.parametrize("call,refused", [
    (lambda x, **o: np.sum(x, **o), {"out": np.ones(())}),
    (lambda x, **o: np.prod(x, **o), {"where": np.ones(3, bool)}),
    (lambda x, **o: np.max(x, **o), {"initial": 3}),
    (lambda x, **o: np.mean(x, **o), {"dtype": "float32"}),
    (lambda x, **o: np.any(x, **o), {"out": np.ones((), bool)}),
    (lambda x, **o: np.reshape(x, (2, 3), **o), {"order": "F"}),
    (lambda x, **o: np.ravel(x, **o), {"order": "F"}),
    (lambda x, **o: np.copy(x, **o), {"order": "F"}),
    (lambda x, **o: np.zeros_like(x, **o), {"shape": (2,)}),
    (lambda x, **o: np.full_like(x, 2, **o), {"order": "F"}),
    (lambda x, **o: np.empty_like(x, **o), {"order": "F"}),
    (lambda x, **o: np.array_equal(x, x, **o), {"equal_nan": True}),
])
def test_arguments_that_devrt_has_not(call, refused):
    x = devrt.ones((2, 3), "float32")
    call(x)
    # A host array among them: NumPy's own refusal.
    name = next(iter(refused))
    with pytest.raises(TypeError, match=f"{name}=|no implementation") as caught:
        call(x, **refused)
    assert "numpy." in str(caught.value) and "_sum" not in str(caught.value)


def test_defaults_may_be_given():
    a = np.arange(6, dtype="float32").reshape(2, 3)
    x = devrt.array(a)
    same(np.sum(x, out=None), np.sum(a))
    same(np.sum(x, 0, None, None, True), np.sum(a, 0, None, None, True))
    same(np.sum(x, dtype="float64", where=True), np.sum(a, dtype="float64"))
    same(np.max(x, axis=1, out=None, keepdims=False), np.max(a, axis=1))
    same(np.mean(x, 0, None, None), np.mean(a, 0))
    same(np.any(x, axis=None, out=None), np.any(a))
    same(np.all(x, 0, None, True), np.all(a, 0, None, True))
    same(np.reshape(x, (3, 2), order="C"), a.reshape(3, 2))
    same(np.broadcast_to(x[0], (2, 3), subok=False), np.broadcast_to(a[0], (2, 3)))
    same(np.ravel(x, order="C"), np.ravel(a))
    same(np.copy(x, order="K"), a)
    same(np.full_like(x, 2, dtype=None, order="C", subok=True),
         np.full_like(a, 2))
    assert np.zeros_like(x, "int8", shape=None).dtype == devrt.int8
    assert np.empty_like(x, subok=False).shape == (2, 3)
    assert np.array_equal(x, x, equal_nan=False)
    assert np.size(x, 1) == 3


def test_copyto_casts_as_numpy_does():
    kinds = [("bool", "int8"), ("uint8", "int8"), ("int8", "float32"),
             ("float64", "float32"), ("float32", "complex64")]
    for lower, higher in kinds:
        for source, target in ((lower, higher), (higher, lower)):
            a, x = np.zeros(2, target), devrt.zeros(2, target)
            other = np.ones(2, source)
            try:
                np.copyto(a, other)
            except TypeError:
                with pytest.raises(TypeError, match="same_kind"):
                    np.copyto(x, devrt.array(other))
                np.copyto(x, devrt.array(other), casting="unsafe")
            else:
                np.copyto(x, devrt.array(other))
            assert x.tolist() == [1, 1]
    x = devrt.zeros(2, "uint8")
    np.copyto(x, 5)
    np.copyto(x, 7, casting="same_kind", where=True)
    assert x.tolist() == [7, 7]
    for value in (1.5, 1j, np.float32(1), np.int8(1)):
        with pytest.raises(TypeError):
            np.copyto(x, value)
    with pytest.raises(TypeError):
        np.copyto(devrt.zeros(1, "bool"), 1)
    with pytest.raises(TypeError, match="casting"):
        np.copyto(x, x, casting="no")


def test_a_mask_is_not_dropped():
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    for make in (devrt.asarray, devrt.array):
        with pytest.raises(TypeError, match="mask"):
            make(masked)
        same(make(masked.filled(0)), np.array([1.0, 0.0]))


def test_what_is_a_dtype():
    for name in ("float32", "f4"):
        with pytest.raises(TypeError):
            devrt.zeros(2, dtype=type(name, (), {}))
    for dtype in (np.float32, np.longlong, np.bool_, np.dtype("f2")):
        assert devrt.zeros(2, dtype=dtype).dtype == np.dtype(dtype)
    for name in ("bool", "float32", "uint64", "complex128"):
        mine = devrt.DType(name)
        assert np.dtype(mine) == np.dtype(name) == mine.__numpy_dtype__
        assert np.zeros(2, dtype=mine).dtype == np.dtype(name)

    class Broken:
        @property
        def isnative(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        devrt.zeros(2, dtype=Broken())
    with pytest.raises(TypeError):
        devrt.zeros(2, dtype=object())
