# SPDX-License-Identifier: Apache-2.0
"""The table of functions that devrt.accelerator, cuda, hip and mtia share.

These are the functions of the active backend, which devrt.accelerator uses as they are.
The module of a backend imports them for their names and types, and replaces them by its
own:

    from ._names import *

    _backend = Backend("mtia")
    globals().update(_backend._named(_names.__all__))
"""

from ._facade import Backend

active = Backend(None)

is_available = active.is_available
device_count = active.device_count
current_device = active.current_device
set_device = active.set_device
device = active.device
device_index = active.device_index
get_device_index = active.get_device_index
synchronize = active.synchronize
get_device_properties = active.get_device_properties
get_device_name = active.get_device_name
can_device_access_peer = active.can_device_access_peer
current_stream = active.current_stream
default_stream = active.default_stream
set_stream = active.set_stream
stream = active.stream
mem_get_info = active.mem_get_info
caching_allocator_alloc = active.caching_allocator_alloc
caching_allocator_delete = active.caching_allocator_delete
empty_cache = active.empty_cache
memory_stats = active.memory_stats
memory_allocated = active.memory_allocated
max_memory_allocated = active.max_memory_allocated
memory_reserved = active.memory_reserved
max_memory_reserved = active.max_memory_reserved
memory_summary = active.memory_summary
memory_snapshot = active.memory_snapshot
reset_peak_memory_stats = active.reset_peak_memory_stats
reset_accumulated_memory_stats = active.reset_accumulated_memory_stats
set_per_process_memory_fraction = active.set_per_process_memory_fraction
get_per_process_memory_fraction = active.get_per_process_memory_fraction
host_memory_stats = active.host_memory_stats
reset_peak_host_memory_stats = active.reset_peak_host_memory_stats
reset_accumulated_host_memory_stats = active.reset_accumulated_host_memory_stats
host_empty_cache = active.host_empty_cache

__all__ = [
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
    "stream",
    "synchronize",
]
