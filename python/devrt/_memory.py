# SPDX-License-Identifier: Apache-2.0
"""Statistics and controls of the memory allocators."""

from __future__ import annotations

from ._annotations import _types, t
from ._core import (
    allocator_settings,
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    empty_host_cache,
    get_per_process_memory_fraction,
    host_memory_stats,
    is_pinned,
    memory_report,
    memory_snapshot_json,
    memory_stats,
    pinned_alloc,
    pinned_delete,
    pointer_info,
    record_memory_history,
    record_stream,
    register_host,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_allocator_settings,
    set_per_process_memory_fraction,
    unregister_host,
)

__all__ = [
    "allocator_settings",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "empty_cache",
    "empty_host_cache",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "is_pinned",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_report",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "pinned_alloc",
    "pinned_delete",
    "pointer_info",
    "record_memory_history",
    "record_stream",
    "register_host",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_allocator_settings",
    "set_per_process_memory_fraction",
    "unregister_host",
]


def memory_allocated(device: _types.DeviceLike = None) -> int:
    """Returns the bytes of a device's memory that the program holds."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: _types.DeviceLike = None) -> int:
    """Returns the most bytes that the program held since reset_peak_memory_stats."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: _types.DeviceLike = None) -> int:
    """Returns the bytes that the allocator took from the driver."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: _types.DeviceLike = None) -> int:
    """Returns the most bytes that the allocator had since reset_peak_memory_stats."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def memory_snapshot(device: _types.DeviceLike = None) -> t.Dict[str, t.Any]:
    """Returns every segment and block of a device, as docs/reference/memory-snapshot.md
    describes.
    """
    import json

    snapshot: t.Dict[str, t.Any] = json.loads(memory_snapshot_json(device))
    return snapshot
