# SPDX-License-Identifier: Apache-2.0
"""Host functions and their futures (E18)."""

import asyncio
import functools
import gc
import threading
import weakref

import pytest

import devrt
from devrt import _host_functions, _host_thread
from devrt.mtia import simulator
from devrt.testing import Flag, spin


def test_result_and_arguments():
    s = devrt.Stream()
    future = s.launch_host_func(lambda a, *, b: (a, b, threading.current_thread().name),
                                1, b=2)
    assert isinstance(future, devrt.HostFuture)
    assert future.result(timeout=30) == (1, 2, "devrt-host-functions")


# E18
def test_it_runs_after_earlier_work():
    s, gate, seen = devrt.Stream(), Flag(), []
    gate.wait_on(s)
    future = s.launch_host_func(lambda: seen.append(gate_was_set))
    gate_was_set = False
    assert not future.done()
    gate_was_set = True
    gate.set()
    future.result(timeout=30)
    assert seen == [True]


def test_in_order():
    s, seen = devrt.Stream(), []
    futures = [s.launch_host_func(seen.append, i) for i in range(50)]
    for future in futures:
        future.result(timeout=30)
    assert seen == list(range(50))


def test_exceptions_arrive():
    s = devrt.Stream()
    future = s.launch_host_func(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        future.result(timeout=30)
    assert isinstance(future.exception(), ZeroDivisionError)
    assert s.launch_host_func(lambda: 3).result(timeout=30) == 3


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_exceptions_that_end_programs_arrive(kind):
    def body():
        raise kind("mine")

    s = devrt.Stream()
    with pytest.raises(kind, match="mine"):
        s.launch_host_func(body).result(timeout=30)
    assert s.launch_host_func(lambda: 3).result(timeout=30) == 3


# F41
# E18, E23: it does not run in the callback of the backend.
def test_it_may_call_devrt_and_take_the_lock():
    s, other = devrt.Stream(), devrt.Stream("mtia:1")

    def body():
        with other:
            spin(0.01)
            other.synchronize()
            return devrt.current_stream()

    assert s.launch_host_func(body).result(timeout=30) is other


def test_waiting_inside_for_a_later_host_function_raises():
    """They have one thread: that is an error, not a wait for ever."""
    s = devrt.Stream()

    def body(ask):
        later = s.launch_host_func(lambda: 7)
        with pytest.raises(devrt.Error, match="one after another") as info:
            ask(later)
        assert info.value.code == "FAILED_PRECONDITION"
        return later

    for ask in (lambda f: f.result(), lambda f: f.exception(),
                lambda f: f.result(timeout=60), lambda f: f.__await__()):
        later = s.launch_host_func(body, ask).result(timeout=30)
        assert later.result(timeout=30) == 7


def test_the_result_of_an_earlier_host_function_is_available_inside():
    s = devrt.Stream()
    earlier = s.launch_host_func(lambda: 7)
    assert s.launch_host_func(lambda: earlier.result() + 1).result(timeout=30) == 8


def test_await_of_a_host_function_gives_its_result():
    async def main():
        s = devrt.Stream()
        spin(1, s)
        return await s.launch_host_func(lambda: 7)

    assert asyncio.run(main()) == 7


SYNCHRONIZE = {
    "stream": lambda s: s.synchronize(),
    "devrt, stream": lambda s: devrt.synchronize(s),
    "device": lambda s: s.device.synchronize(),
    "devrt, device": lambda s: devrt.synchronize("mtia:1"),
    "facade": lambda s: devrt.mtia.synchronize(1),
    "object of the same stream": lambda s: devrt.Stream(
        stream_id=s.id, device_index=1, device_type=19).synchronize(),
}


@pytest.mark.parametrize("how", SYNCHRONIZE)
def test_synchronize_waits_for_the_function(how):
    s, go, seen = devrt.Stream("mtia:1"), threading.Event(), []

    def body():
        go.wait(30)
        seen.append("ran")

    s.launch_host_func(body)
    s.launch_host_func(seen.append, "so did the next one")
    timer = threading.Timer(0.05, go.set)
    timer.start()
    SYNCHRONIZE[how](s)
    assert seen == ["ran", "so did the next one"]
    timer.join()


def test_synchronize_waits_for_functions_of_the_default_stream():
    for s in (devrt.default_stream("mtia:1"), devrt.Stream("mtia:1", blocking=True)):
        go, seen = threading.Event(), []
        s.launch_host_func(lambda: seen.append(go.wait(30)))
        timer = threading.Timer(0.05, go.set)
        timer.start()
        s.synchronize()
        assert seen == [True]
        timer.join()


def test_synchronize_inside_a_function_waits_for_the_other_work():
    s = devrt.Stream("mtia:1")

    def body():
        later = s.launch_host_func(lambda: 7)
        s.synchronize()
        s.device.synchronize()
        devrt.synchronize(s)
        return later

    future = s.launch_host_func(body)
    s.synchronize()
    assert future.done()
    later = future.result()
    s.synchronize()
    assert later.done() and later.result() == 7


def test_synchronize_does_not_wait_for_functions_of_others():
    """Neither of other streams nor of other devices, nor of later ones."""
    s, other, go = devrt.Stream("mtia:1"), devrt.Stream("mtia:1"), threading.Event()
    try:
        future = other.launch_host_func(go.wait, 30)
        s.synchronize()
        devrt.synchronize("mtia:0")
        other.query()
        other.record().synchronize()  # nor do events
        assert not future.done()
    finally:
        go.set()
    other.synchronize()
    assert future.done()


@pytest.mark.parametrize("mode", ["virtual", "threaded"])
def test_ctrl_c_ends_the_wait_for_a_function(mode, run_program):
    done = run_program(
        """
        import os, signal, threading
        import devrt
        s = devrt.Stream("mtia:0")
        s.launch_host_func(threading.Event().wait)
        for wait in (s.synchronize, s.device.synchronize):
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                wait()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        os._exit(0)
        """, env={"DEVRT_MTIA": f"mode={mode}"})
    assert done.stdout == "interrupted\n" * 2, done.stdout + done.stderr


def test_synchronize_after_a_failure_of_the_function():
    s = devrt.Stream("mtia:1")
    future = s.launch_host_func(lambda: 1 / 0)
    cancelled = s.launch_host_func(len, [])
    cancelled.cancel()
    s.synchronize()
    assert isinstance(future.exception(), ZeroDivisionError)


def test_cancelled_before_its_turn():
    s, gate = devrt.Stream(), Flag()
    gate.wait_on(s)
    called = []
    future = s.launch_host_func(called.append, 1)
    assert future.cancel()
    gate.set()
    s.launch_host_func(lambda: None).result(timeout=30)
    assert called == []


def reports(monkeypatch):
    """Collects the reports of unexpected exceptions in threads, as they come."""
    seen = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    return seen


def test_callbacks_do_not_end_the_thread(monkeypatch):
    """Futures of others come after one whose callback raised."""
    seen = reports(monkeypatch)
    for kind in (SystemExit, KeyboardInterrupt, GeneratorExit):
        s, gate = devrt.Stream(), Flag()
        gate.wait_on(s)

        def callback(future):
            raise kind

        first = s.launch_host_func(lambda: 7)
        first.add_done_callback(callback)
        second = s.launch_host_func(lambda: 8)
        gate.set()
        assert second.result(timeout=30) == 8
        assert first.result(timeout=30) == 7
        report = seen.pop()
        assert report.exc_type is kind and not seen
        assert report.thread.name == "devrt-host-functions"


def test_a_report_that_fails_does_not_end_the_thread(monkeypatch, capfd):
    def hook(arguments):
        raise SystemExit

    monkeypatch.setattr(threading, "excepthook", hook)
    s, gate = devrt.Stream(), Flag()
    gate.wait_on(s)
    s.launch_host_func(lambda: 7).add_done_callback(hook)
    second = s.launch_host_func(lambda: 8)
    gate.set()
    assert second.result(timeout=30) == 8


def test_a_result_that_somebody_set_before_its_turn(monkeypatch):
    """The function does not run; those behind it do."""
    seen, called = reports(monkeypatch), []
    s, gate = devrt.Stream(), Flag()
    gate.wait_on(s)
    first = s.launch_host_func(called.append, 1)
    first.set_result(7)
    second = s.launch_host_func(lambda: 8)
    gate.set()
    assert second.result(timeout=30) == 8
    assert first.result() == 7 and called == []
    assert [report.exc_type for report in seen] == [RuntimeError]


def test_a_future_that_fails_has_a_result_all_the_same(monkeypatch):
    """As without memory for the lock of its condition."""
    seen = reports(monkeypatch)
    s, gate, called = devrt.Stream(), Flag(), []
    gate.wait_on(s)
    future = s.launch_host_func(called.append, 1)

    def fail():
        raise MemoryError

    monkeypatch.setattr(future, "set_running_or_notify_cancel", fail)
    gate.set()
    s.synchronize()
    assert future.done() and isinstance(future.exception(), MemoryError)
    assert called == [] and [report.exc_type for report in seen] == [MemoryError]


def test_not_callable():
    for wrong in (None, 3, "print"):
        with pytest.raises(TypeError, match="callable"):
            devrt.Stream().launch_host_func(wrong)
    with pytest.raises(TypeError):
        devrt.Stream().launch_host_func()


def test_what_runs_its_body_later():
    async def coroutine():
        raise AssertionError("nobody asked for this")

    def generator():
        yield

    s = devrt.Stream("mtia:0")
    for function in (coroutine, generator, functools.partial(coroutine)):
        with pytest.raises(TypeError, match="body runs later; .*asyncio.run"):
            s.launch_host_func(function)
    s.synchronize()


def test_nothing_is_kept():
    class Argument:
        pass

    s, argument = devrt.Stream(), Argument()
    weak = weakref.ref(argument)
    s.launch_host_func(lambda a: None, argument).result(timeout=30)
    del argument
    s.launch_host_func(lambda: None).result(timeout=30)
    gc.collect()
    assert weak() is None


def test_arguments_are_released_after_the_call():
    class Argument:
        pass

    s, argument, ended = devrt.Stream(), Argument(), threading.Event()
    weakref.finalize(argument, ended.set)
    future = s.launch_host_func(lambda a: None, argument)
    del argument
    future.result(timeout=30)
    assert ended.wait(30)


def test_one_that_cannot_be_launched_is_not_kept():
    def function():
        raise AssertionError("called")

    s, weak = devrt.Stream("mtia:0"), weakref.ref(function)
    simulator.inject_fault("api", where="host_func", native_code=1)
    with pytest.raises(devrt.Error):
        s.launch_host_func(function)
    del function
    gc.collect()
    assert weak() is None
    assert s.launch_host_func(lambda: 3).result(timeout=30) == 3


def test_a_failed_event_record_does_not_lose_the_host_function():
    """It is launched all the same: it is cancelled, or has had its turn."""
    def fail():
        simulator.inject_fault("api", where="event_record", native_code=1)

    s, gate, called = devrt.Stream("mtia:0"), Flag("mtia:0"), []
    gate.wait_on(s)
    fail()
    with pytest.raises(devrt.Error):
        s.launch_host_func(called.append, 1)
    gate.set()
    assert s.launch_host_func(called.append, 2).result(timeout=30) is None
    assert called == [2]


def test_one_that_ran_before_its_event_was_recorded(monkeypatch):
    s, ran = devrt.Stream("mtia:0"), threading.Event()

    class Unlucky(devrt.Event):
        def record(self, stream):
            stream.synchronize()
            assert ran.wait(30)
            raise devrt.Error("no event")

    monkeypatch.setattr(_host_functions, "Event", Unlucky)
    future = s.launch_host_func(lambda: ran.set() or 7)
    assert future.result(timeout=30) == 7


# C45
def test_after_a_fault_the_future_has_the_error(run_program):
    done = run_program(
        """
        import devrt
        from devrt.testing import commit_fault
        s = devrt.Stream("mtia:1")
        called = []
        commit_fault("trap", s)
        future = s.launch_host_func(called.append, 1)
        try:
            s.synchronize()
        except devrt.DeviceFaultError:
            pass
        try:
            future.result(timeout=30)
        except devrt.DeviceFaultError as error:
            other = devrt.Stream("mtia:0").launch_host_func(lambda: None)
            other.result(timeout=30)  # on the same thread, behind it
            print("error", error.device, called)
        """
    )
    assert done.stdout == "error mtia:1 []\n", done.stdout + done.stderr


def test_a_launch_within_a_launch(two):
    """As of a __del__ that a collection runs there."""
    futures = []

    def launch():
        with _host_thread._lock:
            futures.append(two[0].current_stream().launch_host_func(len, []))

    thread = threading.Thread(target=launch, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert futures[0].result() == 0
