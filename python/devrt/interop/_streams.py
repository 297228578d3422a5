# SPDX-License-Identifier: Apache-2.0
"""One current stream in several libraries (E17)."""

from __future__ import annotations

import contextlib
import importlib
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from .. import _core
from .._core import InvalidArgumentError, Stream
from .._decorating import decorate

GPU = ("cuda", "hip")


def _load(name: str, argument: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{argument}={name!r}: {name} cannot be imported: {error}", name=name
        ) from error


def _torch_context(stream: Stream) -> Any:
    torch = _load("torch", "also")
    index = stream.device.index
    if stream.kind == "per_thread":
        raise InvalidArgumentError(
            "a per-thread default stream cannot be torch's current stream: what "
            "torch keeps as that handle is another stream in every thread"
        )
    if stream.kind == "default":
        return torch.cuda.stream(torch.cuda.default_stream(index))
    # PyTorch does not own the stream; the context keeps `stream`.
    return torch.cuda.stream(
        torch.cuda.ExternalStream(stream.native_handle, device=index)
    )


def _cupy_context(stream: Stream) -> Any:
    cupy = _load("cupy", "also")
    if stream.kind == "default":
        return cupy.cuda.Stream.null
    if stream.kind == "per_thread":
        return cupy.cuda.Stream.ptds
    if hasattr(cupy.cuda.Stream, "from_external") and hasattr(
        stream, "__cuda_stream__"
    ):
        return cupy.cuda.Stream.from_external(stream)
    return cupy.cuda.ExternalStream(stream.native_handle, stream.device.index)


_CONTEXTS: Dict[str, Callable[[Stream], Any]] = {
    "cupy": _cupy_context,
    "torch": _torch_context,
}


def _names(also: Union[str, Tuple[str, ...], List[str]]) -> Tuple[str, ...]:
    names = (also,) if isinstance(also, str) else also
    if not isinstance(names, (tuple, list)):
        raise TypeError(
            f"also must be a name or a tuple of names, not {type(also).__name__}"
        )
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"also must hold names, not {type(name).__name__}")
        if name not in _CONTEXTS:
            raise InvalidArgumentError(
                f"also={name!r} is not known, the choices are "
                + ", ".join(sorted(_CONTEXTS))
            )
    return tuple(names)


class SharedStream:
    """The context that devrt.stream(s, also=...) returns."""

    def __init__(self, stream: Stream, also: Any) -> None:
        self._stream = stream
        self._names = _names(also)
        if self._names and stream.device.backend not in GPU:
            raise InvalidArgumentError(
                f"{stream!r} cannot be current in {self._names[0]}, which has no "
                f"streams of {stream.device.backend}"
            )
        for name in self._names:
            _load(name, "also")
        self._entered = threading.local()

    def __call__(self, function: Any) -> Any:
        return decorate(self, function)

    def __enter__(self) -> Stream:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._stream)
            for name in self._names:
                stack.enter_context(_CONTEXTS[name](self._stream))
            entered = self._entered.__dict__.setdefault("stacks", [])
            entered.append(stack.pop_all())
        return self._stream

    def __exit__(self, *exception: Any) -> Optional[bool]:
        stacks = self._entered.__dict__.get("stacks")
        if not stacks:
            raise _core.Error("this thread is not inside this context")
        stacks.pop().__exit__(*exception)
        return None


# ---- Streams of other libraries ----------------------------------------------


def _torch_stream(device: Optional[int]) -> Tuple[Any, int]:
    torch = _load("torch", "library")
    if device is None:
        device = torch.cuda.current_device()
    return torch.cuda.current_stream(device), int(device)


def _cupy_stream(device: Optional[int]) -> Tuple[Any, int]:
    cupy = _load("cupy", "library")
    if device is None:
        device = cupy.cuda.Device().id
    return cupy.cuda.get_current_stream(device), int(device)


_CURRENT = {"cupy": _cupy_stream, "torch": _torch_stream}


def _index(device: Any) -> Optional[int]:
    """Returns the index of a device of cuda, or None."""
    if device is None or (isinstance(device, int) and not isinstance(device, bool)):
        return device
    found = _core.Device(device)
    if found.backend != "cuda":
        raise InvalidArgumentError(
            f"Expected a cuda device, but got: {found.backend}"
        )
    return found.index


def use_stream_of(library: Any, device: Any = None) -> Stream:
    """Returns the current stream of another library, as a devrt.Stream.

        with interop.use_stream_of("torch"):
            ...

    library: "torch" or "cupy", or the module.
    device: None is the current device of that library.

    devrt keeps the stream but never destroys it.  Raises ImportError if the library is
    missing.
    """
    name = library if isinstance(library, str) else getattr(library, "__name__", None)
    if not isinstance(name, str):
        raise TypeError(
            f"library must be a name or a module, not {type(library).__name__}"
        )
    if name not in _CURRENT:
        raise InvalidArgumentError(
            f"library {name!r} is not known, the choices are "
            + ", ".join(sorted(_CURRENT))
        )
    stream, index = _CURRENT[name](_index(device))
    return Stream.from_external(stream, f"cuda:{index}")
