# SPDX-License-Identifier: Apache-2.0
"""HIP, by the names of torch.cuda."""

from __future__ import annotations

from . import _names
from ._core import CudaError, OutOfMemoryError
from ._facade import Backend, _EventClass, _StreamClass
from ._names import *

_backend = Backend("hip")

HipError = CudaError


class Stream(_StreamClass):
    """A devrt.Stream of HIP."""

    _of = _backend


class Event(_EventClass):
    """A devrt.Event that takes its options by position too."""


globals().update(_backend._named(_names.__all__))
get_device_capability = _backend.get_device_capability

__all__ = [
    "Event",
    "HipError",
    "OutOfMemoryError",
    "Stream",
    "get_device_capability",
]
__all__ += _names.__all__
