# SPDX-License-Identifier: Apache-2.0
"""A run of the plugin's machine leaves nothing to the next run; and tokens of machines
with settings."""

import gc

import pytest

import devrt
from devrt.testing import Flag, _machine


def replay_options(result):
    line = next(line for line in result.outlines if "--sim-replay=" in line)
    return line.partition(": ")[2].split()


@pytest.mark.sim(runs=4)
def test_imports_whose_last_use_is_pending(sim):
    def body():
        device = sim.devices[0]
        memory = devrt.zeros(1000, device=device)
        other = devrt.from_pointer(memory.ptr, memory.shape, memory.dtype,
                                   device=device, owner=memory)
        with devrt.Stream(device):
            other.fill(7)

    sim.explore(body)


@pytest.mark.sim(runs=4)
@pytest.mark.parametrize("has_frozen", [False, True])
def test_collections_look_at_the_objects_of_runs_alone(sim, has_frozen):
    gc.unfreeze()
    before = len(gc.get_objects())
    if has_frozen:
        gc.freeze()
    left = []

    def body():
        cycle = [devrt.zeros(1000, device=sim.devices[0])]
        cycle.append(cycle)
        left.append(len(gc.get_objects()))  # without those that are frozen

    sim.explore(body)
    assert max(left) < before / 2
    assert (gc.get_freeze_count() > before / 2) == has_frozen


@pytest.mark.parametrize("wait", [
    lambda device: device.synchronize(),
    lambda device: device.default_stream().synchronize()])
def test_waits_release_the_owners_of_finished_work(two, wait):
    device = two[0]
    class Owner:
        pass
    owner = Owner()
    held = devrt.memory_allocated(device)
    owner.memory = devrt.zeros(1000, device=device)
    other = devrt.from_pointer(owner.memory.ptr, (1000,), "float32",
                               device=device, owner=owner)
    # The fill must be pending below.  A kernel that only takes time is not enough: a
    # query of the allocator may let the device go on.
    flag = Flag(device)
    flag.wait_on(device.current_stream())
    other.fill(7)
    del owner, other
    assert devrt.memory_allocated(device) > held
    flag.set()
    wait(device)
    assert devrt.memory_allocated(device) == held


# What runs of a host function that another one launched depends on real time.
@pytest.mark.sim(check_every=0)
def test_host_functions_that_nobody_waits_for(sim):
    ran = []

    def body():
        array = devrt.zeros(1000, device=sim.devices[0])
        stream = devrt.Stream(sim.devices[0])

        def again():
            ran.append(array.nbytes)
            stream.launch_host_func(ran.append, array.nbytes)

        stream.launch_host_func(again)

    sim.explore(body)
    assert len(ran) >= 2 * (sim.runs - 1)


@pytest.mark.sim(runs=4)
def test_work_that_waits_for_ever(sim):
    def body():
        flag = devrt.testing.Flag(sim.devices[0])
        stream = devrt.Stream(sim.devices[0])
        flag.wait_on(stream)
        flag.set()

    sim.explore(body)


def test_allocators_begin_afresh(run_pytest):
    result = run_pytest(
        """
        import devrt, pytest

        before = {}

        def look(device):
            now = (devrt.max_memory_allocated(device),
                   devrt.memory_stats(device)["allocation.all.allocated"],
                   devrt.get_per_process_memory_fraction(device),
                   devrt.allocator_settings())
            assert now == before.setdefault("at first", now)
            assert now[:2] == (0, 0)

        def body():
            device = devrt.device("mtia:1")
            look(device)
            devrt.zeros(30000, device=device)
            devrt.set_per_process_memory_fraction(0.5, device)
            devrt.set_allocator_settings("max_split_size_mb:64")

        def test_changes_memory_settings(sim):
            sim.explore(body)

        def test_the_next(sim):
            look(sim.devices[1])

        def test_outside_is_as_before():
            assert devrt.get_per_process_memory_fraction("mtia:1") == 1.0
        """
    )
    result.assert_outcomes(passed=3)


RACE = """
import devrt, pytest
from devrt.testing import spin

@pytest.mark.sim(devices=4)
def test_needs_four_devices(sim):
    pass

@pytest.mark.sim({mark})
def test_race_of_two_streams(sim):
    def body():
        a, b = devrt.Stream(sim.devices[0]), devrt.Stream(sim.devices[0])
        spin(1, a)
        spin(1, b)
        x, y = a.record(), b.record()
        x.synchronize()
        assert y.query()
    sim.explore(body)
"""


@pytest.mark.parametrize("mark", ["memory='64MiB', slots=1", "runs=90"])
def test_tokens_of_other_machines(run_pytest, mark):
    source = RACE.format(mark=mark)
    first = run_pytest(source)
    first.assert_outcomes(failed=1, passed=1)
    options = replay_options(first)
    assert options[1:] == ["--sim-devices=4"]
    chosen = [*options, "-k", "race"]
    again = run_pytest(source, *chosen)
    again.assert_outcomes(failed=1)
    assert replay_options(again) == options
    without = run_pytest(source.replace("devices=4", "devices=1"), options[0])
    assert "ReplayError" in without.stdout.str()
    without.stdout.fnmatch_lines(["*--sim-replay wants the token of this test*"])


def test_a_token_of_a_mended_test_is_told(run_pytest):
    # It fails in schedules that are not the default.
    source = RACE.format(mark="runs=90").replace("assert y", "assert not y")
    options = replay_options(run_pytest(source))
    begin, end = source.index("        a, b ="), source.index("    sim.explore")
    mended = source[:begin] + "        pass\n" + source[end:]
    again = run_pytest(mended, *options, "-k", "race")
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["*ReplayError*the replay token is of another program*"])


def test_replay_error_is_an_error_of_devrt():
    assert issubclass(_machine.ReplayError, devrt.Error)
    assert _machine.ReplayError("x").code == "FAILED_PRECONDITION"


def test_host_functions_that_never_return(run_pytest):
    result = run_pytest(
        """
        import threading
        import devrt, pytest
        from devrt import _host_thread
        from devrt.testing import MachineInUseError, _afresh

        _afresh._PATIENCE_SECONDS = 0.02
        waits = []

        def wait_for_change(seen, seconds):
            waits.append(seconds)
            threading.Event().wait(0.03)

        @pytest.mark.sim(runs=1)
        def test_stuck_host_function(sim, monkeypatch):
            monkeypatch.setattr(_host_thread, "wait_for_change", wait_for_change)
            stream = devrt.Stream(sim.devices[0])
            stream.launch_host_func(threading.Event().wait)
            del stream
            for is_awaited in [True, False]:
                with pytest.raises(MachineInUseError, match="1 host function has"):
                    sim.explore(lambda: None)
                assert bool(waits) == is_awaited
                del waits[:]
        """
    )
    result.assert_outcomes(passed=1)
