# SPDX-License-Identifier: Apache-2.0
"""Backends, and those that other packages offer by entry points.

An entry point in group "devrt.backends" has the name of the backend and leads
to the absolute path of the plugin, or to a function that returns it:

    [project.entry-points."devrt.backends"]
    acme = "devrt_acme:plugin_path"

It is looked at when somebody asks for a backend that was not found otherwise,
and loaded only if it has that name.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, Tuple, Union

from . import _core

_GROUP = "devrt.backends"


# What was found, and for which sys.path: looking takes milliseconds.
_found: Tuple[Tuple[str, ...], Dict[str, Any]] = ((), {})


def _entry_points() -> Dict[str, Any]:
    global _found
    path = tuple(map(str, sys.path))
    if _found[0] != path:
        _found = (path, _read_entry_points())
    return _found[1]


def _read_entry_points() -> Dict[str, Any]:
    from importlib import metadata

    points: Any = metadata.entry_points()
    if hasattr(points, "select"):
        found = points.select(group=_GROUP)
    else:  # Python 3.9
        found = points.get(_GROUP, ())
    named: Dict[str, Any] = {}
    for point in found:
        named.setdefault(point.name, point)
    return named


def _find(name: str) -> bool:
    """Loads the backend that an entry point of that name leads to."""
    point = _entry_points().get(name)
    if point is None:
        return False
    target = point.load()
    path = target() if callable(target) else target
    return _core._load_backend(os.fspath(path)) == name


def load_backend(path: Union[str, "os.PathLike[str]"]) -> str:
    """Loads a plugin from an absolute path; returns the backend's name.

    Raises InvalidArgumentError for a relative path or what is no plugin, Error
    for what cannot be loaded, with the reason.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError("path must be a str or a path of str, not bytes")
    return _core._load_backend(text)


def backends() -> List[str]:
    """Names of the backends that were found, in order of priority.

    None of them is opened by that.
    """
    names = list(_core._backend_names())
    return names + sorted(set(_entry_points()) - set(names))


def install() -> None:
    """Lets the module find backends by entry points."""
    _core._set_backend_finder(_find)
