# SPDX-License-Identifier: Apache-2.0
"""Whatever accelerator is active, by the names of torch.accelerator.

All names of PyTorch 2.15 but Graph, and those of the other modules beside them.
Active is the backend whose device or stream the thread has made current last,
at first the first one that has devices.
"""

from __future__ import annotations

import warnings
from typing import Dict, Optional, Set

from . import _arrays, _core, _names
from ._arrays import DType
from ._core import Device, OutOfMemoryError
from ._facade import DeviceLike
from ._names import *

get_memory_info = mem_get_info
empty_host_cache = host_empty_cache


def current_accelerator(check_available: bool = False) -> Optional[Device]:
    """The current device of the active backend.

    check_available: None instead of an error where there is no device.
    """
    if check_available and not is_available():
        return None
    return _core.current_device()


def get_device_capability(device: DeviceLike = None, /) -> Dict[str, Set[DType]]:
    """What a device can do: {'supported_dtypes': a set of DType}.

    Arrays on the device can have these dtypes, and astype converts between them;
    the float8 ones have no arithmetic.  (major, minor) of the compute capability:
    devrt.cuda.get_device_capability.
    """
    _names.active._device(device)
    known = vars(_arrays).values()
    return {"supported_dtypes": {one for one in known if isinstance(one, DType)}}


def current_device_index() -> int:
    """Its number."""
    return _core.current_device().index


def set_device_index(device: DeviceLike, /) -> None:
    """Makes a device of the active backend current; a negative number none."""
    if not isinstance(device, int) or device >= 0:
        set_device(device)


def current_device_idx() -> int:
    """current_device_index, deprecated."""
    warnings.warn("Use `current_device_index` instead.", FutureWarning, stacklevel=2)
    return current_device_index()


def set_device_idx(device: DeviceLike, /) -> None:
    """set_device_index, deprecated."""
    warnings.warn("Use `set_device_index` instead.", FutureWarning, stacklevel=2)
    set_device_index(device)


__all__ = [
    "OutOfMemoryError",
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "set_device_idx",
    "set_device_index",
]
__all__ += _names.__all__
