# SPDX-License-Identifier: Apache-2.0
"""A simulated machine for one test."""

from __future__ import annotations

import contextlib
import random
import sys
import time
import types
from typing import Any, Callable, ContextManager, Dict, List, Optional, Tuple

from .. import _core, simulator
from .._core import Device
from .._decorating import runs_later
from . import _afresh

# The number of devices, unless a test asks for more.
DEVICES = 2

# The strategies that the runs of explore() use in turn.  All but the first are adverse:
# as early as the rules allow, as late, the last one first, or random.
STRATEGIES = ("hw", "asap", "alap", "lifo", "random")


# The keys of the mark `sim` that are no settings of the simulator.
_MARK_KEYS = ("devices", "runs", "seed", "strategies")

_MOST_SEED = (1 << 64) - 1

# explore() prints nothing for the first time, then a line at most each second time.
_SILENT_SECONDS, _STEP_SECONDS = 2.0, 0.5


# A context in which the process writes to its streams from before pytest.
Uncaptured = Callable[[], ContextManager[Any]]


class _Progress:
    """Shows the progress of explore() on a terminal."""

    def __init__(self, runs: int, uncaptured: Uncaptured) -> None:
        self._runs = runs
        self._next = time.monotonic() + _SILENT_SECONDS
        self._shown = False
        self._uncaptured = uncaptured

    def __call__(self, run: int) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _STEP_SECONDS
        self._write(f"\rdevrt: schedule {run + 1} of {self._runs}")

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
        strategies: Any = STRATEGIES,
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
        # A test that does not call explore() is one run in the first schedule.
        self._begin(0)

    def _config(self, run: int) -> Dict[str, Any]:
        config = {
            "seed": (self.seed + run) & _MOST_SEED,
            "strategy": self.strategies[run % len(self.strategies)],
        }
        config.update(self._settings)
        return config

    def _begin(self, run: int) -> None:
        self._run.close()
        _afresh.let_go(self._all)
        try:
            simulator.reset(self._config(run))
        except _core.InvalidArgumentError as error:
            if "unknown key" not in str(error):
                raise
            error.args = (
                f"{error}; the mark `sim` also has the keys {', '.join(_MARK_KEYS)}",
            )
            raise
        except _core.Error as error:
            raise MachineInUseError(
                f"{error}; delete what the test made before its end"
                f"{_afresh.unfinished()}"
            ) from error
        if self._replay is not None:
            self._follow(self._replay)
        self._allocators.restore()
        # Device 0 comes last, so that it is the current device.
        for device in reversed(self._all):
            self._run.enter_context(_core.default_stream(device))
        simulator.enable_timeline()

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

    def explore(self, body: Callable[[], Any]) -> None:
        """Calls body() in `runs` schedules, or in the schedule of --sim-replay.

        Raises the exception of the first run that fails.  Raises TypeError for a
        generator or coroutine function, which a call does not run.  After two seconds a
        terminal shows the progress.
        """
        _check_body(body)
        runs = 1 if self._replay is not None else self.runs
        progress = _Progress(runs, self.uncaptured)
        try:
            for run in range(runs):
                progress(run)
                # Before the first run too: work of the test before explore() is neither
                # in every run nor in a token.
                self._begin(run)
                _check_result(body())
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
