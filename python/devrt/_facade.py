# SPDX-License-Identifier: Apache-2.0
"""What devrt.cuda, devrt.hip, devrt.mtia and devrt.accelerator have in common.

Names and values are those of PyTorch: a device is a number of the module's backend, and
set_stream also makes the stream's device current.
"""

from __future__ import annotations

import sys
import types
from typing import Any, Dict, Iterable, Optional, Tuple, TypeVar, Union, overload

from . import _core, _memory
from ._contexts import _NO_CONTEXT, stream as _stream
from ._core import Device, DeviceProperties, Event, InvalidArgumentError, Stream
from ._types import Context

# Backends that have a module of their own.
_MODULES = ("cuda", "hip", "mtia")

_S = TypeVar("_S", bound=Optional[Stream])

# A device of the module's backend.  None is the current one.
DeviceLike = Union[Device, str, int, None]


class Backend:
    """The functions of one backend.  With `name` None, those of the active backend."""

    def __init__(self, name: Optional[str]) -> None:
        self._name = name

    def _named(self, names: Iterable[str]) -> Dict[str, Any]:
        """Returns these functions by name, for a module's namespace."""
        return {name: getattr(self, name) for name in names}

    # ---- Devices ------------------------------------------------------------

    def _device(self, device: Any = None) -> Device:
        if device is None:
            return _core.current_device(self._name)
        if self._name is None:
            made = Device(device)
            if made.type == "cpu":
                raise InvalidArgumentError(
                    f"Expected an accelerator device, but got: {made}"
                )
            return made
        if isinstance(device, int) and not isinstance(device, bool):
            return Device(self._name, device)
        if isinstance(device, str) and device.partition(":")[0] in ("cpu", "meta"):
            raise InvalidArgumentError(
                f"Expected a {self._name} device, but got: {device}"
            )
        return self._own(Device(device))

    def _own(self, device: Device) -> Device:
        """Returns `device`, or raises if it belongs to another backend."""
        if self._name is not None and device.backend != self._name:
            raise InvalidArgumentError(
                f"Expected a {self._name} device, but got: {device.backend}"
            )
        return device

    def is_available(self) -> bool:
        """Returns True if there is a device.  Opens the backend and never raises."""
        try:
            return self.device_count() > 0
        except _core.Error:
            return False

    def device_count(self) -> int:
        """Returns the number of devices, or 0 if the backend cannot be used."""
        try:
            return len(_core.devices(self._name or _core.current_device().backend))
        except _core.Error:
            return 0

    def current_device(self) -> int:
        """Returns the index of the calling thread's current device."""
        return _core.current_device(self._name).index

    def set_device(self, device: DeviceLike) -> None:
        """Makes a device the current one of the calling thread."""
        _core.set_device(self._device(device))

    @overload
    def device(self, device: None) -> Context[None]: ...

    @overload
    def device(self, device: Union[Device, str, int]) -> Context[Device]: ...

    @overload
    def device(self, device: DeviceLike) -> Context[Optional[Device]]: ...

    def device(self, device: DeviceLike) -> Context[Optional[Device]]:
        """Returns the context in which `device` is current.  None changes nothing."""
        if device is None:
            return _NO_CONTEXT
        return self._device(device)

    @overload
    def device_index(self, device: None) -> Context[None]: ...

    @overload
    def device_index(self, device: int) -> Context[Device]: ...

    @overload
    def device_index(self, device: Optional[int]) -> Context[Optional[Device]]: ...

    def device_index(self, device: Optional[int]) -> Context[Optional[Device]]:
        """Returns the context in which the device with that index is current."""
        return self.device(device)

    def get_device_index(self, device: DeviceLike = None) -> int:
        """Returns the index of a device."""
        return self._device(device).index

    def synchronize(self, device: DeviceLike = None) -> None:
        """Waits for all work of a device."""
        self._device(device).synchronize()

    def get_device_properties(self, device: DeviceLike = None) -> DeviceProperties:
        """Returns the properties of a device."""
        return _core.get_device_properties(self._device(device))

    def get_device_name(self, device: DeviceLike = None) -> str:
        """Returns the product name of a device."""
        return self.get_device_properties(device).name

    def get_device_capability(self, device: DeviceLike = None) -> Tuple[int, int]:
        """Returns the compute capability of a device as (major, minor)."""
        properties = self.get_device_properties(device)
        return properties.major, properties.minor

    def can_device_access_peer(self, device: DeviceLike, peer: DeviceLike) -> bool:
        """Returns True if `device` can be given access to memory of `peer`."""
        return _core.can_access_peer(self._device(device), self._device(peer))

    # ---- Streams ------------------------------------------------------------

    def current_stream(self, device: DeviceLike = None) -> Stream:
        """Returns the calling thread's current stream of a device."""
        return _core.current_stream(self._device(device))

    def default_stream(self, device: DeviceLike = None) -> Stream:
        """Returns the default stream of a device."""
        return _core.default_stream(self._device(device))

    def set_stream(self, stream: Optional[Stream]) -> None:
        """Makes a stream and its device current.  None changes nothing."""
        if stream is not None:
            self._check(stream)
            _core.set_stream(stream)

    def stream(self, stream: _S) -> Context[_S]:
        """Returns the context in which a stream is current.  None changes nothing."""
        self._check(stream)
        return _stream(stream)

    def _check(self, stream: Any) -> None:
        if isinstance(stream, Stream):
            self._own(stream.device)

    # ---- Memory -------------------------------------------------------------

    def mem_get_info(self, device: DeviceLike = None) -> Tuple[int, int]:
        """Returns (free, total) bytes of a device's memory."""
        return self._device(device).memory_info()

    def caching_allocator_alloc(
        self, size: int, device: DeviceLike = None, stream: Optional[Stream] = None
    ) -> int:
        """Returns the address of `size` bytes of device memory for work on `stream`."""
        if stream is None:
            stream = self.current_stream(device)
        elif (device is not None and isinstance(stream, _core.Stream)
              and stream.device != self._device(device)):
            raise ValueError(
                f"memory of {self._device(device).name} was asked for work on a "
                f"stream of {stream.device.name}: pass a stream of that device, "
                "or no device"
            )
        return _core.caching_allocator_alloc(size, stream)

    def caching_allocator_delete(self, mem_ptr: int) -> None:
        """Frees memory of caching_allocator_alloc."""
        _core.caching_allocator_delete(mem_ptr)

    def empty_cache(self) -> None:
        """Returns unused memory of all devices of the backend to the driver.

        Blocks with pending work stay in the cache, even if they were freed: call
        synchronize() before to return these as well.
        """
        for device in _core.devices(self._device().backend):
            _core.empty_cache(device)

    def memory_stats(self, device: DeviceLike = None) -> Dict[str, int]:
        """Returns the statistics of the caching allocator."""
        return _core.memory_stats(self._device(device))

    def memory_allocated(self, device: DeviceLike = None) -> int:
        """Returns the bytes of device memory that the program holds."""
        return _memory.memory_allocated(self._device(device))

    def max_memory_allocated(self, device: DeviceLike = None) -> int:
        """Returns the most bytes that the program held since the last reset."""
        return _memory.max_memory_allocated(self._device(device))

    def memory_reserved(self, device: DeviceLike = None) -> int:
        """Returns the bytes that the allocator took from the driver."""
        return _memory.memory_reserved(self._device(device))

    def max_memory_reserved(self, device: DeviceLike = None) -> int:
        """Returns the most bytes that the allocator had since the last reset."""
        return _memory.max_memory_reserved(self._device(device))

    def memory_summary(self, device: DeviceLike = None) -> str:
        """Returns a report on the memory of a device, as text."""
        return _core.memory_report(self._device(device))

    def memory_snapshot(self, device: DeviceLike = None) -> Dict[str, Any]:
        """Returns every segment and block of a device."""
        return _memory.memory_snapshot(self._device(device))

    def reset_peak_memory_stats(self, device: DeviceLike = None) -> None:
        """Sets each peak to the current value."""
        _core.reset_peak_memory_stats(self._device(device))

    def reset_accumulated_memory_stats(self, device: DeviceLike = None) -> None:
        """Sets totals: freed bytes to 0, allocated bytes to those in use."""
        _core.reset_accumulated_memory_stats(self._device(device))

    def set_per_process_memory_fraction(
        self, fraction: float, device: DeviceLike = None
    ) -> None:
        """Limits what this process may reserve to a fraction of the memory."""
        _core.set_per_process_memory_fraction(fraction, self._device(device))

    def get_per_process_memory_fraction(self, device: DeviceLike = None) -> float:
        """Returns the fraction that was set last."""
        return _core.get_per_process_memory_fraction(self._device(device))

    def host_memory_stats(self) -> Dict[str, int]:
        """Returns the statistics of the backend's pinned memory."""
        return _core.host_memory_stats(self._device().backend)

    def reset_peak_host_memory_stats(self) -> None:
        """Sets each peak to the current value."""
        _core.reset_peak_host_memory_stats(self._device().backend)

    def reset_accumulated_host_memory_stats(self) -> None:
        """Sets totals: freed bytes to 0, allocated bytes to those in use."""
        _core.reset_accumulated_host_memory_stats(self._device().backend)

    def host_empty_cache(self) -> None:
        """Returns unused pinned memory to the driver.

        Blocks with pending work stay in the cache: call synchronize() before to return
        these as well.
        """
        _core.empty_host_cache(self._device().backend)


class _StreamType(type):
    """Makes all streams of a backend instances of its Stream class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        # Classes that a program derives do not inherit this rule.
        of = vars(cls).get("_of")
        return (
            of is not None
            and isinstance(instance, Stream)
            and instance.device.backend == of._name
        )


class _StreamClass(Stream, metaclass=_StreamType):
    """A stream of one backend.  isinstance is true for each such stream."""

    _of: Backend

    def __new__(
        cls,
        device: DeviceLike = None,
        priority: int = 0,
        *,
        blocking: bool = False,
        **value: Any,
    ) -> Any:
        if "stream_id" not in value:
            device = cls._of._device(device)
            return super().__new__(cls, device, priority, blocking=blocking, **value)
        if device is not None or priority != 0 or blocking:
            raise TypeError("stream_id goes with device_index and device_type only")
        made = super().__new__(cls, **value)
        cls._of._check(made)
        return made

    @classmethod
    def from_external(cls, stream: Any, device: DeviceLike = None) -> Stream:
        """Adopts another library's stream: see devrt.Stream.from_external."""
        if device is not None:
            device = cls._of._device(device)
        made = super().from_external(stream, device)
        cls._of._check(made)
        return made


class _EventClass(Event):
    """An event that takes its options by position too, as PyTorch's does."""

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> Any:
        return super().__new__(
            cls,
            enable_timing=enable_timing,
            blocking=blocking,
            interprocess=interprocess,
        )


def get_device_module(device: Union[Device, str, None] = None) -> types.ModuleType:
    """Returns the module with PyTorch's names for a device, such as devrt.mtia.

    device: a Device, "mtia:0", or only a backend's name, which opens nothing.  None is
    the current device.

    Raises InvalidArgumentError for a backend without such a module.  devrt.accelerator
    serves every backend.
    """
    if device is None:
        device = _core.current_device()
    if isinstance(device, str) and ":" in device:
        device = Device(device)
    if not isinstance(device, (Device, str)):
        raise TypeError(
            "device must be a devrt.Device, str or None, not "
            f"{type(device).__name__}"
        )
    name = device.type if isinstance(device, Device) else device
    if name not in _MODULES:
        raise InvalidArgumentError(
            f"there is no module for backend {name!r}, only for "
            f"{', '.join(_MODULES)}: use devrt.accelerator, which is of the active "
            "backend"
        )
    return sys.modules[f"{__package__}.{name}"]
