# SPDX-License-Identifier: Apache-2.0
"""What the tests share."""

import gc
import os
import subprocess
import sys
import textwrap

import pytest

import devrt

pytest_plugins = ["devrt.testing.plugin", "pytester"]


@pytest.fixture
def two():
    """The two devices of mtia."""
    return devrt.devices("mtia")


@pytest.fixture(autouse=True)
def nothing_left():
    """Every test ends with the devices and streams that it began with."""
    before = devrt.current_device("mtia")
    streams = [devrt.current_stream(d) for d in devrt.devices("mtia")]
    yield
    assert devrt.current_device("mtia") is before
    assert [devrt.current_stream(d) for d in devrt.devices("mtia")] == streams
    gc.collect()


@pytest.fixture
def run_program():
    """Runs a program in a new interpreter; returns the finished process."""

    def run(source, *args, env=None, timeout=60):
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(source), *args],
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
