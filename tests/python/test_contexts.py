# SPDX-License-Identifier: Apache-2.0
"""Current devices and streams: nesting, decorators, orders of leaving."""

import functools
import os
import random
import weakref

import pytest

import devrt


def test_device_is_current_inside_only(two):
    with two[1] as entered:
        assert entered is two[1]
        assert devrt.current_device() is two[1]
        assert devrt.current_device("mtia") is two[1]
    assert devrt.current_device("mtia") is two[0]


def test_one_object_per_device():
    assert devrt.device("mtia:1") is devrt.device("mtia", 1)
    assert devrt.Device(devrt.device("mtia:1")) is devrt.device("mtia:1")
    with devrt.device("mtia:1"):
        assert devrt.device("mtia") is devrt.device("mtia:1")
        assert devrt.device(1) is devrt.device("mtia:1")


# F4
def test_one_object_three_deep_with_an_exception(two):
    one = two[1]
    with pytest.raises(KeyError):
        with one:
            with two[0]:
                with one:
                    with one:
                        assert devrt.current_device() is one
                        raise KeyError
    assert devrt.current_device("mtia") is two[0]


# F4
def test_one_stream_entered_again_inside_another(two):
    a, b = devrt.Stream(two[0]), devrt.Stream(two[0])
    with a:
        with b:
            with a:
                assert devrt.current_stream() is a
            assert devrt.current_stream() is b
        assert devrt.current_stream() is a
    assert devrt.current_stream(two[0]) == devrt.default_stream(two[0])


# C96
def test_stream_of_another_device(two):
    own = devrt.Stream(two[0])
    with own:
        with devrt.Stream(two[1]) as s:
            assert devrt.current_device() is two[1]
            assert devrt.current_stream() is s
            assert devrt.current_stream(two[0]) is own
        assert devrt.current_device() is two[0]
        assert devrt.current_stream(two[1]) is devrt.default_stream(two[1])


def test_switching_devices_leaves_streams_alone(two):
    s = devrt.Stream(two[0])
    with s:
        with two[1]:
            assert devrt.current_stream(two[0]) is s
            assert devrt.current_stream() is devrt.default_stream(two[1])


def test_stream_function(two):
    s = devrt.Stream(two[0])
    with devrt.stream(s) as entered:
        assert entered is s
        with devrt.stream(None):
            assert devrt.current_stream() is s
    with pytest.raises(TypeError, match="devrt.Stream or None"):
        devrt.stream(3)


def test_devices_and_streams_are_decorators(two):
    @two[1]
    def where(x, *, y):
        "What it says."
        return devrt.current_device(), x, y

    assert where(1, y=2) == (two[1], 1, 2)
    assert where.__doc__ == "What it says."
    s = devrt.Stream(two[1])
    assert s(devrt.current_stream)() is s
    assert devrt.current_device("mtia") is two[0]


def test_decorators_refuse_bodies_that_run_later(two):
    def generator():
        yield

    async def coroutine():
        pass

    class Generator:
        def __call__(self):
            yield

    class Coroutine:
        async def __call__(self):
            pass

    class Asynchronous:
        async def __call__(self):
            yield

    for function in (generator, coroutine, Generator(), Coroutine(),
                     Asynchronous(), Generator().__call__,
                     functools.partial(generator), staticmethod(coroutine),
                     functools.partial(Coroutine())):
        with pytest.raises(TypeError, match="runs later|only a function"):
            two[1](function)
        if callable(function):  # a staticmethod is from Python 3.10 on
            with pytest.raises(TypeError, match="runs later"):
                two[1](function)
    with pytest.raises(TypeError, match="only a function"):
        two[1](3)


def test_decorators_refuse_classes(two):
    """A decorated class would no longer be a class."""
    class Thing:
        pass

    for context in (two[1], devrt.Stream(two[1]), devrt.stream(None)):
        with pytest.raises(TypeError, match="only a function.*class Thing"):
            context(Thing)


def test_callables_that_can_be_decorated(two):
    class Callable:
        def __call__(self):
            return devrt.current_device()

    here = devrt.current_device()
    for function in (Callable(), functools.partial(devrt.current_device),
                     Callable().__call__):
        assert two[1](function)() is two[1]
        for nothing in (devrt.stream(None), devrt.mtia.device(None),
                        devrt.mtia.stream(None)):
            assert nothing(function)() is here


def test_left_in_another_order(two):
    """Generators leave contexts before those that were entered later."""

    def inside(context):
        with context:
            yield

    first, second = inside(two[1]), inside(two[0])
    next(first)
    next(second)
    assert devrt.current_device() is two[0]
    first.close()
    assert devrt.current_device() is two[0]
    second.close()
    assert devrt.current_device("mtia") is two[0]

    a, b = devrt.Stream(two[1]), devrt.Stream(two[1])
    first, second = inside(a), inside(b)
    next(first)
    next(second)
    first.close()
    assert devrt.current_stream(two[1]) is b
    second.close()
    assert devrt.current_stream(two[1]) is devrt.default_stream(two[1])


def test_left_in_another_order_on_two_devices(two):
    def inside(context):
        with context:
            yield

    a, b = devrt.Stream(two[0]), devrt.Stream(two[1])
    first, second = inside(a), inside(b)
    next(first)
    next(second)
    first.close()  # nothing above it is about its stream
    assert devrt.current_stream(two[0]) is devrt.default_stream(two[0])
    assert devrt.current_stream() is b
    second.close()
    assert devrt.current_device("mtia") is two[0]


def test_exit_without_enter(two):
    for context in (two[1], devrt.Stream(two[1])):
        with pytest.raises(devrt.Error, match="not inside this context"):
            context.__exit__(None, None, None)


def test_set_stream_makes_the_device_current(two):
    s = devrt.Stream(two[1])
    with two[0], devrt.stream(devrt.default_stream(two[1])), two[0]:
        devrt.set_stream(s)
        assert devrt.current_device() is two[1]
        assert devrt.current_stream(two[1]) is s
    assert devrt.current_stream(two[1]) is devrt.default_stream(two[1])


def test_a_current_stream_stays_alive(two):
    with devrt.default_stream(two[1]):
        devrt.set_stream(devrt.Stream(two[1]))
        assert devrt.current_stream().query() in (True, False)
        assert devrt.current_stream().kind == "created"
    devrt.Stream(two[1]).__enter__()
    kept = devrt.current_stream()
    kept.synchronize()
    kept.__exit__(None, None, None)


def test_set_device(two):
    with two[0]:
        devrt.set_device("mtia:1")
        assert devrt.current_device() is two[1]
        devrt.set_device(0)
        assert devrt.current_device() is two[0]
    with pytest.raises(TypeError):
        devrt.set_device(None)
    with pytest.raises(TypeError):
        devrt.set_stream(two[0])


def test_references_do_not_leak(two):
    import sys

    s = devrt.Stream(two[1])
    before = sys.getrefcount(s), sys.getrefcount(two[1])
    for _ in range(100):
        with s:
            with two[1]:
                with s:
                    devrt.current_stream()
    with devrt.default_stream(two[1]):
        pass
    # The last current stream is kept until another one is.
    assert sys.getrefcount(s) - before[0] <= 1
    assert sys.getrefcount(two[1]) - before[1] <= 1


def test_references_do_not_leak_in_another_order(two):
    import sys

    a, b, other = (devrt.Stream(two[0]) for _ in range(3))
    with other:
        before = [sys.getrefcount(x) for x in (a, b, other, two[0])]
        for _ in range(20):
            for x in (a, b, two[0], other):
                x.__enter__()
            for x in (a, two[0], other, b):
                x.__exit__(None, None, None)
            del x
            assert devrt.current_stream() is other
        after = [sys.getrefcount(x) for x in (a, b, other, two[0])]
    assert [x - y for x, y in zip(after, before)] == [0] * 4


def inside(context):
    with context:
        yield


def entered(context):
    left = inside(context)
    next(left)
    return left


def here(two):
    return devrt.current_device("mtia"), [devrt.current_stream(d) for d in two]


@pytest.fixture
def context(two):
    """Returns the context that every thread begins with."""
    captured = devrt.ThreadContext.capture()
    with two[1], devrt.Stream(two[0]), devrt.Stream(two[1]):
        yield captured


def test_leaving_a_context_below_a_thread_context(two, context):
    before = here(two)
    s = devrt.Stream(two[1])
    below, above = entered(s), entered(context)
    captured = here(two)
    below.close()
    assert here(two) == captured
    above.close()
    assert here(two) == before


def test_leaving_a_thread_context_below_another_context(two, context):
    before = here(two)
    s = devrt.Stream(two[1])
    below, above = entered(context), entered(s)
    below.close()
    assert devrt.current_device() is two[1] and devrt.current_stream() is s
    # Nothing above had set the other device's.
    assert devrt.current_stream(two[0]) is before[1][0]
    above.close()
    assert here(two) == before


def test_a_thread_context_twice(two, context):
    before = here(two)
    first, second = entered(context), entered(context)
    s = devrt.Stream(two[0])
    with s:
        # The innermost of both goes.
        second.close()
        assert devrt.current_stream() is s
    first.close()
    assert here(two) == before
    with pytest.raises(devrt.Error, match="not inside"):
        context.__exit__(None, None, None)


def test_contexts_in_any_order(two, context):
    draw = random.Random(int(os.environ.get("DEVRT_TEST_SEED", 20240601)))
    for _ in range(200):
        before = here(two)
        things = [context, two[0], two[1], devrt.Stream(two[0]), devrt.Stream(two[1])]
        order = [entered(one) for one in draw.sample(things, 5)]
        at_the_top = here(two)
        top = order.pop()
        draw.shuffle(order)
        for one in order:
            one.close()
        # Only the top context is still set, and has the current device that it set.
        assert here(two)[0] is at_the_top[0]
        top.close()
        assert here(two) == before


def test_a_thread_context_restores_the_current_stream(two):
    context = devrt.ThreadContext.capture()
    with devrt.default_stream(two[0]):
        devrt.set_stream(devrt.Stream(two[0]))
        made = devrt.current_stream().id
        with context:
            assert devrt.current_stream().id == 0
            devrt.current_stream(two[1])
        assert devrt.current_stream().id == made
        assert devrt.current_stream().query()
        assert (devrt.ones(2) + 1).tolist() == [2, 2]


def test_a_thread_context_lets_its_streams_go(two):
    with devrt.Stream(two[1]) as s:
        context = devrt.ThreadContext.capture()
    for _ in range(2):
        with context:
            assert devrt.current_stream(two[1]) is s
    with devrt.default_stream(two[1]):  # the last one is kept until another is
        alive = weakref.ref(s)
        del s
        assert alive() is not None
        del context
        assert alive() is None


def test_a_thread_context_that_cannot_be_entered(run_program):
    done = run_program("""
        import devrt, os
        two = devrt.devices("mtia")
        with devrt.Stream(two[1]) as s:
            context = devrt.ThreadContext.capture()
        devrt._core._commit_fault("trap", s)
        try:
            s.synchronize()
        except devrt.DeviceFaultError:
            pass
        mine = devrt.Stream(two[0])
        with mine:
            try:
                context.__enter__()
            except devrt.Error as error:
                print(type(error).__name__)
            try:
                context.__exit__(None, None, None)
            except devrt.Error as error:
                print(error.code)
            print(devrt.current_stream() is mine, devrt.current_device().index)
        print(devrt.current_stream(two[0]) is devrt.default_stream(two[0]))
        os._exit(0)
    """)
    assert done.stdout.split() == [
        "DeviceFaultError", "FAILED_PRECONDITION", "True", "0", "True"], done


def test_keyword_calls_keep_nothing(two):
    import sys

    s, e = devrt.Stream(two[0]), devrt.Event()
    calls = {
        "device": [lambda **k: devrt.current_stream(**k),
                   lambda **k: devrt.default_stream(**k),
                   lambda **k: devrt.per_thread_default_stream(**k)],
        "backend": [lambda **k: devrt.current_device(**k)],
        "stream": [lambda **k: e.record(**k), lambda **k: e.wait(**k)],
    }
    values = {"device": two[0], "backend": "mtia", "stream": s}
    for name, functions in calls.items():
        for call in functions:
            fresh = "".join(list(name))
            assert fresh is not name
            call(**{fresh: values[name]})
            before = sys.getrefcount(fresh)
            for _ in range(100):
                call(**{fresh: values[name]})
            assert sys.getrefcount(fresh) == before, name


def test_a_thread_context_of_before_any_backend(run_program):
    done = run_program("""
        import asyncio
        import devrt
        context = devrt.ThreadContext.capture()
        assert context.devices == [] and context.streams == []
        assert context.run(lambda: 3) == 3
        with context, context:  # changes nothing
            device = devrt.device("mtia:1")
            assert devrt.current_device("mtia").index == 0
        with device:
            with context:
                assert devrt.current_device() is device
            context.__enter__()
        context.__exit__()  # below it, the device's was left

        async def task():
            with context:
                await asyncio.sleep(0)
            with device:
                context.__enter__()
            context.__exit__()

        async def tasks():
            await asyncio.gather(task(), task())

        asyncio.run(tasks())
        assert devrt.current_device("mtia").index == 0
        try:
            context.__exit__()
        except devrt.Error as error:
            print(error.code)
    """)
    assert (done.stdout, done.stderr) == ("FAILED_PRECONDITION\n", "")
