# SPDX-License-Identifier: Apache-2.0
"""Python functions in stream order.

What a driver calls in stream order may touch neither Python nor the driver, so
it only says that a function is due; a thread of this module calls it then.  The
stream does not wait for the function: synchronize() does, and the future says
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

# Taken again by a __del__ or a signal handler that launches inside.
_lock = threading.RLock()
_thread: Optional[threading.Thread] = None
# Of those that were launched and have not ended: how many.
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
    """Says what was raised here, as the end of a thread would say it."""
    try:
        raised = (*sys.exc_info(), threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(raised))
    except BaseException:  # a program's own hook
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
        except BaseException:  # of a future's callbacks, SystemExit too
            _report()
        del call, error  # what they hold ends now, not with the next one
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
    """How many functions were launched and have not ended."""
    return _left


def wait_until_left(most: int, seconds: float) -> None:
    """Until no more than `most` are left, at most `seconds`."""
    global _waiting
    with _lock:
        _waiting += 1
        _changed.wait_for(lambda: _left <= most, seconds)
        _waiting -= 1


def refuse_to_wait() -> None:
    """Raises an Error on the thread that the awaited function would need."""
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
    """Stream.launch_host_func."""
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
        except BaseException as raised:  # of the future, as without memory
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
        # The function runs in no case, or has its turn and needs no event.
        if future.cancel():
            raise
    return future
