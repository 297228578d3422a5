# SPDX-License-Identifier: Apache-2.0
"""NumPy's side of arrays; imported when something of it is needed first."""

import numpy as np

from . import _core
from ._core import Array, DType

_SCALARS = (bool, int, float, complex, np.generic)

# ---- Memory -----------------------------------------------------------------


def as_ndarray(array):
    """A numpy.ndarray over the memory of an array on the host."""
    if array.dtype.str is not None:
        return np.asarray(memoryview(array))
    # bfloat16 and float8: as integers, which NumPy gives another name.
    dtype = array.dtype.numpy()
    return np.asarray(memoryview(array.view(f"u{array.itemsize}"))).view(dtype)


def to_ndarray(array, dtype, copy):
    """What __array__ answers."""
    made = as_ndarray(array)
    if dtype is None or np.dtype(dtype) == made.dtype:
        return made.copy() if copy else made
    if copy is False:
        raise ValueError(
            f"copy is False, and {made.dtype} cannot be seen as {dtype}")
    return made.astype(dtype)


def as_buffer(x):
    """(object with the buffer protocol, name of the dtype if that lacks it)."""
    made = np.asarray(x)
    if not made.dtype.isnative:
        raise BufferError(
            f"dtype {made.dtype} has a foreign byte order: "
            "x.astype(x.dtype.newbyteorder('=')) converts it")
    try:
        dtype = DType(made.dtype.name)
    except ValueError as error:
        raise BufferError(str(error)) from None
    if dtype.str is not None:
        return made, None
    return made.view(f"u{made.itemsize}"), dtype.name


# ---- Ufuncs -----------------------------------------------------------------

_UFUNCS = {
    "add": _core.add,
    "subtract": _core.subtract,
    "multiply": _core.multiply,
    "divide": _core.divide,
    "true_divide": _core.divide,
    "maximum": _core.maximum,
    "minimum": _core.minimum,
    "equal": _core.equal,
    "not_equal": _core.not_equal,
    "less": _core.less,
    "less_equal": _core.less_equal,
    "greater": _core.greater,
    "greater_equal": _core.greater_equal,
    "logical_and": _core.logical_and,
    "logical_or": _core.logical_or,
    "logical_not": _core.logical_not,
    "negative": _core.negative,
    "absolute": _core.absolute,
}

_REDUCTIONS = {
    "add": _core.sum,
    "multiply": _core.prod,
    "maximum": _core.max,
    "minimum": _core.min,
    "logical_and": _core.all,
    "logical_or": _core.any,
}


def _on_one_device(operands):
    """Whether all are numbers and arrays of one device."""
    devices = {x.device for x in operands if isinstance(x, Array)}
    known = all(isinstance(x, (Array, *_SCALARS)) for x in operands)
    return known and len(devices) == 1


def array_ufunc(self, ufunc, method, *inputs, **options):
    """What Array.__array_ufunc__ answers."""
    out = options.pop("out", None)
    if out is not None:
        if len(out) != 1 or not isinstance(out[0], Array):
            return NotImplemented
        out = out[0]
    operands = inputs if out is None else (*inputs, out)
    if not _on_one_device(operands):
        return NotImplemented
    if method == "__call__" and ufunc.__name__ in _UFUNCS and not options:
        return _UFUNCS[ufunc.__name__](*inputs, out=out)
    if method == "reduce" and ufunc.__name__ in _REDUCTIONS:
        return _reduce(ufunc.__name__, out, *inputs, **options)
    return NotImplemented


def _reduce(name, out, x, /, axis=0, dtype=None, keepdims=False, **others):
    if out is not None or others or not isinstance(x, Array):
        return NotImplemented
    options = {} if dtype is None else {"dtype": dtype}
    return _REDUCTIONS[name](x, axis, keepdims=keepdims, **options)


# ---- Functions --------------------------------------------------------------
# By NumPy's names and parameters; what a function does not list is a TypeError.


def _sum(a, axis=None, dtype=None, *, keepdims=False):
    return a.sum(axis, keepdims=keepdims, dtype=dtype)


def _prod(a, axis=None, dtype=None, *, keepdims=False):
    return a.prod(axis, keepdims=keepdims, dtype=dtype)


def _min(a, axis=None, *, keepdims=False):
    return a.min(axis, keepdims=keepdims)


def _max(a, axis=None, *, keepdims=False):
    return a.max(axis, keepdims=keepdims)


def _mean(a, axis=None, *, keepdims=False):
    return a.mean(axis, keepdims=keepdims)


def _any(a, axis=None, *, keepdims=False):
    return a.any(axis, keepdims=keepdims)


def _all(a, axis=None, *, keepdims=False):
    return a.all(axis, keepdims=keepdims)


def _empty_like(prototype, dtype=None):
    return _core.empty_like(prototype, dtype)


def _zeros_like(a, dtype=None):
    return _core.zeros_like(a, dtype)


def _ones_like(a, dtype=None):
    return _core.ones_like(a, dtype)


def _full_like(a, fill_value, dtype=None):
    return _core.full_like(a, fill_value, dtype)


def _copyto(dst, src):
    if not isinstance(dst, Array):
        raise TypeError("numpy.copyto() does not write host arrays from a "
                        "devrt.Array: x.numpy() copies")
    dst[...] = src


def _reshape(a, /, shape):
    return a.reshape(shape)


def _transpose(a, axes=None):
    return a.transpose() if axes is None else a.permute(axes)


def _broadcast_to(array, shape):
    return array.broadcast_to(shape)


def _squeeze(a, axis=None):
    return a.squeeze(axis)


def _expand_dims(a, axis):
    return a.expand_dims(axis)


def _ravel(a):
    return a.reshape(-1)


def _copy(a):
    return a.copy()


def _where(condition, x, y, /):
    return _core.where(condition, x, y)


def _array_equal(a1, a2):
    if not isinstance(a1, Array):
        a1, a2 = a2, a1
    return _core.array_equal(a1, a2)


def _shape(a):
    return a.shape


def _ndim(a):
    return a.ndim


def _size(a):
    return a.size


_FUNCTIONS = {
    "sum": _sum,
    "prod": _prod,
    "min": _min,
    "amin": _min,
    "max": _max,
    "amax": _max,
    "mean": _mean,
    "any": _any,
    "all": _all,
    "empty_like": _empty_like,
    "zeros_like": _zeros_like,
    "ones_like": _ones_like,
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
}


def array_function(self, function, types, arguments, options):
    """What Array.__array_function__ answers."""
    known = _FUNCTIONS.get(function.__name__)
    if known is None or not function.__module__.startswith("numpy"):
        return NotImplemented
    if not all(issubclass(t, Array) for t in types):
        return NotImplemented
    return known(*arguments, **options)
