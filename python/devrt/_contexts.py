# SPDX-License-Identifier: Apache-2.0
"""Devices and streams as contexts and decorators, and host functions."""

from __future__ import annotations

import functools
import types
from typing import Any, Callable, Iterator, Optional, Sequence, TypeVar, Union, cast

from . import _core
from ._core import Device, Event, Stream, ThreadContext
from ._host_functions import launch_host_func
from ._types import Context, DeviceLike

_F = TypeVar("_F", bound=Callable[..., Any])
_S = TypeVar("_S", bound=Optional[Stream])


class _NoContext:
    """What changes nothing."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None

    def __call__(self, function: _F) -> _F:
        return _decorate(self, function)


_NO_CONTEXT = _NoContext()

# The type itself: no call stands between.  devrt.device("mtia:1") is the same
# object each time.
device = Device


def stream(stream: _S, also: Union[str, Sequence[str]] = ()) -> Context[_S]:
    """The context in which `stream`, and its device, are current.

    A stream is that context itself; with None it changes nothing.

        with devrt.stream(s):
            ...
        with devrt.stream(s, also=("torch", "cupy")):  # in those libraries, too
            ...

    also: "torch" and "cupy", which are imported then (ImportError).  ValueError
    for a stream that such a library cannot have: of mtia; for torch, the
    per-thread default stream.  All are restored in reverse order, even if one
    fails.
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
    """Waits for all work of a device, or of one stream.

    For functions of launch_host_func, too.  None is the current device.  Raises the error of that work, if any.  Ctrl-C
    ends the wait.
    """
    if isinstance(where, Stream):
        where.synchronize()
    elif where is None:
        _core.current_device().synchronize()
    else:
        Device(where).synchronize()


def _runs_later(function: Any) -> bool:
    """Whether a call of it only makes what runs its body."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, staticmethod):
            function = function.__func__
        else:
            break
    return any(_makes(body) for body in (function, type(function).__call__))


# Of inspect, which takes long to import: generators, coroutines, either by a
# decorator of `types`, asynchronous generators.
_LATER = 0x20 | 0x80 | 0x100 | 0x200


def _makes(body: Any) -> bool:
    body = getattr(body, "__func__", body)
    if not isinstance(body, types.FunctionType):
        return False
    # What inspect.markcoroutinefunction sets.
    return bool(body.__code__.co_flags & _LATER) or "_is_coroutine_marker" in vars(body)


def _decorate(context: Any, function: _F) -> _F:
    """`function`, run inside `context`."""
    if not callable(function):
        raise TypeError(
            f"only a function can be decorated, not {type(function).__name__}"
        )
    if isinstance(function, type):
        raise TypeError(
            f"only a function can be decorated, not the class {function.__name__}"
        )
    if _runs_later(function):
        raise TypeError(
            "a generator or coroutine function cannot be decorated: its body "
            "runs later; use `with` inside it"
        )

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with context:
            return function(*args, **kwargs)

    return inside  # type: ignore[return-value]


def _run(
    context: ThreadContext, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """What function(*args, **kwargs) returns, run with this context."""
    with context:
        return function(*args, **kwargs)


def _await(what: Union[Stream, Event]) -> Iterator[Any]:
    """What Stream.__await__ and Event.__await__ answer."""
    from ._awaiting import until

    return until(what).__await__()


def install() -> None:
    """Gives the module what it calls of this file."""
    _core._set_helpers(_decorate, _run, launch_host_func, _await)
