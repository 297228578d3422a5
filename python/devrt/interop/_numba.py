# SPDX-License-Identifier: Apache-2.0
"""Numba's External Memory Management plugin."""

from __future__ import annotations

import ctypes
from typing import Any

from .. import _core
from ._allocators import give_back, load

_class: Any = None
_DEFAULT_STREAM = 0


def _make_class() -> Any:
    cuda = load("numba.cuda")
    mixin: Any = cuda.GetIpcHandleMixin
    base: Any = cuda.HostOnlyCUDAMemoryManager

    class DevrtMemoryManager(mixin, base):  # type: ignore[misc]
        """Device memory from devrt's allocator; host memory as Numba has it.

        Numba names no stream, and any of its streams may use a block.  So a
        block belongs to a stream of the manager's own, which gets no work, and
        is given back in the order of the default stream: it serves the next
        request when the work is over that the default stream and all blocking
        streams had been given by then.  Numba's own streams are blocking.  A
        program that uses a block on a non-blocking stream synchronises that
        stream before it drops the block, and keeps what a captured stream uses.

        Nothing is done before memory is asked for: Numba makes one with
        context=None, to read the version.
        """

        _stream: Any = None

        def initialize(self) -> None:
            """Called before nearly every operation: there is nothing to do."""

        @property
        def interface_version(self) -> int:
            return 1

        def _device(self) -> str:
            return f"cuda:{self.context.device.id}"

        def memalloc(self, size: int) -> Any:
            if self._stream is None:
                self._stream = _core.Stream(self._device())
            pointer = _core.caching_allocator_alloc(size, self._stream)

            # Also behind reset(): it needs nothing of the manager's.
            def finalizer() -> None:
                give_back(pointer, _DEFAULT_STREAM)

            return cuda.MemoryPointer(
                self.context, ctypes.c_void_p(pointer), size, finalizer=finalizer
            )

        def get_memory_info(self) -> Any:
            free, total = _core.Device(self._device()).memory_info()
            return cuda.MemoryInfo(free, total)

    return DevrtMemoryManager


def memory_manager() -> Any:
    """The class; made once, so that Numba finds the same each time."""
    global _class
    if _class is None:
        _class = _make_class()
    return _class
