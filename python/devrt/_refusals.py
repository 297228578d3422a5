# SPDX-License-Identifier: Apache-2.0
"""Errors for functions and dtypes of NumPy that devrt does not have.

Each text names what to use instead.
"""

from __future__ import annotations

from typing import Any, Iterable, NoReturn, Optional, Sequence

import numpy as np

from ._arrays import Array, DType

# ---- Dtypes -----------------------------------------------------------------

# By the kind of NumPy's dtype: how to convert elements that devrt has no dtype for.
_REMEDIES = {
    "M": "x.astype('int64') is the number of units since 1970",
    "m": "x.astype('int64') is the number of units",
    "S": "x.view('uint8') has its bytes",
    "U": "text is not computed with: x.astype('float64') reads numbers",
    "O": "x.astype('float64') makes numbers of the objects",
    "f": "x.astype('float64') has less precision",
    "c": "x.astype('complex128') has less precision",
}


def refuse_dtype(x: Any, dtype: Any) -> NoReturn:
    """Raises BufferError for an array of that dtype, and TypeError for a scalar."""
    kind = TypeError if isinstance(x, np.generic) else BufferError
    remedy = _REMEDIES.get(dtype.kind, "x.astype(dtype) converts it")
    if dtype.names:
        remedy = f"x[{dtype.names[0]!r}] is one field of it"
    raise kind(f"devrt has no dtype for {type(x).__name__} of dtype {dtype}: {remedy}")


# ---- Operands ---------------------------------------------------------------

# Types of Python whose objects are no operands.  An object of any other type may be an
# array of another library.
PYTHON_TYPES = (list, tuple, range, str, bytes, bytearray, memoryview, type(None), dict,
                set, frozenset)

# Scalars of NumPy that are no numbers.
_NOT_NUMBERS = (np.datetime64, np.timedelta64, np.character, np.void, np.object_)


def refuse_host(function: Any) -> NoReturn:
    """Raises for operands in host memory, where devrt does not compute."""
    raise TypeError(
        f"numpy.{function.__name__}() of a devrt.Array in plain host memory: "
        "devrt computes on devices only; copy it there with x.to(device), or "
        "let NumPy compute with x.numpy()")


def refuse_ndarray(function: Any, ndarrays: Iterable[Any]) -> NoReturn:
    """Raises for a mix of a devrt.Array and a numpy.ndarray.

    NumPy's own text would contain the elements of all operands.
    """
    begin = f"numpy.{function.__name__}() of a devrt.Array and a numpy.ndarray"
    for ndarray in ndarrays:
        if not _has_dtype(ndarray.dtype):
            raise TypeError(f"{begin} of dtype {ndarray.dtype}, which devrt does not "
                            "have: let NumPy compute with x.numpy()")
    raise TypeError(
        f"{begin}, which is never moved to a device by itself: "
        "devrt.asarray(ndarray, device=x.device) copies it there, or let NumPy "
        "compute with x.numpy()")


def _has_dtype(dtype: Any) -> bool:
    try:
        DType(dtype.name)
    except ValueError:
        return False
    return True


def refuse_out(function: Any, offered: bool) -> NoReturn:
    """Raises for a numpy.ndarray as `out`.

    offered: True if the function takes an array of devrt as `out`.
    """
    name = function.__name__
    if not offered:
        raise TypeError(f"numpy.{name}() of a devrt.Array has no argument out: "
                        "ndarray[...] = result.numpy() copies its result")
    raise TypeError(
        f"numpy.{name}() of a devrt.Array cannot write to a numpy.ndarray: out must be "
        "a devrt.Array, out = devrt.empty(shape, dtype, device=x.device), and "
        "ndarray[...] = out.numpy() copies it")


def refuse_objects(function: Any, operands: Iterable[Any]) -> None:
    """Raises if one of the operands is neither an array nor a number."""
    for operand in operands:
        if isinstance(operand, (list, tuple, range)):
            remedy = "devrt.array(values, device=x.device) makes an array of it"
        elif isinstance(operand, (np.datetime64, np.timedelta64)):
            remedy = "devrt has no dtype for it; let NumPy compute with x.numpy()"
        elif isinstance(operand, (*PYTHON_TYPES, *_NOT_NUMBERS)):
            remedy = "operands must be arrays and numbers"
        else:
            continue
        module = type(operand).__module__
        name = type(operand).__name__
        name = name if module == "builtins" else f"{module}.{name}"
        raise TypeError(f"numpy.{function.__name__}() of a devrt.Array and a {name}: "
                        f"{remedy}") from None


# ---- Functions --------------------------------------------------------------

# By the names of NumPy's functions: what to use instead, for arrays x and y.
INSTEAD = {
    "bitwise_and": "devrt.logical_and(x, y)",  # for bool_
    "bitwise_invert": "devrt.logical_not(x)",
    "bitwise_not": "devrt.logical_not(x)",
    "bitwise_or": "devrt.logical_or(x, y)",
    "clip": "devrt.minimum(devrt.maximum(x, low), high)",
    "count_nonzero": "(x != 0).sum()",
    "diff": "x[1:] - x[:-1]",
    "dot": "(x * y).sum()",
    "flip": "x[::-1]",
    "inner": "(x * y).sum()",
    "invert": "devrt.logical_not(x)",
    "isnan": "x != x",
    "logical_xor": "(x != 0) != (y != 0)",
    "matmul": "(x * y).sum()",
    "moveaxis": "x.permute(axes)",
    "positive": "+x",
    "ptp": "x.max() - x.min()",
    "square": "x * x",
    "swapaxes": "x.permute(axes)",
    "var": "(abs(x - x.mean()) * abs(x - x.mean())).mean()",
    "vdot": "(x * y).sum()",  # devrt has no conjugate
}

_VECTORS = ("diff", "dot", "flip", "inner", "matmul")
_BOOLS = ("bitwise_and", "bitwise_invert", "bitwise_not", "bitwise_or", "invert")

_JOIN = "out = devrt.empty(shape, x.dtype, device=x.device), and out[part] = x for each"
_SHARE = "x.shares_storage(y) is True if both are views of one block of memory"

# By the names of NumPy's functions: how devrt does what they do.
_OWN = {
    **dict.fromkeys(("append", "column_stack", "concat", "concatenate", "dstack",
                     "hstack", "stack", "vstack"), _JOIN),
    "astype": "x.astype(dtype) does it",
    "may_share_memory": _SHARE,
    "shares_memory": _SHARE,
}

# Of functions with the argument like: what makes an array on the device of `like`.
_LIKE = {
    "arange": "devrt.arange(stop, dtype=dtype, device=like.device)",
    "array": "devrt.array(values, dtype, device=like.device)",
    "asanyarray": "devrt.asarray(values, dtype, device=like.device)",
    "asarray": "devrt.asarray(values, dtype, device=like.device)",
    "empty": "devrt.empty(shape, dtype, device=like.device)",
    "full": "devrt.full(shape, value, dtype, device=like.device)",
    "ones": "devrt.ones(shape, dtype, device=like.device)",
    "zeros": "devrt.zeros(shape, dtype, device=like.device)",
}
_LIKE_ON_THE_HOST = (
    "ascontiguousarray", "asfortranarray", "eye", "frombuffer", "fromfile",
    "fromfunction", "fromiter", "fromstring", "genfromtxt", "identity", "loadtxt",
    "require", "tri")

# Functions that change their first argument.
_CHANGES = ("fill_diagonal", "place", "put", "put_along_axis", "putmask")

# Functions that return no array.
_NO_ARRAY = (
    "allclose", "array2string", "array_equiv", "array_repr", "array_str", "can_cast",
    "common_type", "einsum_path", "iscomplexobj", "isrealobj", "min_scalar_type",
    "result_type", "save", "savetxt", "savez", "savez_compressed")

# Functions that return several arrays, some only with certain arguments.
_SEVERAL = (
    "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "average",
    "broadcast_arrays", "diag_indices_from", "divmod", "dsplit", "eig", "eigh", "frexp",
    "gradient", "histogram", "histogram2d", "histogramdd", "hsplit", "intersect1d",
    "ix_", "lstsq", "meshgrid", "modf", "nonzero", "polyfit", "qr", "slogdet", "split",
    "svd", "tril_indices_from", "triu_indices_from", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unravel_index", "unstack", "vsplit")


def on_the_host(name: str, operands: Iterable[Any]) -> str:
    """Returns text about how NumPy can compute that function."""
    arrays = [x for x in operands if isinstance(x, Array)]
    if not arrays or all(x.place == "cpu" for x in arrays):
        return f"NumPy computes it: give {name} x.numpy() for each array x"
    last = name.rpartition(".")[2]
    if last in _CHANGES or last == "at":
        return (f"assign by index, x[index] = value, or let NumPy change a copy: "
                f"a = x.numpy(), {name}(a, ...), and x[...] = a copies it back")
    text = f"NumPy computes it on the host: give {name} x.numpy() for each array x"
    if last in _NO_ARRAY:
        return text
    if last in _SEVERAL:
        text += ("; of several arrays that it returns, devrt.asarray(each, "
                 "device=x.device) copies each back")
    else:
        text += "; devrt.asarray(result, device=x.device) copies an array back"
    if any(x.device.type == "cuda" for x in arrays):
        text += ("; CuPy and PyTorch take the array where it is, "
                 "cupy.from_dlpack(x) and torch.from_dlpack(x)")
    return text


def _instead(name: str, operands: Sequence[Any]) -> Optional[str]:
    """Returns text about what devrt has in place of a function of the module numpy."""
    instead = INSTEAD.get(name)
    if instead is not None:
        of = (" of vectors" if name in _VECTORS
              else " of real vectors" if name == "vdot"
              else " of bool_" if name in _BOOLS else "")
        return f"{instead}{of} is what it computes"
    if operands or (name not in _LIKE and name not in _LIKE_ON_THE_HOST):
        return _OWN.get(name)
    made = _LIKE.get(name, f"devrt.asarray(numpy.{name}(...), device=like.device)")
    return f"{made} makes an array where `like` is"


def refuse(function: Any, operands: Sequence[Any]) -> NoReturn:
    """Raises for a function of NumPy that devrt does not have."""
    name = function.__name__
    module = getattr(function, "__module__", None) or "numpy"
    instead = _instead(name, operands) if module == "numpy" else None
    raise TypeError(f"devrt has no {module}.{name}(): "
                    f"{instead or on_the_host(f'{module}.{name}', operands)}")
