# SPDX-License-Identifier: Apache-2.0
"""The active accelerator, by the names of torch.accelerator.

Has all names of PyTorch 2.15's module but Graph, and the names that the other modules
share.  The active backend is that whose device or stream the thread made current last,
else the first one that has devices.
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
    """Returns the current device of the active backend.

    check_available: return None if there is no device, instead of raising an error.
    """
    if check_available and not is_available():
        return None
    return _core.current_device()


def get_device_capability(device: DeviceLike = None, /) -> Dict[str, Set[DType]]:
    """Returns {'supported_dtypes': a set of DType} for a device.

    Arrays on the device can have these dtypes, and astype converts between them.  The
    float8 ones have no arithmetic.  For the compute capability use
    devrt.cuda.get_device_capability.
    """
    _names.active._device(device)
    known = vars(_arrays).values()
    return {"supported_dtypes": {one for one in known if isinstance(one, DType)}}


def current_device_index() -> int:
    """Returns the index of the active backend's current device."""
    return _core.current_device().index


def set_device_index(device: DeviceLike, /) -> None:
    """Makes a device of the active backend current.  A negative index is ignored."""
    if not isinstance(device, int) or device >= 0:
        set_device(device)


def current_device_idx() -> int:
    """Deprecated name of current_device_index."""
    warnings.warn("Use `current_device_index` instead.", FutureWarning, stacklevel=2)
    return current_device_index()


def set_device_idx(device: DeviceLike, /) -> None:
    """Deprecated name of set_device_index."""
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
