# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin devrt.testing.plugin."""

import asyncio
import contextlib
import functools
import io
import os
import pathlib
import pty
import re
import subprocess
import sys

import pytest

import devrt
from devrt.testing import _machine

RACE = """
import pytest
import devrt
from devrt.testing import spin

@pytest.mark.sim({mark})
def test_order_of_two_streams(sim):
    def body():
        a, b = devrt.Stream(sim.devices[0]), devrt.Stream(sim.devices[0])
        x, y = devrt.Event(), devrt.Event()
        spin(0.01, a)
        x.record(a)
        spin(0.01, b)
        y.record(b)
        y.synchronize()
        # Nothing orders the streams: some schedules have a at its beginning.
        assert x.query()
    sim.explore(body)
"""


def test_a_race_is_found_and_repeated(run_pytest):
    result = run_pytest(RACE.format(mark="runs=60"), "--sim-seed=3")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*simulated machine*", "seed: 3*",
                                 "this schedule: --sim-replay=dvs1:*",
                                 "*begin*device stream*", "*test_a_race*.py:*"])
    token = next(line for line in result.outlines if "--sim-replay=" in line)
    again = run_pytest(RACE.format(mark="runs=60"), token.partition(": ")[2])
    again.assert_outcomes(failed=1)


def test_an_installed_package_may_also_be_named_by_a_conftest(
        pytester, monkeypatch):
    project = pathlib.Path(__file__).parents[2] / "pyproject.toml"
    entry = re.search(r"\[project\.entry-points\.pytest11\]\n(.*)\n",
                      project.read_text()).group(1).replace('"', "")
    installed = pytester.mkdir("installed")
    information = installed / "devrt-0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: devrt\nVersion: 0\n")
    (information / "entry_points.txt").write_text(f"[pytest11]\n{entry}\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(
        filter(None, [str(installed), os.environ.get("PYTHONPATH")])))
    pytester.makeconftest('pytest_plugins = ["devrt.testing.plugin"]')
    pytester.makepyfile("def test_has_devices(sim):\n    assert sim.devices")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


def test_a_race_passes_without_adverse_schedules(run_pytest):
    source = RACE.format(mark="runs=5, strategies='hw'").replace(
        "spin(0.01, b)", "spin(1, b)")
    run_pytest(source).assert_outcomes(passed=1)


def test_settings_and_devices(run_pytest):
    run_pytest(
        """
        import pytest, devrt

        @pytest.mark.sim(devices=4, memory="64MiB", seed=9)
        def test_four_devices(sim):
            assert len(sim.devices) == 4 and sim.seed == 9
            assert devrt.get_device_properties(sim.devices[3]).total_memory == 64 << 20

        @pytest.mark.sim(devices=1)
        def test_one_device(sim):
            assert [d.name for d in sim.devices] == ["mtia:0"]
            assert devrt.get_device_properties().total_memory == 256 << 20

        def test_default_devices(sim):
            assert len(sim.devices) == 2
        """
    ).assert_outcomes(passed=3)


def test_what_an_earlier_test_left(run_pytest):
    result = run_pytest(
        """
        import devrt
        left = []

        def test_leaves_a_stream(sim):
            left.append(devrt.Stream())

        def test_comes_next(sim):
            pass
        """
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*MachineInUseError*1 stream*"])


def test_an_error_of_the_machine_is_one_of_devrt():
    assert issubclass(_machine.MachineInUseError, devrt.Error)
    assert _machine.MachineInUseError("x").code == "FAILED_PRECONDITION"


@pytest.mark.parametrize("phase", ["setup", "teardown"])
def test_fixtures_that_fail_say_how_to_repeat(run_pytest, phase):
    result = run_pytest(
        f"""
        import devrt, pytest

        @pytest.fixture
        def broken(sim):
            devrt.ones(3).tolist()
            if "{phase}" == "setup":
                raise RuntimeError("on purpose")
            yield
            raise RuntimeError("on purpose")

        def test_fixture_is_broken(broken):
            pass
        """, "--sim-seed=6")
    result.assert_outcomes(errors=1, passed=int(phase == "teardown"))
    result.stdout.fnmatch_lines(["seed: 6*", "*--sim-replay=dvs1:*",
                                 "*begin*device stream*", "*fill (done)*"])


def test_a_seed_that_is_none(run_pytest, monkeypatch):
    monkeypatch.setenv("DEVRT_SIM_SEED", "abc")
    result = run_pytest("def test_wrong_seed(sim): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*DEVRT_SIM_SEED is 'abc', expected an integer*"])
    run_pytest("def test_seed_of_the_option(sim): assert sim.seed == 4",
        "--sim-seed=4").assert_outcomes(passed=1)


def test_what_a_failed_test_held_is_gone(run_pytest):
    result = run_pytest(
        """
        import devrt, pytest

        def fails(depth):
            s, x = devrt.Stream(), devrt.zeros(3)
            try:
                assert depth, "on purpose"
            except AssertionError as error:
                raise ValueError(s) from error
            fails(depth - 1)

        def test_fails_with_an_array(sim):
            s, x = devrt.Stream(), devrt.zeros(3)
            assert False

        def test_comes_next(sim):
            assert devrt.zeros(3).tolist() == [0, 0, 0]

        @pytest.mark.sim(runs=3)
        def test_fails_deep(sim):
            sim.explore(lambda: fails(2))

        @pytest.mark.sim(runs=3)
        def test_explores_after_a_failure(sim):
            sim.explore(lambda: devrt.zeros(3).tolist())

        def test_raises_and_catches(sim):
            x = devrt.zeros(3)
            with pytest.raises(ValueError):
                fails(0)
        """
    )
    result.assert_outcomes(failed=2, passed=3)


def test_what_a_run_left_current(run_pytest):
    run_pytest(
        """
        import devrt, pytest

        def leaves(sim):
            assert devrt.current_device() is sim.devices[0]
            for device in sim.devices:
                assert devrt.current_stream(device) == devrt.default_stream(device)
            devrt.set_stream(devrt.Stream(sim.devices[0]))
            devrt.set_stream(devrt.Stream(sim.devices[1]))
            devrt.ones(3).tolist()

        @pytest.mark.sim(runs=5)
        def test_explores_a_body_that_sets_streams(sim):
            sim.explore(lambda: leaves(sim))

        def test_comes_next(sim):
            leaves(sim)

        def test_without_the_machine():
            assert devrt.current_stream("mtia:1") == devrt.default_stream("mtia:1")
            with devrt.device("mtia:1"):
                assert devrt.current_device("mtia").index == 1

        @pytest.mark.sim(devices=1)
        def test_with_another_one(sim):
            assert devrt.current_device() is sim.devices[0]
            assert devrt.zeros(3).tolist() == [0, 0, 0]
        """
    ).assert_outcomes(passed=4)


def test_what_was_current_before_is_so_again(two):
    with two[1]:
        machine = _machine.Machine()
        assert devrt.current_device() is two[0]
        devrt.set_stream(devrt.Stream(two[1]))
        devrt.testing.spin(0.01)
        kept = len(devrt.mtia.simulator.timeline())
        assert kept > 0
        machine.end()
        assert devrt.current_device() is two[1]
        assert devrt.current_stream() == devrt.default_stream(two[1])
        devrt.testing.spin(0.01)  # nor is more of it kept
        assert len(devrt.mtia.simulator.timeline()) <= kept


def test_what_is_current_on_a_lost_device(run_pytest):
    run_pytest(
        """
        import devrt, pytest
        from devrt.mtia import simulator
        from devrt.testing import commit_fault

        @pytest.mark.sim(runs=3)
        def test_lost_devices(sim):
            def body():
                for device in sim.devices:
                    devrt.set_stream(devrt.Stream(device))
                    devrt.zeros(3), devrt.zeros(3, pinned=True)  # cached
                    commit_fault(stream=devrt.current_stream())
                    with pytest.raises(devrt.DeviceFaultError):
                        devrt.synchronize()
            sim.explore(body)

        def test_comes_next(sim):
            assert devrt.ones(3).tolist() == [1, 1, 1]
            simulator.reset()
            assert devrt.ones(3).tolist() == [1, 1, 1]
            assert devrt.current_device() is sim.devices[0]

        def test_left_outside():
            devrt.set_stream(devrt.Stream("mtia:1"))

        def test_after_that(sim):
            pass
        """
    ).assert_outcomes(passed=4)


# No token has the test's operations before explore().
MIXED = """
    import devrt, pytest
    from devrt.testing import spin

    def races(sim):
        a, b = devrt.Stream(sim.devices[0]), devrt.Stream(sim.devices[0])
        x, y = devrt.Event(), devrt.Event()
        spin(0.01, a); x.record(a); spin(0.01, b); y.record(b); y.synchronize()
        assert x.query()

    @pytest.mark.sim(runs=60)
    def test_mixed_runs(sim):
        for _ in range(20):
            devrt.zeros(5, device=sim.devices[1]).tolist()
        sim.explore(lambda: devrt.zeros(5).tolist())
        sim.explore(lambda: races(sim))
"""


def replay_option(result):
    line = next(line for line in result.outlines if "--sim-replay=" in line)
    return line.partition(": ")[2]


def picture(result):
    """The timeline of a failure, without what comes after it.

    Streams are numbered in the order of their first operation: a process never
    gives a stream's number again, so that the numbers differ between a run in the
    middle of a test and its repetition alone.
    """
    lines = result.outlines
    begin = next(i for i, line in enumerate(lines) if "device stream" in line)
    numbers, rows = {}, []
    for line in lines[begin + 1:]:
        if not line.strip()[:1].isdigit():
            break  # what explore() says about the schedule
        if "test_" in line and ":" in line:
            start, end, device, stream, *rest = line.split()
            stream = numbers.setdefault((device, stream), len(numbers))
            rows.append((start, end, device, stream, *rest))
    return rows


def test_a_token_repeats_its_run_alone(run_pytest):
    first = run_pytest(MIXED, "--sim-seed=3")
    first.assert_outcomes(failed=1)
    again = run_pytest(MIXED, replay_option(first))
    again.assert_outcomes(failed=1)
    assert replay_option(again) == replay_option(first)
    again.stdout.no_fnmatch_line("seed: *")  # it would be another than the token's
    assert len(picture(first)) > 3 and picture(again) == picture(first)


def test_a_token_is_of_the_last_run(run_pytest):
    result = run_pytest(
        """
        import devrt, pytest
        from devrt.mtia import simulator

        @pytest.mark.sim(runs=3)
        def test_caught_failure_of_a_run(sim):
            def fails():
                devrt.ones(3).tolist()
                assert False
            with pytest.raises(AssertionError):
                sim.explore(fails)
            sim.explore(lambda: devrt.zeros(100, device="mtia:1").tolist())
            print("expected:", simulator.token())
            assert False
        """
    )
    result.assert_outcomes(failed=1)
    expected = next(line for line in result.outlines if "expected: " in line)
    assert replay_option(result) == "--sim-replay=" + expected.partition(": ")[2]


async def coroutine_function():
    raise AssertionError("ran")


async def async_generator_function():
    yield 1


def generator_function():
    yield 1


@pytest.mark.parametrize("body", [
    coroutine_function, async_generator_function, generator_function,
    functools.partial(coroutine_function), lambda: coroutine_function(),
    lambda: generator_function(), lambda: async_generator_function()])
@pytest.mark.filterwarnings("error")
def test_bodies_that_would_run_later(sim, body):
    with pytest.raises(TypeError, match="generator or coroutine"):
        sim.explore(body)


def test_bodies_are_functions_that_run_at_once(sim):
    with pytest.raises(TypeError, match="body must be a function, not int"):
        sim.explore(3)
    ran = []

    def body():
        ran.append(asyncio.run(asyncio.sleep(0, "done")))
        future = sim.devices[0].current_stream().launch_host_func(len, [])
        assert future.result() == 0
        return future  # awaitable, but no coroutine

    sim.explore(body)
    assert ran == ["done"] * (sim.runs + 2)  # runs 1 and 51 are made twice


@pytest.mark.parametrize("mark", ["runs=0", "runs=-1", "strategies=()"])
def test_a_mark_that_runs_nothing(run_pytest, mark):
    result = run_pytest(
        f"""
        import pytest

        @pytest.mark.sim({mark})
        def test_explores_nothing(sim):
            sim.explore(lambda: None)
        """
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ValueError: " + mark.split("=")[0] + "*"])


def test_a_key_that_the_mark_does_not_have():
    with pytest.raises(devrt.InvalidArgumentError,
                       match='"run".* keys devices, runs, seed, strategies, check_every$'):
        _machine.Machine(run=3)


@pytest.mark.parametrize("name, value, error", [
    ("devices", 0, ValueError), ("devices", -1, ValueError),
    ("devices", "2", TypeError), ("devices", True, TypeError),
    ("runs", "5", TypeError), ("runs", 1.5, TypeError),
    ("seed", "x", TypeError), ("seed", -1, ValueError),
    ("seed", 1 << 64, ValueError), ("strategies", 3, TypeError)])
def test_machines_that_cannot_be(name, value, error):
    with pytest.raises(error, match=f"^{name} (is|must be)"):
        _machine.Machine(**{name: value})


def test_more_devices_than_there_are(run_pytest, monkeypatch):
    monkeypatch.setenv("DEVRT_MTIA", "devices=2")
    result = run_pytest(
        """
        import pytest

        @pytest.mark.sim(devices=3)
        def test_wants_three_devices(sim):
            pass
        """
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*wants 3 devices, the machine has 2*"])


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("out,shown", [(Terminal, True), (io.StringIO, False)])
def test_progress_after_two_seconds(monkeypatch, out, shown):
    stderr, clock = out(), iter(range(100))
    monkeypatch.setattr(_machine.sys, "__stderr__", stderr)
    monkeypatch.setattr(_machine.time, "monotonic", lambda: next(clock))
    progress = _machine._Progress(contextlib.nullcontext)
    for _ in range(4):
        progress()
    progress.end()
    assert ("devrt: run 2" in stderr.getvalue()) is shown
    assert "devrt: run 1" not in stderr.getvalue()


def test_progress_without_a_stderr(monkeypatch):
    """As of a program without a console."""
    monkeypatch.setattr(_machine.sys, "__stderr__", None)
    monkeypatch.setattr(_machine, "_SILENT_SECONDS", -1.0)
    machine, seen = _machine.Machine(runs=3), []
    machine.explore(lambda: seen.append(1))
    machine.end()
    assert len(seen) == 3 + 1  # the first run is made twice


def test_progress_reaches_the_terminal(pytester):
    path = pytester.makepyfile(
        """
        from devrt.testing import _machine

        def test_explores_twice(sim):
            _machine._SILENT_SECONDS = _machine._STEP_SECONDS = 0
            sim.runs = 2
            sim.explore(lambda: None)
        """
    )
    try:
        terminal, end = pty.openpty()
    except OSError as error:  # a root without /dev/pts
        pytest.skip(f"no pseudo-terminal: {error}")
    with open(terminal, "rb", buffering=0) as seen:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "devrt.testing.plugin",
             "-p", "no:cacheprovider", path],
            stdout=subprocess.DEVNULL, stderr=end, check=False)
        os.close(end)
        text = seen.read(4096)
    assert ran.returncode == 0
    assert b"devrt: run 2" in text
