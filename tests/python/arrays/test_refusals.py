# SPDX-License-Identifier: Apache-2.0
"""The texts of errors for functions and operands that devrt does not take."""

import re

import numpy as np
import pytest

import devrt
from conftest_arrays import same

A = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")


def refusal(call):
    with pytest.raises(TypeError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("method,more", [
    ("accumulate", ()), ("reduceat", ([0],)), ("outer", (1,)), ("at", (0, 1))])
@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.power])
def test_methods_of_ufuncs(ufunc, method, more):
    """Not by NumPy before 2.3, which keeps the arguments of a method that raises."""
    x = devrt.array(A)
    text = refusal(lambda: x.__array_ufunc__(ufunc, method, x, *more))
    name = f"numpy.{ufunc.__name__}.{method}"
    assert text.startswith(f"{name}() of a devrt.Array")
    assert "x.numpy()" in text and "devrt.sum" not in text


def test_a_reduction_that_devrt_does_not_have():
    x = devrt.array(A)
    text = refusal(lambda: x.__array_ufunc__(np.subtract, "reduce", x))
    assert text.startswith("numpy.subtract.reduce() of a devrt.Array")
    assert "give numpy.subtract.reduce x.numpy()" in text


@pytest.mark.parametrize("values", [[1, 2], (1, 2), range(2)], ids=repr)
def test_a_list_as_an_operand(values):
    x = devrt.array(A)
    kind = type(values).__name__
    for call in (lambda: np.add(x, values), lambda: np.less(values, x)):
        text = refusal(call)
        assert f"() of a devrt.Array and a {kind}: devrt.array(values, " in text
    same(np.add(x, devrt.array(values, device=x.device)), A + np.array(values))


@pytest.mark.parametrize("value", ["abc", b"abc", None, {}], ids=repr)
def test_an_object_that_is_no_operand(value):
    x = devrt.array(A)
    for call in (lambda: np.add(x, value), lambda: np.equal(value, x)):
        text = refusal(call)
        assert f"and a {type(value).__name__}: operands must be arrays" in text


@pytest.mark.parametrize("value", [
    np.datetime64("2020-01-01"), np.timedelta64(1, "D"), np.str_("abc"),
    np.bytes_(b"abc")], ids=lambda value: type(value).__name__)
def test_a_scalar_of_numpy_that_is_no_number(value):
    x = devrt.array(A)
    dates = isinstance(value, (np.datetime64, np.timedelta64))
    calls = [lambda: np.add(x, value), lambda: np.equal(value, x)]
    if dates:
        calls += [lambda: x + value, lambda: value + x, lambda: x == value,
                  lambda: x < value]
    for call in calls:
        text = refusal(call)
        assert f"and a numpy.{type(value).__name__}: " in text
        assert "devrt.array(" not in text
        assert ("x.numpy()" in text) == dates


@pytest.mark.parametrize("other", [
    np.array(["a", "b"]), np.array(["2020-01-01", "2021-01-01"], "M8[D]"),
    np.array([None, 1])], ids=lambda other: other.dtype.name)
def test_an_ndarray_of_a_dtype_that_devrt_does_not_have(other):
    x = devrt.array(A)
    for call in (lambda: x == other, lambda: other != x, lambda: np.add(x, other)):
        text = refusal(call)
        assert f"of dtype {other.dtype}, which devrt does not have" in text
        assert "asarray" not in text and "x.numpy()" in text


def test_an_ndarray_for_the_result():
    x, a = devrt.array(A), np.zeros_like(A)
    text = refusal(lambda: np.add(x, x, out=a))
    assert ("out must be a devrt.Array, out = devrt.empty(shape, dtype, "
            "device=x.device), and ndarray[...] = out.numpy()") in text
    out = devrt.empty(x.shape, x.dtype, device=x.device)
    np.add(x, x, out=out)
    a[...] = out.numpy()
    same(devrt.asarray(a), A + A)
    text = refusal(lambda: np.sum(x, out=np.zeros(())))
    assert "no argument out: ndarray[...] = result.numpy()" in text


def test_functions_that_devrt_has_under_another_name():
    x = devrt.array(A, device="mtia:1")
    if hasattr(np, "astype"):
        assert refusal(lambda: np.astype(x, "int8")).endswith(
            "x.astype(dtype) does it")
    for function in (np.shares_memory, np.may_share_memory):
        assert "x.shares_storage(y)" in refusal(lambda: function(x, x[0]))
    assert x.shares_storage(x[0])


@pytest.mark.parametrize("name,arguments", [
    ("ones", [2]), ("zeros", [2]), ("empty", [2]), ("full", [2, 3.0]), ("arange", [3]),
    ("array", [[1, 2]]), ("asarray", [[1, 2]]), ("asanyarray", [[1, 2]])])
def test_like_argument_names_a_call_that_works(name, arguments):
    """The call in the error message works, and makes an array on that device."""
    like = devrt.array(A, device="mtia:1")
    text = refusal(lambda: getattr(np, name)(*arguments, like=like))
    remedy = re.search(r"\(\): (devrt\..*) makes an array where `like` is$", text)
    names = {"devrt": devrt, "like": like, "shape": 2, "value": 3.0, "stop": 3,
             "values": [1, 2], "dtype": "float32"}
    made = eval(remedy.group(1), names)
    assert made.device == "mtia:1" and made.dtype == devrt.float32
    if name != "empty":
        same(made, getattr(np, name)(*arguments, dtype="float32"))


def test_like_of_functions_for_the_host_only():
    like = devrt.array(A, device="mtia:1")
    for call in (lambda: np.eye(2, like=like), lambda: np.identity(2, like=like)):
        text = refusal(call)
        assert re.search(r"devrt\.asarray\(numpy\.\w+\(\.\.\.\), device=like\.device\)",
                         text)


def test_functions_that_change_an_array():
    x = devrt.array(A)
    for call in (lambda: np.put(x, 0, 5), lambda: np.fill_diagonal(x, 5),
                 lambda: np.place(x, A > 1, [5]), lambda: np.putmask(x, A > 1, 5),
                 lambda: x.__array_ufunc__(np.add, "at", x, 0, 4)):
        text = refusal(call)
        assert "x[index] = value" in text and "x[...] = a copies it back" in text
    a = x.numpy()
    np.fill_diagonal(a, 5)
    x[...] = a
    assert x.tolist() == [[5, 2], [3, 5]]


@pytest.mark.parametrize("call", [
    lambda x: np.save("never.npy", x), lambda x: np.savetxt("never.txt", x),
    lambda x: np.result_type(x, 1), np.array2string, np.array_repr,
    lambda x: np.allclose(x, x)])
def test_functions_that_return_no_array(call):
    text = refusal(lambda: call(devrt.array(A)))
    assert text.endswith("x.numpy() for each array x")


@pytest.mark.parametrize("call", [
    lambda x: np.split(x, 2), np.nonzero, np.unique, np.linalg.svd, np.modf,
    lambda x: np.divmod(x, 2)])
def test_functions_that_return_several_arrays(call):
    text = refusal(lambda: call(devrt.array(A)))
    assert "devrt.asarray(each, device=x.device) copies each back" in text


def test_functions_that_no_short_expression_computes():
    """Infinities, the least int8 and int64 need NumPy's own functions."""
    x = devrt.array(A)
    for call in (lambda: np.isclose(x, x), lambda: np.fabs(x)):
        text = refusal(call)
        assert "x.numpy()" in text and "abs(" not in text.partition("()")[2]
