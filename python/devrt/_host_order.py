# SPDX-License-Identifier: Apache-2.0
"""Tells the race detector how Python's threads are ordered.

While the order of host threads is exact, `threading`, `queue` and `concurrent.futures`
have classes of this module in place of their own.  The detector sees locks that are
made meanwhile, and what is built of them: Condition, Event, Semaphore, Barrier, Queue.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import queue
import threading
from typing import Any, Callable, Dict, List, Tuple

from . import _core

# Numbers that are no addresses.
_numbers = itertools.count(1 << 63)
_release, _acquire = _core._sync_release, _core._sync_acquire
# (class or module, name, what was there), while the hooks are installed.
_replaced: List[Tuple[Any, str, Any]] = []
_installed = 0
_installing = threading.Lock()


class _Lock:
    """A lock of `_thread`, which tells the detector who had it before."""

    __slots__ = ("_lock", "_number", "__weakref__")

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._number = next(_numbers)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        taken: bool = self._lock.acquire(blocking, timeout)
        if taken:
            _acquire(self._number)
        return taken

    def release(self) -> None:
        _release(self._number)
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: Any) -> None:
        self.release()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)

    def __repr__(self) -> str:
        return repr(self._lock)


class _RLock(_Lock):
    """A reentrant lock, with what threading.Condition asks of it."""

    __slots__ = ()

    def _release_save(self) -> Any:
        _release(self._number)
        return self._lock._release_save()

    def _acquire_restore(self, state: Any) -> None:
        self._lock._acquire_restore(state)
        _acquire(self._number)


class _SimpleQueue(queue.SimpleQueue):  # type: ignore[type-arg]
    """queue.SimpleQueue, which has no lock of `threading`."""

    def __init__(self) -> None:
        super().__init__()
        self._number = next(_numbers)

    def put(self, item: Any, block: bool = True, timeout: Any = None) -> None:
        _release(self._number)
        super().put(item, block, timeout)

    def put_nowait(self, item: Any) -> None:
        self.put(item)

    def get(self, block: bool = True, timeout: Any = None) -> Any:
        item = super().get(block, timeout)
        _acquire(self._number)
        return item

    def get_nowait(self) -> Any:
        return self.get(False)


def _numbers_of(owner: Any) -> Tuple[int, int]:
    """Returns two numbers for a thread, its start and its end, or for a future."""
    made: Dict[str, Tuple[int, int]] = owner.__dict__
    return made.setdefault("_devrt_order", (next(_numbers), next(_numbers)))


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Puts make(what is there) in place of an attribute."""
    there = getattr(owner, name)
    made = make(there)
    if callable(there) and not isinstance(made, type):
        made.__name__, made.__doc__ = name, there.__doc__
    _replaced.append((owner, name, there))
    setattr(owner, name, made)


def _before(number_of: int) -> Callable[[Any], Any]:
    """Makes a method release a number of its object first."""

    def make(method: Any) -> Any:
        def replacement(self: Any, *args: Any, **kwargs: Any) -> Any:
            _release(_numbers_of(self)[number_of])
            return method(self, *args, **kwargs)

        return replacement

    return make


def _make_run(method: Any) -> Any:
    def _bootstrap_inner(self: Any) -> None:
        start, end = _numbers_of(self)
        _acquire(start)
        try:
            method(self)
        finally:
            _release(end)

    return _bootstrap_inner


def _make_join(method: Any) -> Any:
    def join(self: Any, timeout: Any = None) -> None:
        method(self, timeout)
        if not self.is_alive():
            _acquire(_numbers_of(self)[1])

    return join


def _make_result(method: Any) -> Any:
    """For a method of a future that waits for its end."""

    def replacement(self: Any, timeout: Any = None) -> Any:
        try:
            return method(self, timeout)
        finally:
            if self._state == "FINISHED":
                _acquire(_numbers_of(self)[0])

    return replacement


def install() -> None:
    """Installs the hooks, unless they are."""
    global _installed
    with _installing:
        _installed += 1
        if _installed > 1:
            return
        thread, future = threading.Thread, concurrent.futures.Future
        _replace(threading, "Lock", lambda lock: lambda: _Lock(lock()))
        _replace(threading, "RLock", lambda lock: lambda: _RLock(lock()))
        _replace(queue, "SimpleQueue", lambda _: _SimpleQueue)
        _replace(thread, "start", _before(0))
        _replace(thread, "_bootstrap_inner", _make_run)
        _replace(thread, "join", _make_join)
        _replace(future, "set_result", _before(0))
        _replace(future, "set_exception", _before(0))
        _replace(future, "result", _make_result)
        _replace(future, "exception", _make_result)


def uninstall() -> None:
    """Removes the hooks, after as many calls as there were of install()."""
    global _installed
    with _installing:
        _installed -= 1
        if _installed != 0:
            return
        while _replaced:
            owner, name, there = _replaced.pop()
            setattr(owner, name, there)
