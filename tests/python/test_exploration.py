# SPDX-License-Identifier: Apache-2.0
"""explore, enumerate and shrink of devrt.testing.Machine."""

import signal
import subprocess
import sys

import pytest

import devrt
from devrt import testing
from devrt.mtia import simulator
from devrt.testing import _machine


def two_updates(device, ordered):
    """Returns the value of 1 * 2 + 3, if the updates have their order."""
    memory = devrt.ones(1, "float32", device=device)
    device.synchronize()
    # Two arrays over one address: devrt does not order one after the other.
    first = devrt.from_pointer(memory.ptr, (1,), "float32", device=device)
    second = devrt.from_pointer(memory.ptr, (1,), "float32", device=device)
    a, b = devrt.Stream(device), devrt.Stream(device)
    with a:
        first *= 2
    if ordered:
        b.wait(a.record_event())
    with b:
        second += 3
    device.synchronize()
    return memory.item()


@pytest.mark.sim(runs=40, seed=1)
def test_a_right_body_passes_and_says_what_was_covered(sim):
    result = sim.explore(lambda: two_updates(sim.devices[0], True))
    assert result.ok and result.schedules == 40 and result.seed == 1
    assert result.token == "" and not result.exhaustive
    assert str(result).startswith("passed: 40 schedules, ")


@pytest.mark.sim(runs=200, seed=1, strategies="random")
def test_a_failure_raises_what_the_body_raises_in_the_smallest_schedule(sim):
    def body():
        value = two_updates(sim.devices[0], False)
        assert value == 5, f"it is {value}"

    with pytest.raises(AssertionError, match="it is"):
        sim.explore(body)
    report = sim.report()
    token = simulator.token()
    assert f"--sim-replay={token}" in report
    assert "decisions that are not the default: " in report
    assert "failing run" in report and " | " in report
    again = testing.Machine(replay=token)
    with pytest.raises(AssertionError, match="it is"):
        again.explore(body)
    again.end()


def test_a_body_that_never_ends_ends_at_its_time_limit(sim):
    program = (
        "import threading\n"
        "from devrt import testing\n"
        "testing.Machine(seed=1).explore(threading.Event().wait, time_limit=0.1)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True
    )
    assert result.returncode == -signal.SIGABRT
    assert "takes longer than its time limit" in result.stderr
    with pytest.raises(ValueError, match="time_limit is -1"):
        sim.explore(lambda: None, time_limit=-1)


@pytest.mark.sim(seed=1, strategies="random")
def test_shrink_takes_a_token(sim):
    def body():
        assert two_updates(sim.devices[0], False) == 5

    with pytest.raises(AssertionError):
        sim.explore(body)
    token = simulator.token()
    assert sim.shrink(token, body) == token  # it is the smallest already
    assert sim.shrink(token, lambda: None) == ""


def test_enumerate_tries_all_schedules(sim):
    values = set()

    def body():
        device = sim.devices[0]
        a, b = devrt.Stream(device), devrt.Stream(device)
        testing.spin(0.01, a)
        done = a.record_event()
        testing.spin(0.01, b)
        b.synchronize()
        values.add(done.query())
        device.synchronize()

    result = sim.enumerate(body)
    assert result.ok and result.exhaustive and values == {True, False}
    assert str(result).startswith(f"all {result.schedules} schedules pass, ")
    assert not sim.enumerate(body, runs=3).exhaustive


def test_a_body_that_depends_on_more_than_the_schedule(sim):
    runs = []

    def body():
        runs.append(None)
        if len(runs) % 2:
            devrt.zeros(3, device=sim.devices[0])
        sim.devices[0].synchronize()

    with pytest.raises(testing.ScheduleError, match="two runs with equal decisions differ"):
        sim.explore(body)
    assert len(runs) == 2


@pytest.mark.sim(runs=3, check_every=0)
def test_no_run_is_made_twice(sim):
    runs = []
    assert sim.explore(lambda: runs.append(None)).schedules == len(runs) == 3


@pytest.mark.sim(seed=1)
def test_what_ends_a_test_ends_the_exploration(sim):
    runs = []

    def body(error):
        runs.append(None)
        raise error

    with pytest.raises(KeyboardInterrupt):
        sim.explore(lambda: body(KeyboardInterrupt()))
    with pytest.raises(SystemExit):
        sim.explore(lambda: body(SystemExit(3)))
    with pytest.raises(pytest.skip.Exception):
        sim.explore(lambda: pytest.skip("here"))
    assert len(runs) == 2
    with pytest.raises(pytest.fail.Exception, match="wrong"):
        sim.explore(lambda: pytest.fail("wrong"))
    assert len(simulator.token().split(":")) == 5




def test_a_wrong_setting_is_named(sim):
    machine = testing.Machine(strategies=("random", "nope"))
    with pytest.raises(devrt.InvalidArgumentError, match="nope"):
        machine.explore(lambda: None)
    machine.end()
    with pytest.raises(ValueError, match="runs is 0"):
        sim.enumerate(lambda: None, runs=0)
    with pytest.raises(TypeError, match="body must be a function"):
        sim.shrink("dvs1:", 3)


def test_runs_of_explore_differ_and_a_replay_is_one():
    machine = _machine.Machine(
        runs=5, seed=_machine._MOST_SEED - 1, strategies=("random", "lifo"))
    seen = []

    def body():
        now = simulator.config()
        seen.append((int(now["seed"]) - machine.seed, now["strategy"]))

    machine.explore(body)
    most = _machine._MOST_SEED
    # lifo never varies, so it runs once.  The first run is made twice.
    assert seen == [(0, "lifo"), (0, "lifo"), (1, "random"), (1 - most, "random"),
                    (2 - most, "random"), (3 - most, "random")]
    token = simulator.token()
    machine.end()
    again = _machine.Machine(runs=5, replay=token)
    again.explore(body)
    again.end()
    assert len(seen) == 7
