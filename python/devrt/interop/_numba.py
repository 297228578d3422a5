# SPDX-License-Identifier: Apache-2.0
"""A plugin for Numba's External Memory Management."""

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
        """Device memory from devrt's allocator, and host memory from Numba's.

        Numba names no stream, and any of its streams may use a block.  So a block is
        allocated on a stream of the manager that gets no work, and freed in the order
        of the default stream.  The block is reused when all work is over that the
        default stream and all blocking streams had got by then.  Numba's own streams
        are blocking.  A program that uses a block on a non-blocking stream must
        synchronise that stream before it drops the block, and must keep blocks that a
        captured stream uses.

        The constructor does nothing: to read the version, Numba makes a manager with
        context=None.
        """

        _stream: Any = None

        def initialize(self) -> None:
            """Does nothing.  Numba calls it before nearly every operation."""

        @property
        def interface_version(self) -> int:
            return 1

        def _device(self) -> str:
            return f"cuda:{self.context.device.id}"

        def memalloc(self, size: int) -> Any:
            if self._stream is None:
                self._stream = _core.Stream(self._device())
            pointer = _core.caching_allocator_alloc(size, self._stream)

            # Numba may call it after reset(), so it uses nothing of the manager.
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
    """Returns the class, one object at every call, as Numba expects."""
    global _class
    if _class is None:
        _class = _make_class()
    return _class
