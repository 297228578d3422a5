# SPDX-License-Identifier: Apache-2.0
"""HostFuture.  A module of its own, as importing concurrent.futures takes long."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Generator, Optional, TypeVar

from . import _core, _host_thread
from ._core import Event


_T = TypeVar("_T")


class HostFuture(Future[_T]):
    """The result of a host function: a concurrent.futures.Future that can be awaited.

    result() raises what the function raised, or the error of the stream's earlier work,
    in which case the function did not run.

    In the simulator's virtual time devices proceed only while a thread waits for them,
    in result(), exception(), `await` or a wait of a stream, event or device.  done(),
    callbacks, concurrent.futures.wait, as_completed and asyncio.wrap_future do not make
    them proceed: wait for the stream before, or call result().

    Host functions run one after another on one thread.  A host function that asks for
    the result of a later one would wait for ever, and gets an Error.
    """

    def __init__(self, event: Event) -> None:
        super().__init__()
        self._event = event

    def _advance(self) -> None:
        if self.done():
            return
        _host_thread.refuse_to_wait()
        # In virtual time the device proceeds only while a thread waits.  The event
        # comes after the function.
        device = self._event.device
        if device is not None and _core._is_virtual(device):
            self._event.synchronize()

    def result(self, timeout: Optional[float] = None) -> _T:
        """Returns the function's result.  Waits at most `timeout` seconds."""
        self._advance()
        return super().result(timeout)

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Returns its exception or None.  Waits at most `timeout` seconds."""
        self._advance()
        return super().exception(timeout)

    def __await__(self) -> Generator[Any, None, _T]:
        import asyncio

        self._advance()
        return asyncio.wrap_future(self).__await__()
