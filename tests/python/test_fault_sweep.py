# SPDX-License-Identifier: Apache-2.0
"""fault_sweep of devrt.testing.Machine, and the package under faults."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import devrt
from devrt import testing


@pytest.fixture(scope="module", autouse=True)
def the_layer():
    try:
        testing.enable_faults()
    except devrt.Error:
        pytest.skip("a device was used before: this module needs its own process")


def arrays(sim):
    """(1 + 2) * 4 over two streams and both devices."""
    with devrt.Stream(sim.devices[0]):
        x = devrt.ones((4, 8), "float32", device=sim.devices[0])
        y = devrt.array(np.full(8, 2, "float32"), device=sim.devices[0])
        total = (x + y).to(sim.devices[1])[:, :4].sum()
    assert total.item() == 48


def test_arrays(sim):
    result = sim.fault_sweep(lambda: arrays(sim))
    print(result)
    assert result.ok and result.failures == [] and result.missed == 0
    assert result.reported > 20
    assert result.reported + result.handled == result.faults


def test_streams_events_and_host_functions(sim):
    def body():
        device = sim.devices[0]
        a, b = devrt.Stream(device), devrt.Stream(device)
        called = []
        try:
            testing.spin(0.001, a)
            a.launch_host_func(lambda: called.append(1))
            event = a.record_event()
            b.wait(event)
            event.query()
            b.query()
            event.synchronize()
            b.synchronize()
        finally:
            try:
                device.synchronize()
            except devrt.Error:
                device.synchronize()

    result = sim.fault_sweep(body)
    assert result.ok and result.reported > 5


def test_pinned_memory_and_copies(sim):
    def body():
        device = sim.devices[0]
        staging = devrt.empty(16, "float32", device=device, pinned=True)
        staging.numpy()[:] = 3
        x = staging.to(device, non_blocking=True)
        assert x.numpy().sum() == 48

    assert sim.fault_sweep(body, ("error", "oom", "late")).ok


def test_a_swallowed_error_is_found(sim):
    def body():
        try:
            devrt.ones(4, "float32", device=sim.devices[0]).sum().item()
        except devrt.Error:
            raise ValueError("it went wrong") from None

    with pytest.raises(testing.FaultError, match="wrong status: class error at "):
        sim.fault_sweep(body, ("error",))


def test_work_that_was_discarded_must_be_noticed(sim):
    def body():
        stream = devrt.Stream(sim.devices[0])
        testing.spin(0.001, stream)
        try:
            stream.synchronize()
        except devrt.Error:
            pass

    with pytest.raises(testing.FaultError) as caught:
        sim.fault_sweep(body, ("kernel_fault",))
    text = str(caught.value)
    assert "unnoticed: class kernel_fault at spin, number 1" in text
    assert f"test_fault_sweep.py:{body.__code__.co_firstlineno + 2}" in text
    assert "repeat it: sweep with the rule kernel_fault:nth=1\n" in text
    with pytest.raises(testing.FaultError, match="failed: .* 1 fault: "):
        sim.fault_sweep(body, rule="kernel_fault:nth=1")
    with pytest.raises(devrt.Error, match="no fault of the body") as caught:
        sim.fault_sweep(body, rule="kernel_fault:nth=9")
    assert caught.value.code == "NOT_FOUND"


def test_a_failure_is_repeated_from_its_text(sim):
    def body():
        try:
            devrt.ones(4, "float32", device=sim.devices[0]).sum().item()
        except devrt.Error:
            raise ValueError("it went wrong") from None

    with pytest.raises(testing.FaultError) as caught:
        sim.fault_sweep(body, ("error",))
    repeat = re.search(
        r"repeat it: sweep with the rule (\S+)\n"
        r" *in this schedule: with the token (\S+)", str(caught.value)
    )
    rule, token = repeat.groups()
    call = rule.split(":nth=")[0]
    assert call.startswith("api_error:call=") and f":{call}:" in token
    with pytest.raises(testing.FaultError, match="1 fault: ") as caught:
        sim.fault_sweep(body, rule=rule, token=token)
    assert token in str(caught.value)
    with pytest.raises(devrt.InvalidArgumentError, match="the layer is without a rule"):
        sim.fault_sweep(body, rule="kernel_fault:nth=1", token=token)
    with pytest.raises(devrt.InvalidArgumentError, match="SweepOptions::rule"):
        sim.fault_sweep(body, token=token)


def test_a_leak_is_found(sim):
    kept = []

    def body():
        x = devrt.ones(4, "float32", device=sim.devices[0])
        try:
            x.sum().item()
        except devrt.Error:
            kept.append(x)  # the mistake
            raise

    try:
        with pytest.raises(testing.FaultError, match="leak: class error at "):
            sim.fault_sweep(body, ("error",))
    finally:
        kept.clear()


def test_alarms_of_others_go_to_their_handler(sim):
    alarms = []
    before = signal.signal(signal.SIGALRM, lambda *_: alarms.append(1))
    try:

        def body():
            signal.raise_signal(signal.SIGALRM)
            devrt.ones(4, "float32", device=sim.devices[0])

        assert sim.fault_sweep(body, ("oom",), most_points=1).ok
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(alarms) == 4


def test_other_exceptions_end_the_sweep(sim):
    def body():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sim.fault_sweep(body)
    with pytest.raises(devrt.InvalidArgumentError, match="no class of faults"):
        sim.fault_sweep(lambda: None, ("flood",))
    with pytest.raises(ValueError, match="time_limit is 0"):
        sim.fault_sweep(lambda: None, time_limit=0)
    with pytest.raises(TypeError, match="body must be a function"):
        sim.fault_sweep(3)


def test_rules_from_code(sim):
    device = sim.devices[0]
    testing.set_faults([{"class": "api_error", "call": "mem_info", "code": "ABORTED"}])
    try:
        with pytest.raises(devrt.Error, match="mem_info: injected fault") as caught:
            device.memory_info()
        assert caught.value.code == "ABORTED"
        device.memory_info()
        with pytest.raises(devrt.InvalidArgumentError, match="it takes a whole number"):
            testing.set_faults("oom:nth=0")
        with pytest.raises(TypeError, match="rules must be a str or a list"):
            testing.set_faults(3)
    finally:
        testing.set_faults()


def test_rules_of_the_environment():
    program = (
        "import devrt\n"
        "try:\n"
        "    devrt.ones(4, 'float32', device='mtia:0')\n"
        "except devrt.OutOfMemoryError:\n"
        "    print('no memory')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "DEVRT_LAYERS": "faults", "DEVRT_FAULTS": "oom:times=0"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert result.stdout == "no memory\n"
