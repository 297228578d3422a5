# SPDX-License-Identifier: Apache-2.0
"""Ends what must end before a machine starts afresh, and resets the rest."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from typing import Any, Iterator, List

from .. import _core, _host_thread
from .._core import Device

# How long finish() waits for host functions, also those that host functions launch.
# Functions that have not ended by then are not waited for again, nor are those behind
# work that never ends.
_PATIENCE_SECONDS = 10.0
# For how long finish() waits at a time.  Before a host function may launch another one,
# the simulator waits until each thread rests, and a thread that sleeps for less than
# 20 ms does not.
_ROUND_SECONDS = 0.1
_abandoned = 0


def _forget_last_error() -> None:
    """Releases what the frames of the last failure keep alive.

    pytest keeps the failure for a debugger until the next test is called, and with it
    all arrays and streams of a test that failed.
    """
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)


def _run_to_end(device: Device) -> bool:
    if _core._is_virtual(device):
        try:
            device._wait_for_work()  # a host function may never return
        except _core.Error:
            return False
    return True


def finish(devices: List[Device]) -> None:
    """Lets submitted work and the host functions after it run to their end.

    Only in virtual time, where work that waits for ever is detected at once.  Ignores
    deadlocks, faults and lost devices.
    """
    global _abandoned
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        changes = _host_thread.count_changes()
        left = _host_thread.count_left()
        stuck = not all([_run_to_end(device) for device in devices])
        if left <= _abandoned:
            return
        if stuck or time.monotonic() > end:
            _abandoned = _host_thread.count_left()
            return
        _host_thread.wait_for_change(changes, _ROUND_SECONDS)


def unfinished() -> str:
    """Returns text for a message about host functions that did not end."""
    left = min(_abandoned, _host_thread.count_left())
    if left == 0:
        return ""
    plural = " has" if left == 1 else "s have"
    return f" ({left} host function{plural} not returned, which hold what they use)"


def leave_streams(devices: List[Device]) -> None:
    """Makes default streams current where a program's streams still are.

    A current stream stays alive even if all references to it are deleted.
    """
    for device in devices:
        default = _core.default_stream(device)
        if _core.current_stream(device) == default:
            continue
        with contextlib.suppress(_core.Error), device:  # a device may be lost
            _core.set_stream(default)


@contextlib.contextmanager
def collecting_new_objects() -> Iterator[None]:
    """Leaves objects from before the runs out of collections of garbage.

    A collection ends each run, and takes 5 to 20 ms for the objects of pytest alone.
    Garbage among the objects from before is collected after the last run.
    """
    _forget_last_error()
    gc.collect()
    if gc.get_freeze_count() > len(gc.get_objects()):
        yield  # the program has frozen what is there, which unfreeze() would undo
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def let_go(devices: List[Device]) -> None:
    """Ends objects that the program does not refer to any more."""
    _forget_last_error()
    gc.collect()
    finish(devices)
    # Memory that cannot be returned, as on a lost device, is left to the reset.
    for device in devices:
        with contextlib.suppress(_core.Error):
            _core.empty_cache(device)
    with contextlib.suppress(_core.Error):
        _core.empty_host_cache("mtia")


class Allocators:
    """Saves the settings of the allocators for the end of a test."""

    def __init__(self, devices: List[Device]) -> None:
        self._settings = _core.allocator_settings()
        self._fractions: List[Any] = [
            (device, _core.get_per_process_memory_fraction(device))
            for device in devices
        ]

    def restore(self) -> None:
        """Restores the settings that have changed, and resets the statistics."""
        if _core.allocator_settings() != self._settings:
            _core.set_allocator_settings(self._settings)
        for device, fraction in self._fractions:
            if _core.get_per_process_memory_fraction(device) != fraction:
                _core.set_per_process_memory_fraction(fraction, device)
            _core.reset_peak_memory_stats(device)
            _core.reset_accumulated_memory_stats(device)
        _core.reset_peak_host_memory_stats("mtia")
        _core.reset_accumulated_host_memory_stats("mtia")
