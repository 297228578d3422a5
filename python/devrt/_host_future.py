# SPDX-License-Identifier: Apache-2.0
"""HostFuture; in a file of its own because concurrent.futures takes long to
import."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Generator, Optional, TypeVar

from . import _core, _host_functions
from ._core import Event


_T = TypeVar("_T")


class HostFuture(Future[_T]):
    """The result of a host function: a concurrent.futures.Future.

    Also awaitable.  result() raises what the function raised, or the error of
    the stream's earlier work, in which case the function did not run.

    In the simulator's virtual time devices move only while somebody waits for
    them: result(), exception(), `await` and the waits of streams, events and
    devices do.  done(), callbacks, concurrent.futures.wait, as_completed and
    asyncio.wrap_future look on: wait for the stream before, or ask result().

    Host functions run one after another on one thread.  One that asks for the
    result of a later one gets an Error: that would be a wait for ever.
    """

    def __init__(self, event: Event) -> None:
        super().__init__()
        self._event = event

    def _advance(self) -> None:
        if self.done():
            return
        _host_functions.refuse_to_wait()
        # In a simulator's virtual time devices move while somebody waits for
        # them; the event is behind the function.
        device = self._event.device
        if device is not None and _core._is_virtual(device):
            self._event.synchronize()

    def result(self, timeout: Optional[float] = None) -> _T:
        """What the function returned; waits at most `timeout` seconds."""
        self._advance()
        return super().result(timeout)

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """What the function raised; waits at most `timeout` seconds."""
        self._advance()
        return super().exception(timeout)

    def __await__(self) -> Generator[Any, None, _T]:
        import asyncio

        self._advance()
        return asyncio.wrap_future(self).__await__()
