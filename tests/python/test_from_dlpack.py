# SPDX-License-Identifier: Apache-2.0
"""Objects taken by devrt.from_dlpack: E53 to E59 and E61, and
faults that producers have."""

import gc
import pathlib
import sys
import weakref

import pytest

np = pytest.importorskip("numpy")

import devrt
from devrt.testing import Flag

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import stubs  # noqa: E402


def host(shape=(2, 3), dtype="float32"):
    return (np.arange(np.prod(shape)) % 7).astype(dtype).reshape(shape)


# ---- Objects (E53, E55 to E59) -----------------------------------------------


# E53
def test_no_protocol():
    for thing in (1, "x", None, object(), [1, 2], np.float32(1)):
        with pytest.raises(AttributeError):
            devrt.from_dlpack(thing)


def test_arguments_of_a_wrong_type_are_refused():
    with pytest.raises(TypeError):
        devrt.from_dlpack()
    with pytest.raises(TypeError):
        devrt.from_dlpack(host(), copy=1)
    with pytest.raises(TypeError):
        devrt.from_dlpack(host(), device=1.5)
    with pytest.raises(TypeError):
        devrt.from_dlpack(host(), "cpu")
    with pytest.raises(TypeError):
        devrt.from_dlpack(x=host())


# E56
def test_what_a_host_producer_is_told():
    forged = stubs.Forged(host())
    producer = stubs.Producer(forged.capsule)
    devrt.from_dlpack(producer)
    assert producer.calls == [{"max_version": (1, 3)}]
    producer.calls.clear()
    devrt.from_dlpack(producer, copy=False)
    assert producer.calls == [{"max_version": (1, 3), "copy": False}]
    producer.calls.clear()
    devrt.from_dlpack(producer, copy=True, device="mtia:0")
    assert producer.calls == [{"max_version": (1, 3)}]


class MtiaProducer:
    """A foreign library with memory of mtia; notes what it is told."""

    def __init__(self, x, refuse=()):
        self.x = x
        self.refuse = refuse
        self.calls = []

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()

    def __dlpack__(self, **keywords):
        self.calls.append(keywords)
        if set(keywords) & set(self.refuse):
            raise TypeError("unexpected keyword")
        return self.x.__dlpack__(**keywords)


# E56, E57
def test_what_a_device_producer_is_told():
    x = devrt.array(host(), device="mtia:1")
    producer = MtiaProducer(x)
    devrt.from_dlpack(producer)
    assert producer.calls == [{"stream": 0, "max_version": (1, 3)}]
    s = devrt.Stream("mtia:1")
    with s:
        devrt.from_dlpack(producer, copy=False)
    assert producer.calls[1] == {
        "stream": s.native_handle,
        "max_version": (1, 3),
        "copy": False,
    }


def test_arrays_of_numpy_are_told_no_stream_of_any_memory():
    """They refuse every one, managed memory's too, whose type they keep."""
    class Kept(np.ndarray):
        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

        def __dlpack__(self, **keywords):
            told.append(keywords)
            return self.x.__dlpack__(**keywords)

    class Derived(Kept):
        pass

    told = []
    for kind in (Kept, Derived):
        producer = host().view(kind)
        producer.x = devrt.array(host(), device="mtia:0")
        assert devrt.from_dlpack(producer).ptr == producer.x.ptr
    assert told == [{"max_version": (1, 3)}] * 2


# E60: the struct's device decides
def test_the_structs_device_orders_its_stream_after_the_told_stream():
    class Producer(MtiaProducer):
        def __dlpack_device__(self):
            return (12, 0)

        def __dlpack__(self, **keywords):
            self.calls.append(keywords)
            return self.x.__dlpack__(**{**keywords, "stream": -1})

    x = devrt.array(host(), device="mtia:1")
    devrt.synchronize("mtia:1")
    told, there = devrt.Stream("mtia:0"), devrt.Stream("mtia:1")
    producer = Producer(x)
    gate = Flag("mtia:0")
    gate.wait_on(told)  # as the producer's work is before it
    try:
        with told, there:
            y = devrt.from_dlpack(producer)
        assert not there.query()
    finally:
        gate.set()
    assert producer.calls[0]["stream"] == told.native_handle
    assert y.device is devrt.Device("mtia:1")
    there.synchronize()
    assert told.query()


# E43: nobody is told a stream for it, so that the host has none to wait for
@pytest.mark.parametrize("take", [
    lambda p: devrt.from_dlpack(p),
    lambda p: devrt.from_dlpack(MtiaProducer(p)),
    lambda p: devrt.from_dlpack(p.__dlpack__(max_version=(1, 0))),
])
def test_pinned_memory_has_no_use_that_nobody_named(take):
    pinned = devrt.zeros((4,), "float32", device="mtia:0", pinned=True)
    pinned.ready()
    s = devrt.Stream("mtia:0")
    gate = Flag("mtia:0")
    gate.wait_on(s)
    try:
        with s:
            x = take(pinned)
        assert x.is_ready()
    finally:
        gate.set()
        s.synchronize()
    assert x.ptr == pinned.ptr


def test_it_is_the_stream_of_the_data_device():
    x = devrt.array(host(), device="mtia:1")
    producer = MtiaProducer(x)
    other = devrt.Stream("mtia:0")
    with other:
        y = devrt.from_dlpack(producer)
        assert devrt.current_device("mtia").index == 0
    assert producer.calls[0]["stream"] == 0
    assert y.device == devrt.Device("mtia:1")


# E6
def test_the_data_device_is_current_inside():
    x = devrt.array(host(), device="mtia:1")
    seen = []

    class Producer(MtiaProducer):
        def __dlpack__(self, **keywords):
            seen.append(devrt.current_device("mtia").index)
            devrt.set_device("mtia:0")  # and leaves another one behind
            return super().__dlpack__(**keywords)

    with devrt.device("mtia:0"):
        devrt.from_dlpack(Producer(x))
        assert devrt.current_device("mtia").index == 0
    assert seen == [1]


# E6
@pytest.mark.parametrize("name", ["__dlpack__", "__dlpack_device__"])
def test_streams_that_a_refused_producer_leaves_are_restored(name):
    """Also where the question ends in an exception."""
    left = devrt.Stream("mtia:0")

    class Producer(MtiaProducer):
        def leave(self, *_, **__):
            devrt.set_stream(left)
            raise ZeroDivisionError

    setattr(Producer, name, Producer.leave)
    x = devrt.array(host(), device="mtia:0")
    with devrt.Stream("mtia:0") as s:
        with pytest.raises(ZeroDivisionError):
            devrt.from_dlpack(Producer(x))
        assert devrt.current_stream("mtia:0") is s


# E59
def test_retries_on_type_error():
    x = devrt.array(host(), device="mtia:0")
    producer = MtiaProducer(x, refuse=("max_version",))
    assert devrt.from_dlpack(producer).ptr == x.ptr
    assert producer.calls == [{"stream": 0, "max_version": (1, 3)}, {"stream": 0}]
    producer = MtiaProducer(x, refuse=("max_version", "stream"))
    assert devrt.from_dlpack(producer).ptr == x.ptr
    assert producer.calls[2:] == [{}]
    oldest = stubs.OldestProducer(stubs.Forged(host(), versioned=False).capsule)
    devrt.from_dlpack(oldest)
    assert oldest.calls == [{"max_version": (1, 3)}, {}]


def test_a_failure_of_the_order_is_raised(two):
    """Of a producer that takes no stream: its default one comes first."""
    x = devrt.array(host(), device=two[1])
    producer = MtiaProducer(x, refuse=("max_version", "stream"))
    devrt.testing.spin(1, devrt.default_stream(two[1]))
    with devrt.Stream(two[1]):
        devrt.mtia.simulator.inject_fault(
            "api", device=1, where="event_record", native_code=2)
        with pytest.raises(devrt.Error):
            devrt.from_dlpack(producer)
        assert (devrt.from_dlpack(producer).numpy() == host()).all()


# E58
@pytest.mark.parametrize("where", [
    dict(device="mtia:0"), dict(device="mtia:0", pinned=True), dict(device="cpu")])
def test_unshareable_arrays_can_be_copied(where):
    """A negative stride does not leave, and need not where it is copied."""
    x = devrt.array(host(), **where)
    with pytest.raises(BufferError, match="negative"):
        devrt.from_dlpack(x[::-1])
    y = devrt.from_dlpack(x[::-1], copy=True)
    assert (y.numpy() == host()[::-1]).all()
    assert y.place == x.place and y.ptr != x.ptr and not y.read_only
    y = devrt.from_dlpack(x[:, ::-1], device="mtia:1")
    assert (y.numpy() == host()[:, ::-1]).all()
    assert y.device == devrt.Device("mtia:1")
    with pytest.raises(devrt.CopyRequiredError):
        devrt.from_dlpack(x, device="mtia:1", copy=False)
    y = devrt.from_dlpack(x.as_read_only(), copy=True)
    assert not y.read_only and (y.numpy() == host()).all()


def test_pinned_memory_is_host_memory():
    """As it is for asarray() and to()."""
    p = devrt.array(host(), device="mtia:0", pinned=True)
    for x in (p, MtiaProducer(p), p.__dlpack__(max_version=(1, 0)), p.__dlpack__()):
        for copy in (False, None):
            if copy is None and type(x) not in (devrt.Array, MtiaProducer):
                continue  # it is taken
            y = devrt.from_dlpack(x, device="cpu", copy=copy)
            assert y.ptr == p.ptr and y.place == p.place
    y = devrt.from_dlpack(p, device="cpu", copy=True)
    assert y.ptr != p.ptr and (y.numpy() == host()).all()
    with pytest.raises(devrt.CopyRequiredError):
        devrt.from_dlpack(p, device="mtia:0", copy=False)


# E58
def test_a_copy_that_nobody_wanted():
    """IS_COPIED proves that the producer did not do as it was told."""
    def copied():
        return stubs.Forged(host(), flags=2)

    first = copied()
    capsule = first.capsule()
    producer = stubs.Producer(capsule)
    with pytest.raises(devrt.CopyRequiredError, match="Producer"):
        devrt.from_dlpack(producer, copy=False)
    assert producer.calls == [{"max_version": (1, 3), "copy": False}]
    assert stubs.name_of(capsule) == "dltensor_versioned" and not first.deleted
    for copy in (None, True):
        devrt.from_dlpack(stubs.Producer(copied().capsule), copy=copy)
    # A capsule's producer was not asked.
    last = copied()
    assert devrt.from_dlpack(last.capsule(), copy=False).ptr == last.array.ctypes.data


# E59
@pytest.mark.parametrize("error", [ValueError, BufferError, RuntimeError, KeyboardInterrupt])
def test_no_other_exception_is_retried(error):
    class Producer(stubs.Producer):
        def answer(self, keywords):
            raise error("mine")

    producer = Producer(None)
    with pytest.raises(error, match="mine"):
        devrt.from_dlpack(producer)
    assert len(producer.calls) == 1


def test_a_last_type_error_is_raised():
    class Producer(stubs.Producer):
        def answer(self, keywords):
            raise TypeError("never")

    producer = Producer(None)
    with pytest.raises(TypeError, match="never"):
        devrt.from_dlpack(producer)
    assert len(producer.calls) == 2


@pytest.mark.parametrize("garbage", [None, 1, "dltensor", object(), (1, 2)])
def test_garbage_instead_of_a_capsule(garbage):
    with pytest.raises(TypeError, match="capsule"):
        devrt.from_dlpack(stubs.Producer(garbage))


def test_what_is_no_capsule_is_let_go():
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    with pytest.raises(TypeError, match="Thing"):
        devrt.from_dlpack(stubs.Producer(thing))
    del thing
    assert gone() is None


# E55
@pytest.mark.parametrize(
    "pair, raises",
    [
        (None, TypeError),
        (1, TypeError),
        ((1,), TypeError),
        ((1, 0, 0), TypeError),
        (("1", 0), TypeError),
        ((1.0, 0), TypeError),
        ((1 << 40, 0), BufferError),
        ((2, 99), BufferError),
        ((12, 7), BufferError),
        # Types that no backend has: OpenCL, and none of DLPack's.
        ((4, 0), BufferError),
        ((99, 0), BufferError),
        ((0, 0), BufferError),
        ((-1, 0), BufferError),
    ],
)
def test_garbage_instead_of_a_device(pair, raises):
    with pytest.raises(raises):
        devrt.from_dlpack(stubs.Producer(stubs.Forged(host()).capsule, pair))


# E60
def test_device_and_struct_may_disagree():
    """torch's pinned tensors: (3, 0) by the method, CPU in the struct."""
    forged = stubs.Forged(host())
    x = devrt.from_dlpack(stubs.Producer(forged.capsule, (3, 0)))
    assert x.__dlpack_device__() == (1, 0)
    assert (x.numpy() == host()).all()


def test_the_deleter_waits_for_pending_uses():
    """E36: the memory is the producer's again when devrt is done with it."""
    theirs = devrt.array(host(), device="mtia:0")
    forged = stubs.Forged(
        host(), device=theirs.__dlpack_device__(), data=theirs.ptr)
    x = devrt.from_dlpack(forged.capsule())
    s, gate = devrt.Stream("mtia:0"), Flag("mtia:0")
    with s:
        gate.wait_on(s)
        x.fill(3)
    del x
    for _ in range(3):  # where the library looks
        devrt.zeros((1,), "float32", device="mtia:0")
    assert forged.deleted == 0
    gate.set()
    s.synchronize()
    devrt.zeros((1,), "float32", device="mtia:0")
    assert forged.deleted == 1
    assert (theirs.numpy() == 3).all()


# ---- Who may write (E61) -----------------------------------------------------


@pytest.mark.parametrize("kind", [stubs.JaxArray, stubs.TensorflowTensor])
def test_immutable_producers(kind):
    legacy = kind(stubs.Forged(host(), versioned=False).capsule)
    assert devrt.from_dlpack(legacy).read_only


def test_other_legacy_producers_are_written():
    forged = stubs.Forged(host(), versioned=False)
    x = devrt.from_dlpack(stubs.OldProducer(forged.capsule))
    x.fill(5)
    assert (forged.array == 5).all()


# ---- Lifetime (E33, E34) -----------------------------------------------------


def test_the_producer_object_may_go():
    forged = stubs.Forged(host())
    producer = stubs.Producer(forged.capsule())
    gone = weakref.ref(producer)
    x = devrt.from_dlpack(producer)
    del producer
    gc.collect()
    assert gone() is None
    assert (x.numpy() == host()).all() and forged.deleted == 0


ENDS_UNDER_AN_EXCEPTION = {
    "an object": "len(devrt.from_dlpack(forged.capsule()), {}['mine'])",
    # Its tensor is shared before devrt sees that it would have to copy.
    "a source": "devrt.asarray(Producer(), 'float64', copy=False)",
    "no object": "without_memory(lambda c=forged.capsule(): devrt.from_dlpack(c))",
}


@pytest.mark.parametrize("what", ENDS_UNDER_AN_EXCEPTION)
def test_a_deleter_that_runs_code_while_an_exception_is_raised(what, run_program):
    """As those by ctypes do.  What is raised stays raised."""
    pytest.importorskip("_testcapi")
    done = run_program(
        f"""
        import sys
        import _testcapi
        import numpy as np
        import devrt
        sys.path.insert(0, sys.argv[1])
        import stubs

        class Producer(stubs.Producer):
            def __init__(self):
                super().__init__(forged.capsule)

        def without_memory(call):
            alive = [devrt.zeros(1, device="cpu") for _ in range(20)]
            _testcapi.set_nomemory(0, 1)
            try:
                call()
            finally:
                _testcapi.remove_mem_hooks()

        forged = stubs.Forged(np.zeros(4, "float32"))
        try:
            {ENDS_UNDER_AN_EXCEPTION[what]}
        except (KeyError, devrt.CopyRequiredError, MemoryError) as error:
            print(forged.deleted, type(error).__name__)
        """,
        str(pathlib.Path(stubs.__file__).parent))
    name = {"an object": "KeyError", "a source": "CopyRequiredError",
            "no object": "MemoryError"}[what]
    assert (done.stdout, done.stderr) == (f"1 {name}\n", "")


# ---- Numpy -------------------------------------------------------------------


def test_numpy_both_ways():
    a = host((4, 6))
    x = devrt.from_dlpack(a[:, ::2])
    assert x.ptr == a.ctypes.data and x.strides == (24, 8)
    back = np.from_dlpack(x)
    assert np.shares_memory(back, a)
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        return  # imports all as read-only, and exports nothing that is
    back[...] = 9
    assert (a[:, ::2] == 9).all()
    fixed = host()
    fixed.flags.writeable = False
    assert devrt.from_dlpack(fixed).read_only
