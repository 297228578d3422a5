# SPDX-License-Identifier: Apache-2.0
"""How collective operations are submitted, and what becomes of their errors."""

from __future__ import annotations

import re
import threading
from types import TracebackType
from typing import Any, Dict, List, Optional, Tuple, Type

from . import _core
from ._core import Error, Stream

Operation = Tuple[Any, str, Any, Any, str, int, Stream, Tuple[int, int]]


class CollectiveError(Error):
    """A communicator has failed, or was aborted.

    Attributes:
    rank: the rank in this process.
    sequence: the number of the collective that failed, or of the first one that may
        have; 0: it is not known.
    report: what was called on this rank, a line for each of the newest calls.
    """

    rank: int = -1
    sequence: int = 0
    report: str = ""


class _Group(threading.local):
    """The group that this thread has open."""

    def __init__(self) -> None:
        self.operations: List[Operation] = []
        # The number of operations at the beginning of each block that is open.
        self.begins: List[int] = []


_open = _Group()


class group:
    """Submits the operations of a with block together, at its end.

    None of them waits for another one, so that one thread can act for several ranks, and
    sends and receives may stand in any order.  Each is work of the stream that was
    current at its call.  After an exception in the block nothing of it is submitted.
    A group inside another one is a part of that, which goes on without the part if the
    program catches its exception.
    """

    def __enter__(self) -> group:
        _open.begins.append(len(_open.operations))
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        begin = _open.begins.pop()
        if kind is not None:
            del _open.operations[begin:]
        if kind is None and not _open.begins:
            operations, _open.operations = _open.operations, []
            submit(operations)


class Registration:
    """Memory that the engine of a communicator knows of, until its release.

    Made by Communicator.register.  The end of a with block releases it, and so does the
    end of the object.  Until then it keeps the array's memory and the communicator.
    """

    def __init__(self, core: Any) -> None:
        self._core = core

    def release(self) -> None:
        """Waits for the communicator's newest work, and takes the memory back.

        The wait ends with the failure of the communicator at the latest, which
        Communicator.wait raises, not this.  Call it before Communicator.finish, and while
        no other thread uses the communicator: else the memory stays registered, and is
        not freed, until the communicator ends.  The second call does nothing.
        """
        self._core.release()

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def submit(operations: List[Operation]) -> None:
    try:
        _core._submit_collectives(operations)
    except Error as error:
        for operation in operations:
            raise_failure(operation[0], error)
        raise


def raise_failure(rank: Any, error: Error) -> None:
    """Raises CollectiveError for `error` if the communicator has failed."""
    if rank.state in ("failed", "aborted"):
        # No variable holds it: the frame, which it refers to, would keep it alive.
        raise _failure(rank, error) from error


def _failure(rank: Any, error: Error) -> CollectiveError:
    failure = CollectiveError(str(error))
    failure.code = error.code
    failure.rank = rank.rank
    # The number of the call on this rank, else that of another rank's call, which the
    # engine names.  The text behind these words names a call of another communicator.
    text = rank.failure[1].partition(" was aborted, because another one of ")[0]
    named = (re.search(r" (?:failed|was aborted) (?:at|between) (\d+) [a-z_]+\(", text)
             or re.search(r"(?<! send)(?<! recv) #(\d+) \(", text))
    failure.sequence = int(named[1]) if named else 0
    failure.report = "\n".join(_line(call) for call in rank.records()[-20:])
    return failure


def _line(call: Dict[str, Any]) -> str:
    place = f" {call['file']}:{call['line']}" if call["file"] else ""
    state = "complete" if call["end_ns"] else "not known to be complete"
    return f"{call['number']} {call['text']}{place} ({state})"


def add(operation: Operation) -> None:
    """Submits the operation, or adds it to the group that this thread has open."""
    if _open.begins:
        _open.operations.append(operation)
    else:
        submit([operation])


for _public in (CollectiveError, group, Registration):
    _public.__module__ = "devrt.collectives"
