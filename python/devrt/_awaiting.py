# SPDX-License-Identifier: Apache-2.0
"""`await stream` and `await event`.  A module of its own, as importing asyncio takes
long.

The event loop goes on meanwhile.  A host function behind the work writes to a
descriptor that the loop watches, so no thread waits and nothing is polled.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Dict, Union

from . import _core
from ._core import Event, Stream, UnsupportedError


class _Waits:
    """The awaits of one event loop.  Used on the loop's thread only."""

    def __init__(self) -> None:
        self._wakeups = _core._Wakeups()
        self._futures: Dict[int, asyncio.Future[None]] = {}
        self._last = 0

    async def until_done(self, loop: asyncio.AbstractEventLoop, stream: Stream) -> None:
        self._last += 1
        number, descriptor = self._last, self._wakeups.fileno()
        if not self._futures:
            loop.add_reader(descriptor, self._take)
        self._futures[number] = future = loop.create_future()
        try:
            self._wakeups.launch(stream, number)
            await future
        finally:
            del self._futures[number]
            if not self._futures:
                loop.remove_reader(descriptor)

    def _take(self) -> None:
        for number, error in self._wakeups.take():
            # A cancelled await has removed its future.
            future = self._futures.get(number)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)


_waits: "weakref.WeakKeyDictionary[Any, _Waits]" = weakref.WeakKeyDictionary()


def _behind(what: Union[Stream, Event]) -> Stream:
    """Returns a stream that reaches its present end when the given work is over."""
    if isinstance(what, Stream):
        return what
    stream = Stream(what.device)
    stream.wait(what)
    return stream


def _work_of(what: Union[Stream, Event]) -> Event:
    """Returns an event for the work alone, without host functions."""
    return what.record() if isinstance(what, Stream) else what


async def until(what: Union[Stream, Event]) -> None:
    """Waits until the stream's work up to now, or the work that the event captured
    last, is over.

    Raises the error of that work.  Python functions on the stream are not waited for,
    since they may wait for the event loop: each has a future of its own.
    """
    if what.query():
        return
    loop, device = asyncio.get_running_loop(), what.device
    if device is not None and _core._is_virtual(device):
        await asyncio.sleep(0)  # tasks that are ready may submit work
        _work_of(what).synchronize()
        return
    waits = _waits.get(loop)
    if waits is None:
        _waits[loop] = waits = _Waits()
    try:
        await waits.until_done(loop, _behind(what))
    except (UnsupportedError, NotImplementedError):
        # The backend has no host functions, or the loop cannot watch descriptors.
        await loop.run_in_executor(None, _work_of(what).synchronize)
