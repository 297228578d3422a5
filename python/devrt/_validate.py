# SPDX-License-Identifier: Apache-2.0
"""The race detector: findings of a part of a program, and declared work."""

from __future__ import annotations

import functools
from types import TracebackType
from typing import (
    Any,
    Callable,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
    cast,
)

from . import _core
from ._core import Error, Stream

__all__ = [
    "Finding",
    "RaceError",
    "Validation",
    "annotate_order",
    "annotate_work",
    "use_on_host",
    "validate",
    "with_accesses",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_READ, _WRITE = 1, 2

# An object with the attributes ptr and nbytes, such as an Array whose elements are
# contiguous, or (address, bytes).
Memory = Union[Any, Tuple[int, int]]


class Finding(NamedTuple):
    """A mistake in the order of a program's work."""

    id: str
    """Stays over runs, as "race-7f3a21c4"."""
    kind: str
    """Such as "read-after-write"."""
    text: str
    """The report, of several lines."""
    json: str
    """The report as a JSON object."""

    def _repr_svg_(self) -> Optional[str]:
        """Returns the picture that a notebook shows, as of `devrt check --svg`.

        None for a leak and a deadlock, which have none.
        """
        return _core._finding_svg(self.json)


class RaceError(Error):
    """Work of the program has no order.  `findings` has the reports."""

    findings: List[Finding]

    def __init__(self, findings: List[Finding]) -> None:
        super().__init__("\n\n".join(finding.text for finding in findings))
        self.findings = findings

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: each report with its picture."""
        import html

        return "\n".join(
            f"<pre>{html.escape(finding.text)}</pre>\n{finding._repr_svg_() or ''}"
            for finding in self.findings
        )


class Validation:
    """What devrt.validate() returns."""

    def __init__(self, check: bool, host_order: Optional[str] = None) -> None:
        if host_order not in (None, "observed", "exact"):
            raise ValueError(
                f'host_order must be "observed", "exact" or None, not {host_order!r}'
            )
        self._check = check
        self._host_order = host_order
        self._was_exact = False
        self._scope: Any = None

    @property
    def findings(self) -> List[Finding]:
        """The findings since the block began, each once."""
        found = [] if self._scope is None else self._scope.findings()
        return [Finding(*finding) for finding in found]

    def __enter__(self) -> Validation:
        if not _core._is_validated():
            try:
                _core._enable_validation()
            except Error as error:
                raise Error(
                    f"devrt.validate: {error}; or set DEVRT_LAYERS=validate before "
                    "the program starts"
                ) from None
        if self._host_order is not None:
            self._was_exact = _core._has_exact_host_order()
            self._choose(self._host_order == "exact")
        self._scope = _core._FindingScope()
        return self

    def _choose(self, is_exact: bool) -> None:
        if is_exact:
            from . import _host_order

            _host_order.install()
        _core._set_exact_host_order(is_exact)

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if self._host_order is not None:
            _core._set_exact_host_order(self._was_exact)
            if self._host_order == "exact":
                from . import _host_order

                _host_order.uninstall()
        if self._check and error is None and self.findings:
            raise RaceError(self.findings)


def validate(check: bool = True, *, host_order: Optional[str] = None) -> Validation:
    """Looks for work whose order nothing ensures, in a `with` block.

    The block raises RaceError at its end if there are findings; with check=False
    they are in `findings` alone.  The first block must begin before the program opens
    a backend, unless DEVRT_LAYERS names the layer "validate".

    With host_order="exact", calls of two threads are ordered only by locks, queues,
    pools, futures and joins.  Locks of `threading` that were made before the block are
    not seen.  With "observed" all calls count as ordered as they are made.  None leaves
    the choice of DEVRT_RACE_HOST_ORDER.
    """
    return Validation(check, host_order)


def _ranges(reads: Iterable[Memory], writes: Iterable[Memory]) -> List[Any]:
    made = []
    for memories, mode in ((reads, _READ), (writes, _WRITE)):
        for memory in memories:
            made.append((*_pair(memory), mode))
    return made


def _pair(memory: Memory) -> Tuple[int, int]:
    if not isinstance(memory, tuple):
        memory = (getattr(memory, "ptr", None), getattr(memory, "nbytes", None))
    if len(memory) != 2 or not all(isinstance(number, int) for number in memory):
        raise TypeError(
            f"expected an Array, or a tuple (address, bytes) of two integers, not "
            f"{memory!r}"
        )
    return memory


def use_on_host(reads: Iterable[Memory] = (), writes: Iterable[Memory] = ()) -> None:
    """Declares that this thread uses memory now, such as a view of pinned memory.

    Each item is an Array whose elements are contiguous, or (address, bytes).
    """
    _core._use_on_host(_ranges(reads, writes))


def annotate_work(
    stream: Stream,
    reads: Iterable[Memory] = (),
    writes: Iterable[Memory] = (),
    *,
    name: str = "native work",
) -> None:
    """Declares work that another library enqueues on `stream` next.

    Items are as in use_on_host.  `name` is for reports.
    """
    _core._annotate_work(stream, _ranges(reads, writes), name)


def annotate_order(earlier: Stream, later: Stream) -> None:
    """Declares that later work of `later` comes after the present work of `earlier`.

    For order that another library has made.
    """
    _core._annotate_order(earlier, later)


def with_accesses(
    function: _F, reads: Iterable[Memory] = (), writes: Iterable[Memory] = ()
) -> _F:
    """Returns `function` with a declaration of the memory that it uses.

    For Stream.launch_host_func.  Items are as in use_on_host.
    """
    declared: Any = functools.partial(function)
    declared._devrt_ranges = _ranges(reads, writes)
    return cast(_F, declared)
