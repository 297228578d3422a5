# SPDX-License-Identifier: Apache-2.0
"""A MemoryResource of cuda.core."""

from __future__ import annotations

from typing import Any

from .. import _core
from ._allocators import _kept, _native, device_name, give_back, handle_of, load

_class: Any = None


def _make_class() -> Any:
    core = load("cuda.core")
    base: Any = core.MemoryResource

    class DevrtMemoryResource(base):  # type: ignore[misc]
        """Memory of one device, from devrt's allocator."""

        def __init__(self, device: str) -> None:
            self._device = _core.Device(device)

        def allocate(self, size: int, *, stream: Any = None) -> Any:
            """Allocates `size` bytes on `stream`; None is the default stream."""
            handle = _handle(stream)
            pointer = _native._alloc_native(self._device.name, size, handle)
            if handle > 2:
                _kept[self._device.name, handle] = stream
            try:
                if stream is None:
                    return core.Buffer.from_handle(pointer, size, mr=self)
                return core.Buffer.from_handle(pointer, size, mr=self, stream=stream)
            except BaseException:
                give_back(pointer)
                raise

        def deallocate(self, ptr: Any, size: int, *, stream: Any = None) -> None:
            """Frees memory in the order of `stream`.  Never raises."""
            give_back(ptr, stream, self._device.name, _handle)

        @property
        def is_device_accessible(self) -> bool:
            return True

        @property
        def is_host_accessible(self) -> bool:
            return False

        @property
        def is_managed(self) -> bool:
            return False

        @property
        def device_id(self) -> int:
            return int(self._device.index)

    return DevrtMemoryResource


def _handle(stream: Any) -> int:
    if stream is None:
        return 0
    handle = getattr(stream, "handle", None)  # a stream of cuda.core
    return int(handle) if handle is not None else handle_of(stream)


def cuda_core_memory_resource(device: Any = None) -> Any:
    """Returns a cuda.core MemoryResource over devrt's memory of one device."""
    global _class
    name = device_name(device)
    if _class is None:
        _class = _make_class()
    return _class(name)
