# SPDX-License-Identifier: Apache-2.0
"""The order of work that devrt does not see."""

from __future__ import annotations

import threading
from typing import Any, List, Optional

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
    None is the one of the data's device that is current on entry; of pinned
    memory that is the device which it was made for.
    writes: False promises that the work only reads.

    The value of the context is the devrt.Stream; None where there is no device
    to ask for its current one.  It may be entered many times, by many threads.
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
        """What was current when this thread entered last."""
        streams: List[Stream] = self._entered.__dict__.get("streams", [])
        if not streams:
            raise _core.Error("this thread is not inside this context")
        return streams.pop()


def set_cai_export_version(version: Optional[int]) -> Optional[int]:
    """In which version this thread exports __cuda_array_interface__.

    version: 2, which has no stream; 3; None: as DEVRT_CAI_EXPORT_VERSION has it.
    An array whose own cai_export_version is set has that one.  Returns what was
    set before.
    """
    return _core._set_cai_export_version(version)


def ready(x: Array) -> Array:
    """Waits for all uses of the memory of `x` that devrt knows of; returns `x`.

    For readers that know no streams: MPI, files, other processes.  It waits for
    the work on this memory, not for the device.  Known are devrt's own work,
    what exchange() and record_use() have told, and what was submitted to the
    stream of a DLPack consumer that has let go.  One that still has the memory
    does its work unknown: wait for its stream, or exchange() it.  Ctrl-C ends
    the wait.  Raises the error of that work, if any.
    """
    _checked(x).ready()
    return x
