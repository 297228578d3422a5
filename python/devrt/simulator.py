# SPDX-License-Identifier: Apache-2.0
"""Controls of the simulated accelerator: devrt.mtia.simulator.

    from devrt.mtia import simulator

    simulator.reset("memory=64MiB,seed=7")
    simulator.enable_timeline()
    ...
    print(simulator.timeline_text())

docs/concepts/simulator.md explains the machine, and docs/reference/settings.md
lists the settings.  The functions control the backend "mtia".
devrt.simulator.Simulator(name) controls another simulator.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from . import _host_thread
from ._core import Simulator, Stream, _take_part

__all__ = [
    "Simulator",
    "check_replay",
    "config",
    "deadlock_report",
    "enable_timeline",
    "inject_fault",
    "next_op",
    "now",
    "outcome",
    "peek",
    "poke",
    "replay",
    "reset",
    "stats",
    "timeline",
    "timeline_svg",
    "timeline_text",
    "token",
    "trace_hash",
    "yield_",
]


_has_turns = False


def _let_threads_begin_in_turn() -> None:
    """Makes threads of `threading` wait for their turn before they run, from now on.

    The hook for profilers is the only one that a thread calls first.  It leaves the
    place to the hook that was there.
    """
    global _has_turns
    if _has_turns:
        return
    _has_turns = True
    before = getattr(threading, "_profile_hook", None)

    def begin(frame: Any, event: str, argument: Any) -> None:
        sys.setprofile(before)
        if threading.current_thread() is not _host_thread._thread:
            _take_part()
        if before is not None:
            before(frame, event, argument)

    threading.setprofile(begin)


def _config_text(config: Union[str, Dict[str, Any]]) -> str:
    if isinstance(config, str):
        return config
    if not isinstance(config, dict):
        raise TypeError(
            f"config must be a str or a dict, not {type(config).__name__}"
        )
    return ",".join(f"{key}={value}" for key, value in config.items())


def reset(config: Union[str, Dict[str, Any]] = "", **settings: Any) -> None:
    """Starts the machine afresh.

    config: settings as in DEVRT_MTIA, "memory=64MiB,seed=7", or a dict of them.  More
    of them can be given by keyword.  A setting that is not given gets its default, not
    its present value.

    Raises Error while streams, events or memory are alive, and if the number of devices
    would change.  Raises InvalidArgumentError for a wrong setting.
    """
    _let_threads_begin_in_turn()
    parts = [_config_text(config), _config_text(settings)]
    Simulator().reset(",".join(part for part in parts if part))


def config() -> Dict[str, str]:
    """Returns all settings with their present values."""
    pairs = (pair.partition("=") for pair in Simulator().config().split(","))
    return {key: value for key, _, value in pairs}


def now() -> int:
    """Returns the machine's clock: nanoseconds since the last reset."""
    return Simulator().now()


def yield_() -> None:
    """Lets other host threads and the device run, which is one decision."""
    Simulator().yield_()


def trace_hash() -> Tuple[int, int]:
    """Returns (hash, steps) of everything that happened, equal for equal runs."""
    return Simulator().trace_hash()


def next_op() -> Tuple[int, int]:
    """Returns (thread, index), the name of the calling thread's next operation.

    Kernels, copies, fills, host functions and stream-ordered allocations and frees
    count, from 0 at the reset.  So the name stays in every schedule, and
    strategy="directed" takes it as "thread.index" in hold and until.
    """
    return Simulator().next_op()


def outcome() -> int:
    """Returns a hash of what the run has made: host memory, device memory, faults.

    Two runs of a program without races have one outcome, whatever their schedules.
    Needs the setting outcome="on", and all work complete.
    """
    return Simulator().outcome()


def token() -> str:
    """Returns text with which replay() repeats this run."""
    return Simulator().token()


def replay(token: str) -> None:
    """Resets the machine, then follows the decisions of a token."""
    _let_threads_begin_in_turn()
    Simulator().replay(token)


def check_replay() -> None:
    """Raises Error if the token of replay() does not fit the run so far.

    A decision of the token was not there, or some are left over: the token is of another
    program.  Call it at the end of the run.
    """
    Simulator().check_replay()


def enable_timeline(enabled: bool = True) -> None:
    """Starts or stops keeping operations for timeline().  Off at first.

    While on, operations know the line of the program that submitted them.
    """
    Simulator().enable_timeline(enabled)


def timeline(since: int = 0) -> List[Dict[str, Any]]:
    """Returns the kept operations in order of submission.  Times are in nanoseconds.

    since: only those submitted from that time on, by the clock of now().
    """
    if isinstance(since, bool) or not isinstance(since, int):
        raise TypeError(f"since must be an int, not {type(since).__name__}")
    return [op for op in Simulator().timeline() if op["submit_ns"] >= since]


def timeline_text(limit: int = 200) -> str:
    """Returns the last `limit` operations of timeline() as text, one line each."""
    operations = timeline()
    lines = [
        f"{'begin':>12} {'end':>12}  device stream  seq  operation"
        f"  ({len(operations)} in all)"
    ]
    for op in operations[-limit:] if limit > 0 else []:
        place = f"  {op['file']}:{op['line']}" if op["file"] else ""
        lines.append(
            f"{op['begin_ns']:>12} {op['end_ns']:>12}  {op['device']:>6} "
            f"{op['stream']:>6} {op['seq']:>4}  {op['name'] or op['kind']}"
            f" ({op['state']}){place}"
        )
    return "\n".join(lines)


class _Svg(str):
    """The text of an SVG file. Notebooks show it as a picture."""

    def _repr_svg_(self) -> str:
        return str(self)


def timeline_svg(
    title: str = "", since: int = 0, names: Optional[Mapping[Stream, str]] = None
) -> str:
    """Draws the operations of timeline(since) that have run.

    Each stream is a line, and time goes from left to right. A diamond is the
    record of an event, and an arrow goes from it to the operation that waits for
    it. names: texts to show in place of the streams' numbers. The mouse shows the
    times of an operation and the line of the program that submitted it.

    Without operations the picture has no lines, and its title names
    enable_timeline(). The picture is that of the command `devrt demo`. Operations that a fault has
    discarded never ran, and are left out.
    """
    for what, value, type_ in (("title", title, str), ("since", since, int)):
        if isinstance(value, bool) or not isinstance(value, type_):
            raise TypeError(
                f"{what} must be {'a str' if type_ is str else 'an int'}, "
                f"not {type(value).__name__}"
            )
    texts = _names_of_streams({} if names is None else names)
    if not Simulator().timeline():
        empty = "no operations were kept: simulator.enable_timeline() starts that"
        title = f"{title}: {empty}" if title else empty
    return _Svg(Simulator().timeline_svg(title, max(since, 0), texts))


def _names_of_streams(names: Any) -> Dict[Tuple[int, int], str]:
    if not isinstance(names, Mapping):
        raise TypeError(
            "names must be a dict of streams and their texts, not "
            f"{type(names).__name__}"
        )
    for stream, text in names.items():
        if not isinstance(stream, Stream):
            raise TypeError(
                "the keys of names must be devrt.Stream objects, not "
                f"{type(stream).__name__}"
            )
        if not isinstance(text, str):
            raise TypeError(
                f"the texts of names must be str, not {type(text).__name__}"
            )
    return {(stream.device.index, stream.id): text for stream, text in names.items()}


def inject_fault(
    kind: str = "kernel",
    *,
    device: int = 0,
    nth: int = 1,
    native_code: int = 700,
    where: str = "",
) -> None:
    """Arms a fault: see Simulator.inject_fault."""
    Simulator().inject_fault(
        kind, device=device, nth=nth, native_code=native_code, where=where
    )


def stats() -> Dict[str, int]:
    """Returns counts of what is alive and of what was done.

    "uncontrolled" is how often real time decided what moved next, because a thread
    slept or computed for long, or a host function was blocked where devrt cannot see
    it.  Then a replay may differ.
    "faults_fired" is how often rules of the key `faults` have hit since the last reset.
    """
    return Simulator().stats()


def deadlock_report() -> str:
    """Returns the last deadlock report, or "" if there is none."""
    return Simulator().deadlock_report()


def peek(pointer: int, size: int) -> bytes:
    """Reads device memory at once, without order with pending work.

    Raises ValueError unless all of it is memory that the device has handed out.  An
    array is a part of a segment of the caching allocator, so memory past its end
    belongs to others.
    """
    return Simulator().peek(pointer, size)


def poke(pointer: int, data: bytes) -> None:
    """Writes device memory at once, without order with pending work.

    Data longer than the array overwrites its neighbours.  Raises as peek does.
    """
    Simulator().poke(pointer, data)
