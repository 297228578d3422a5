# SPDX-License-Identifier: Apache-2.0
"""devrt.Event."""

import copy
import threading
import weakref

import pytest

import devrt
from devrt.mtia import simulator
from devrt.testing import Flag, spin


# C24, C99
def test_never_recorded(two):
    e = devrt.Event()
    assert e.query() is True
    assert (e.event_id, e.native_handle, e.device) == (0, 0, None)
    e.synchronize()
    e.wait()
    devrt.Stream().wait(e)
    assert repr(e) == "<devrt.Event, not recorded>"


def test_record_decides_the_device(two):
    e = devrt.Event()
    e.record(devrt.Stream(two[1]))
    assert e.device is two[1] and e.event_id != 0
    id = e.event_id
    e.record(devrt.Stream(two[1]))
    assert e.event_id == id
    with pytest.raises(ValueError, match="mtia:"):  # C31
        e.record(devrt.Stream(two[0]))
    with pytest.raises(ValueError):
        devrt.Event("mtia:1").record(devrt.Stream(two[0]))


def test_a_first_record_that_fails_decides_nothing(two):
    e = devrt.Event()
    s = devrt.Stream(two[1])
    simulator.inject_fault("api", device=1, where="event_record", native_code=2)
    with pytest.raises(devrt.Error):
        e.record(s)
    assert (e.event_id, e.device) == (0, None)
    e.record(devrt.Stream(two[0]))
    assert e.device is two[0]


def test_first_records_of_many_threads():
    streams = [devrt.Stream() for _ in range(4)]
    for _ in range(50):
        e = devrt.Event()
        start = threading.Barrier(len(streams))

        def record(stream):
            start.wait()
            e.record(stream)

        workers = [threading.Thread(target=record, args=(s,)) for s in streams]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert e.event_id != 0
        e.synchronize()


def test_record_without_a_stream_uses_the_current_stream(two):
    s = devrt.Stream(two[1])
    with s:
        spin(1)
        e = devrt.Event()
        e.record()
        own = devrt.Event(two[0])
        own.record()  # the current stream of its own device
    assert e.device is two[1] and own.device is two[0]
    own.synchronize()
    assert not e.query()
    s.synchronize()
    assert e.query()


# C27, C28
def test_waits_keep_the_captured_record(two):
    gate = Flag()
    a, b = devrt.Stream(), devrt.Stream()
    e = devrt.Event()
    b.wait(e)
    e.record(a)
    b.wait(e)
    gate.wait_on(a)
    e.record(a)
    b.synchronize()
    assert not e.query()
    gate.set()
    e.synchronize()


def test_wait_makes_a_stream_wait():
    gate = Flag()
    a, b = devrt.Stream(), devrt.Stream("mtia:1")
    gate.wait_on(a)
    e = devrt.Event()
    e.record(a)
    e.wait(b)
    after = b.record()
    assert not after.query()
    gate.set()
    b.synchronize()


# C35: the order of checks
def test_elapsed_time():
    a = devrt.Stream()
    begin, end = devrt.Event(enable_timing=True), devrt.Event(enable_timing=True)
    plain = devrt.Event()
    assert plain.enable_timing is False and begin.enable_timing is True
    with pytest.raises(ValueError, match="'enable_timing=True'"):
        begin.elapsed_time(plain)
    with pytest.raises(ValueError, match="must be recorded before"):
        begin.elapsed_time(end)
    begin.record(a)
    spin(5, a)
    end.record(a)
    with pytest.raises(RuntimeError, match="must be completed before"):
        begin.elapsed_time(end)
    end.synchronize()
    assert begin.elapsed_time(end) == pytest.approx(5, rel=0.2)
    assert begin.elapsed_time(begin) == 0
    assert end.elapsed_time(begin) == -begin.elapsed_time(end)
    other = devrt.Event("mtia:1", enable_timing=True)
    other.record()
    with pytest.raises(ValueError, match="mtia:1"):
        begin.elapsed_time(other)
    with pytest.raises(TypeError):
        begin.elapsed_time(3)


@pytest.mark.parametrize("arguments", [
    {"enable_timing": 1}, {"blocking": "no"}, {"interprocess": 0}, {"device": 1.5},
    {"timing": True}])
def test_options_of_wrong_types(arguments):
    with pytest.raises(TypeError):
        devrt.Event(**arguments)


def test_timing_and_interprocess_exclude_each_other():
    with pytest.raises(ValueError, match="interprocess"):
        devrt.Event(enable_timing=True, interprocess=True)


def test_event_can_be_subclassed():
    class Own(devrt.Event):
        def __init__(self, *args, **kwargs):
            super().__init__()
            self.extra = 3

    e = Own("mtia:1", enable_timing=True)
    e.record()
    assert e.extra == 3 and e.device.index == 1 and isinstance(e, devrt.Event)
    assert weakref.ref(e)() is e


def test_no_copies():
    with pytest.raises(TypeError, match="ipc_handle"):
        copy.copy(devrt.Event())


def test_many_events_come_and_go():
    s = devrt.Stream()
    before = devrt.mtia.simulator.stats()["created_events"]
    for _ in range(500):
        devrt.Event().record(s)
    s.synchronize()
    # They are recycled.
    assert devrt.mtia.simulator.stats()["created_events"] - before < 500


def test_interprocess_handle_is_checked():
    e = devrt.Event("mtia:0", interprocess=True)
    try:
        handle = e.ipc_handle()
    except devrt.UnsupportedError as error:
        pytest.skip(str(error))
    assert isinstance(handle, bytes)
    for wrong in (handle[:-1], b""):
        with pytest.raises(ValueError, match="bytes"):
            devrt.Event.from_ipc_handle("mtia:0", wrong)
    with pytest.raises(TypeError):
        devrt.Event.from_ipc_handle("mtia:0", "text")


def test_only_interprocess_events_are_exported():
    with pytest.raises(devrt.Error):
        devrt.Event("mtia:0").ipc_handle()
