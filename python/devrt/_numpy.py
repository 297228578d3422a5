# SPDX-License-Identifier: Apache-2.0
"""Arrays for NumPy's protocols.  Imported when a program first uses one of them."""

import sys

import numpy as np

from . import _core
from ._core import Array, DType
from ._refusals import (
    PYTHON_TYPES,
    on_the_host,
    refuse,
    refuse_dtype,
    refuse_host,
    refuse_ndarray,
    refuse_objects,
    refuse_out,
)

_SCALARS = (bool, int, float, complex, np.generic)

# ---- Memory -----------------------------------------------------------------


def as_ndarray(array):
    """Returns a numpy.ndarray over the memory of an array on the host."""
    if array.dtype.str is not None:
        return np.asarray(memoryview(array))
    # NumPy reads bfloat16 and float8 as integers, and then gets the dtype of ml_dtypes.
    dtype = array.dtype.numpy()
    return np.asarray(memoryview(array.view(f"u{array.itemsize}"))).view(dtype)


def to_ndarray(array, dtype, copy):
    """Implements Array.__array__."""
    made = as_ndarray(array)
    if dtype is None or np.dtype(dtype) == made.dtype:
        return made.copy() if copy else made
    if copy is False:
        raise ValueError(
            f"copy is False, and {made.dtype} cannot be seen as {dtype}")
    return made.astype(dtype)


def as_buffer(x):
    """Returns (object with the buffer protocol, dtype's name or None).

    The name is given for dtypes that the buffer protocol lacks.
    """
    made = np.asarray(x)
    if not made.dtype.isnative:
        raise BufferError(
            f"dtype {made.dtype} has a foreign byte order: "
            "x.astype(x.dtype.newbyteorder('=')) converts it")
    try:
        dtype = DType(made.dtype.name)
    except ValueError:
        dtype = None
    if dtype is None:
        refuse_dtype(x, made.dtype)
    if dtype.str is not None:
        return made, None
    return made.view(f"u{made.itemsize}"), dtype.name


# ---- Ufuncs -----------------------------------------------------------------


def _by_object(entries):
    """Replaces names by NumPy's objects, since other libraries have functions of these
    names.
    """
    found = ((getattr(np, name, None), value) for name, value in entries.items())
    return {function: value for function, value in found if function is not None}


_COMPARISONS = {
    "equal": _core.equal,
    "not_equal": _core.not_equal,
    "less": _core.less,
    "less_equal": _core.less_equal,
    "greater": _core.greater,
    "greater_equal": _core.greater_equal,
}

_UFUNCS = _by_object({
    **_COMPARISONS,
    "add": _core.add,
    "subtract": _core.subtract,
    "multiply": _core.multiply,
    "divide": _core.divide,
    "true_divide": _core.divide,
    "maximum": _core.maximum,
    "minimum": _core.minimum,
    "logical_and": _core.logical_and,
    "logical_or": _core.logical_or,
    "logical_not": _core.logical_not,
    "negative": _core.negative,
    "absolute": _core.absolute,
})

_COMPARISONS = _by_object(_COMPARISONS)

_REDUCTIONS = _by_object({
    "add": _core.sum,
    "multiply": _core.prod,
    "maximum": _core.max,
    "minimum": _core.min,
    "logical_and": _core.all,
    "logical_or": _core.any,
})


def _computing(array):
    """Returns the device that computes with the array: for pinned memory "mtia:0"."""
    return array.place.rpartition(" ")[2]


def _is_plain(x):
    """Returns True for arrays of NumPy that leave operations to NumPy."""
    return (isinstance(x, np.ndarray)
            and type(x).__array_ufunc__ is np.ndarray.__array_ufunc__)


def _on_one_device(operands):
    """Returns True if all are numbers, or arrays of one device."""
    devices = {_computing(x) for x in operands if isinstance(x, Array)}
    return len(devices) == 1 and "cpu" not in devices and _are_ours(operands)


def _are_ours(operands):
    return all(isinstance(x, (Array, *_SCALARS)) for x in operands)


def _are_known(operands):
    """Returns True if no operand is an object of another library."""
    return all(isinstance(x, (Array, *_SCALARS)) or type(x) in PYTHON_TYPES
               or _is_plain(x) for x in operands)


def _any_on_host(values):
    return any(isinstance(x, Array) and x.place == "cpu" for x in values)


def _number(x):
    """Returns the scalar of an array without axes: NumPy's comparisons make such
    arrays.
    """
    return x[()] if type(x) is np.ndarray and x.ndim == 0 else x


# Values of a ufunc's own arguments that change nothing.
_UFUNC_DEFAULTS = {
    "where": (True,),
    "casting": ("same_kind",),
    "order": ("K", "C"),
    "dtype": (None,),
    "subok": (True,),
}


def _without_defaults(options, known=_UFUNC_DEFAULTS):
    """Returns the arguments that change something.  Compares by `is`, since == of
    arrays gives an array.
    """
    return {name: value for name, value in options.items()
            if not any(value is one or (isinstance(value, str) and value == one)
                       for one in known.get(name, ()))}



def array_ufunc(self, ufunc, method, *inputs, **options):
    """Implements Array.__array_ufunc__."""
    out = options.pop("out", None)
    if out is not None:
        # NumPy passes a tuple; a program that calls this may pass anything.
        if not (isinstance(out, tuple) and len(out) == 1
                and isinstance(out[0], (Array, np.ndarray))):
            return NotImplemented
        out = out[0]
    if ufunc in _COMPARISONS:
        inputs = tuple(map(_number, inputs))
    operands = inputs if out is None else (*inputs, out)
    if method == "__call__" and ufunc in _UFUNCS and _on_one_device(operands):
        refused = _without_defaults(options)
        if not refused:
            try:
                return _UFUNCS[ufunc](*inputs, out=out)
            except TypeError:
                refuse_objects(ufunc, inputs)
                raise
        raise TypeError(f"numpy.{ufunc.__name__}() of a devrt.Array has no "
                        f"argument {next(iter(refused))}")
    if method == "reduce" and ufunc in _REDUCTIONS and _on_one_device(operands):
        answer = _reduce(_REDUCTIONS[ufunc], out, *inputs, **options)
        if answer is not NotImplemented:
            return answer
    if not _are_known(operands):
        return NotImplemented  # another library's, which may know what to do
    name = getattr(ufunc, "__name__", None)
    if not isinstance(name, str) or getattr(np, name, None) is not ufunc:
        return NotImplemented  # another library's
    plain = any(map(_is_plain, operands))
    if method != "__call__":
        if ufunc in _REDUCTIONS and _any_on_host(operands) and not plain:
            refuse_host(ufunc)
        _refuse_method(ufunc, method, operands)
    if ufunc not in _UFUNCS:
        refuse(ufunc, operands)
    refuse_objects(ufunc, inputs)
    if _any_on_host(operands):
        refuse_host(ufunc)
    if any(map(_is_plain, inputs)):
        refuse_ndarray(ufunc, filter(_is_plain, inputs))
    if plain:
        refuse_out(ufunc, offered=True)
    return _UFUNCS[ufunc](*inputs, out=out)  # raises: these are two devices


def _refuse_method(ufunc, method, operands):
    name = (_REDUCTIONS[ufunc].__name__
            if method == "reduce" and ufunc in _REDUCTIONS else None)
    instead = (f"devrt.{name}(x, axis) is numpy.{ufunc.__name__}.reduce" if name
               else on_the_host(f"numpy.{ufunc.__name__}.{method}", operands))
    raise TypeError(
        f"numpy.{ufunc.__name__}.{method}() of a devrt.Array, or one of its "
        f"arguments, is not offered: {instead}")


def _reduce(function, out, x, /, axis=0, dtype=None, keepdims=False, **others):
    if not isinstance(x, Array) or out is not None or _without_defaults(
            others, {"where": (True,), "initial": (np._NoValue,)}):
        return NotImplemented
    if x.ndim == 0 and axis in (0, -1):
        axis = ()  # as in NumPy
    options = {} if dtype is None else {"dtype": dtype}
    return function(x, axis, keepdims=keepdims, **options)


# ---- Functions --------------------------------------------------------------
# By NumPy's names and parameters.  Those that devrt has not may be given as
# NumPy's defaults: _defaults says so, of values and what they may be.


class _NotOffered(Exception):
    """Arguments ask for something that devrt does not offer."""


def _defaults(**values):
    for name, (value, *allowed) in values.items():
        if not any(value is one or (isinstance(one, str) and value == one)
                   for one in (*allowed, np._NoValue)):
            raise _NotOffered(f"{name}={value!r}")


def _reduction(name, has_dtype):
    """Makes numpy.sum and similar functions."""

    def with_dtype(a, axis=None, dtype=None, out=None, keepdims=np._NoValue,
                   initial=np._NoValue, where=np._NoValue):
        _defaults(out=(out, None), initial=(initial,), where=(where, True))
        options = {} if dtype is None else {"dtype": dtype}
        keepdims = False if keepdims is np._NoValue else keepdims
        return getattr(a, name)(axis, keepdims=keepdims, **options)

    def without(a, axis=None, out=None, keepdims=np._NoValue,
                initial=np._NoValue, where=np._NoValue):
        return with_dtype(a, axis, None, out, keepdims, initial, where)

    return with_dtype if has_dtype else without


def _mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    _defaults(dtype=(dtype, None))
    return _reduction("mean", False)(a, axis, out, keepdims, where=where)


def _truth(name):
    """Makes numpy.any and numpy.all."""

    def function(a, axis=None, out=None, keepdims=False, *, where=True):
        return _reduction(name, False)(a, axis, out, keepdims, where=where)

    return function


def _like(make):
    """Makes numpy.zeros_like and similar functions.  Results are C-contiguous."""

    def function(a, dtype=None, order="K", subok=True, shape=None, *,
                 device=None):
        _defaults(order=(order, "K", "C"), subok=(subok, True, False),
                  shape=(shape, None), device=(device, None))
        return make(a, dtype)

    return function


def _empty_like(prototype, *arguments, **options):
    return _like(_core.empty_like)(prototype, *arguments, **options)


def _full_like(a, fill_value, dtype=None, *arguments, **options):
    return _like(lambda x, t: _core.full_like(x, fill_value, t))(
        a, dtype, *arguments, **options)


# The order of kinds for casting="same_kind".
_KINDS = "buifc"


def _kind_of(x):
    """Returns the kind of an array or a number.  A Python int fits every one."""
    if isinstance(x, bool):
        return "b"
    if isinstance(x, int):
        return "u"
    if isinstance(x, (float, complex)) and not isinstance(x, np.generic):
        return "f" if isinstance(x, float) else "c"
    return (x if isinstance(x, Array) else np.asarray(x)).dtype.kind


def _copyto(dst, src, casting="same_kind", where=True):
    if not isinstance(dst, Array):
        raise TypeError("numpy.copyto() does not write host arrays from a "
                        "devrt.Array: x.numpy() copies")
    _defaults(casting=(casting, "same_kind", "unsafe"), where=(where, True))
    if casting == "same_kind":
        kind = _kind_of(src)
        # float8 of ml_dtypes has another kind, as have dtypes that devrt refuses later.
        kind = kind if kind in _KINDS else "f"
        if _KINDS.index(kind) > _KINDS.index(dst.dtype.kind):
            raise TypeError(
                "numpy.copyto() cannot cast to " + dst.dtype.name +
                " by casting='same_kind'; casting='unsafe' can")
    dst[...] = src


def _reshape(a, /, shape=None, order="C", *, newshape=None, copy=None):
    _defaults(order=(order, "C"), copy=(copy, None))
    return a.reshape(newshape if shape is None else shape)


def _transpose(a, axes=None):
    return a.transpose() if axes is None else a.permute(axes)


def _broadcast_to(array, shape, subok=False):
    _defaults(subok=(subok, True, False))
    return array.broadcast_to(shape)


def _squeeze(a, axis=None):
    return a.squeeze(axis)


def _expand_dims(a, axis):
    return a.expand_dims(axis)


def _ravel(a, order="C"):
    _defaults(order=(order, "C"))
    return a.reshape(-1)


def _copy(a, order="K", subok=False):
    _defaults(order=(order, "K", "C"), subok=(subok, True, False))
    return a.copy()


def _where(condition, *others):
    if len(others) != 2:
        raise TypeError(
            "numpy.where() of a devrt.Array needs both x and y: how many elements "
            "are true is not known before the device has counted them; "
            "numpy.where(condition.numpy()) is the host's")
    return _core.where(condition, *others)


def _array_equal(a1, a2, equal_nan=False):
    _defaults(equal_nan=(equal_nan, False))
    if not isinstance(a1, Array):
        a1, a2 = a2, a1
    return _core.array_equal(a1, a2)


def _shape(a):
    return a.shape


def _ndim(a):
    return a.ndim


def _size(a, axis=None):
    return a.size if axis is None else a.shape[axis]


_COMPUTES = ("sum", "prod", "min", "amin", "max", "amax", "mean", "any", "all",
             "where")

_FUNCTIONS = _by_object({
    "sum": _reduction("sum", True),
    "prod": _reduction("prod", True),
    "min": _reduction("min", False),
    "amin": _reduction("min", False),
    "max": _reduction("max", False),
    "amax": _reduction("max", False),
    "mean": _mean,
    "any": _truth("any"),
    "all": _truth("all"),
    "empty_like": _empty_like,
    "zeros_like": _like(_core.zeros_like),
    "ones_like": _like(_core.ones_like),
    "full_like": _full_like,
    "copyto": _copyto,
    "reshape": _reshape,
    "transpose": _transpose,
    "permute_dims": _transpose,
    "broadcast_to": _broadcast_to,
    "squeeze": _squeeze,
    "expand_dims": _expand_dims,
    "ravel": _ravel,
    "copy": _copy,
    "where": _where,
    "array_equal": _array_equal,
    "shape": _shape,
    "ndim": _ndim,
    "size": _size,
})


def _is_numpys(function):
    """Returns True if the function is NumPy's: others use the protocol too."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    name = getattr(function, "__name__", None)
    return (isinstance(name, str)
            and getattr(module, "__name__", "").partition(".")[0] == "numpy"
            and getattr(module, name, None) is function)


def _arrays_in(values):
    """Returns the arrays among the values, and in lists and tuples of them."""
    found = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found += _arrays_in(value)
        elif isinstance(value, Array):
            found.append(value)
    return found


def _refuse_ndarrays(function, arguments, options):
    others = {name: x for name, x in options.items() if name != "out"}
    ndarrays = [x for x in (*arguments, *others.values()) if isinstance(x, np.ndarray)]
    if not ndarrays and isinstance(options.get("out"), np.ndarray):
        refuse_out(function, offered=False)
    refuse_ndarray(function, ndarrays)


def array_function(self, function, types, arguments, options):
    """Implements Array.__array_function__."""
    known = _FUNCTIONS.get(function)
    if not all(issubclass(t, (Array, np.ndarray)) for t in types):
        return NotImplemented  # another library's, which may know what to do
    if known is None:
        if not _is_numpys(function):
            return NotImplemented
        refuse(function, _arrays_in((*arguments, *options.values())))
    if not all(issubclass(t, Array) for t in types):
        _refuse_ndarrays(function, arguments, options)
    name = function.__name__
    given = (*arguments, *options.values())
    if name in _COMPUTES and _any_on_host(given):
        refuse_host(function)
    try:
        return known(*arguments, **options)
    except _NotOffered as error:
        raise TypeError(
            f"numpy.{name}() of a devrt.Array has no {error}") from None
