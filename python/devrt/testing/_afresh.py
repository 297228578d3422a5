# SPDX-License-Identifier: Apache-2.0
"""What has to end before a machine can begin afresh, and what begins with it."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from typing import Any, List

from .. import _core, _host_functions
from .._core import Device

# For host functions, those that launch others too. One that has not ended by then,
# or is behind work that never ends, is not waited for again.
_PATIENCE_SECONDS, _ROUND_SECONDS = 10.0, 0.005
_abandoned = 0


def _forget_last_error() -> None:
    """Lets go of what the frames of the last failure hold.

    pytest keeps that for a debugger until the next test is called, and with it
    were alive all arrays and streams of a test that failed.
    """
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)


def _run_to_end(device: Device) -> bool:
    if _core._is_virtual(device):
        try:
            device._wait_for_work()  # a function may never return
        except _core.Error:
            return False
    return True


def finish(devices: List[Device]) -> None:
    """Lets what was submitted run, and the host functions behind it.

    In virtual time alone, where work that waits for ever is told at once: a
    deadlock, a fault or a lost device is no matter here.
    """
    global _abandoned
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        left = _host_functions.count_left()
        stuck = not all([_run_to_end(device) for device in devices])
        if left <= _abandoned:
            return
        if stuck or time.monotonic() > end:
            _abandoned = _host_functions.count_left()
            return
        _host_functions.wait_until_left(_abandoned, _ROUND_SECONDS)


def unfinished() -> str:
    """For a message: host functions that were not waited for to the end."""
    left = min(_abandoned, _host_functions.count_left())
    if left == 0:
        return ""
    plural = " has" if left == 1 else "s have"
    return f" ({left} host function{plural} not returned, which hold what they use)"


def leave_streams(devices: List[Device]) -> None:
    """Leaves what a program outside of the machine's tests has made current.

    A stream that is current is alive, whatever is deleted.
    """
    for device in devices:
        default = _core.default_stream(device)
        if _core.current_stream(device) == default:
            continue
        with contextlib.suppress(_core.Error), device:  # a device may be lost
            _core.set_stream(default)


def let_go(devices: List[Device]) -> None:
    """Ends what nothing in the program refers to any more."""
    _forget_last_error()
    gc.collect()
    finish(devices)
    # What cannot be given back, as on a lost device, a reset looks at.
    for device in devices:
        with contextlib.suppress(_core.Error):
            _core.empty_cache(device)
    with contextlib.suppress(_core.Error):
        _core.empty_host_cache("mtia")


class Allocators:
    """Settings of the allocators as a test finds them."""

    def __init__(self, devices: List[Device]) -> None:
        self._settings = _core.allocator_settings()
        self._fractions: List[Any] = [
            (device, _core.get_per_process_memory_fraction(device))
            for device in devices
        ]

    def restore(self) -> None:
        """Sets what has been changed since, and begins to count anew."""
        if _core.allocator_settings() != self._settings:
            _core.set_allocator_settings(self._settings)
        for device, fraction in self._fractions:
            if _core.get_per_process_memory_fraction(device) != fraction:
                _core.set_per_process_memory_fraction(fraction, device)
            _core.reset_peak_memory_stats(device)
            _core.reset_accumulated_memory_stats(device)
        _core.reset_peak_host_memory_stats("mtia")
        _core.reset_accumulated_host_memory_stats("mtia")
