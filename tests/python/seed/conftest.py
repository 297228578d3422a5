# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the seed tests; their results for scripts/seed_doc.py."""

import json
import os
import pathlib

import pytest

import devrt

from backend import BACKEND, ZERO


@pytest.fixture(autouse=True)
def on_backend():
    """Makes the backend the default of calls that name none."""
    devrt.set_device(ZERO)


@pytest.fixture
def two():
    """The two devices of the backend."""
    found = devrt.devices(BACKEND)
    if len(found) < 2:
        pytest.skip("one device")
    return found[:2]


@pytest.fixture
def zero():
    """The first of them."""
    return devrt.device(ZERO)


@pytest.fixture
def three_quarters():
    """The limit refuses what the driver would have to: no test fills a card."""
    before = devrt.get_per_process_memory_fraction(ZERO)
    devrt.set_per_process_memory_fraction(0.75, ZERO)
    yield
    devrt.set_per_process_memory_fraction(before, ZERO)


class Results:
    """{"FILE::test": [outcome, reason]}; of several parameters the worst."""

    RANK = ["skipped", "passed", "failed"]

    def __init__(self):
        self.found = {}

    def pytest_runtest_logreport(self, report):
        if report.when != "call" and report.passed:
            return
        name = pathlib.Path(report.nodeid.split("::")[0]).name
        key = name + "::" + report.nodeid.split("::")[1].split("[")[0]
        reason = ""
        if report.skipped:
            reason = str(report.longrepr[2]).replace("Skipped: ", "", 1)
        new = [report.outcome, reason]
        old = self.found.get(key, new)
        self.found[key] = max(old, new, key=lambda r: self.RANK.index(r[0]))


def pytest_configure(config):
    if os.environ.get("DEVRT_SEED_RESULTS"):
        config.pluginmanager.register(Results(), "seed-results")


def pytest_sessionfinish(session):
    results = session.config.pluginmanager.get_plugin("seed-results")
    if results is not None:
        path = pathlib.Path(os.environ["DEVRT_SEED_RESULTS"])
        path.write_text(json.dumps(results.found), encoding="utf-8")
