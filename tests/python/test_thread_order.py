# SPDX-License-Identifier: Apache-2.0
"""Programs with Python's threads repeat: a seed gives one order of all threads."""

import pytest

PROGRAM = """
import gc
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import devrt
from devrt.mtia import simulator

device = devrt.Device("mtia:0")


def work(x, factor, count=2):
    with devrt.Stream(device):
        y = x * factor
        for k in range(count):
            y = y + k
        return y.sum().item()


def threads(x):
    made, lock = [], threading.Lock()

    def body(i):
        value = work(x, i + 1)
        with lock:
            made.append((i, value))

    all_threads = [threading.Thread(target=body, args=(i,)) for i in range(4)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    return made


def queues(x):
    todo, done = queue.Queue(), queue.Queue()

    def body():
        while (item := todo.get()) is not None:
            done.put((item, work(x, item, 1)))

    all_threads = [threading.Thread(target=body) for _ in range(3)]
    for thread in all_threads:
        thread.start()
    for item in range(6):
        todo.put(item)
        work(x, 2, 1)
    for _ in all_threads:
        todo.put(None)
    for thread in all_threads:
        thread.join()
    return [done.get() for _ in range(6)]


def pool(x):
    with ThreadPoolExecutor(3) as executor:
        return list(executor.map(lambda k: work(x, k, 1), range(6)))


def run(body, start):
    gc.collect()
    start()
    x = devrt.ones(64, device=device)
    made = body(x)
    del x
    assert simulator.stats()["uncontrolled"] == 0, "real time has decided"
    print(simulator.trace_hash(), made)


def each_twice(body, seeds):
    for seed in seeds:
        for _ in range(2):
            run(body, lambda: simulator.reset(strategy="pos", seed=seed))


body, token = globals()[sys.argv[1]], sys.argv[2]
if token == "again":
    each_twice(body, map(int, sys.argv[3:]))
    sys.exit()
if token:
    run(body, lambda: simulator.replay(token))
    sys.exit()
run(body, lambda: simulator.reset(strategy="random", seed=5))
print(simulator.token())
for strategy in ("random", "pos"):
    for seed in range(1, 9):
        run(body, lambda: simulator.reset(strategy=strategy, seed=seed))
"""


# In processes of their own, of which each ends what an earlier run may have left.
@pytest.mark.parametrize("body", ["threads", "queues", "pool"])
def test_one_seed_is_one_run(run_program, body):
    def lines(token=""):
        done = run_program(PROGRAM, body, token)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    runs = lines()
    assert lines() == runs
    assert len(set(runs)) > 12, "the seeds make different runs"
    first, token = runs[:2]
    assert lines(token) == [first]


# With these seeds two threads come to the allocator while it has memory of several
# streams, which it asks in one order.
def test_a_run_depends_on_no_earlier_run(run_program):
    seeds = ["1008", "1028", "1157", "1215", "1221", "1231", "1292"]
    done = run_program(PROGRAM, "queues", "again", *seeds)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0::2] == lines[1::2]
    assert len(set(lines)) == len(seeds)
