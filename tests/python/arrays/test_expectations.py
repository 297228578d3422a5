# SPDX-License-Identifier: Apache-2.0
"""First calls that users of NumPy, CuPy and PyTorch try."""

import operator
import sys

import numpy as np
import pytest

import devrt
from conftest_arrays import same


# ---- Comparisons with what is no array ---------------------------------------


@pytest.mark.parametrize("function", [
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
@pytest.mark.parametrize("other", [[1, 1, 1], (1, 1, 1), range(3), [], [[1]]],
                         ids=repr)
def test_comparisons_with_lists_do_not_pass_in_silence(function, other):
    x = devrt.ones(3)
    name = type(other).__name__
    for call in (lambda: function(x, other), lambda: function(other, x)):
        with pytest.raises(TypeError, match=rf"{name}.*devrt\.array\(.*array_equal"):
            call()
    with pytest.raises(TypeError, match="array_equal"):
        other in [x]  # by ==


def test_what_is_no_array_is_unequal():
    class Anything:
        def __eq__(self, other):
            return "theirs"

        __ne__ = __eq__

    class Tuple(tuple):
        __eq__ = __ne__ = Anything.__eq__
        __hash__ = None

    x = devrt.ones(3)
    for other in (None, "auto", b"auto", object(), {}, set()):
        assert (x == other) is False and (other == x) is False
        assert (x != other) is True and (other != x) is True
    for other in (Anything(), Tuple([1, 1, 1])):
        for pair in ((x, other), (other, x)):
            assert operator.eq(*pair) == operator.ne(*pair) == "theirs"


# ---- Text --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "int64", "uint8", "float32", "float64",
                                   "complex64"])
def test_a_number_formats_as_its_number(dtype):
    a = np.array(1, dtype)
    for place in ("mtia:0", "cpu"):
        x = devrt.array(a, device=place)
        specs = ["", "6", "<6"] + ([".2f", "8.3e"] if a.dtype.kind in "fc" else [])
        for spec in specs + (["d", "05d"] if a.dtype.kind in "iu" else []):
            assert format(x, spec) == format(a, spec), spec
    assert f"{devrt.array(2.345).sum():.2f}" == "2.35"[:2] + f"{2.345:.2f}"[2:]


def test_formats_that_cannot_be():
    x = devrt.ones(3)
    assert f"{x}" == str(x) == format(x, "") and f"{x.sum()!r}" == repr(x.sum())
    with pytest.raises(TypeError, match=r"'\.2f'.*0-d.*x\.numpy\(\)"):
        f"{x:.2f}"
    with pytest.raises(TypeError, match="0-d"):
        f"{devrt.ones(1):.2f}"
    with pytest.raises(ValueError, match="d"):
        f"{x.sum():d}"


# ---- Arrays of what is at hand -----------------------------------------------


def test_of_ranges(place):
    same(devrt.array(range(4), **place), np.arange(4))
    same(devrt.array(range(9, 0, -3), "float32", **place),
         np.array(range(9, 0, -3), "float32"))
    same(devrt.array([range(2), (3, 4), [5, 6]], **place),
         np.array([range(2), (3, 4), [5, 6]]))
    assert devrt.array(range(0), **place).shape == (0,)
    x = devrt.zeros(3, "int8", **place)
    x[...] = range(3)
    assert x.tolist() == [0, 1, 2]
    assert x.copy_(range(3, 6)).tolist() == [3, 4, 5]
    with pytest.raises(ValueError, match="ragged"):
        devrt.array([range(2), range(3)], **place)
    with pytest.raises(ValueError):
        devrt.array(range(2**70, 2**70 + 2), **place)


def test_a_list_of_arrays_says_how_they_are_stacked():
    x = devrt.ones(3)
    with pytest.raises(TypeError, match=r"devrt\.empty\(.*out\[i\] = ") as caught:
        devrt.array([x, x])
    assert "item" not in str(caught.value)
    with pytest.raises(TypeError, match=r"x\.item\(\)"):
        devrt.array([x.sum()])


def test_a_device_in_the_place_of_the_dtype():
    for call in (lambda name: devrt.array([1, 2], name),
                 lambda name: devrt.zeros(3, name),
                 lambda name: devrt.full(3, 1, name),
                 lambda name: devrt.zeros_like(devrt.ones(1), name)):
        for name in ("cpu", "mtia", "mtia:1"):
            with pytest.raises(ValueError, match=f"dtype.*device='{name}'"):
                call(name)
        with pytest.raises(TypeError, match=r"dtype.*device=devrt.*mtia:1"):
            call(devrt.device("mtia:1"))
        with pytest.raises(ValueError, match="float16") as caught:
            call("float31")
        assert "device=" not in str(caught.value)


def test_an_index_given_twice():
    for name in ("mtia:1", "mtia:0", "mtia:x"):
        with pytest.raises(ValueError, match=f"'{name}'.*index.*twice"):
            devrt.device(name, 0)
    assert devrt.device("mtia", 1) is devrt.device("mtia:1")


# ---- Views and copies --------------------------------------------------------


def test_several_axes():
    a = np.arange(6.0).reshape(1, 2, 1, 3, 1)
    x = devrt.array(a)
    for axes in (0, (0,), (0, 2), (-1, 0), (2, -1, 0), ()):
        same(x.squeeze(axes), np.squeeze(a, axes))
        same(np.squeeze(x, axes), np.squeeze(a, axes))
    same(x.squeeze(axis=[0, 2]), np.squeeze(a, (0, 2)))
    for axes in (0, (0,), (0, 2), (-1, 0), (3, 1), (), (6, 0)):
        same(x.expand_dims(axes), np.expand_dims(a, axes))
        same(np.expand_dims(x, axes), np.expand_dims(a, axes))
    for axes in ((0, 0), (0, -5), (1,), (0, 1), (5,), 2**70):
        with pytest.raises(ValueError):
            x.squeeze(axes)
    for axes in ((0, 0), (0, -7), (7,), (0, 2**70)):
        with pytest.raises(ValueError):
            x.expand_dims(axes)
    for axes in ("0", (0.5,), (True,), 1.5, True):
        with pytest.raises(TypeError):
            x.squeeze(axes)
        with pytest.raises(TypeError):
            x.expand_dims(axes)
    with pytest.raises(TypeError):
        x.expand_dims(None)
    with pytest.raises(ValueError):
        x.expand_dims(tuple(range(30)))


def test_to_takes_every_form_of_dtype():
    x = devrt.ones(3, "float32", device="mtia:1")
    for dtype in (np.float16, np.dtype("f2"), devrt.float16):
        for y in (x.to(dtype), x.to(dtype=dtype), x.to(dtype, non_blocking=True)):
            assert (y.dtype, y.device) == (devrt.float16, x.device)
    assert x.to(float).dtype == devrt.float64 and x.to(bool).dtype == devrt.bool_
    assert x.to(np.float32) is x
    for call in (lambda: x.to(float, "int8"), lambda: x.to(float, dtype="int8")):
        with pytest.raises(TypeError, match="two dtypes"):
            call()
    for wrong in (list, 3.5, object(), b"float32"):
        with pytest.raises(TypeError):
            x.to(wrong)


def test_dtypes_without_ml_dtypes(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    x = devrt.ones(2, "bfloat16")
    calls = [x.numpy, x.dtype.numpy, lambda: np.asarray(x.cpu())]
    if tuple(map(int, np.__version__.split(".")[:2])) >= (2, 4):
        calls.append(lambda: np.dtype(devrt.bfloat16))  # NumPy's own text before
    for call in calls:
        with pytest.raises(ImportError, match="bfloat16.*pip install ml_dtypes.*"
                                              r"astype\('float32'\)") as caught:
            call()
        assert caught.value.name == "ml_dtypes"
    assert x.tolist() == [1, 1] and x.sum().item() == 2
    same(x.astype("float32"), np.ones(2, "float32"))


# ---- Reductions --------------------------------------------------------------


def test_extrema_of_nothing():
    for name in ("min", "max"):
        for shape, axis in [((0, 0), 1), ((0, 0), 0), ((0, 3), 0), ((0,), None),
                            ((3, 0, 0), (1, 2))]:
            for array in (np.zeros(shape), devrt.zeros(shape)):
                with pytest.raises(ValueError):
                    getattr(array, name)(axis)
        for shape, axis in [((0, 3), 1), ((3, 0), 0), ((0, 3, 0), 1), ((0,), ())]:
            same(getattr(devrt.zeros(shape), name)(axis),
                 getattr(np.zeros(shape), name)(axis))
