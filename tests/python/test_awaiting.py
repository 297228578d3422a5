# SPDX-License-Identifier: Apache-2.0
"""await on streams and events."""

import asyncio
import os

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


by_itself = pytest.mark.skipif(
    "DEVRT_FAKE_CUDA" in os.environ and BACKEND == "cuda",
    reason="devices of the fake driver work only while a thread waits for them")


@by_itself
def test_await_of_streams_and_events(pair):
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
def test_an_await_runs_ready_tasks_first(pair):
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
    work = s.record()
    gate.set()
    await s                      # those that were cancelled come first
    # The stream itself may still be at the end of the function that woke this task.
    assert work.query()

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
