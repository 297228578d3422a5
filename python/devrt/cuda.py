# SPDX-License-Identifier: Apache-2.0
"""CUDA, by the names of torch.cuda."""

from __future__ import annotations

from typing import Any

from . import _core
from ._core import CudaError, CudaStream, OutOfMemoryError
from ._facade import Backend, DeviceLike, _EventClass

_backend = Backend("cuda")

Stream = CudaStream


class Event(_EventClass):
    """A devrt.Event with `cuda_event`, the cudaEvent_t as int."""

    @property
    def cuda_event(self) -> int:
        """The cudaEvent_t; 0 before the first record."""
        return self.native_handle


def ExternalStream(stream: Any, device: DeviceLike = None) -> CudaStream:
    """Another library's stream: devrt.cuda.Stream.from_external."""
    made = CudaStream.from_external(
        stream, None if device is None else _backend._device(device)
    )
    assert isinstance(made, CudaStream)
    return made


is_available = _backend.is_available
device_count = _backend.device_count
current_device = _backend.current_device
set_device = _backend.set_device
device = _backend.device
device_index = _backend.device_index
get_device_index = _backend.get_device_index
synchronize = _backend.synchronize
get_device_properties = _backend.get_device_properties
get_device_name = _backend.get_device_name
get_device_capability = _backend.get_device_capability
can_device_access_peer = _backend.can_device_access_peer
current_stream = _backend.current_stream
default_stream = _backend.default_stream
set_stream = _backend.set_stream
stream = _backend.stream
mem_get_info = _backend.mem_get_info
caching_allocator_alloc = _backend.caching_allocator_alloc
caching_allocator_delete = _backend.caching_allocator_delete
empty_cache = _backend.empty_cache
memory_stats = _backend.memory_stats
memory_allocated = _backend.memory_allocated
max_memory_allocated = _backend.max_memory_allocated
memory_reserved = _backend.memory_reserved
max_memory_reserved = _backend.max_memory_reserved
memory_summary = _backend.memory_summary
memory_snapshot = _backend.memory_snapshot
reset_peak_memory_stats = _backend.reset_peak_memory_stats
reset_accumulated_memory_stats = _backend.reset_accumulated_memory_stats
set_per_process_memory_fraction = _backend.set_per_process_memory_fraction
get_per_process_memory_fraction = _backend.get_per_process_memory_fraction
host_memory_stats = _backend.host_memory_stats
reset_peak_host_memory_stats = _backend.reset_peak_host_memory_stats
reset_accumulated_host_memory_stats = _backend.reset_accumulated_host_memory_stats
host_empty_cache = _backend.host_empty_cache


def check_error(code: int) -> None:
    """Raises CudaError unless `code`, a cudaError_t, is 0.

    Its attributes are those of a call that CUDA's driver answers with `code`.
    """
    if isinstance(code, bool) or not isinstance(code, int):
        raise TypeError(f"code must be an int, not {type(code).__name__}")
    if code == 0:
        return
    name, status, sticky = _core._cuda_code(code)
    said = f"{name or 'unrecognized cudaError_t'}, {code}"
    error = CudaError(f"{_TEXTS[code]} ({said})" if code in _TEXTS else said)
    error.code = status
    error.native_code = code
    error.name = name
    error.sticky = sticky
    raise error


# Of those that programs know by their text; names say the rest.
_TEXTS = {
    1: "invalid argument",
    2: "out of memory",
    3: "initialization error",
    100: "no CUDA-capable device is detected",
    101: "invalid device ordinal",
    400: "invalid resource handle",
    700: "an illegal memory access was encountered",
    719: "unspecified launch failure",
    999: "unknown error",
}


class _Runtime:
    """The calls of CUDA's runtime that register host memory."""

    cudaError = int

    def cudaHostRegister(self, pointer: int, size: int, flags: int) -> int:
        """Page-locks host memory; 0, or the cudaError_t."""
        return _answer(_core.register_host, pointer, size, _backend._device())

    def cudaHostUnregister(self, pointer: int) -> int:
        """The opposite."""
        return _answer(_core.unregister_host, pointer, _backend._device())


def _answer(call: Any, *arguments: Any) -> int:
    try:
        call(*arguments)
    except _core.Error as error:
        return error.native_code or _NUMBERS.get(error.code or "", 999)
    return 0


# Of errors that devrt itself found.
_NUMBERS = {
    "ALREADY_EXISTS": 712,
    "FAILED_PRECONDITION": 401,
    "INVALID_ARGUMENT": 1,
    "NOT_FOUND": 713,
    "RESOURCE_EXHAUSTED": 2,
    "UNAVAILABLE": 46,
    "UNIMPLEMENTED": 801,
}


def cudart() -> _Runtime:
    """What there is of CUDA's runtime."""
    return _Runtime()


__all__ = [
    "CudaError",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "check_error",
    "cudart",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_index",
    "empty_cache",
    "get_device_capability",
    "get_device_index",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "host_empty_cache",
    "host_memory_stats",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_device",
    "set_per_process_memory_fraction",
    "set_stream",
    "stream",
    "synchronize",
]
