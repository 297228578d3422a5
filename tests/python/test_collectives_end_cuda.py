# SPDX-License-Identifier: Apache-2.0
"""The end of the interpreter while failed ranks exchange their records: over the fake
driver and the fake NCCL, since the simulator exchanges on the program's own thread."""

import concurrent.futures
import itertools
import os
import time

import pytest

import devrt

if "DEVRT_FAKE_CUDA" not in os.environ:
    pytest.skip("NCCL takes two GPUs, and one call of these never ends",
                allow_module_level=True)

PROGRAM = """
    import sys, threading, time
    import devrt
    from devrt import collectives

    class Store:
        lock, rounds = threading.Condition(), {}
        def __init__(self, rank):
            self.rank, self.calls = rank, 0
        def __call__(self, mine, timeout):
            self.calls += 1
            with Store.lock:
                there = Store.rounds.setdefault(self.calls, {})
                there[self.rank] = mine
                Store.lock.notify_all()
                Store.lock.wait_for(lambda: len(there) == 2)
                return [there[rank] for rank in range(2)]
        def put(self, name, mine):
            pass
        def get(self, name, rank, timeout):
            in_get.set()
            GET

    in_get = threading.Event()
    ranks = [None, None]
    def make(rank):
        ranks[rank] = collectives.init(
            devrt.Device("cuda", rank), Store(rank), rank=rank, size=2,
            exchange_records=True, timeout=0.3)
    threads = [threading.Thread(target=make, args=(rank,)) for rank in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    try:
        ranks[0].all_reduce(devrt.ones(4, device=ranks[0].device))  # alone
        ranks[0].wait()
    except devrt.Error:
        print("failed", flush=True)
    assert in_get.wait(20)
    END
"""

# The watchdog of the fake driver's machine looks after 100 ms, instead of 2 s, at rank 0,
# which waits for rank 1.
SETTINGS = {"DEVRT_LOG": "off", "DEVRT_MTIA": "watchdog=100ms"}

# What a rank does while it waits for the bytes of another one.
GETS = {
    "sleeps": "while True: time.sleep(0.05)",
    "computes": "while True: [object() for _ in range(10)]",
    "sleeps long": "time.sleep(30)",
}
# How the communicators end: with the module's names, never, or at a function of atexit.
ENDS = {
    "with the module": "",
    "never": "import builtins; builtins.kept = ranks",
    "by atexit": """
    import atexit, gc
    atexit.register(lambda: (ranks.clear(), gc.collect()))  # before devrt's function
    """,
}


@pytest.fixture(scope="module")
def endings(run_program):
    """{(get, end): future of the finished process and its seconds}. The programs wait for
    most of their time, so they run at once."""

    def run(get, end):
        start = time.monotonic()
        done = run_program(PROGRAM.replace("GET", GETS[get]).replace("END", ENDS[end]),
                           env={**SETTINGS, "MALLOC_PERTURB_": "0"})
        return done, time.monotonic() - start

    cases = list(itertools.product(GETS, ENDS))
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        yield {case: pool.submit(run, *case) for case in cases}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("get", GETS)
def test_the_interpreter_ends_in_an_exchange(endings, get, end):
    done, seconds = endings[get, end].result()
    assert (done.returncode, done.stdout) == (0, "failed\n"), done.stderr
    # Its watchdog sees rank 0 wait for rank 1.
    assert not [line for line in done.stderr.splitlines()
                if not line.startswith("fake CUDA driver: ")], done.stderr
    # "by atexit" waits for the 5 s of the exchange, the others for no `get`.
    assert seconds < 25


def test_the_text_of_an_exception(run_program):
    done = run_program(PROGRAM.replace("GET", "raise ValueError('no bytes')").replace("END", """
    while "over the bootstrap" not in ranks[0].failure[1]:
        time.sleep(0.01)
    print(ranks[0].failure[1].rpartition("; ")[2])
    """), env=SETTINGS)
    assert done.stdout == (
        "failed\nover the bootstrap: ValueError: no bytes\n"), done.stderr
