# SPDX-License-Identifier: Apache-2.0
"""DLPack as consumer: interop.md 1.3 steps 1-10, and the traps of 2.4."""

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


def take(**what):
    """(array, the forged tensor) of what stubs.Forged takes."""
    forged = stubs.Forged(host(), **what)
    return devrt.from_dlpack(forged.capsule()), forged


# ---- Capsules (steps 1, 9) ---------------------------------------------------


@pytest.mark.parametrize("versioned", [False, True])
def test_a_capsule(versioned):
    forged = stubs.Forged(host(), versioned=versioned)
    capsule = forged.capsule()
    x = devrt.from_dlpack(capsule)
    assert x.ptr == forged.array.ctypes.data
    assert (x.numpy() == host()).all()
    assert stubs.name_of(capsule).startswith("used_")
    assert not x.read_only
    assert forged.deleted == 0
    view = x[1:]
    del x
    assert forged.deleted == 0
    del view
    assert forged.deleted == 1
    del capsule
    assert forged.deleted == 1


REJECTED = {
    "major 0": dict(major=0),
    "major 2": dict(major=2),
    "lanes 2": dict(lanes=2),
    "ndim -1": dict(ndim=-1),
    "ndim 33": dict(shape=(1,) * 33, strides=(1,) * 33),
    "negative extent": dict(shape=(-1, 3)),
    "fp4": dict(dtype=(17, 4)),
    "fp6": dict(dtype=(15, 6)),
    "e3m4": dict(dtype=(7, 8)),
    "opaque": dict(dtype=(3, 64)),
    "code 99": dict(dtype=(99, 32)),
    "27 bits": dict(dtype=(2, 27)),
    "OpenCL": dict(device=(4, 0)),
    "type 99": dict(device=(99, 0)),
    "no backend": dict(device=(2, 0)),
    "not mtia's": dict(device=(12, 0)),
    "span": dict(shape=(1 << 40, 1 << 40), strides=(1 << 40, 1)),
    "stride as CuPy's": dict(shape=(8,), strides=(4611686018427387903,)),
    "null data": dict(data=None),
}


@pytest.mark.parametrize("what", REJECTED, ids=list(REJECTED))
def test_a_rejected_capsule_stays_unconsumed(what):
    forged = stubs.Forged(host(), **REJECTED[what])
    capsule = forged.capsule()
    with pytest.raises(BufferError):
        devrt.from_dlpack(capsule)
    assert stubs.name_of(capsule) == "dltensor_versioned"
    assert forged.deleted == 0


def test_memory_of_a_device_is_checked(two):
    """By what the driver knows of the address, whatever the tensor says."""
    x = devrt.array(host(), device=two[0])
    x.ready()
    pointer = x.ptr
    wrong = (dict(device=(12, 1)), dict(device=(12, 7)), dict(shape=(1 << 28,)),
             dict(shape=(2,), strides=(1 << 28,)), dict(byte_offset=1 << 30))

    def lent(**what):
        return stubs.Forged(host(), **{"data": pointer, "device": (12, 0),
                                       "shape": (6,), "strides": None, **what})

    for what in wrong[:4]:
        with pytest.raises(BufferError):
            devrt.from_dlpack(lent(**what).capsule())
    assert devrt.from_dlpack(lent().capsule()).ptr == pointer
    del x
    devrt.synchronize(two[0])
    with pytest.raises(BufferError, match="freed|no backend"):
        devrt.from_dlpack(lent().capsule())


def test_a_tensor_of_devrts_own_that_somebody_has_changed(two):
    x = devrt.array(host(), device=two[0])
    capsule = x.__dlpack__(max_version=(1, 0))
    tensor = stubs.tensor_of(capsule).tensor
    for struct, name, value in ((tensor, "byte_offset", 1 << 30),
                                (tensor.device, "id", 1)):
        before = getattr(struct, name)
        setattr(struct, name, value)
        with pytest.raises(BufferError):
            devrt.from_dlpack(capsule)
        setattr(struct, name, before)
    assert devrt.from_dlpack(capsule).ptr == x.ptr


def test_strides_that_mean_nothing_may_be_anything():
    x, _ = take(shape=(1, 6), strides=(1 << 61, 1))
    assert x.shape == (1, 6) and x.is_contiguous
    x, _ = take(shape=(0, 3), strides=(1 << 62, -5), data=None)
    assert x.shape == (0, 3) and x.ptr == 0


def test_a_copy_that_fails_leaves_the_capsule(two):
    forged = stubs.Forged(host())
    capsule = forged.capsule()
    devrt.mtia.simulator.inject_fault(
        "api", device=1, where="copy_async", native_code=1)
    with pytest.raises(devrt.Error):
        devrt.from_dlpack(capsule, device=two[1])
    assert forged.deleted == 0 and stubs.name_of(capsule) == "dltensor_versioned"
    assert (devrt.from_dlpack(capsule, device=two[1]).numpy() == host()).all()
    assert forged.deleted == 1


def test_the_home_of_an_import_is_the_current_stream(two):
    x = devrt.array(host(), device=two[1])
    devrt.synchronize(two[1])
    lent = dict(data=x.ptr, device=(12, 1), shape=(6,), strides=None)
    s = devrt.Stream(two[1])
    with s, two[0]:
        forged = stubs.Forged(host(), **lent)
        assert devrt.from_dlpack(forged.capsule()).home_stream is s


def test_a_larger_minor():
    x, _ = take(minor=99)
    assert (x.numpy() == host()).all()


# rule 11, D5
def test_null_deleter():
    x, forged = take(deleter=False)
    del x
    assert forged.deleted == 0


# rule 11
def test_null_strides():
    x, _ = take(strides=None)
    assert x.strides == (12, 4)


# rule 11
def test_byte_offset():
    x, forged = take(byte_offset=64)
    assert x.ptr == forged.array.ctypes.data
    assert (x.numpy() == host()).all()


def test_flags():
    x, _ = take(flags=stubs.READ_ONLY)
    assert x.read_only
    with pytest.raises(ValueError):
        x.fill(1)


def test_0d_with_null_shape():
    forged = stubs.Forged(np.array(3, "float32"))
    forged.struct.tensor.shape = None
    forged.struct.tensor.strides = None
    assert devrt.from_dlpack(forged.capsule()).item() == 3


def test_negative_strides_come_in():
    backwards = host((6,))[::-1]
    x = devrt.from_dlpack(backwards)
    assert (x.numpy() == backwards).all()


@pytest.mark.parametrize("name", [b"used_dltensor", b"used_dltensor_versioned", b"tensor", b""])
def test_names_that_are_refused(name):
    forged = stubs.Forged(host())
    with pytest.raises(ValueError):
        devrt.from_dlpack(forged.capsule(name))
    assert forged.deleted == 0


def test_no_name():
    forged = stubs.Forged(host())
    import ctypes

    capsule = stubs._new(ctypes.addressof(forged.struct), None, None)
    with pytest.raises(ValueError):
        devrt.from_dlpack(capsule)


def test_device_and_copy_with_a_capsule():
    forged = stubs.Forged(host())
    x = devrt.from_dlpack(forged.capsule(), device="mtia:0")
    assert x.device == devrt.Device("mtia:0")
    assert (x.numpy() == host()).all()
    assert forged.deleted == 1
    forged = stubs.Forged(host())
    y = devrt.from_dlpack(forged.capsule(), copy=True)
    assert y.ptr != forged.array.ctypes.data
    with pytest.raises(devrt.CopyRequiredError):
        devrt.from_dlpack(stubs.Forged(host()).capsule(), device="mtia:0", copy=False)


# ---- Objects (steps 2, 4-8) --------------------------------------------------


def test_no_protocol():
    for thing in (1, "x", None, object(), [1, 2], np.float32(1)):
        with pytest.raises(AttributeError):
            devrt.from_dlpack(thing)


def test_arguments():
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


# step 9: the struct's device decides
def test_the_stream_of_the_struct_s_device_comes_after_the_one_that_was_told():
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


# O4: nobody is told a stream for it, so that the host has none to wait for
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


# rule 6
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


# step 7
@pytest.mark.parametrize("where", [
    dict(device="mtia:0"), dict(device="mtia:0", pinned=True), dict(device="cpu")])
def test_a_copy_of_what_cannot_be_shared(where):
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


def test_device_and_struct_may_disagree():
    """torch's pinned tensors: (3, 0) by the method, CPU in the struct."""
    forged = stubs.Forged(host())
    x = devrt.from_dlpack(stubs.Producer(forged.capsule, (3, 0)))
    assert x.__dlpack_device__() == (1, 0)
    assert (x.numpy() == host()).all()


def test_the_deleter_waits_for_pending_uses():
    """L4: the memory is the producer's again when devrt is done with it."""
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


# ---- Who may write (step 10) -------------------------------------------------


@pytest.mark.parametrize("kind", [stubs.JaxArray, stubs.TensorflowTensor])
def test_immutable_producers(kind):
    legacy = kind(stubs.Forged(host(), versioned=False).capsule)
    assert devrt.from_dlpack(legacy).read_only


def test_other_legacy_producers_are_written():
    forged = stubs.Forged(host(), versioned=False)
    x = devrt.from_dlpack(stubs.OldProducer(forged.capsule))
    x.fill(5)
    assert (forged.array == 5).all()


# ---- torch's bits (step 3) ---------------------------------------------------


@pytest.mark.parametrize("bit", ["requires_grad", "conjugate", "negative"])
def test_bits_of_torch(bit):
    producer = stubs.TorchTensor(stubs.Forged(host()).capsule)
    devrt.from_dlpack(producer)
    setattr(producer, bit, True)
    with pytest.raises(BufferError):
        devrt.from_dlpack(producer)


# ---- Lifetime (L1, L2) -------------------------------------------------------


def test_the_producer_object_may_go():
    forged = stubs.Forged(host())
    producer = stubs.Producer(forged.capsule())
    gone = weakref.ref(producer)
    x = devrt.from_dlpack(producer)
    del producer
    gc.collect()
    assert gone() is None
    assert (x.numpy() == host()).all() and forged.deleted == 0


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

