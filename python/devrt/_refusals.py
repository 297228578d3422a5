# SPDX-License-Identifier: Apache-2.0
"""Errors for functions and dtypes of NumPy that devrt does not have.

Each text names what to use instead.
"""

from __future__ import annotations

from typing import Any, Iterable, NoReturn

import numpy as np

from ._arrays import Array

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


def refuse_host(function: Any) -> NoReturn:
    """Raises for operands in host memory, where devrt does not compute."""
    raise TypeError(
        f"numpy.{function.__name__}() of a devrt.Array in plain host memory: "
        "devrt computes on devices only; copy it there with x.to(device), or "
        "let NumPy compute with x.numpy()")


def refuse_ndarray(function: Any) -> NoReturn:
    """Raises for a mix of a devrt.Array and a numpy.ndarray.

    NumPy's own text would contain the elements of all operands.
    """
    raise TypeError(
        f"numpy.{function.__name__}() of a devrt.Array and a numpy.ndarray, "
        "which is never moved to a device by itself: devrt.asarray(ndarray, "
        "device=x.device) copies it there, or let NumPy compute with x.numpy()")


# ---- Functions --------------------------------------------------------------

# By the names of NumPy's functions: what to use instead, for arrays x and y.
INSTEAD = {
    "allclose": "(abs(x - y) <= 1e-8 + 1e-5 * abs(y)).all()",
    "bitwise_and": "devrt.logical_and(x, y)",  # for bool_
    "bitwise_invert": "devrt.logical_not(x)",
    "bitwise_not": "devrt.logical_not(x)",
    "bitwise_or": "devrt.logical_or(x, y)",
    "clip": "devrt.minimum(devrt.maximum(x, low), high)",
    "count_nonzero": "(x != 0).sum()",
    "diff": "x[1:] - x[:-1]",
    "dot": "(x * y).sum()",
    "fabs": "abs(x)",
    "flip": "x[::-1]",
    "inner": "(x * y).sum()",
    "invert": "devrt.logical_not(x)",
    "isclose": "abs(x - y) <= 1e-8 + 1e-5 * abs(y)",
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
_JOINING = ("append", "column_stack", "concat", "concatenate", "dstack", "hstack",
            "stack", "vstack")


def on_the_host(name: str, operands: Iterable[Any]) -> str:
    """Returns text about how NumPy can compute that function."""
    arrays = [x for x in operands if isinstance(x, Array)]
    if not arrays or all(x.place == "cpu" for x in arrays):
        return f"NumPy computes it: give {name} x.numpy() for each array x"
    text = (f"NumPy computes it on the host: give {name} x.numpy() for each array x; "
            "devrt.asarray(result, device=x.device) copies an array back")
    if any(x.device.type == "cuda" for x in arrays):
        text += ("; CuPy and PyTorch take the array where it is, "
                 "cupy.from_dlpack(x) and torch.from_dlpack(x)")
    return text


def refuse(function: Any, operands: Iterable[Any]) -> NoReturn:
    """Raises for a function of NumPy that devrt does not have."""
    name = function.__name__
    module = getattr(function, "__module__", None) or "numpy"
    instead = INSTEAD.get(name) if module == "numpy" else None
    if instead is not None:
        of = (" of vectors" if name in _VECTORS
              else " of real vectors" if name == "vdot"
              else " of bool_" if name in _BOOLS else "")
        instead = f"{instead}{of} is what it computes"
    elif name in _JOINING and module == "numpy":
        instead = ("out = devrt.empty(shape, x.dtype, device=x.device), and "
                   "out[part] = x for each")
    else:
        instead = on_the_host(f"{module}.{name}", operands)
    raise TypeError(f"devrt has no {module}.{name}(): {instead}")
