# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: the fixture `sim` and the mark of that name.

    @pytest.mark.sim(devices=4, memory="64MiB", runs=200)

devices: the number of devices, 2 by default.
runs: the number of runs of sim.explore(), 100 by default.
seed: the seed of the first run.
strategies: one of devrt.testing.STRATEGIES, or several.
check_every: the first of so many runs is made twice, to see that the schedule decides
    what the body does; 0 makes none twice.

Other keywords are settings as in DEVRT_MTIA.

With the option --devrt-race, a test also fails if nothing orders work of its streams.
"""

from __future__ import annotations

import os
from typing import Any, Generator

import pytest

_REPORT = pytest.StashKey[Any]()
_VALIDATION = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options that repeat a failure."""
    group = parser.getgroup("devrt", "the simulated accelerator")
    group.addoption(
        "--sim-seed",
        type=int,
        default=None,
        help="seed of the first run of every test with `sim` "
        "(also: DEVRT_SIM_SEED); without it one is drawn",
    )
    group.addoption(
        "--sim-replay",
        default=None,
        metavar="TOKEN",
        help="one run with the schedule that a failure printed",
    )
    group.addoption(
        "--sim-devices",
        type=int,
        default=0,
        metavar="N",
        help="devices of the machine, where no test wants more; for tokens that "
        "were printed with it",
    )
    group.addoption(
        "--devrt-race",
        action="store_true",
        help="fail each test whose streams use memory without an order",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark, and chooses the race detector."""
    if config.getoption("--devrt-race"):
        from .. import _core

        try:
            _core._enable_validation()
        except _core.Error as error:
            raise pytest.UsageError(f"--devrt-race: {error}") from None
    config.addinivalue_line(
        "markers",
        "sim(devices=2, runs=100, seed=None, strategies=..., check_every=50, **settings): "
        "the simulated machine that the fixture `sim` makes",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: Any) -> None:
    """Chooses the number of devices, once: the most that a test asks for."""
    wanted = config.getoption("--sim-devices")
    for item in items:
        mark = item.get_closest_marker("sim")
        if mark is not None:
            devices = mark.kwargs.get("devices", 2)
            wanted = max(wanted, devices if isinstance(devices, int) else 0)
    settings = os.environ.get("DEVRT_MTIA", "")
    if wanted > 2 and "devices=" not in settings:
        own = f"devices={wanted}"
        os.environ["DEVRT_MTIA"] = f"{settings},{own}" if settings else own


def _seed(config: pytest.Config) -> Any:
    given = config.getoption("--sim-seed")
    text = os.environ.get("DEVRT_SIM_SEED")
    if given is None and text:
        try:
            given = int(text)
        except ValueError:
            raise ValueError(
                f"DEVRT_SIM_SEED is {text!r}, expected an integer such as 7"
            ) from None
    return given


@pytest.fixture
def sim(request: pytest.FixtureRequest) -> Generator[Any, None, None]:
    """The simulated machine of this test, a devrt.testing.Machine."""
    from . import Machine

    mark = request.node.get_closest_marker("sim")
    settings = dict(mark.kwargs) if mark is not None else {}
    if mark is not None and mark.args:
        raise TypeError("the mark `sim` takes keywords only")
    seed = _seed(request.config)
    if seed is not None:
        settings["seed"] = seed
    replay = request.config.getoption("--sim-replay")
    machine = Machine(replay=replay, **settings)
    capture = request.config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        machine.uncaptured = capture.global_and_fixture_disabled
    request.node.stash[_REPORT] = machine
    yield machine
    machine.end()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: Any) -> Generator[None, None, None]:
    """Begins to collect what the race detector finds, in fixtures too."""
    _begin(item)
    yield


def _begin(item: Any) -> None:
    if item.config.getoption("--devrt-race"):
        from .. import _core

        item.stash[_VALIDATION] = _core._FindingScope()


def _add_findings(item: Any, report: Any) -> None:
    scope = item.stash.get(_VALIDATION, None)
    if scope is None:
        return
    _begin(item)  # for the test's next phase
    text = "\n\n".join(finding[2] for finding in scope.findings())
    if not text:
        return
    if report.passed:
        report.outcome = "failed"
        report.longrepr = text
    else:
        report.sections.append(("race detector", text))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, None]:
    """Adds to the report of a failure how to repeat it, and what is unordered."""
    outcome = yield
    report = outcome.get_result()
    _add_findings(item, report)
    machine = item.stash.get(_REPORT, None)
    if machine is not None and report.failed:
        report.sections.append(("simulated machine", machine.report()))
