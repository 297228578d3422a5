# SPDX-License-Identifier: Apache-2.0
"""Devices and streams as contexts and decorators."""

from __future__ import annotations

from . import _core
from ._annotations import _types, t
from ._core import Device, Event, Stream, ThreadContext
from ._decorating import decorate


class _NoContext:
    """A context that changes nothing."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None

    def __call__(self, function: _types.FunctionT) -> _types.FunctionT:
        return decorate(self, function)


_NO_CONTEXT = _NoContext()

# The type itself, so that no Python function stands between.  devrt.device("mtia:1")
# returns one object at every call.
device = Device


def stream(
    stream: _types.StreamT, also: t.Union[str, t.Sequence[str]] = ()
) -> _types.Context[_types.StreamT]:
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

        return SharedStream(stream, also)  # type: ignore[return-value]
    if stream is None:
        return _NO_CONTEXT  # type: ignore[return-value]
    if not isinstance(stream, Stream):
        raise TypeError(
            f"stream must be a devrt.Stream or None, not {type(stream).__name__}"
        )
    return stream  # type: ignore[return-value]


def synchronize(where: t.Union[Stream, _types.DeviceLike] = None) -> None:
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
    context: ThreadContext,
    function: t.Callable[..., t.Any],
    /,
    *args: t.Any,
    **kwargs: t.Any,
) -> t.Any:
    """Calls function(*args, **kwargs) inside `context`."""
    with context:
        return function(*args, **kwargs)


def _launch_host_func(
    stream: Stream, function: t.Callable[..., t.Any], /, *args: t.Any, **kwargs: t.Any
) -> t.Any:
    """Implements Stream.launch_host_func."""
    from ._host_functions import launch_host_func

    return launch_host_func(stream, function, *args, **kwargs)


def _await(what: t.Union[Stream, Event]) -> t.Iterator[t.Any]:
    """Implements Stream.__await__ and Event.__await__."""
    from ._awaiting import until

    return until(what).__await__()


def install() -> None:
    """Registers the functions of this file that the C++ module calls."""
    _core._set_helpers(decorate, _run, _launch_host_func, _await)
