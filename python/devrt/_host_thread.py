# SPDX-License-Identifier: Apache-2.0
"""The thread that calls Python functions in stream order."""

from __future__ import annotations

import sys
import threading
from typing import Callable, Optional

from . import _core
from ._core import Error

# Reentrant: a __del__ or a signal handler may launch while the lock is held.
_lock = threading.RLock()
_thread: Optional[threading.Thread] = None
# The number of functions that were launched and have not ended, and how often it
# has changed.
_left = 0
_changes = 0
_changed = threading.Condition(_lock)
_waiting = 0


def count(change: int) -> None:
    """Adds to the number of functions that have not ended."""
    global _left, _changes
    with _lock:
        _left += change
        _changes += 1
        if _waiting:
            _changed.notify_all()


def _report() -> None:
    """Reports the present exception as an uncaught one of a thread."""
    try:
        raised = (*sys.exc_info(), threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(raised))
    except BaseException:  # raised by a program's hook
        pass


def _serve() -> None:
    """Calls what is due, for ever: every future waits for this thread."""
    while True:
        try:
            call, error = _core._next_host_call()
        except MemoryError:  # nothing was taken
            continue
        try:
            call(error)
        except BaseException:  # from a future's callbacks, even SystemExit
            _report()
        del call, error  # their references end before the next wait
        count(-1)


def start() -> None:
    """Starts the thread unless it runs."""
    global _thread
    with _lock:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(
                target=_serve, name="devrt-host-functions", daemon=True
            )
            _thread.start()


def count_left() -> int:
    """Returns how many functions were launched and have not ended."""
    return _left


def count_changes() -> int:
    """Returns how often a function was launched or has ended."""
    return _changes


def _wait_for(holds: Callable[[], bool], seconds: float) -> None:
    global _waiting
    with _lock:
        _waiting += 1
        try:
            _changed.wait_for(holds, seconds)
        finally:  # Ctrl-C ends the wait
            _waiting -= 1


def wait_until_left(most: int, seconds: float) -> None:
    """Waits until at most `most` functions are left, and at most `seconds`."""
    _wait_for(lambda: _left <= most, seconds)


def wait_for_change(seen: int, seconds: float) -> None:
    """Waits until count_changes() is not `seen`, and at most `seconds`."""
    _wait_for(lambda: _changes != seen, seconds)


def refuse_to_wait() -> None:
    """Raises an Error on the thread that would have to run the awaited function."""
    if threading.current_thread() is not _thread:
        return
    error = Error(
        "this host function waits for one that runs after it: host functions "
        "run one after another, on this thread; return, and wait elsewhere"
    )
    error.code = "FAILED_PRECONDITION"
    raise error
