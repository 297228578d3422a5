# SPDX-License-Identifier: Apache-2.0
"""Devices and streams as contexts and decorators."""

from __future__ import annotations

from . import _core
from ._core import Device, Event, Stream, ThreadContext
from ._decorating import decorate

TYPE_CHECKING = False  # typing's, whose import takes long
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Optional, Sequence, TypeVar, Union, cast

    from ._types import Context, DeviceLike

    _F = TypeVar("_F", bound=Callable[..., Any])
    _S = TypeVar("_S", bound=Optional[Stream])
else:

    def cast(_type, value):
        """Returns the value, as typing.cast does."""
        return value


class _NoContext:
    """A context that changes nothing."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None

    def __call__(self, function: _F) -> _F:
        return decorate(self, function)


_NO_CONTEXT = _NoContext()

# The type itself, so that no Python function stands between.  devrt.device("mtia:1")
# returns one object at every call.
device = Device


def stream(stream: _S, also: Union[str, Sequence[str]] = ()) -> Context[_S]:
    """Returns the context in which `stream` and its device are current.

    That is the stream itself.  None gives a context that changes nothing.

        with devrt.stream(s):
            ...
        with devrt.stream(s, also=("torch", "cupy")):  # current in those too
            ...

    also: "torch" and "cupy", which are then imported.  All are restored in reverse
    order, even if one fails.

    Raises ImportError if such a library is missing, and ValueError for a stream that it
    cannot use: a stream of mtia, and for torch the per-thread default stream.
    """
    if also != ():
        if not isinstance(stream, Stream):
            raise TypeError(
                f"stream must be a devrt.Stream, not {type(stream).__name__}"
            )
        from .interop._streams import SharedStream

        return cast("Context[_S]", SharedStream(stream, also))
    if stream is None:
        return cast("Context[_S]", _NO_CONTEXT)
    if not isinstance(stream, Stream):
        raise TypeError(
            f"stream must be a devrt.Stream or None, not {type(stream).__name__}"
        )
    return cast("Context[_S]", stream)


def synchronize(where: Union[Stream, DeviceLike] = None) -> None:
    """Waits for all work of a device or of one stream, and for its host functions.

    None is the current device.  Raises the error of that work, if any.  Ctrl-C ends the
    wait.
    """
    if isinstance(where, Stream):
        where.synchronize()
    elif where is None:
        _core.current_device().synchronize()
    else:
        Device(where).synchronize()


def _run(
    context: ThreadContext, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Calls function(*args, **kwargs) inside `context`."""
    with context:
        return function(*args, **kwargs)


def _launch_host_func(
    stream: Stream, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Implements Stream.launch_host_func."""
    from ._host_functions import launch_host_func

    return launch_host_func(stream, function, *args, **kwargs)


def _await(what: Union[Stream, Event]) -> Iterator[Any]:
    """Implements Stream.__await__ and Event.__await__."""
    from ._awaiting import until

    return until(what).__await__()


def install() -> None:
    """Registers the functions of this file that the C++ module calls."""
    _core._set_helpers(decorate, _run, _launch_host_func, _await)
