# SPDX-License-Identifier: Apache-2.0
"""Fixtures that the tests share."""

import gc
import os
import subprocess
import sys
import textwrap

import pytest

import devrt

pytest_plugins = ["devrt.testing.plugin", "pytester"]


def pytest_collection_finish():
    """Leaves objects from before the first test out of collections of garbage, for speed."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def two():
    """The two devices of mtia."""
    return devrt.devices("mtia")


@pytest.fixture
def ranks(two):
    """A communicator of both, one rank each."""
    made = devrt.collectives.init_all(two)
    yield made
    for rank in made:
        rank.abort("the test is over")


@pytest.fixture(autouse=True)
def nothing_left():
    """Every test ends with the devices and streams that it began with."""
    before = devrt.current_device("mtia")
    streams = [devrt.current_stream(d) for d in devrt.devices("mtia")]
    yield
    assert devrt.current_device("mtia") is before
    assert [devrt.current_stream(d) for d in devrt.devices("mtia")] == streams
    gc.collect()


def held():
    """Bytes that are allocated on each device of mtia."""
    return [devrt.memory_allocated(d) for d in devrt.devices("mtia")]


# The former test, and what was held before it.
former = {"test": None, "held": None}


@pytest.fixture(autouse=True)
def no_memory_left(request):
    """A test leaves no memory: a later test may count it, or start the machine afresh.
    The next test checks it, since pytest holds a test's fixtures to its end."""
    test, before = former["test"], former["held"]
    if test is not None and held() != before:
        gc.collect()
        for device in devrt.devices("mtia"):
            devrt.synchronize(device)
        devrt.ones(1, device="mtia:0")  # lets go of what waited for that
    former.update(test=request.node.nodeid, held=held())
    if test is not None:
        assert all(now <= was for now, was in zip(held(), before)), (
            f"{test} has left memory behind")
    yield


@pytest.fixture(scope="session")
def run_program():
    """Runs a program in a new interpreter; returns the finished process.

    What it prints is written at once: some end by os._exit.
    """

    def run(source, *args, env=None, timeout=60):
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(source), *args],
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


@pytest.fixture
def run_pytest(pytester, monkeypatch):
    """Runs pytest on a file of this source, with the plugin."""
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.delenv("DEVRT_MTIA", raising=False)

    def run(source, *options):
        pytester.makepyfile(source)
        return pytester.runpytest_subprocess(
            "-p", "devrt.testing.plugin", "-p", "no:cacheprovider", *options)

    return run
