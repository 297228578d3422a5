# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin devrt.testing.plugin."""

import io
import os
import pathlib
import re

import pytest

from devrt.testing import _machine

RACE = """
import pytest
import devrt
from devrt.testing import spin

@pytest.mark.sim({mark})
def test_order(sim):
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


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.delenv("DEVRT_MTIA", raising=False)

    def run(source, *options):
        pytester.makepyfile(source)
        return pytester.runpytest_subprocess(
            "-p", "devrt.testing.plugin", "-p", "no:cacheprovider", *options)

    return run


def test_a_race_is_found_and_repeated(run):
    result = run(RACE.format(mark="runs=60"), "--sim-seed=3")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*simulated machine*", "seed: 3*",
                                 "this schedule: --sim-replay=dvs1:*",
                                 "*begin*device stream*", "*test_a_race*.py:*"])
    token = next(line for line in result.outlines if "--sim-replay=" in line)
    again = run(RACE.format(mark="runs=60"), token.partition(": ")[2])
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
    pytester.makepyfile("def test_sim(sim):\n    assert sim.devices")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


def test_without_adverse_schedules_it_passes(run):
    source = RACE.format(mark="runs=5, strategies='hw'").replace(
        "spin(0.01, b)", "spin(1, b)")
    run(source).assert_outcomes(passed=1)


def test_settings_and_devices(run):
    run(
        """
        import pytest, devrt

        @pytest.mark.sim(devices=4, memory="64MiB", seed=9)
        def test_four(sim):
            assert len(sim.devices) == 4 and sim.seed == 9
            assert devrt.get_device_properties(sim.devices[3]).total_memory == 64 << 20

        @pytest.mark.sim(devices=1)
        def test_one(sim):
            assert [d.name for d in sim.devices] == ["mtia:0"]
            assert devrt.get_device_properties().total_memory == 256 << 20

        def test_default(sim):
            assert len(sim.devices) == 2
        """
    ).assert_outcomes(passed=3)


def test_what_an_earlier_test_left(run):
    result = run(
        """
        import devrt
        left = []

        def test_leaves(sim):
            left.append(devrt.Stream())

        def test_next(sim):
            pass
        """
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*MachineInUseError*1 stream*"])


def test_what_a_failed_test_held_is_gone(run):
    result = run(
        """
        import devrt, pytest

        def fails(depth):
            s, x = devrt.Stream(), devrt.zeros(3)
            try:
                assert depth, "on purpose"
            except AssertionError as error:
                raise ValueError(s) from error
            fails(depth - 1)

        def test_fails(sim):
            s, x = devrt.Stream(), devrt.zeros(3)
            assert False

        def test_next(sim):
            assert devrt.zeros(3).tolist() == [0, 0, 0]

        @pytest.mark.sim(runs=3)
        def test_fails_deep(sim):
            sim.explore(lambda: fails(2))

        @pytest.mark.sim(runs=3)
        def test_explores(sim):
            sim.explore(lambda: devrt.zeros(3).tolist())

        def test_raises(sim):
            x = devrt.zeros(3)
            with pytest.raises(ValueError):
                fails(0)
        """
    )
    result.assert_outcomes(failed=2, passed=3)


@pytest.mark.parametrize("mark", ["runs=0", "runs=-1", "strategies=()"])
def test_a_mark_that_runs_nothing(run, mark):
    result = run(
        f"""
        import pytest

        @pytest.mark.sim({mark})
        def test_none(sim):
            sim.explore(lambda: None)
        """
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ValueError: " + mark.split("=")[0] + "*"])


@pytest.mark.parametrize("name, value, error", [
    ("devices", 0, ValueError), ("devices", -1, ValueError),
    ("devices", "2", TypeError), ("devices", True, TypeError),
    ("runs", "5", TypeError), ("runs", 1.5, TypeError),
    ("seed", "x", TypeError), ("strategies", 3, TypeError)])
def test_machines_that_cannot_be(name, value, error):
    with pytest.raises(error, match=f"^{name} (is|must be)"):
        _machine.Machine(**{name: value})


def test_more_devices_than_there_are(run, monkeypatch):
    monkeypatch.setenv("DEVRT_MTIA", "devices=2")
    result = run(
        """
        import pytest

        @pytest.mark.sim(devices=3)
        def test_three(sim):
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
    progress = _machine._Progress(4)
    for run in range(4):
        progress(run)
    progress.end()
    assert ("schedule 2 of 4" in stderr.getvalue()) is shown
    assert "schedule 1 of 4" not in stderr.getvalue()
