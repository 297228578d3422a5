# SPDX-License-Identifier: Apache-2.0
"""NumPy's functions, ufuncs and dtypes over arrays."""

import ctypes
import operator
import re
import types

import numpy as np
import pytest

import devrt
from conftest_arrays import same
from devrt._refusals import INSTEAD

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


def test_a_host_array_is_refused_with_a_remedy():
    x, a = devrt.ones(3, "float32", device="mtia:1"), np.ones(3, "float32")
    for call in (lambda: x + a, lambda: a + x, lambda: x == a, lambda: a < x,
                 lambda: np.add(x, a), lambda: x * np.array(2.0)):
        with pytest.raises(TypeError, match=r"devrt\.asarray\(.*x\.numpy\(\)"
                           ) as caught:
            call()
        assert "1." not in str(caught.value)  # not the elements of all
    with pytest.raises(TypeError, match=r"numpy\.add\(\)"):
        x += a
    with pytest.raises(TypeError, match=r"numpy\.multiply\(\)"):
        a *= x
    same(x + devrt.asarray(a, device=x.device), a + a)


def test_operands_of_another_device_are_refused_with_a_remedy():
    """As host arrays are: no operation moves an array.  An assignment says where
    the copy goes."""
    x, y = devrt.ones(3, device="mtia:1"), devrt.full(3, 2.0, device="mtia:0")
    before = x.tolist(), y.tolist()
    calls = [lambda: x + y, lambda: y - x, lambda: x == y, lambda: x < y,
             lambda: x.__iadd__(y), lambda: devrt.maximum(x, y),
             lambda: devrt.where(x, x, y), lambda: devrt.add(x, x, out=y),
             lambda: np.add(x, y), lambda: np.less(y, x),
             lambda: np.add(x, x, out=y), lambda: np.where(x, x, y)]
    for call in calls:
        with pytest.raises(devrt.InvalidArgumentError,
                           match=r"two devices.*to\(device\) first"):
            call()
    assert (x.tolist(), y.tolist()) == before
    same(x + y.to(x.device), np.full(3, 3.0))
    x[...] = y
    assert x.tolist() == y.tolist()
    x[...] = np.full(3, 4.0)
    assert x.tolist() == [4.0] * 3


X, Y = np.array([1.0, -2.0, 4.0], "float32"), np.array([3.0, -2.0, 0.5], "float32")
BOOLS = np.array([True, True, False]), np.array([True, False, False])


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_missing_functions_name_a_replacement(name):
    """The call in the error message works, and returns the result of NumPy's
    function."""
    function = getattr(np, name, None)
    if function is None:
        pytest.skip(f"this NumPy has no {name}")
    bools = name.startswith("bitwise") or name == "invert"
    a, b = BOOLS if bools else (X, Y)
    more = {"clip": (-1, 2), "swapaxes": (0, 1), "moveaxis": (0, 1)}.get(name)
    if more is not None and name != "clip":
        a = X.reshape(3, 1)
    x, y = devrt.array(a), devrt.array(b)
    for arguments in ((a, b), (a,)) if more is None else ((a, *more),):
        try:
            expected = function(*arguments)
            break
        except (TypeError, ValueError):
            continue
    ours = [x if one is a else y if one is b else one for one in arguments]
    with pytest.raises(TypeError, match=r"devrt has no numpy\.\w+\(\): ") as caught:
        function(*ours)
    assert INSTEAD[name] in str(caught.value)
    made = eval(INSTEAD[name], {"devrt": devrt, "x": x, "y": y, "low": -1,
                                "high": 2, "axes": (1, 0)})
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-6)
    assert made.shape == np.shape(expected)


@pytest.mark.parametrize("name", ["dot", "inner", "isnan", "square", "var",
                                  "vdot"])
def test_what_there_is_for_complex_numbers(name):
    """Or the error says that it is for real ones."""
    a, b = np.array([1 + 2j, 3 - 1j, 1j]), np.array([2 - 1j, 3 - 1j, 4])
    x, y = devrt.array(a), devrt.array(b)
    function = getattr(np, name)
    two = name not in ("isnan", "square", "var")
    with pytest.raises(TypeError) as caught:
        function(x, y) if two else function(x)
    if "of real" not in str(caught.value):
        made = eval(INSTEAD[name], {"devrt": devrt, "x": x, "y": y})
        np.testing.assert_allclose(made.numpy(), function(a, b) if two else function(a))


def test_other_functions_are_computed_where_the_error_says():
    x, c = devrt.array(X, device="mtia:1"), devrt.array(X, device="cpu")
    calls = [(lambda a: np.sqrt(abs(a)), "sqrt"), (np.exp, "exp"),
             (np.sort, "sort"), (np.linalg.norm, "linalg.norm"),
             (lambda a: np.power(a, 2), "power"), (np.cumsum, "cumsum"),
             (np.fft.fft, "fft.fft"), (lambda a: np.percentile(a, 50), "percentile")]
    for call, name in calls:
        remedy = (f"give numpy.{name} x.numpy() for each array x; "
                  "devrt.asarray(result, device=x.device)")
        with pytest.raises(TypeError, match=re.escape(remedy)):
            call(x)
        if name != "sqrt":  # abs() is devrt's, which computes on devices
            with pytest.raises(TypeError, match=re.escape(f"numpy.{name} x.numpy()")):
                call(c)
    for call in (lambda: np.concatenate([x, x]), lambda: np.stack([x, X]),
                 lambda: np.vstack((x, x))):
        with pytest.raises(TypeError, match=r"devrt\.empty\(.*out\[part\] = x"):
            call()


def test_reductions_by_ufuncs():
    a = np.array([[1, 2], [3, 4]], "float32")
    x = devrt.array(a)
    same(np.add.reduce(x), np.add.reduce(a))
    same(np.add.reduce(x, axis=None), np.add.reduce(a, axis=None))
    same(np.add.reduce(x[0, 0]), np.add.reduce(a[0, 0]))
    same(np.maximum.reduce(x[0, 0], axis=-1), a[0, 0])


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum",
                                  "logical_and", "logical_or"])
def test_each_reduction_is_the_ufuncs_own(name):
    a = np.array([[1, 2, 0], [3, 5, 0]], "float32")
    x, ufunc = devrt.array(a), getattr(np, name)
    for options in ({}, dict(axis=1), dict(axis=None), dict(keepdims=True)):
        same(ufunc.reduce(x, **options), ufunc.reduce(a, **options))


def test_options_of_ufuncs_are_not_dropped():
    """Of methods by __array_ufunc__: NumPy before 2.3 keeps the arguments of a method
    that raises."""
    x = devrt.ones(3, "float32")
    for options in (dict(where=x), dict(dtype="float64"), dict(casting="no"),
                    dict(order="F")):
        name = next(iter(options))
        with pytest.raises(TypeError, match=rf"numpy\.add\(\).* no argument {name}"):
            np.add(x, x, **options)
    for options in (dict(initial=5), dict(where=x), dict(out=(x,))):
        with pytest.raises(TypeError, match=r"devrt\.sum\(x, axis\)"):
            x.__array_ufunc__(np.add, "reduce", x, **options)


def test_options_of_ufuncs_may_be_their_defaults():
    a = np.array([[1, 2], [3, 4]], "float32")
    x = devrt.array(a)
    defaults = dict(where=True, casting="same_kind", order="K", dtype=None,
                    subok=True)
    for name, value in defaults.items():
        same(np.add(x, 1, **{name: value}), np.add(a, 1))
        same(np.negative(x, **{name: value}), -a)
    out = devrt.zeros_like(x)
    assert np.add(x, x, out=out, **defaults) is out
    same(out, a + a)
    assert np.add(x, x, out=None, order="C").tolist() == out.tolist()
    same(np.add.reduce(x, where=True), a.sum(0))
    same(np.add.reduce(x, 1, None, None, True), np.add.reduce(a, 1, None, None, True))


class Others:
    """An array of another library, which knows what to do with devrt's."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return "theirs"

    def __array_function__(self, function, types, arguments, options):
        return "theirs"


def test_other_libraries_have_their_turn():
    x, theirs = devrt.ones(3, "float32"), Others()
    for call in (lambda: np.add(x, theirs), lambda: np.add(theirs, x),
                 lambda: np.negative(x, out=theirs),
                 lambda: np.array_equal(x, theirs), lambda: np.where(x, x, theirs),
                 lambda: np.copyto(x, theirs)):
        assert call() == "theirs"


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
    assert done.stdout.split() == ["AxisError"] * 2 + ["TypeError"], (
        done.stdout + done.stderr)


NAMED = []  # what foreign ufuncs need for as long as they live


def foreign_ufunc(name, inputs):
    """A ufunc of another library, of a name that numpy has too."""
    multiarray = getattr(np, "_core", None) or np.core
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api = get(multiarray._multiarray_umath._UFUNC_API, None)
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, *[ctypes.c_void_p] * 2, ctypes.c_char_p,
        *[ctypes.c_int] * 4, *[ctypes.c_char_p] * 2, ctypes.c_int)(
            ctypes.cast(api, ctypes.POINTER(ctypes.c_void_p))[1])
    loop = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(lambda *_: None)
    loops = (ctypes.c_void_p * 1)(ctypes.cast(loop, ctypes.c_void_p).value)
    data = (ctypes.c_void_p * 1)()
    double = bytes([np.dtype("f8").num]) * (inputs + 1)
    NAMED.append((loop, loops, data, double, name.encode()))
    return make(loops, data, double, 1, inputs, 1, -1, NAMED[-1][-1], b"", 0)


@pytest.mark.parametrize("name,inputs", [
    ("add", 2), ("maximum", 2), ("less", 2), ("logical_or", 2),
    ("negative", 1), ("absolute", 1)])
def test_ufuncs_of_others(name, inputs):
    x = devrt.ones(3, "float64")
    named = foreign_ufunc(name, inputs)
    assert type(named) is np.ufunc and named.__name__ == name
    function = [lambda a: a, lambda a, b: a * 1000 + b][inputs - 1]
    function.__name__ = name
    for ufunc in (named, np.frompyfunc(function, inputs, 1)):
        with pytest.raises(TypeError, match="NotImplemented"):
            ufunc(*[x] * inputs)
        with pytest.raises(TypeError):
            ufunc(*[x] * inputs, out=x)
        if inputs == 2:
            with pytest.raises(TypeError):
                ufunc(x, 1.0)
            # Not by NumPy, which keeps the arguments of methods that raise.
            assert x.__array_ufunc__(ufunc, "reduce", x) is NotImplemented


def test_ufuncs_of_numba():
    numba = pytest.importorskip("numba")

    @numba.vectorize(["float64(float64, float64)"])
    def add(a, b):
        return a * 1000 + b

    @numba.guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
    def negative(a, out):
        out[:] = a

    x = devrt.ones(3, "float64")
    for call in (lambda: add(x, 1.0), lambda: negative(x)):
        with pytest.raises(TypeError):
            call()
    assert x.__array_ufunc__(add, "reduce", x) is NotImplemented


@pytest.mark.parametrize("module", ["numpy_x", "numpyro.ops", "numpy.linalg",
                                    "numpy"])
def test_functions_of_others(module):
    def sum(a):
        raise AssertionError("nobody asked for this")

    sum.__module__ = module
    x = devrt.ones(3, "float32")
    library = types.ModuleType(module)
    library.sum = sum
    answer = x.__array_function__(library.sum, (devrt.Array,), (x,), {})
    assert answer is NotImplemented
    same(x.__array_function__(np.sum, (devrt.Array,), (x,), {}), np.float32(3))


def test_host_memory_computes_by_numpy_only_where_that_is_asked():
    c = devrt.ones(3, device="cpu")
    pinned = devrt.ones(3, device="mtia:0", pinned=True)
    x = devrt.ones(3, device="mtia:0")
    for call in (lambda: np.add(c, c), lambda: np.sum(c),
                 lambda: np.add.reduce(c), lambda: np.add(c, x),
                 lambda: np.where(c, x, x), lambda: np.add(x, x, out=c),
                 lambda: np.add(c, np.ones(3)), lambda: np.ones(3) < c):
        with pytest.raises(TypeError, match=r"x\.to\(device\), or .*x\.numpy"):
            call()
    with pytest.raises(TypeError, match=r"no numpy\.sin\(\).*numpy\.sin x\.numpy"):
        np.sin(c)
    same(np.add(pinned, x), np.full(3, 2.0))
    assert np.reshape(c, (3, 1)).shape == (3, 1)
    np.testing.assert_array_equal(np.add(c.numpy(), 1), np.full(3, 2.0))


# Each argument may be given with its default value only.
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
    # A host array among them is refused as an operand is.
    name = next(iter(refused))
    with pytest.raises(TypeError, match=f"{name}=|argument {name}|never") as caught:
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

    known = {devrt.float32: 1}
    assert known["float32"] == known[devrt.DType(np.dtype("f4"))] == 1

    class Broken:
        @property
        def isnative(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        devrt.zeros(2, dtype=Broken())
    with pytest.raises(TypeError):
        devrt.zeros(2, dtype=object())


def test_where_needs_both_values():
    x = devrt.ones(3, "bool", device="mtia:0")
    with pytest.raises(TypeError, match="numpy.where.*both x and y"):
        np.where(x)
