# SPDX-License-Identifier: Apache-2.0
"""The simulated accelerator, by the names of torch.mtia, and its simulator."""

from __future__ import annotations

from . import _names
from . import simulator as simulator
from ._core import OutOfMemoryError
from ._facade import Backend, _EventClass, _StreamClass
from ._names import *

_backend = Backend("mtia")


class Stream(_StreamClass):
    """A devrt.Stream of the simulated accelerator."""

    _of = _backend


class Event(_EventClass):
    """A devrt.Event that takes its options by position too."""


globals().update(_backend._named(_names.__all__))
get_device_capability = _backend.get_device_capability

__all__ = [
    "Event",
    "OutOfMemoryError",
    "Stream",
    "get_device_capability",
    "simulator",
]
__all__ += _names.__all__
