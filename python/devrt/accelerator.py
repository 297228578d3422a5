# SPDX-License-Identifier: Apache-2.0
"""Whatever accelerator is active, by the names of torch.accelerator.

All names of PyTorch 2.15 but Graph, and those of the other modules beside them.
Active is the backend whose device or stream the thread has made current last,
at first the first one that has devices.
"""

from __future__ import annotations

import warnings
from typing import Dict, Optional, Set

from . import _arrays, _core
from ._arrays import DType
from ._core import Device, OutOfMemoryError
from ._facade import Backend, DeviceLike

_backend = Backend(None)


is_available = _backend.is_available
device_count = _backend.device_count
current_device = _backend.current_device
set_device = _backend.set_device
device = _backend.device
device_index = _backend.device_index
get_device_index = _backend.get_device_index
synchronize = _backend.synchronize
get_device_properties = _backend.get_device_properties
get_device_name = _backend.get_device_name
can_device_access_peer = _backend.can_device_access_peer
current_stream = _backend.current_stream
default_stream = _backend.default_stream
set_stream = _backend.set_stream
stream = _backend.stream
mem_get_info = _backend.mem_get_info
get_memory_info = _backend.mem_get_info
caching_allocator_alloc = _backend.caching_allocator_alloc
caching_allocator_delete = _backend.caching_allocator_delete
empty_cache = _backend.empty_cache
memory_stats = _backend.memory_stats
memory_allocated = _backend.memory_allocated
max_memory_allocated = _backend.max_memory_allocated
memory_reserved = _backend.memory_reserved
max_memory_reserved = _backend.max_memory_reserved
memory_summary = _backend.memory_summary
memory_snapshot = _backend.memory_snapshot
reset_peak_memory_stats = _backend.reset_peak_memory_stats
reset_accumulated_memory_stats = _backend.reset_accumulated_memory_stats
set_per_process_memory_fraction = _backend.set_per_process_memory_fraction
get_per_process_memory_fraction = _backend.get_per_process_memory_fraction
host_memory_stats = _backend.host_memory_stats
reset_peak_host_memory_stats = _backend.reset_peak_host_memory_stats
reset_accumulated_host_memory_stats = _backend.reset_accumulated_host_memory_stats
host_empty_cache = _backend.host_empty_cache
empty_host_cache = _backend.host_empty_cache


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
    _backend._device(device)
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
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "current_accelerator",
    "current_device",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_device_index",
    "get_device_name",
    "get_device_properties",
    "get_memory_info",
    "get_per_process_memory_fraction",
    "host_empty_cache",
    "host_memory_stats",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_device",
    "set_device_idx",
    "set_device_index",
    "set_per_process_memory_fraction",
    "set_stream",
    "stream",
    "synchronize",
]
