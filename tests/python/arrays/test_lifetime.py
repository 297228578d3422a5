# SPDX-License-Identifier: Apache-2.0
"""Lifetimes of arrays and owners, threads, and the end of the interpreter
(E22 to E27, E33 to E39)."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import devrt
from devrt.testing import Flag
from conftest_arrays import same


class Owner:
    """An object that can be watched, in a cycle with itself if asked."""

    def __init__(self, cyclic=False):
        self.memory = np.arange(8, dtype="float32")
        if cyclic:
            self.self = self

    def array(self):
        return devrt.from_pointer(
            self.memory.ctypes.data, 8, "float32", owner=self)


def wait_for_the_end_of(reference):
    for _ in range(100000):
        if reference() is None:
            return True
    return False


def test_nothing_of_an_array_is_left_in_the_next():
    """Objects lie where others ended."""
    # More than are kept for that.
    for _ in range(2):
        arrays = [devrt.zeros(3, device="cpu") for _ in range(20)]
        seen = [weakref.ref(x) for x in arrays]
        del arrays
        assert all(reference() is None for reference in seen)
    where = {id(x) for x in [devrt.zeros(3, device="cpu") for _ in range(20)]}
    again = [devrt.zeros((2, 3), device="cpu") for _ in range(20)]
    assert where & {id(x) for x in again}
    for x in again:
        assert weakref.getweakrefcount(x) == 0
        assert x.shape == (2, 3)
        assert x.cai_export_version is None
        x.cai_export_version = 2
    del again, x
    assert all(devrt.zeros(3, device="cpu").cai_export_version is None for _ in range(20))


def test_types_are_let_go_with_their_objects():
    makers = {
        devrt.Array: lambda: [devrt.zeros(3, device="cpu") for _ in range(20)],
        devrt.Event: lambda: [devrt.Event() for _ in range(20)],
        devrt.Stream: lambda: [devrt.Stream("mtia:0") for _ in range(20)],
        devrt.ThreadContext:
            lambda: [devrt.ThreadContext.capture() for _ in range(20)],
    }
    for kind, make in makers.items():
        make()
        before = sys.getrefcount(kind)
        for _ in range(5):
            make()
        assert sys.getrefcount(kind) - before <= 2, kind


# E34
def test_views_keep_the_storage_and_its_owner():
    owner = Owner()
    gone = weakref.ref(owner)
    x = owner.array()
    del owner
    view = x[2:].reshape(3, 2).T
    del x
    gc.collect()
    same(view, np.arange(2, 8, dtype="float32").reshape(3, 2).T)
    del view
    assert wait_for_the_end_of(gone)


def test_memory_comes_back():
    before = devrt.memory_allocated("mtia:0")
    arrays = [devrt.ones(1000, device="mtia:0") for _ in range(50)]
    views = [a[::2] for a in arrays]
    assert devrt.memory_allocated("mtia:0") >= before + 50 * 8000
    del arrays
    assert devrt.memory_allocated("mtia:0") >= before + 50 * 8000
    del views
    assert devrt.memory_allocated("mtia:0") == before


def test_failed_calls_leave_nothing_behind():
    before = devrt.memory_allocated("mtia:0")
    x = devrt.ones((2, 3), device="mtia:0")
    for _ in range(20):
        for call in (lambda: x + devrt.ones(7), lambda: x.reshape(5),
                     lambda: devrt.array([[1], 2]), lambda: x + "a",
                     lambda: devrt.full(3, 300, "int8"), lambda: x[9]):
            with pytest.raises(Exception):
                call()
    del x
    gc.collect()
    assert devrt.memory_allocated("mtia:0") == before


# E36
def test_an_owner_outlives_pending_uses(two):
    from devrt.testing import spin

    base = devrt.arange(8, dtype="float32", device=two[0])
    base.ready()

    class Keeper:
        memory = base

    keeper = Keeper()
    gone = weakref.ref(keeper)
    x = devrt.from_pointer(base.ptr, 8, "float32", owner=keeper)
    del keeper
    spin(50)
    result = x + 1
    del x
    assert gone() is not None
    assert result.tolist() == list(range(1, 9))
    devrt.current_stream(two[0]).synchronize()
    devrt.empty(1, device=two[0])  # an entry of the runtime
    assert wait_for_the_end_of(gone)


# E21
def test_memory_goes_back_on_the_stream_that_was_set(two):
    home, last, gate = devrt.Stream(two[1]), devrt.Stream(two[1]), Flag(two[1])
    with home:
        x = devrt.empty(512, "uint8", device=two[1])
    pointer = x.ptr
    x.set_deallocation_stream(last)
    gate.wait_on(last)
    del x
    home.synchronize()
    with home:
        early = devrt.empty(512, "uint8", device=two[1])
        gate.set()
        last.synchronize()
        late = devrt.empty(512, "uint8", device=two[1])
    assert early.ptr != pointer == late.ptr


# E25, E26, E19
def test_ends_in_foreign_threads_and_by_the_collector():
    references = []

    def end():
        owner = Owner(cyclic=True)
        references.append(weakref.ref(owner))
        cycle = [devrt.ones(100), owner.array()[2:]]
        cycle.append(cycle)
        del owner, cycle
        gc.collect()

    gc.collect()
    before = devrt.memory_allocated("mtia:0")
    threads = [threading.Thread(target=end) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    for _ in range(100):
        gc.collect()  # the owners, when the arrays have let them go
        if not any(reference() for reference in references):
            break
    assert [reference() for reference in references] == [None] * 8
    assert devrt.memory_allocated("mtia:0") == before


def test_threads_share_an_array():
    x = devrt.zeros(64, "int64")
    stop = []

    def work(number):
        try:
            with devrt.Stream("mtia:0"):
                for _ in range(20):
                    x[number] += 1
                    y = x * 2
                    assert y[number].item() >= 2
                    del y
        except BaseException as error:  # seen by the main thread
            stop.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not stop
    assert x.tolist() == [20] * 6 + [0] * 58


EXITS = {
    "arrays": "keep = [x, x[1:], x + 1]",
    "pending": "spin(30); keep = x + 1",
    "pinned copy": "spin(30); keep = x.to('cpu', non_blocking=True)",
    "owner": """
import numpy as np
class Owner: pass
owner = Owner()
owner.a = np.ones(4)
owner.x = devrt.from_pointer(owner.a.ctypes.data, 4, 'float64', owner=owner)
""",
    "buffer": "keep = memoryview(devrt.ones(4, device='cpu'))",
    "module attribute": "import builtins; builtins.kept = x",
    "thread": """
import threading, time
def work():
    while True:
        y = x + 1
threading.Thread(target=work, daemon=True).start()
time.sleep(0.02)
""",
    # It waits for the interpreter's lock when the end begins: held by the last
    # function of atexit, let go in the last flush of stderr.
    "thread that waits": """
import atexit, sys, threading, time
def work():
    while True:
        x + 1
class Stream:
    def write(self, text): pass
    def flush(self): time.sleep(0.02)
sys.setswitchinterval(1000)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.02)
atexit.register(lambda: sum(range(1_000_000)))
sys.stderr = Stream()
""",
    "shut down": "del x; devrt.shutdown()",
    "shut down refused": """
import sys
try:
    devrt.shutdown()
except devrt.Error:
    print(x.sum().item(), file=sys.stderr)
else:
    sys.exit(1)
""",
}


# E39
@pytest.mark.parametrize("name", EXITS)
def test_exit_with(run_program, name):
    program = (
        "import devrt\n"
        "from devrt.testing import spin\n"
        "x = devrt.ones(100, 'float32')\n" + EXITS[name] + "\nprint('end')\n")
    done = run_program(program)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_import_of_devrt_imports_no_numpy(run_program):
    done = run_program(
        "import sys, devrt; devrt.ones(3).tolist(); "
        "print('numpy' in sys.modules)")
    assert done.stdout == "False\n", done.stderr
