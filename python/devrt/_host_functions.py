# SPDX-License-Identifier: Apache-2.0
"""Python functions in stream order.

A function that a driver calls in stream order may touch neither Python nor the driver.
So it only reports that a function is due, and the thread of _host_thread.py calls the
function.  The stream does not wait for it: synchronize() does, and the future tells
when it is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from . import _host_thread
from ._core import Event, Stream
from ._decorating import runs_later

if TYPE_CHECKING:
    from ._host_future import HostFuture

_T = TypeVar("_T")


def launch_host_func(
    stream: Stream, function: Callable[..., _T], /, *args: Any, **kwargs: Any
) -> HostFuture[_T]:
    """Implements Stream.launch_host_func."""
    from ._host_future import HostFuture

    if not callable(function):
        raise TypeError(f"function must be callable, not {type(function).__name__}")
    if runs_later(function):
        raise TypeError(
            "a generator or coroutine function cannot be a host function: its "
            "body runs later; call it inside one, by asyncio.run"
        )
    _host_thread.start()
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

    _host_thread.count(1)
    try:
        stream._launch_host_call(call, getattr(function, "_devrt_ranges", []))
    except BaseException:
        _host_thread.count(-1)
        raise
    try:
        event.record(stream)
    except BaseException:
        # If the future cannot be cancelled, the function runs and needs no event.
        if future.cancel():
            raise
    return future
