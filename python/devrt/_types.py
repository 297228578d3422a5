# SPDX-License-Identifier: Apache-2.0
"""Small types of the package."""

from __future__ import annotations

import enum
from typing import Any, Callable, ContextManager, Optional, Protocol, TypeVar, Union

from ._core import Device, Stream

# A device as functions take it.  None is the current one, a number is a device of the
# active backend.
DeviceLike = Union[Device, str, int, None]


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
StreamT = TypeVar("StreamT", bound=Optional[Stream])
_T_co = TypeVar("_T_co", covariant=True)


class Context(ContextManager[_T_co], Protocol[_T_co]):
    """A context that can also decorate functions."""

    def __call__(self, function: FunctionT) -> FunctionT:
        """Returns `function` so that it runs inside the context."""


class Scalar(Protocol):
    """A number of NumPy or ml_dtypes, which need not be installed.

    Unlike an array, it has a hash.
    """

    def __hash__(self) -> int: ...

    @property
    def itemsize(self) -> int: ...

    def item(self) -> Union[bool, int, float, complex]: ...


class NumpyDType(Protocol):
    """numpy.dtype, or an object that describes itself as one."""

    @property
    def name(self) -> str: ...

    @property
    def isnative(self) -> bool: ...


class DeviceType(enum.IntEnum):
    """Numbers of device types, as in PyTorch."""

    CPU = 0
    CUDA = 1
    HIP = 6
    MTIA = 19
    PRIVATEUSE1 = 20  # backends of other packages


def ExternalStream(stream: Any, device: DeviceLike = None) -> Stream:
    """Adopts another library's stream, without owning it: see Stream.from_external."""
    return Stream.from_external(stream, device)
