# SPDX-License-Identifier: Apache-2.0
"""The simulated accelerator, by the names of torch.mtia, and its simulator."""

from __future__ import annotations

from . import simulator as simulator
from ._core import OutOfMemoryError
from ._facade import Backend, _EventClass, _StreamClass

_backend = Backend("mtia")


class Stream(_StreamClass):
    """A devrt.Stream of the simulated accelerator."""

    _of = _backend


class Event(_EventClass):
    """A devrt.Event whose options may be given by position."""


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
get_device_capability = _backend.get_device_capability
can_device_access_peer = _backend.can_device_access_peer
current_stream = _backend.current_stream
default_stream = _backend.default_stream
set_stream = _backend.set_stream
stream = _backend.stream
mem_get_info = _backend.mem_get_info
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

__all__ = [
    "Event",
    "OutOfMemoryError",
    "Stream",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_index",
    "empty_cache",
    "get_device_capability",
    "get_device_index",
    "get_device_name",
    "get_device_properties",
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
    "set_per_process_memory_fraction",
    "set_stream",
    "simulator",
    "stream",
    "synchronize",
]
