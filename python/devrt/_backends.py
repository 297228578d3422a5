# SPDX-License-Identifier: Apache-2.0
"""Finds backends, also those that other packages offer by entry points.

The name of an entry point in the group "devrt.backends" is the name of the backend.  It
leads to the absolute path of the plugin, or to a function that returns the path:

    [project.entry-points."devrt.backends"]
    acme = "devrt_acme:plugin_path"

An entry point is used when a program asks for a backend that was not found otherwise.
It is loaded only if DEVRT_BACKENDS does not exclude that name.
"""

from __future__ import annotations

import os
import sys

from . import _core
from ._annotations import t

_GROUP = "devrt.backends"


# (sys.path, entry points by name).  Reading them takes milliseconds.
_found: t.Tuple[t.Tuple[str, ...], t.Dict[str, t.Any]] = ((), {})
# By name: (result, reason) of each entry point that was used.
_outcomes: t.Dict[str, t.Tuple[str, str]] = {}
# By name: (entry point, error) of those that failed.  Each is tried once.
_failures: t.Dict[str, t.Tuple[t.Any, _core.Error]] = {}
# DEVRT_BACKENDS as the library read it, once.
_selection: t.Optional[str] = None


def _entry_points() -> t.Dict[str, t.Any]:
    global _found
    path = tuple(map(str, sys.path))
    if _found[0] != path:
        _found = (path, _read_entry_points())
    return _found[1]


def _read_entry_points() -> t.Dict[str, t.Any]:
    from importlib import metadata

    points: t.Any = metadata.entry_points()
    if hasattr(points, "select"):
        found = points.select(group=_GROUP)
    else: # Python 3.9
        found = points.get(_GROUP, ())
    named: t.Dict[str, t.Any] = {}
    for point in found:
        named.setdefault(point.name, point)
    return named


def _path_of(point: t.Any) -> str:
    try:
        target = point.load()
        target = target() if callable(target) else target
    except (Exception, SystemExit) as error:
        raise _error(point, f"{type(error).__name__}: {error}") from error
    if isinstance(target, os.PathLike):
        target = os.fspath(target)
    if not isinstance(target, str):
        raise _error(
            point,
            "expected the absolute path of its plugin, or a function that "
            f"returns it; got {type(target).__name__}",
        )
    return target


def _error(
    point: t.Any, why: str, kind: t.Any = _core.Error, code: t.Optional[str] = None
) -> _core.Error:
    error: _core.Error = kind(
        f"backend '{point.name}', of entry point '{point.value}' in group "
        f"{_GROUP}: {why}"
    )
    error.code = code or error.code or "UNAVAILABLE"
    return error


def _again(error: _core.Error) -> _core.Error:
    """Returns the error without its traceback and cause, whose frames keep objects
    alive.
    """
    made = type(error)(str(error))
    made.code = error.code
    return made


def _load(point: t.Any) -> None:
    path = _path_of(point)
    there = _core._plugin_backend(path)
    if there and there != point.name:
        raise _error(point, f"the plugin {path} is of backend '{there}'")
    try:
        _core._load_backend(path)
    except _core.Error as error:
        raise _error(point, str(error), type(error), error.code) from error


def _excluded_by() -> str:
    global _selection
    if _selection is None:
        _core._backend_names()  # reads DEVRT_BACKENDS
        _selection = os.environ.get("DEVRT_BACKENDS", "")
    return _selection


def _is_excluded(name: str) -> bool:
    parts = {part.strip() for part in _excluded_by().split(",")} - {""}
    allowed = {part for part in parts if not part.startswith("!")}
    return "!" + name in parts or bool(allowed) and name not in allowed


def _find(name: str) -> bool:
    """Loads the backend of the entry point with that name.  Returns false if there is
    none.

    Raises the Error that loading the plugin raised, and raises it again at later calls
    without loading again.
    """
    point = _entry_points().get(name)
    if point is None:
        return False
    failed = _failures.get(name)
    if failed is not None and failed[0] == point:
        raise _again(failed[1])
    try:
        if _is_excluded(name):
            raise _error(
                point,
                f"it is excluded by DEVRT_BACKENDS={_excluded_by()!r}",
                code="FAILED_PRECONDITION",
            )
        _load(point)
    except _core.Error as error:
        if not _is_excluded(name):
            _outcomes[name] = ("refused", str(error))
        _failures[name] = (point, _again(error))
        raise
    _outcomes[name] = ("loaded", "")
    return True


def load_backend(path: t.Union[str, "os.PathLike[str]"]) -> str:
    """Loads a plugin from an absolute path and returns the name of its backend.

    Raises InvalidArgumentError for a relative path and for a file that is not a plugin,
    and Error with the reason if the plugin cannot be loaded.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError("path must be a str or a path of str, not bytes")
    return _core._load_backend(text)


def backends() -> t.List[str]:
    """Returns the names of the backends that were found, highest priority first.

    Opens none of them, so a backend without a device is in the list: is_available(name)
    tells whether it has one.
    """
    names = list(_core._backend_names())
    offered = {name for name in _entry_points() if not _is_excluded(name)}
    return names + sorted(offered - set(names))


def is_available(backend: t.Optional[str] = None) -> bool:
    """Returns True if the backend has a device, or with None if any backend has.

    Opens the backend.  Returns False for one that is not found or cannot be opened:
    load_report() and devices(name) say why.
    """
    if backend is not None and not isinstance(backend, str):
        raise TypeError(
            f"backend must be a str or None, not {type(backend).__name__}"
        )
    try:
        return len(_core.devices(backend)) > 0
    except _core.Error:
        return False


def load_report() -> t.List[t.Dict[str, str]]:
    """Returns everything that was tried to find backends, in order.

    Each is a dict with source, path, backend, version, result and reason.  result:
    "found" (not opened yet), "loaded", "refused", "shadowed" by an earlier one of that
    name, "excluded" by DEVRT_BACKENDS, "searched" (a directory) or "ignored".  Entry
    points of other packages come last.  Their path is "module:object".
    """
    report = list(_core._load_report())
    names = set(_core._backend_names())
    for name, point in sorted(_entry_points().items()):
        result, reason = _outcomes.get(name, ("found", ""))
        if _is_excluded(name):
            result, reason = "excluded", f"DEVRT_BACKENDS={_excluded_by()!r}"
        elif name in names and name not in _outcomes:
            result, reason = "shadowed", "a backend of that name was found before"
        report.append(
            {
                "source": f"entry point in {_GROUP}",
                "path": point.value,
                "backend": name,
                "version": "",
                "result": result,
                "reason": reason,
            }
        )
    return report


def install() -> None:
    """Registers the function that finds backends by entry points."""
    _core._set_backend_finder(_find)
