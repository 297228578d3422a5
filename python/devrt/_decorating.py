# SPDX-License-Identifier: Apache-2.0
"""Contexts as decorators, and the functions that cannot be decorated."""

from __future__ import annotations

from ._annotations import _types, t


def runs_later(function: t.Any) -> bool:
    """Returns True if calling `function` would not run its body, as for a generator."""
    import functools

    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, staticmethod):
            function = function.__func__
        else:
            break
    return any(_is_deferred(body) for body in (function, type(function).__call__))


# Flags of inspect, whose import takes long: generators, coroutines (by `async def` or
# by types.coroutine) and asynchronous generators.
_LATER = 0x20 | 0x80 | 0x100 | 0x200


def _is_deferred(body: t.Any) -> bool:
    import types

    body = getattr(body, "__func__", body)
    if not isinstance(body, types.FunctionType):
        return False
    # inspect.markcoroutinefunction sets that attribute.
    return bool(body.__code__.co_flags & _LATER) or "_is_coroutine_marker" in vars(body)


def decorate(context: t.Any, function: _types.FunctionT) -> _types.FunctionT:
    """Returns `function` so that it runs inside `context`."""
    import functools

    if not callable(function):
        raise TypeError(
            f"only a function can be decorated, not {type(function).__name__}"
        )
    if isinstance(function, type):
        raise TypeError(
            f"only a function can be decorated, not the class {function.__name__}"
        )
    if runs_later(function):
        raise TypeError(
            "a generator or coroutine function cannot be decorated: its body "
            "runs later; use `with` inside it"
        )

    @functools.wraps(function)
    def inside(*args: t.Any, **kwargs: t.Any) -> t.Any:
        with context:
            return function(*args, **kwargs)

    return inside  # type: ignore[return-value]
