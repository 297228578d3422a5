# SPDX-License-Identifier: Apache-2.0
"""The order of work that devrt does not see."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._arrays import Array
from .._core import Stream


def as_stream(stream: Any, device: Any = None) -> Stream:
    """A devrt.Stream, or what another library calls one."""
    if isinstance(stream, Stream):
        return stream
    if stream is None:
        return _core.current_stream(device)
    return Stream.from_external(stream, device)


def _checked(x: Any) -> Array:
    if not isinstance(x, Array):
        raise TypeError(f"x must be a devrt.Array, not {type(x).__name__}")
    return x


class exchange:
    """The context in which work on `stream` may use the memory of `x`.

    On entry `stream` is ordered behind all uses of `x`; on exit all later uses
    of `x` by devrt are ordered behind what was submitted to `stream`.  The
    calling thread does not wait.

    x: a devrt.Array in device, managed or pinned memory; plain host memory has
    no uses, and nothing happens.
    stream: a devrt.Stream, an object with __cuda_stream__, or a native handle;
    None is the current one of the data's device.
    writes: False promises that the work only reads.

    The value of the context is the devrt.Stream.  It may be entered many times.
    """

    def __init__(self, x: Array, stream: Any, *, writes: bool = True) -> None:
        self._array = _checked(x)
        if not isinstance(writes, bool):
            raise TypeError(f"writes must be a bool, not {type(writes).__name__}")
        self._writes = writes
        home = x.home_stream
        self._has_uses = home is not None
        self._stream = stream if home is None else as_stream(stream, home.device)

    def __enter__(self) -> Any:
        if self._has_uses:
            self._array.order_before(self._stream)
        return self._stream

    def __exit__(self, *exception: object) -> None:
        if self._has_uses:
            self._array.record_use(self._stream, writes=self._writes)


def ready(x: Array) -> Array:
    """Waits until nothing uses the memory of `x` any more, and returns `x`.

    For readers that know no streams: MPI, files, other processes.  It waits for
    the work on this memory, not for the device.  Ctrl-C ends the wait.  Raises
    the error of that work, if any.
    """
    _checked(x).ready()
    return x
