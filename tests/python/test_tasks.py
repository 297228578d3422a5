# SPDX-License-Identifier: Apache-2.0
"""asyncio: contexts are the task's, and streams and events can be awaited."""

import asyncio
import contextvars
import gc
import os
import random
import threading
import weakref

import pytest

import devrt
from devrt.testing import Flag, spin

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
def test_tasks_inherit_what_their_maker_has_entered(pair, outside):
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
                   *await asyncio.gather(child(), child()),
                   await asyncio.to_thread(now, one) if not outside else (one, s)]
        assert answers == [(one, s)] * 4
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
    thread = threading.Thread(target=run)  # without a context of its own
    thread.start()
    thread.join()
    run()
    assert now(one) == before


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


# ---- Awaiting ---------------------------------------------------------------

by_itself = pytest.mark.skipif(
    "DEVRT_FAKE_CUDA" in os.environ and BACKEND == "cuda",
    reason="devices of the fake driver work only while a thread waits for them")


@by_itself
def test_await(pair):
    async def main():
        s = devrt.Stream(pair[0])
        spin(1, s)
        e = s.record()
        assert await e is None and e.query()
        spin(1, s)
        assert await s is None and s.query()
        assert await devrt.Event() is None  # never recorded
        assert await s is None

    asyncio.run(main())


@by_itself
def test_an_await_lets_ready_tasks_submit_what_it_needs(pair):
    """In virtual time as well, where a wait is one step."""
    s, flag = devrt.Stream(pair[0]), Flag(pair[0])
    flag.wait_on(s)

    async def set_flag():
        flag.set()

    async def main():
        other = asyncio.ensure_future(set_flag())
        await s
        await other

    asyncio.run(main())


def on_threads(run_program, source, **env):
    mode = {} if BACKEND != "mtia" else {"DEVRT_MTIA": "mode=threaded"}
    done = run_program("import asyncio, os, selectors, threading\nimport devrt\n"
                       "from devrt.testing import Flag, spin\n"
                       # One device twice where there are not two.
                       f"zero, one = (devrt.devices({BACKEND!r}) * 2)[:2]\n" + source,
                       env={**mode, **env})
    assert done.stdout.splitlines()[-1:] == ["done"], done.stdout + done.stderr
    assert done.stderr == ""


@by_itself
def test_the_loop_goes_on_and_does_not_poll(run_program):
    """Where devices work by themselves: the loop sleeps until it is woken, other
    tasks run, and one that waits for a late event does not hold back an early
    one."""
    on_threads(run_program, '''
class Counting(selectors.DefaultSelector):
    looks = 0
    def select(self, timeout=None):
        Counting.looks += 1
        return super().select(timeout)

async def main():
    late, early, gate = devrt.Stream(zero), devrt.Stream(zero), Flag(zero)
    gate.wait_on(late)
    first, order = late.record(), []
    async def wait(name, what):
        await what
        order.append(name)
    tasks = [asyncio.create_task(wait("event", first)),
             asyncio.create_task(wait("stream", late))]
    await asyncio.sleep(0)
    spin(1, early)
    await wait("early event", early.record())
    spin(1, early)
    await wait("early stream", early)
    assert order == ["early event", "early stream"], order
    looks = Counting.looks
    threading.Timer(0.3, gate.set).start()
    await asyncio.gather(*tasks)
    assert sorted(order[2:]) == ["event", "stream"], order
    assert Counting.looks - looks < 20, Counting.looks - looks
    assert threading.active_count() <= 2, threading.enumerate()

loop = asyncio.SelectorEventLoop(Counting())
loop.run_until_complete(main())
assert not loop._selector.get_map() or len(loop._selector.get_map()) == 1
loop.close()
print("done")
''')


@by_itself
def test_awaits_that_are_cancelled(run_program):
    on_threads(run_program, '''
async def main():
    s, gate = devrt.Stream(zero), Flag(zero)
    gate.wait_on(s)
    for what in (s, s.record()):
        try:
            await asyncio.wait_for(wait(what), 0.01)
        except asyncio.TimeoutError:
            pass
        else:
            raise AssertionError(what)
    gate.set()
    await s                      # those that were cancelled come first
    assert s.query()

async def wait(what):
    await what

for _ in range(3):
    asyncio.run(main())
async def late():
    s, gate = devrt.Stream(zero), Flag(zero)
    gate.wait_on(s)
    task = asyncio.ensure_future(wait(s))
    await asyncio.sleep(0)
    return gate, s, task
loop = asyncio.new_event_loop()
gate, s, task = loop.run_until_complete(late())
task.cancel()
loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
loop.close()
gate.set()                       # for a loop that is closed
s.synchronize()
print("done")
''')


@by_itself
def test_awaits_of_several_threads(run_program):
    on_threads(run_program, '''
def work():
    async def main():
        s = devrt.Stream(one)
        for _ in range(20):
            spin(0.1, s)
            await s.record()
            await s
    asyncio.run(main())

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done")
''')


def test_an_await_raises_the_error_of_the_work(run_program):
    if BACKEND != "mtia":
        pytest.skip("faults are the simulator's")
    for mode in ("virtual", "threaded"):
        done = run_program("""
            import asyncio
            import devrt
            from devrt.mtia import simulator
            from devrt.testing import Flag, spin

            async def main(event):
                s, gate = devrt.Stream("mtia:0"), Flag("mtia:0")
                simulator.inject_fault("kernel", device=0)
                gate.wait_on(s)
                spin(1, s)
                what = s.record() if event else s
                gate.set()
                try:
                    await what
                except devrt.DeviceFaultError as error:
                    print(error.device, error.sticky)

            import sys
            asyncio.run(main(sys.argv[1] == "event"))
        """, "event" if mode == "virtual" else "stream",
            env={"DEVRT_MTIA": f"mode={mode}"})
        assert done.stdout == "mtia:0 True\n", done.stdout + done.stderr


def test_an_await_without_a_loop(pair):
    s, gate = devrt.Stream(pair[0]), Flag(pair[0])
    gate.wait_on(s)
    with pytest.raises(RuntimeError, match="no running event loop"):
        s.__await__().send(None)
    gate.set()


def test_an_await_does_not_wait_for_functions(run_program):
    """A function may wait for the event loop."""
    for mode in ["virtual", "threaded"]:
        done = run_program("""
            import asyncio
            import devrt

            async def number():
                return 7

            async def main():
                loop, s = asyncio.get_running_loop(), devrt.Stream("mtia:0")
                future = s.launch_host_func(
                    lambda: asyncio.run_coroutine_threadsafe(number(), loop).result())
                await s
                print(await future)

            asyncio.run(main())
        """, env={"DEVRT_MTIA": f"mode={mode}"})
        assert done.stdout == "7\n", done.stdout + done.stderr


def test_a_finalizer_that_enters_while_a_context_is_entered(run_program):
    """The collector runs it inside the call that changes the task's context."""
    done = run_program("""
        import asyncio
        import gc
        import devrt

        s = devrt.Stream("mtia:0")

        class Cycle:
            def __init__(self):
                self.me = self

            def __del__(self):
                with s:
                    pass

        async def main():
            gc.set_threshold(5, 2, 2)
            for i in range(5000):
                kept = [[] for _ in range(i % 23)]
                Cycle()
                with s:
                    pass

        asyncio.run(main())
        print("over")
    """)
    assert done.stdout == "over\n", done.stdout + done.stderr
