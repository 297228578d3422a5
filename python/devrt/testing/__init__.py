# SPDX-License-Identifier: Apache-2.0
"""Tests, on the simulator, of programs that use several streams.

With pytest, the plugin devrt.testing.plugin has a fixture and a mark:

    @pytest.mark.sim(devices=4, memory="64MiB", runs=200)
    def test_pipeline(sim):
        def body():
            assert pipeline(sim.devices) == expected
        sim.explore(body)

Each run of the body has another schedule, and some schedules are adverse.  A failure
names the option that repeats it, and shows what ran when.  docs/reference/python.md has the
details.

spin, Flag and commit_fault are kernels that keep a stream busy, on every backend.
"""

from .._core import Exploration, FaultSweep, Flag, Simulator
from ._faults import FaultError, enable_faults, set_faults
from ._machine import STRATEGIES, Machine, MachineInUseError, ScheduleError
from ._probe import commit_fault, spin

__all__ = [
    "STRATEGIES",
    "Exploration",
    "FaultError",
    "FaultSweep",
    "Flag",
    "Machine",
    "MachineInUseError",
    "ScheduleError",
    "Simulator",
    "commit_fault",
    "enable_faults",
    "set_faults",
    "spin",
]
