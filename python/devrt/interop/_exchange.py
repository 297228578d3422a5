# SPDX-License-Identifier: Apache-2.0
"""Orders devrt's work with work that devrt does not submit."""

from __future__ import annotations

import threading
from typing import Any, List, Optional

from .. import _core
from .._arrays import Array
from .._core import Stream


def as_stream(stream: Any, device: Any = None) -> Stream:
    """Returns a devrt.Stream for a stream of devrt or of another library."""
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

    On entry `stream` is ordered after all uses of `x`.  On exit all later uses of `x`
    by devrt are ordered after the work that `stream` has got.  The calling thread does
    not wait.

    x: a devrt.Array in device, managed or pinned memory.  Pageable host memory has no
    uses, so nothing happens.
    stream: a devrt.Stream, an object with __cuda_stream__, or a native handle.  None is
    the stream that is current on entry, on the device of the memory.  For pinned memory
    that is the device that it was allocated for.
    writes: False promises that the work only reads.

    The value of the context is the devrt.Stream, or None without a device.  Many
    threads may enter one context, many times.
    """

    def __init__(self, x: Array, stream: Any, *, writes: bool = True) -> None:
        self._array = _checked(x)
        if not isinstance(writes, bool):
            raise TypeError(f"writes must be a bool, not {type(writes).__name__}")
        self._writes = writes
        self._device = _core._memory_device(self._array)
        self._stream = None if stream is None else as_stream(stream, self._device)
        self._entered = threading.local()

    def __enter__(self) -> Optional[Stream]:
        if self._device is None:
            return self._stream
        stream = self._stream or _core.current_stream(self._device)
        self._array.order_before(stream)
        if self._stream is None:
            self._entered.__dict__.setdefault("streams", []).append(stream)
        return stream

    def __exit__(self, *exception: object) -> None:
        if self._device is None:
            return
        stream = self._stream or self._left()
        self._array.record_use(stream, writes=self._writes)

    def _left(self) -> Stream:
        """Returns the stream of this thread's last entry."""
        streams: List[Stream] = self._entered.__dict__.get("streams", [])
        if not streams:
            raise _core.Error("this thread is not inside this context")
        return streams.pop()


def set_cai_export_version(version: Optional[int]) -> Optional[int]:
    """Sets the version in which this thread exports __cuda_array_interface__.

    version: 2, which has no stream, or 3.  None is that of DEVRT_CAI_EXPORT_VERSION.

    An array with a cai_export_version of its own uses that.  Returns what was set
    before.
    """
    return _core._set_cai_export_version(version)


def ready(x: Array) -> Array:
    """Waits for all uses of the memory of `x` that devrt knows of, and returns `x`.

    It is for readers without streams: MPI, files, other processes.  It waits for the
    work on this memory, not for the device.  Ctrl-C ends the wait.  Raises the error of
    that work, if any.

    devrt knows its own work, work that exchange() and record_use() have reported, and
    work on the stream of a DLPack consumer that has released the memory.  It does not
    know the work of a consumer that still has the memory: wait for that consumer's
    stream, or use exchange().
    """
    _checked(x).ready()
    return x
