# SPDX-License-Identifier: Apache-2.0
"""Owners of imported memory are let go soon, whoever has the interpreter's lock
(E26, E36)."""

import ctypes
import gc
import sys
import threading
import time
import weakref

import pytest

import devrt
from devrt.testing import Flag


class Owner:
    """Counts those that are alive."""

    alive = 0

    def __init__(self):
        Owner.alive += 1
        self.memory = ctypes.create_string_buffer(8)

    def __del__(self):
        Owner.alive -= 1

    def array(self):
        return devrt.from_pointer(
            ctypes.addressof(self.memory), 8, "uint8", owner=self, device="cpu")


def in_thread(function):
    """Returns function() from a thread while this thread runs no bytecode."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join(60)
    return results[0]


ENDS = {
    "del": lambda x, y: None,
    "copy_": lambda x, y: y.copy_(Owner().array()),
    "setitem": lambda x, y: y.__setitem__(slice(None), Owner().array()),
    "array_equal": lambda x, y: devrt.array_equal(y, Owner().array()),
    "array": lambda x, y: devrt.array(x, device="mtia:0"),
    "dlpack": lambda x, y: devrt.from_dlpack(x),
    "memoryview": lambda x, y: memoryview(x),
}


# E26
@pytest.mark.parametrize("end", ENDS)
def test_while_the_main_thread_is_blocked(end):
    def work():
        y = devrt.zeros(8, "uint8", device="mtia:0")
        most = 0
        for _ in range(50):
            x = Owner().array()
            ENDS[end](x, y)
            del x
            y.ready()
            most = max(most, Owner.alive)
        return most

    assert Owner.alive == 0
    # Two of one round, and what a pending copy holds.
    assert in_thread(work) <= 4
    assert Owner.alive == 0


def test_buffers_end_with_their_arrays():
    """Of memory that an array shares through the buffer protocol."""
    class Watched(bytearray):
        pass

    def work():
        made, most = [], 0
        for _ in range(50):
            memory = Watched(100)
            made.append(weakref.ref(memory))
            x = devrt.asarray(memory)
            del memory, x
            most = max(most, sum(one() is not None for one in made))
        return most

    assert in_thread(work) <= 1


def test_in_the_thread_that_ended_them():
    """At the end of the call, not some time later."""
    seen = []

    class Told(Owner):
        def __del__(self):
            seen.append(threading.current_thread())
            super().__del__()

    def work():
        # Pending calls run in the main thread only, where it runs bytecode.
        main = threading.main_thread().ident
        while sys._current_frames()[main].f_code.co_name not in (
                "join", "_wait_for_tstate_lock"):
            time.sleep(0)
        x = Told().array()
        del x
        return list(seen)

    assert in_thread(work) == seen and len(seen) == 1
    assert seen[0] is not threading.main_thread()


def test_a_pending_owner_goes_at_the_next_call(two):
    from devrt.testing import spin

    base = devrt.zeros(8, "uint8", device=two[0])
    base.ready()

    def work():
        owner = Owner()
        s = devrt.Stream(two[0])
        x = devrt.from_pointer(base.ptr, 8, "uint8", owner=owner, device=two[0])
        del owner
        with s:
            spin(5, s)
            x.fill(1)
        del x
        pending = Owner.alive
        s.synchronize()
        devrt.empty(1, device=two[0])
        return pending, Owner.alive

    assert in_thread(work) == (1, 0)


def test_a_chain_of_owners():
    """Each is let go by the end of the one before: no recursion."""
    class Link:
        pass

    link = None
    for _ in range(20000):
        owner = Link()
        owner.memory = ctypes.create_string_buffer(8)
        owner.next = link
        link = devrt.from_pointer(
            ctypes.addressof(owner.memory), 8, "uint8", owner=owner, device="cpu")
    last = weakref.ref(owner)
    del owner, link
    gc.collect()
    assert last() is None


def test_what_is_raised_stays_raised():
    class Raising(Owner):
        def __del__(self):
            super().__del__()
            try:
                raise ValueError("in a finalizer")
            except ValueError:
                pass

    def work():
        try:
            x = Raising().array()
            x.reshape(3)
        except devrt.Error as error:
            del x
            return str(error)

    assert "finalizer" not in in_thread(work)
    with pytest.raises(TypeError, match="devrt.Array"):
        devrt.zeros(8)[Raising().array()]
    assert Owner.alive == 0


# E24
def test_an_owner_that_uses_devrt():
    class Using(Owner):
        def __del__(self):
            with devrt.device("mtia:1"):
                self.sum = (devrt.ones(3) + 1).sum().item()
            super().__del__()

    def work():
        for _ in range(10):
            Using().array()
        return Owner.alive, devrt.current_device("mtia").index

    assert in_thread(work) == (0, 0)


# ---- Cycles: the owner has the array that keeps it --------------------------

def collected():
    devrt.ones(1, device="cpu")  # what tensors held that were deleted goes
    gc.collect()
    return Owner.alive == 0


@pytest.mark.parametrize("views", [
    lambda x: [x],
    lambda x: [x, x[2:], x.reshape(2, 4)],
    lambda x: [x[2:]],
    lambda x: [{"more": (x.view("int8"), x)}],
])
def test_a_cycle_is_collected(views):
    owner = Owner()
    owner.views = views(owner.array())
    del owner
    assert collected()


def test_a_cycle_through_a_buffer_is_collected():
    class Watched(bytearray):
        pass

    memory = Watched(8)
    memory.array = devrt.asarray(memory)
    one = weakref.ref(memory)
    del memory
    gc.collect()
    assert one() is None


def test_a_cycle_on_a_device_is_collected(two):
    base = devrt.zeros(8, "uint8", device=two[0])
    owner = Owner()
    owner.x = devrt.from_pointer(
        base.ptr, 8, "uint8", owner=owner, device=two[0])
    owner.x.fill(1).ready()
    del owner
    assert collected()


# E36
def test_a_cycle_with_memory_in_use_is_not_collected(two):
    """Libraries free by weakref.finalize, which the collector calls first."""
    base = devrt.zeros(8, "uint8", device=two[0])
    gate = Flag(two[0])
    owner = Owner()
    freed = []
    weakref.finalize(owner, freed.append, True)
    owner.x = devrt.from_pointer(
        base.ptr, 8, "uint8", owner=owner, device=two[0])
    gate.wait_on(devrt.current_stream(two[0]))
    owner.x.fill(1)
    del owner
    for _ in range(3):
        assert not collected() and not freed
    gate.set()
    devrt.synchronize(two[0])
    assert collected() and freed


def test_a_cycle_with_a_recorded_stream_is_collected(two):
    base = devrt.zeros(8, "uint8", device=two[0])
    owner = Owner()
    owner.x = devrt.from_pointer(
        base.ptr, 8, "uint8", owner=owner, device=two[0])
    owner.x.record_stream(devrt.Stream(two[0]))
    devrt.synchronize(two[0])
    del owner
    assert collected()


def test_a_cycle_through_an_array_that_came_back_is_collected():
    """Its arrays all ended meanwhile; their memory did not."""
    owner = Owner()
    capsule = owner.array().__dlpack__()
    # Objects as large as what knew the owner, where that lay.
    others = [[] for _ in range(1000)]
    owner.x = devrt.from_dlpack(capsule)
    del capsule
    assert not any(isinstance(x, list) for x in gc.get_referents(owner.x))
    del owner
    assert collected() and others == [[]] * 1000


# Whatever has the memory, and is reached itself.
HOLDERS = {
    "the array": lambda x: x,
    "a view": lambda x: x[2:],
    "a view of a view": lambda x: x.reshape(2, 4)[1],
    "a memoryview": memoryview,
    "an array of NumPy": lambda x: __import__("numpy").from_dlpack(x),
    "a capsule": lambda x: x.__dlpack__(),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_cycle_that_is_used_stays(holder):
    owner = Owner()
    owner.views = [owner.array(), owner.array()[1:]]
    owner.views.append(owner.views[0][1:])
    held = HOLDERS[holder](owner.views[0])
    del owner
    for _ in range(3):
        assert not collected()
    if holder != "a capsule":
        assert bytes(memoryview(held)) == bytes(memoryview(held).nbytes)
    del held
    assert collected()


def test_cycles_while_other_threads_use_them():
    """Copies of an array in threads without the lock are holders, too."""
    stop = threading.Event()
    failures = []

    def work():
        while not stop.is_set():
            owner = Owner()
            owner.x = owner.array()
            x = owner.x
            del owner
            try:
                assert x[1:].copy().tolist() == [0] * 7
            except BaseException as error:
                failures.append(error)
                return

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    threads = [threading.Thread(target=work) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(20):
            gc.collect()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert not failures
    assert collected()


def test_arrays_without_owners_are_not_tracked():
    x = devrt.zeros(8, device="cpu")
    assert not gc.is_tracked(x) and not gc.is_tracked(x[1:])
    assert gc.is_tracked(Owner().array())


def test_the_gil_is_released_for_shared_memory():
    """Other holders of the memory may end first, so a view's end can be the last."""
    x = devrt.zeros(8, device="mtia:0")
    interval = sys.getswitchinterval()
    asked, ran = threading.Lock(), []
    asked.acquire()

    def work():
        with asked:
            ran.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    sys.setswitchinterval(1000)
    try:
        asked.release()
        end = time.monotonic() + 5
        while not ran and time.monotonic() < end:
            view = x[1:]
            del view
    finally:
        sys.setswitchinterval(interval)
    seen = list(ran)
    thread.join()
    assert seen
