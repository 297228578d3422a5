# SPDX-License-Identifier: Apache-2.0
"""Threads: what each has of its own, and what it hands on."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

import devrt
from devrt.testing import spin


def in_thread(function, *arguments):
    """Returns function(), or raises its exception, from a thread of its own."""
    results = []

    def run():
        try:
            results.append((function(*arguments), None))
        except BaseException as error:
            results.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    value, error = results[0]
    if error is not None:
        raise error
    return value


# C1, F35
def test_a_new_thread_starts_on_device_0(two):
    with devrt.Stream(two[1]):
        assert in_thread(devrt.current_device, "mtia") is two[0]
        stream = in_thread(devrt.current_stream, two[1])
        assert stream is devrt.default_stream(two[1])


# F4
def test_one_object_in_many_threads(two):
    context, barrier = two[1], threading.Barrier(8)
    stream = devrt.Stream(two[1])

    def work(number):
        barrier.wait()
        for _ in range(50):
            with context if number % 2 else two[0]:
                with stream:
                    assert devrt.current_stream() is stream
                assert devrt.current_device() is (context if number % 2 else two[0])
        return devrt.current_device("mtia").index

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [0] * 8


def test_thread_context(two):
    stream = devrt.Stream(two[1])
    with stream:
        context = devrt.ThreadContext.capture()
    assert two[1] in context.devices and stream in context.streams

    def look():
        return devrt.current_device(), devrt.current_stream()

    assert in_thread(context.run, look) == (two[1], stream)

    def scope():
        with context:
            inside = look()
            with context:
                pass
            again = look()
        return inside, again, devrt.current_device("mtia")

    assert in_thread(scope) == ((two[1], stream), (two[1], stream), two[0])
    assert in_thread(context(look)) == (two[1], stream)
    with pytest.raises(ZeroDivisionError):
        context.run(lambda: 1 / 0)
    with pytest.raises(TypeError, match="capture"):
        devrt.ThreadContext()


def test_a_context_keeps_its_streams_alive(two):
    with devrt.Stream(two[1]) as s:
        context = devrt.ThreadContext.capture()
        id = s.id
    del s
    gc.collect()
    assert in_thread(context.run, lambda: devrt.current_stream().id) == id


def test_exit_on_another_thread(two):
    two[1].__enter__()
    with pytest.raises(devrt.Error, match="on the thread that entered"):
        in_thread(two[1].__exit__, None, None, None)
    assert devrt.current_device() is two[1]
    two[1].__exit__(None, None, None)


def test_a_thread_that_ends_inside_a_context(two):
    stream = devrt.Stream(two[1])
    weak = weakref.ref(stream)

    def enter():
        stream.__enter__()
        two[1].__enter__()
        devrt.ThreadContext.capture().__enter__()
        devrt.current_stream()

    in_thread(enter)
    del enter
    assert devrt.current_device("mtia") is two[0]
    spin(0.01, stream)
    stream.synchronize()
    del stream
    gc.collect()
    assert weak() is None


@pytest.mark.filterwarnings("error")  # what a finalizer raises
def test_collection_in_another_thread(two):
    class Node:
        pass

    def garbage():
        node = Node()
        node.own = node
        node.stream = devrt.Stream(two[1])
        node.event = node.stream.record()
        node.pool = devrt.StreamPool(two[1], 2)

        weak.extend([weakref.ref(node), weakref.ref(node.stream)])

    weak = []
    gc.disable()  # only there
    try:
        for _ in range(20):
            garbage()
        assert len(weak) == 40 and all(one() is not None for one in weak)
        in_thread(gc.collect)
    finally:
        gc.enable()
    assert all(one() is None for one in weak)


def test_events_from_many_threads(two):
    event, stream = devrt.Event(), devrt.Stream(two[1])
    failures = []

    def work():
        try:
            for _ in range(50):
                event.record(stream)
                event.query()
                stream.wait(event)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    event.synchronize()
