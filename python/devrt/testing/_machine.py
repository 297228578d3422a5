# SPDX-License-Identifier: Apache-2.0
"""A simulated machine for one test."""

from __future__ import annotations

import contextlib
import gc
import random
import sys
import time
import types
from typing import (
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
)

from .. import _core, _host_thread, simulator
from .._core import Device
from .._decorating import runs_later
from . import _afresh
from ._faults import FaultError

# The number of devices, unless a test asks for more.
DEVICES = 2

# The strategies of the simulator.  Without `strategies`, explore() uses alap, lifo and hw
# once, and then pos, random and pct in turn.
STRATEGIES = ("hw", "asap", "alap", "lifo", "random", "pos", "pct")


# The keys of the mark `sim` that are no settings of the simulator.
_MARK_KEYS = ("devices", "runs", "seed", "strategies", "check_every")

_MOST_SEED = (1 << 64) - 1

_MOST_SECONDS = 86_400  # of a run
_PATIENCE_SECONDS = 1.0  # how long fault_sweep() waits for a host function

# explore() prints nothing for the first time, then a line at most each second time.
_SILENT_SECONDS, _STEP_SECONDS = 2.0, 0.5


# A context in which the process writes to its streams from before pytest.
Uncaptured = Callable[[], ContextManager[Any]]


class _Progress:
    """Shows the progress of explore() on a terminal."""

    def __init__(self, uncaptured: Uncaptured) -> None:
        self._run = 0
        self._next = time.monotonic() + _SILENT_SECONDS
        self._shown = False
        self._uncaptured = uncaptured

    def __call__(self) -> None:
        self._run += 1
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _STEP_SECONDS
        self._write(f"\rdevrt: run {self._run}")

    def _write(self, text: str) -> None:
        with self._uncaptured():
            out: Any = sys.__stderr__  # pytest has replaced sys.stderr
            if not out or not out.isatty():
                return
            self._shown = True
            out.write(text)
            out.flush()

    def end(self) -> None:
        if self._shown:
            self._write("\r\033[K")


# Such a body would pass whatever it asserts, as a call does not run it.
_RUNS_LATER = (
    "body must not be a generator or coroutine function, nor return what one "
    "makes: explore() would never run it; call asyncio.run() inside the body"
)


def _check_int(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")


def _check_count(name: str, value: Any, why: str) -> None:
    _check_int(name, value)
    if value < 1:
        raise ValueError(f"{name} is {value}: {why}")


def _strategies(given: Any) -> Tuple[str, ...]:
    if given is None:
        return ()
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, (tuple, list)):
        raise TypeError(
            f"strategies must be a name or several, not {type(given).__name__}"
        )
    if not given:
        raise ValueError("strategies is empty: one at least, such as 'hw'")
    return tuple(given)


def _check_body(body: Any) -> None:
    if not callable(body):
        raise TypeError(f"body must be a function, not {type(body).__name__}")
    if runs_later(body):
        raise TypeError(_RUNS_LATER)


def _check_result(result: Any) -> None:
    if isinstance(result, types.CoroutineType):
        result.close()  # avoids a warning that nobody awaited it
    elif not isinstance(result, (types.GeneratorType, types.AsyncGeneratorType)):
        return
    raise TypeError(_RUNS_LATER)


def _is_verdict(error: BaseException) -> bool:
    """Returns true if the exception says that the body is wrong.

    pytest.fail() raises a BaseException.  Others, as of Ctrl-C and pytest.skip(), end
    the test.
    """
    return isinstance(error, Exception) or type(error).__name__ == "Failed"


def _describe(error: BaseException) -> Tuple[str, str]:
    """Returns the text of a failure, and what is the same in all runs that have it."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame else ""
    name = type(error).__name__
    return f"{name}: {error}", f"{name} {place}"


def _describe_fault(error: BaseException) -> Tuple[str, str]:
    """As _describe(), with the code of the library's error."""
    text, key = _describe(error)
    return f"{getattr(error, 'code', '')} {text}", key


class ScheduleError(AssertionError):
    """The body fails in a schedule, and no exception of its own says so."""


class MachineInUseError(_core.Error):
    """An object of an earlier test is alive, so no machine can start afresh."""

    code = "FAILED_PRECONDITION"


class ReplayError(_core.Error):
    """The token belongs to another test or to another machine."""

    code = "FAILED_PRECONDITION"


class Machine:
    """The simulated machine of a test.

    Each run of explore() starts the machine afresh, with the calling thread on device 0
    and on default streams.

    Attributes: devices, as many as the test asked for, and seed, of the first run.
    """

    def __init__(
        self,
        devices: int = DEVICES,
        *,
        seed: Optional[int] = None,
        runs: int = 100,
        strategies: Any = None,
        check_every: int = 50,
        replay: Optional[str] = None,
        **settings: Any,
    ) -> None:
        _check_count("devices", devices, "a test has one device at least")
        _check_count("runs", runs, "a test runs at least once")
        if seed is not None:
            _check_int("seed", seed)
            if not 0 <= seed <= _MOST_SEED:
                raise ValueError(f"seed is {seed}, expected 0 to {_MOST_SEED}")
        self.seed = random.SystemRandom().getrandbits(32) if seed is None else seed
        self.runs = runs
        self.strategies = _strategies(strategies)
        _check_int("check_every", check_every)
        if check_every < 0:
            raise ValueError(f"check_every is {check_every}: 0 or more")
        self._check_every = check_every
        self.uncaptured: Uncaptured = contextlib.nullcontext
        self._replay = replay
        self._settings = dict(settings)
        there = _core.devices("mtia")
        if len(there) < devices:
            raise MachineInUseError(
                f"the test wants {devices} devices, the machine has "
                f"{len(there)}: it was made before the tests were collected, or "
                f"by DEVRT_MTIA"
            )
        self.devices: List[Device] = there[:devices]
        self._all = there
        # The current streams of a run.  Leaving the stack releases them, even on a lost
        # device.
        self._run = contextlib.ExitStack()
        _afresh.leave_streams(there)
        self._allocators = _afresh.Allocators(there)
        self._explored: Optional[_core.Exploration] = None  # that failed last
        # A test that does not call explore() is one run in the first schedule.
        self._begin(replay)

    def _end_run(self) -> None:
        self._run.close()
        _afresh.let_go(self._all)

    def _begin(self, token: Optional[str] = None) -> None:
        """Starts a run: the first schedule, or that of the token."""
        self._end_run()
        schedule = {
            "seed": self.seed,
            "strategy": self.strategies[0] if self.strategies else "hw",
        }
        with self._resetting():
            simulator.reset({**schedule, **self._settings})
        if token is not None:
            self._follow(token)
        self._enter()
        simulator.enable_timeline()

    @contextlib.contextmanager
    def _resetting(self) -> Iterator[None]:
        """Says what to do about errors of a reset."""
        try:
            yield
        except _core.InvalidArgumentError as error:
            if "unknown key" not in str(error):
                raise
            error.args = (
                f"{error}; the mark `sim` also has the keys {', '.join(_MARK_KEYS)}",
            )
            raise
        except _core.Error as error:
            if error.code != "FAILED_PRECONDITION":
                raise
            raise MachineInUseError(
                f"{error}; delete what the test made before its end"
                f"{_afresh.unfinished()}"
            ) from error

    def _enter(self) -> None:
        """Makes current what a run begins with."""
        self._allocators.restore()
        # Device 0 comes last, so that it is the current device.
        for device in reversed(self._all):
            self._run.enter_context(_core.default_stream(device))

    def _follow(self, token: str) -> None:
        try:
            simulator.replay(token)
        except _core.InvalidArgumentError:
            raise
        except _core.Error as error:
            raise ReplayError(
                f"{error}; --sim-replay wants the token of this test, and the "
                f"--sim-devices that was printed with it"
            ) from error

    def _check_replay(self) -> None:
        """Raises ReplayError if a run that has passed is not that of --sim-replay."""
        if self._replay is None:
            return
        try:
            simulator.check_replay()
        except _core.Error as error:
            raise ReplayError(str(error)) from error

    def explore(
        self, body: Callable[[], Any], *, time_limit: float = 0
    ) -> Optional[_core.Exploration]:
        """Calls body() in `runs` schedules, or in the schedule of --sim-replay.

        If a run fails, makes its schedule smaller, repeats it, and raises what it raises.
        Some runs are made twice, to see that nothing but the schedule decides what the
        body does.  Raises TypeError for a generator or coroutine function, which a call
        does not run.  After two seconds a terminal shows the progress.

        time_limit: seconds of a run, as of fault_sweep(); 0: none, as for a debugger.  A
        body that never ends needs one, or Ctrl-C.  The run with --sim-replay has none.

        Returns what was covered, or None with --sim-replay.
        """
        return self._explore("explore", body, self.runs, time_limit)

    def enumerate(
        self, body: Callable[[], Any], runs: int = 100_000, *, time_limit: float = 0
    ) -> Optional[_core.Exploration]:
        """Calls body() in every schedule, but at most in `runs`.

        For a body with a few operations.  Else as explore().
        """
        _check_count("runs", runs, "one run at least")
        return self._explore("enumerate", body, runs, time_limit)

    def shrink(self, token: str, body: Callable[[], Any]) -> str:
        """Returns a token for a smaller schedule in which body() fails as in that of
        `token`.  Returns '' if the schedule does not fail.
        """
        _check_body(body)
        return self._run_all("shrink", body, 1, token).token

    def fault_sweep(
        self,
        body: Callable[[], Any],
        classes: Sequence[str] = (),
        *,
        rule: str = "",
        token: str = "",
        most_points: int = 0,
        time_limit: float = 10.0,
    ) -> _core.FaultSweep:
        """Calls body() once for each call of the backend that it makes, which then fails.

        On each fault the body raises its error, or handles it and returns.  It leaves
        nothing alive, and the next run, without a fault, succeeds.  Needs
        devrt.testing.enable_faults() before the first use of a device.

        classes: of faults, such as ("oom", "error", "late", "kernel_fault"); all without
        it.  rule: repeats one fault, that of a failure with this rule.  token: with rule,
        the token of that failure, to repeat its schedule, too.  most_points: the most of
        each class; 0: all.  time_limit: seconds of a run; a run that takes longer ends
        the process with a report.  The signal SIGALRM is taken for it; alarms of others
        go to the handler from before.

        Returns what was swept.  Raises FaultError if a fault is handled wrongly,
        Error with the code NOT_FOUND if no fault of the body has the rule, or
        InvalidArgumentError if the token was made with another rule or machine.
        """
        _check_body(body)
        _check_int("most_points", most_points)
        if not 0 < time_limit <= _MOST_SECONDS:
            raise ValueError(
                f"time_limit is {time_limit}: above 0 and up to {_MOST_SECONDS} seconds"
            )
        progress = _Progress(self.uncaptured)

        def around() -> None:
            progress()
            self._end_run()
            # Host functions of a lost device get its error in their own thread.
            _host_thread.wait_until_left(0, _PATIENCE_SECONDS)
            gc.collect()

        def run() -> Optional[Tuple[str, str]]:
            try:
                self._enter()
                result = body()
            except BaseException as error:
                if not _is_verdict(error):
                    raise
                return _describe_fault(error)
            _check_result(result)
            return None

        config = ",".join(f"{key}={value}" for key, value in self._settings.items())
        try:
            with _afresh.collecting_new_objects(), self._resetting():
                result = _core._sweep_faults(
                    config, list(classes), most_points, time_limit, rule, token, around, run
                )
        finally:
            progress.end()
        if not result.ok:
            raise FaultError(str(result))
        return result

    def _explore(
        self, what: str, body: Callable[[], Any], runs: int, time_limit: float
    ) -> Optional[_core.Exploration]:
        _check_body(body)
        if not 0 <= time_limit <= _MOST_SECONDS:
            raise ValueError(
                f"time_limit is {time_limit}: 0 for none, and up to {_MOST_SECONDS} seconds"
            )
        if self._replay is not None:
            self._begin(self._replay)
            _check_result(body())
            self._check_replay()
            return None
        self._explored = None
        result = self._run_all(what, body, runs, time_limit=time_limit)
        if result.ok:
            return result
        self._explored = result
        if result.verdict == "failed" and result.token:
            # The exception, with its frames, comes from the last run.  No exception of
            # an earlier run was kept, since its frames have arrays.
            self._begin(result.token)
            _check_result(body())
        raise ScheduleError(str(result))

    def _run_all(
        self,
        what: str,
        body: Callable[[], Any],
        runs: int,
        token: str = "",
        time_limit: float = 0,
    ) -> _core.Exploration:
        progress = _Progress(self.uncaptured)

        def before() -> None:
            progress()
            self._end_run()

        def run() -> Optional[Tuple[str, str]]:
            self._enter()
            try:
                result = body()
            except BaseException as error:
                if not _is_verdict(error):
                    raise
                return _describe(error)
            _check_result(result)
            return None

        config = ",".join(f"{key}={value}" for key, value in self._settings.items())
        try:
            with _afresh.collecting_new_objects(), self._resetting():
                return _core._explore(
                    what, config, runs, self.seed, list(self.strategies),
                    self._check_every, time_limit, token, before, run
                )
        finally:
            progress.end()

    def report(self) -> str:
        """Returns text about how to repeat the last run, and what ran when."""
        parts = [f"this schedule: --sim-replay={simulator.token()}"]
        # A token needs the machine's number of devices, which other tests may have
        # raised.
        if len(self._all) != max(len(self.devices), DEVICES):
            parts[-1] += f" --sim-devices={len(self._all)}"
        if self._replay is None:  # the schedule of a token has the token's seed
            parts.insert(0, f"seed: {self.seed} (--sim-seed={self.seed})")
        deadlock = simulator.deadlock_report()
        if deadlock:
            parts.append(deadlock)
        parts.append(simulator.timeline_text(60))
        if self._explored is not None:
            parts.append(self._explored.details())
        return "\n".join(parts)

    def end(self) -> None:
        """Ends pending work, and restores what was current and the allocators'
        settings.
        """
        self._run.close()
        _afresh.finish(self._all)
        with contextlib.suppress(_core.Error):  # a device may be lost
            self._allocators.restore()
        simulator.enable_timeline(False)
