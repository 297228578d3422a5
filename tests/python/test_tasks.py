# SPDX-License-Identifier: Apache-2.0
"""asyncio: contexts are the task's."""

import asyncio
import concurrent.futures
import contextvars
import gc
import os
import random
import weakref

import pytest

import devrt

BACKEND = os.environ.get("DEVRT_TEST_BACKEND", "mtia")


@pytest.fixture
def pair():
    devices = devrt.devices(BACKEND)
    if len(devices) < 2:
        pytest.skip(f"needs two devices of {BACKEND}")
    return devices[:2]


def now(*devices):
    return devrt.current_device(BACKEND), *(devrt.current_stream(d) for d in devices)


# ---- Contexts ---------------------------------------------------------------


def test_a_context_is_the_tasks(pair):
    """Others that run while it awaits have what they had."""
    zero, one = pair
    before = now(*pair)
    seen = {}

    async def task(name, context, turns):
        with context:
            for turn in turns:
                await turn.wait()
                seen.setdefault(name, []).append(now(*pair))

    async def main():
        s = devrt.Stream(one)
        mine, other = [asyncio.Event() for _ in range(2)], [asyncio.Event()]
        tasks = [asyncio.create_task(task("stream", s, mine)),
                 asyncio.create_task(task("device", one, other))]
        for event in (mine[0], other[0], mine[1]):  # the first one leaves last
            await asyncio.sleep(0)
            assert now(*pair) == before
            event.set()
            await asyncio.sleep(0)
            assert now(*pair) == before
        await asyncio.gather(*tasks)
        assert now(*pair) == before
        default = devrt.default_stream
        assert seen == {"stream": [(one, default(zero), s)] * 2,
                        "device": [(one, default(zero), default(one))]}

    asyncio.run(main())
    assert now(*pair) == before


def test_work_goes_to_the_tasks_stream(pair):
    """Arrays are made and computed there, whoever was asked last."""
    zero = pair[0]

    async def work(stream, turns):
        with stream:
            for _ in range(turns):
                await asyncio.sleep(0)
                assert devrt.ones(3, device=zero).home_stream == stream
                assert (devrt.ones(3, device=zero) + 1).home_stream == stream
                e = devrt.Event()
                e.record()
                assert stream.query() is not None and e.device is zero

    async def main():
        streams = [devrt.Stream(zero) for _ in range(4)]
        await asyncio.gather(*(work(s, 3 + i) for i, s in enumerate(streams)))
        assert devrt.ones(3, device=zero).home_stream == devrt.default_stream(zero)

    asyncio.run(main())


@pytest.mark.parametrize("outside", [False, True], ids=["task", "thread"])
def test_tasks_inherit_the_contexts_of_their_creator(pair, outside):
    """From the task, or from the thread before there was a loop."""
    one = pair[1]
    s = devrt.Stream(one)

    async def child():
        assert now(one) == (one, s)
        with devrt.default_stream(one):
            await asyncio.sleep(0)
            assert now(one) == (one, devrt.default_stream(one))
        return now(one)

    async def body():
        answers = [await asyncio.wait_for(child(), 60),
                   *await asyncio.gather(child(), child())]
        assert answers == [(one, s)] * 3
        # What a thread has entered outside of tasks, another thread has not.
        assert await asyncio.to_thread(now, one) == (before if outside else (one, s))
        return asyncio.create_task(child())

    async def main():
        if outside:
            later = await body()
        else:
            with s:
                later = await body()
            assert now(one)[1] == devrt.default_stream(one)
        assert await later == (one, s)  # it began inside

    def run():
        if outside:
            with s:
                asyncio.run(main())
        else:
            asyncio.run(main())

    before = now(one)
    in_new_thread(run)
    run()
    assert now(one) == before


def in_new_thread(call):
    """Calls it in a thread that devrt does not know, and raises what it raises."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()


@pytest.mark.parametrize("known", [True, False], ids=["at_once", "after_a_task"])
def test_outside_of_tasks_nothing_is_noted_in_the_threads_context(pair, known):
    """Many libraries make one, NumPy for example, and to note costs thrice the rest.

    A thread that was inside of Context.run before devrt saw it notes all the same.
    """
    one = pair[1]
    s = devrt.Stream(one)

    def notes():
        return "devrt.contexts" in [variable.name for variable in
                                    contextvars.copy_context()]

    def run():
        if not known:
            contextvars.copy_context().run(int)
        contextvars.ContextVar("another library's").set(1)
        before, copied = now(*pair), contextvars.copy_context()
        with s, one, devrt.ThreadContext.capture():
            assert now(one) == (one, s)
            assert notes() is not known
            assert copied.run(now, one) == ((one, s) if known else now_of(before))
            with devrt.default_stream(one):
                assert now(one) == (one, devrt.default_stream(one))
            assert contextvars.copy_context().run(now, one) == (one, s)
        assert now(*pair) == before
        with pytest.raises(devrt.Error, match="not inside this context"):
            s.__exit__()

    def now_of(state):
        return state[0], state[2]

    in_new_thread(run)


def test_contexts_of_callbacks_and_of_copied_contexts(pair):
    zero, one = pair
    s = devrt.Stream(zero)
    before = now(*pair)
    copied = contextvars.copy_context()

    def enter():
        s.__enter__()
        return now(*pair)

    inside = copied.run(enter)
    assert inside[1] == s and now(*pair) == before
    assert copied.run(now, *pair) == inside
    assert copied.copy().run(now, *pair) == inside
    with one:
        assert now(*pair)[0] is one
        assert copied.run(now, *pair) == inside
        assert now(*pair)[0] is one
    copied.run(s.__exit__)
    assert copied.run(now, *pair) == before


def test_left_in_another_order_within_a_task(pair):
    zero, one = pair

    async def main():
        s, t = devrt.Stream(zero), devrt.Stream(zero)
        before = now(*pair)
        for context in (s, one, t):
            context.__enter__()
            await asyncio.sleep(0)
        one.__exit__()
        assert now(*pair)[:2] == (zero, t)
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(now, *pair)
        await asyncio.sleep(0)
        assert now(*pair)[:2] == (zero, t)
        s.__exit__()
        await asyncio.sleep(0)
        assert now(*pair)[:2] == (zero, t)
        t.__exit__()
        assert now(*pair) == before
        with pytest.raises(devrt.Error, match="not inside this context"):
            s.__exit__()

    asyncio.run(main())


def test_a_generator_that_another_task_ends(pair):
    """Its context was the task's that ran it; to leave it is no error."""
    s = devrt.Stream(pair[0])

    async def numbers():
        with s:
            yield 1
            yield 2

    async def main():
        made = numbers()

        async def first():
            return await made.__anext__()

        before = now(*pair)
        assert await asyncio.create_task(first()) == 1
        assert now(*pair) == before
        await made.aclose()
        assert now(*pair) == before
        with pytest.raises(devrt.Error, match="not inside this context"):
            s.__exit__()

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(5))
def test_random_tasks(pair, seed):
    """Beside a model: each task has what it has entered last."""
    dice = random.Random(seed)
    streams = [devrt.Stream(d) for d in pair for _ in range(2)]
    contexts = [*pair, *streams, devrt.ThreadContext.capture()]
    initial = now(*pair)

    def after(state, context):
        device, *current = state
        if isinstance(context, devrt.ThreadContext):
            return initial
        if isinstance(context, devrt.Stream):
            current[context.device_index] = context
            return (context.device, *current)
        return (context, *current)

    async def task(depth, state):
        for _ in range(dice.randrange(1, 4)):
            assert now(*pair) == state
            context = dice.choice(contexts)
            with context:
                inside = after(state, context)
                for _ in range(dice.randrange(3)):
                    await asyncio.sleep(0)
                    assert now(*pair) == inside
                if depth:
                    made = [asyncio.create_task(task(depth - 1, inside))
                            for _ in range(dice.randrange(1, 3))]
                    if dice.random() < 0.5:
                        await asyncio.gather(*made)
                    waiting.extend(made)
                assert now(*pair) == inside
            await asyncio.sleep(0)

    waiting = []

    async def main():
        await asyncio.gather(*(task(2, initial) for _ in range(3)))
        await asyncio.gather(*waiting)

    asyncio.run(main())
    assert now(*pair) == initial


def test_nothing_is_kept(pair):
    """Neither by contexts that have ended, nor for the thread."""

    async def main():
        s = devrt.Stream(pair[0])

        async def task():
            with s, pair[1], devrt.ThreadContext.capture():
                await asyncio.sleep(0)

        await asyncio.gather(task(), task())
        left = s.__enter__()  # and its task ends
        return weakref.ref(left)

    for _ in range(3):
        kept = asyncio.run(main())
        now(*pair)
        gc.collect()
        assert kept() is None


def test_a_current_stream_of_a_task_stays_alive(pair):
    async def main():
        with devrt.Stream(pair[0]):
            kept = weakref.ref(devrt.current_stream(pair[0]))
            await asyncio.gather(asyncio.sleep(0), asyncio.to_thread(lambda: None))
            gc.collect()
            assert devrt.current_stream(pair[0]) is kept()

    asyncio.run(main())
