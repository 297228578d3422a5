# SPDX-License-Identifier: Apache-2.0
"""Python's threads under the race detector, with exact order."""

import textwrap

import pytest

SETUP = """
import concurrent.futures
import queue
import threading
import time

import devrt

with devrt.validate():
    pass
device = devrt.Device("mtia:0")
memory = devrt.zeros(1024, device=device)
device.synchronize()
a, b = devrt.Stream(device), devrt.Stream(device)


def write():
    devrt.annotate_work(a, writes=[(memory.ptr, 1024)], name="writer")
    a.synchronize()


def read():
    devrt.annotate_work(b, reads=[(memory.ptr, 1024)], name="reader")
    b.synchronize()


def luck(values):
    while not values:        # nothing that the detector sees
        time.sleep(0.001)


def start(target):
    thread = threading.Thread(target=target)
    thread.start()
    return thread
"""

RUN = """
with devrt.validate(check=False, host_order="exact") as validation:
    body()
print(sorted(finding.kind for finding in validation.findings))
"""


@pytest.fixture
def findings(run_program):
    """Returns a function that runs body() of a program, and returns its findings."""

    def run_one(body, run=RUN, **environment):
        done = run_program(SETUP + textwrap.dedent(body) + run,
                           env={"DEVRT_LOG": "off", **environment})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run_one


# Each program with a mistake, and the line that mends it.
MISTAKES = {
    "a missing join": ("""
def body():
    done = []
    def work():
        write()
        done.append(True)
    thread = start(work)
    luck(done)
    MEND
    read()
    thread.join()
""", "thread.join()"),
    "a lock on one side": ("""
def body():
    lock, done = threading.Lock(), []
    def work():
        with lock:
            write()
            done.append(True)
    thread = start(work)
    luck(done)
    MEND
    read()
    thread.join()
""", "lock.acquire()"),
    "a reentrant lock on one side": ("""
def body():
    lock, done = threading.RLock(), []
    def work():
        with lock:
            with lock:
                write()
            done.append(True)
    thread = start(work)
    luck(done)
    MEND
    read()
    thread.join()
""", "lock.acquire()"),
    "an event is set too early": ("""
def body():
    ready, done = threading.Event(), []
    def work():
        ORDER
        done.append(True)
    thread = start(work)
    ready.wait()
    luck(done)
    read()
    thread.join()
""", "write(); ready.set()", "ready.set(); write()"),
    "a condition is notified too early": ("""
def body():
    condition, ready, done = threading.Condition(), [], []
    def tell():
        with condition:
            ready.append(True)
            condition.notify()
    def work():
        ORDER
        done.append(True)
    thread = start(work)
    with condition:
        condition.wait_for(lambda: ready)
    luck(done)
    read()
    thread.join()
""", "write(); tell()", "tell(); write()"),
    "a semaphore is released too early": ("""
def body():
    semaphore, done = threading.Semaphore(0), []
    def work():
        ORDER
        done.append(True)
    thread = start(work)
    semaphore.acquire()
    luck(done)
    read()
    thread.join()
""", "write(); semaphore.release()", "semaphore.release(); write()"),
    "an item is put too early": ("""
def body():
    items, done = queue.Queue(), []
    def work():
        ORDER
        done.append(True)
    thread = start(work)
    items.get()
    luck(done)
    read()
    thread.join()
""", "write(); items.put(1)", "items.put(1); write()"),
    "an item is put into a simple queue too early": ("""
def body():
    items, done = queue.SimpleQueue(), []
    def work():
        ORDER
        done.append(True)
    thread = start(work)
    items.get()
    luck(done)
    read()
    thread.join()
""", "write(); items.put(1)", "items.put(1); write()"),
    "a future is not asked": ("""
def body():
    done = []
    def work():
        write()
        done.append(True)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        luck(done)
        MEND
        read()
""", "future.result()"),
    "a host function is not asked": ("""
def body():
    done = []
    stream = devrt.Stream(device)
    devrt.annotate_work(stream, writes=[(memory.ptr, 1024)])
    future = stream.launch_host_func(lambda: done.append(True))
    other = start(stream.synchronize)
    luck(done)
    MEND
    read()
    other.join()
""", "future.result()"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(findings, name):
    body, _, *wrong = MISTAKES[name]
    found = findings(body.replace("MEND", "pass").replace("ORDER", "".join(wrong)))
    assert found == "['read-after-write']"


@pytest.mark.parametrize("name", MISTAKES)
def test_the_mended_program_has_no_finding(findings, name):
    body, right, *_ = MISTAKES[name]
    assert findings(body.replace("MEND", right).replace("ORDER", right)) == "[]"


@pytest.mark.parametrize("name", MISTAKES)
def test_observed_order_has_no_finding(findings, name):
    body, _, *wrong = MISTAKES[name]
    body = body.replace("MEND", "pass").replace("ORDER", "".join(wrong))
    assert findings(body, RUN.replace("exact", "observed")) == "[]"


RIGHT = {
    "a pool": """
def body():
    write()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in range(5):
            pool.submit(read).result()
        list(pool.map(lambda _: read(), range(5)))
    write()
""",
    "a thread that was made before the block": """
thread = threading.Thread(target=write)
def body():
    read()
    thread.start()
    thread.join()
    read()
""",
    "arrays": """
def body():
    x = devrt.zeros(64, "float32", device=device)
    def work():
        with devrt.Stream(device) as stream:
            for i in range(20):
                x.fill(i)
                y = x + 1
                if i % 3 == 0:
                    y.sum().item()
    threads = [start(work) for _ in range(3)]
    work()
    for thread in threads:
        thread.join()
    print(end=str(x.sum().item() > 0)[4:])
""",
    "a barrier": """
def body():
    barrier = threading.Barrier(2)
    def work():
        write()
        barrier.wait()
    thread = start(work)
    barrier.wait()
    read()
    thread.join()
""",
    "awaits": """
import asyncio
def body():
    async def main():
        stream = devrt.Stream(device)
        devrt.annotate_work(stream, writes=[(memory.ptr, 1024)])
        await stream
        read()
        await asyncio.get_running_loop().run_in_executor(None, write)
        read()
    asyncio.run(main())
""",
    "a host function's future": """
def body():
    stream = devrt.Stream(device)
    devrt.annotate_work(stream, writes=[(memory.ptr, 1024)])
    stream.launch_host_func(lambda: None).result()
    read()
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_has_no_finding(findings, name):
    assert findings(RIGHT[name]) == "[]"


def test_the_setting_installs_the_hooks(findings):
    body, _ = MISTAKES["a missing join"]
    run = """
with devrt.validate(check=False) as validation:
    body()
print(len(validation.findings), type(threading.Lock()).__name__)
"""
    body = body.replace("MEND", "pass")
    assert findings(body, run, DEVRT_LAYERS="validate",
                    DEVRT_RACE_HOST_ORDER="exact") == "1 _Lock"
    assert findings(body, run) == "0 lock"


# Imports nothing of the detector, as a program under `devrt check` does.
PLAIN = """
import sys
import threading
import time
import devrt
from devrt import _core

device = devrt.Device("mtia:0")
memory = devrt.zeros(1024, "uint8", device=device)
device.synchronize()
a, b = devrt.Stream(device), devrt.Stream(device)
ready, done = threading.Event(), []

def work():
    _core._annotate_work(a, [(memory.ptr, 1024, 2)], "writer")
    a.synchronize()
    done.append(True)
    ready.set()

thread = threading.Thread(target=work)
thread.start()
WAIT
_core._annotate_work(b, [(memory.ptr, 1024, 1)], "reader")
b.synchronize()
thread.join()
assert "devrt._validate" not in sys.modules
print(type(threading.Lock()).__name__)
"""
RIGHT_WAIT = "ready.wait()"
WRONG_WAIT = "while not done: time.sleep(0.001)"
EXACT = {"DEVRT_LAYERS": "validate", "DEVRT_RACE_HOST_ORDER": "exact"}


def test_the_setting_serves_a_program_that_names_no_detector(run_program):
    done = run_program(PLAIN.replace("WAIT", RIGHT_WAIT), env=EXACT)
    assert (done.stdout, done.stderr) == ("_Lock\n", "")


def test_the_setting_finds_what_that_program_leaves_to_luck(run_program):
    done = run_program(PLAIN.replace("WAIT", WRONG_WAIT), env=EXACT)
    assert done.stdout == "_Lock\n", done.stderr
    assert "read-after-write" in done.stderr and "race-" in done.stderr


def test_the_setting_without_the_layer(run_program):
    done = run_program(PLAIN.replace("WAIT", RIGHT_WAIT), env={**EXACT, "DEVRT_LAYERS": ""})
    assert (done.stdout, done.stderr) == ("lock\n", "")


def test_the_hooks_go_with_the_block(run_program):
    done = run_program("""
import concurrent.futures, queue, threading
import devrt
def names():
    return [threading.Lock, threading.RLock, queue.SimpleQueue,
            *vars(threading.Thread).values(),
            *vars(concurrent.futures.Future).values()]
before = names()
with devrt.validate(host_order="exact"):
    with devrt.validate(host_order="exact"):
        pass
    kept = threading.Lock()
    assert names() != before
assert names() == before
with kept:
    assert kept.locked()
assert not kept.acquire(timeout=0) or kept.release() is None
print("done")
""", env={"DEVRT_LOG": "off"})
    assert done.stdout == "done\n", done.stderr


def test_an_unknown_order_is_refused(run_program):
    done = run_program("""
import devrt
try:
    devrt.validate(host_order="none")
except ValueError as error:
    print(error)
""")
    assert done.stdout == (
        "host_order must be \"observed\", \"exact\" or None, not 'none'\n"), done.stderr
