# SPDX-License-Identifier: Apache-2.0
"""Tests of programs that use several streams, on the simulator.

With pytest, the plugin devrt.testing.plugin gives a fixture and a mark:

    @pytest.mark.sim(devices=4, memory="64MiB", runs=200)
    def test_pipeline(sim):
        def body():
            assert pipeline(sim.devices) == expected
        sim.explore(body)

Each run of the body has another schedule, adverse ones among them; a failure
says by which option it is repeated, and shows what ran when.  docs/python.md
has the details.

Here are also kernels that hold a stream busy, on every backend: spin, Flag,
commit_fault.
"""

from .._core import Flag, Simulator
from ._machine import STRATEGIES, Machine, MachineInUseError
from ._probe import commit_fault, spin

__all__ = [
    "STRATEGIES",
    "Flag",
    "Machine",
    "MachineInUseError",
    "Simulator",
    "commit_fault",
    "spin",
]
