# SPDX-License-Identifier: Apache-2.0
"""Python functions in stream order.

A function that a driver calls in stream order may touch neither Python nor the driver.
So it only reports that a function is due, and a thread of this module calls the
function.  The stream does not wait for it: synchronize() does, and the future tells
when it is done.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from . import _core
from ._core import Error, Event, Stream

if TYPE_CHECKING:
    from ._host_future import HostFuture

_T = TypeVar("_T")

# Reentrant: a __del__ or a signal handler may launch while the lock is held.
_lock = threading.RLock()
_thread: Optional[threading.Thread] = None
# The number of functions that were launched and have not ended.
_left = 0
_changed = threading.Condition(_lock)
_waiting = 0


def _count(change: int) -> None:
    global _left
    with _lock:
        _left += change
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
        _count(-1)


def _start() -> None:
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


def wait_until_left(most: int, seconds: float) -> None:
    """Waits until at most `most` functions are left, and at most `seconds`."""
    global _waiting
    with _lock:
        _waiting += 1
        _changed.wait_for(lambda: _left <= most, seconds)
        _waiting -= 1


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


def launch_host_func(
    stream: Stream, function: Callable[..., _T], /, *args: Any, **kwargs: Any
) -> HostFuture[_T]:
    """Implements Stream.launch_host_func."""
    from ._contexts import _runs_later
    from ._host_future import HostFuture

    if not callable(function):
        raise TypeError(f"function must be callable, not {type(function).__name__}")
    if _runs_later(function):
        raise TypeError(
            "a generator or coroutine function cannot be a host function: its "
            "body runs later; call it inside one, by asyncio.run"
        )
    _start()
    event = Event()
    future: HostFuture[_T] = HostFuture(event)

    def run(error: Optional[BaseException]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        if error is not None:
            future.set_exception(error)
            return
        try:
            result = function(*args, **kwargs)
        except BaseException as raised:
            future.set_exception(raised)
        else:
            future.set_result(result)

    def call(error: Optional[BaseException]) -> None:
        try:
            run(error)
        except BaseException as raised:  # raised by the future, such as MemoryError
            if not future.done():
                future.set_exception(raised)
            raise

    _count(1)
    try:
        stream._launch_host_call(call)
    except BaseException:
        _count(-1)
        raise
    try:
        event.record(stream)
    except BaseException:
        # If the future cannot be cancelled, the function runs and needs no event.
        if future.cancel():
            raise
    return future
