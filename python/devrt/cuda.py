# SPDX-License-Identifier: Apache-2.0
"""CUDA, by the names of torch.cuda."""

from __future__ import annotations

from typing import Any

from . import _core, _names
from ._core import CudaError, CudaStream, OutOfMemoryError
from ._facade import Backend, DeviceLike, _EventClass
from ._names import *

_backend = Backend("cuda")

Stream = CudaStream


class Event(_EventClass):
    """A devrt.Event with `cuda_event`, the cudaEvent_t as an int."""

    @property
    def cuda_event(self) -> int:
        """The cudaEvent_t, or 0 before the first record."""
        return self.native_handle


def ExternalStream(stream: Any, device: DeviceLike = None) -> CudaStream:
    """Adopts another library's stream: see devrt.cuda.Stream.from_external."""
    made = CudaStream.from_external(
        stream, None if device is None else _backend._device(device)
    )
    assert isinstance(made, CudaStream)
    return made


globals().update(_backend._named(_names.__all__))
get_device_capability = _backend.get_device_capability


def check_error(code: int) -> None:
    """Raises CudaError unless `code`, a cudaError_t, is 0.

    The error has the attributes of one that a call of CUDA's driver returned.
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


# Texts that programs search for.  Other errors have only a name.
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
        """Page-locks host memory.  Returns 0 or the cudaError_t."""
        return _answer(_core.register_host, pointer, size, _backend._device())

    def cudaHostUnregister(self, pointer: int) -> int:
        """Ends the page lock of cudaHostRegister.  Returns 0 or the cudaError_t."""
        return _answer(_core.unregister_host, pointer, _backend._device())


def _answer(call: Any, *arguments: Any) -> int:
    try:
        call(*arguments)
    except _core.Error as error:
        return error.native_code or _NUMBERS.get(error.code or "", 999)
    return 0


# The cudaError_t for errors that devrt itself found.
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
    """Returns an object with the calls of CUDA's runtime that devrt offers."""
    return _Runtime()


__all__ = [
    "CudaError",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "check_error",
    "cudart",
    "get_device_capability",
]
__all__ += _names.__all__
