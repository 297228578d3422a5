# SPDX-License-Identifier: Apache-2.0
"""Faults that other libraries have shipped and that need no GPU, a test each.

Elsewhere: a binding's device index, and what peers really do (tests/interop, on
GPUs).
"""

import gc
import pathlib
import sys
import warnings

import pytest

np = pytest.importorskip("numpy")

import devrt
from devrt.testing import Flag

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import stubs  # noqa: E402

V1 = (1, 0)


def host(n=12):
    return np.arange(n, dtype="float32")


def kinds():
    yield devrt.array(host(), device="cpu")
    yield devrt.array(host(), device="mtia:0")
    p = devrt.empty((12,), "float32", device="mtia:0", pinned=True)
    np.asarray(p)[...] = host()
    yield p


def test_byte_offset_is_produced_as_0_and_consumed():
    for x in kinds():
        for y in (x, x[3:], x[1::2]):
            tensor = stubs.tensor_of(y.__dlpack__(max_version=V1)).tensor
            assert tensor.byte_offset == 0 and tensor.data == y.ptr
    for offset in (0, 4, 1 << 20):
        forged = stubs.Forged(host(), byte_offset=offset)
        y = devrt.from_dlpack(forged.capsule())
        assert y.ptr == forged.array.ctypes.data
        assert (y.numpy() == host()).all()


@pytest.mark.parametrize("major", [0, 2, 3, 1 << 31])
def test_a_foreign_major_is_refused_unread(major):
    forged = stubs.Forged(host(), major=major)
    forged.struct.tensor.ndim = 1 << 30  # another layout has something else there
    forged.struct.tensor.shape = None
    with pytest.raises(BufferError, match=str(major)):
        devrt.from_dlpack(forged.capsule())
    assert forged.deleted == 0


def test_a_null_deleter_is_not_called_and_none_is_produced():
    forged = stubs.Forged(host(), deleter=False)
    y = devrt.from_dlpack(forged.capsule())
    del y
    gc.collect()
    for x in kinds():
        for asked in (None, V1):
            assert stubs.tensor_of(x.__dlpack__(max_version=asked)).deleter


def test_negative_strides_do_not_leave():
    """By CUDA Array Interface: tests/python/arrays/test_cai.py."""
    for x in kinds():
        y = x.reshape(3, 4)[:, ::-1]
        with pytest.raises(BufferError):
            y.__dlpack__(max_version=V1)
    # As CuPy 14.2 exports a[::-1]: divided as an unsigned number.
    forged = stubs.Forged(host(), shape=(12,), strides=(4611686018427387903,))
    with pytest.raises(BufferError):
        devrt.from_dlpack(forged.capsule())


def test_probes_raise_attribute_error_and_nothing_else():
    probes = (
        "__cuda_array_interface__",
        "__array_interface__",
        "__array_struct__",
        "__cuda_stream__",
        "no_such_attribute",
    )
    for x in kinds():
        for y in (x, x[::-1], x[:0], x.as_read_only(), x.astype("bfloat16")):
            for name in probes:
                hasattr(y, name)  # raises whatever is no AttributeError
    half = devrt.zeros((3,), "bfloat16", device="cpu")
    assert not hasattr(half, "__array_interface__")


def test_released_once_with_two_protocols():
    """An object with the buffer protocol and DLPack is released by neither."""
    forged = stubs.Forged(host())
    x = devrt.from_dlpack(forged.capsule())
    view = memoryview(x)
    capsule = x.__dlpack__(max_version=V1)
    other = np.from_dlpack(x)
    del x
    view.release()
    gc.collect()
    assert forged.deleted == 0
    del capsule
    assert forged.deleted == 0 and (other == host()).all()
    del other
    gc.collect()
    devrt.zeros((1,), "float32", device="mtia:0")
    assert forged.deleted == 1


class Owner:
    """Frees as a user's function does."""

    def __init__(self, array, stream, freed):
        self.array = array
        self.stream = stream
        self.freed = freed

    def __del__(self):
        self.freed.append((
            self.array.ptr, self.stream.query(), devrt.current_device("mtia"),
            devrt.current_stream("mtia:0")))


def test_a_free_of_the_users_is_called_once_behind_all_uses():
    freed = []
    memory = devrt.array(host(), device="mtia:0")
    s, gate = devrt.Stream("mtia:0"), Flag("mtia:0")
    x = devrt.from_pointer(
        memory.ptr, (12,), "float32", owner=Owner(memory, s, freed), stream=s)
    pointer = x.ptr
    with s:
        gate.wait_on(s)
        x.fill(3)
    view = x[2:]
    del x

    def look():
        for _ in range(3):  # where the library and the interpreter do
            devrt.zeros((1,), "float32", device="mtia:0")
            gc.collect()

    look()
    assert freed == []
    del view
    look()
    assert freed == [], "its memory is still written"
    with devrt.device("mtia:1"), devrt.Stream("mtia:1"):
        gate.set()
        s.synchronize()
        look()
        # With all uses over, and what is current left alone.
        assert freed == [(pointer, True, devrt.current_device("mtia"),
                          devrt.default_stream("mtia:0"))]
        look()
        assert len(freed) == 1


def test_the_device_of_the_struct_wins():
    """torch's pinned tensors answer (3, 0) and export CPU memory."""
    forged = stubs.Forged(host())
    y = devrt.from_dlpack(stubs.Producer(forged.capsule, (3, 0)))
    assert y.__dlpack_device__() == (1, 0)
    assert (np.from_dlpack(y) == host()).all()


def test_an_import_leaves_the_current_device(two):
    x = devrt.array(host(), device="mtia:1")
    for device in two:
        with device:
            devrt.from_dlpack(x)
            x.__dlpack__(max_version=V1, dl_device=(1, 0))
            with pytest.raises(BufferError):
                x.__dlpack__(dl_device=(99, 0))
            assert devrt.current_device("mtia") is device


class Moves:
    """A producer of every protocol, which leaves another device or other streams
    current, and raises if told so."""

    error = None
    to = None
    streams = ()

    def __init__(self, x, protocol):
        self.x = x
        self.protocol = protocol

    def move(self, protocol):
        if protocol == self.protocol:
            for stream in self.streams:
                devrt.set_stream(stream)
            if self.to is not None:
                devrt.set_device(self.to)
            if self.error is not None:
                raise self.error("mine")


class MovesByDLPack(Moves):
    def __dlpack_device__(self):
        self.move("__dlpack_device__")
        return self.x.__dlpack_device__()

    def __dlpack__(self, **keywords):
        self.move("__dlpack__")
        return self.x.__dlpack__(**keywords)


class MovesByCai(Moves):
    @property
    def __cuda_array_interface__(self):
        self.move("cai")
        return {"shape": self.x.shape, "typestr": "<f4", "version": 3,
                "data": (self.x.ptr, False)}


class MovesByNumpy(Moves):
    @property
    def __array_interface__(self):
        self.move("__array_interface__")
        return self.x.__array_interface__


class MovesByArray(Moves):
    def __array__(self, dtype=None, copy=None):
        self.move("__array__")
        return self.x.numpy()


WAYS = {
    "__dlpack_device__": (MovesByDLPack, devrt.from_dlpack),
    "__dlpack__": (MovesByDLPack, devrt.from_dlpack),
    "cai": (MovesByCai, devrt.from_cuda_array_interface),
    "__array_interface__": (MovesByNumpy, devrt.asarray),
    "__array__": (MovesByArray, devrt.asarray),
}


@pytest.mark.parametrize("protocol", WAYS)
@pytest.mark.parametrize("error", [None, KeyError])
def test_an_import_restores_the_device_that_a_producer_changed(
        two, protocol, error):
    kind, way = WAYS[protocol]
    on_host = kind in (MovesByNumpy, MovesByArray)
    places = ["cpu"] if on_host else ["mtia:0", "mtia:1"]
    places += ["cpu"] if kind is MovesByDLPack else []
    for place in places:
        producer = kind(devrt.array(host(), device=place), protocol)
        producer.error = error
        for device, producer.to in (two, two[::-1]):
            for import_it in (way, devrt.asarray):
                with device:
                    if error is None:
                        assert (import_it(producer).numpy() == host()).all()
                    else:
                        with pytest.raises(KeyError):
                            import_it(producer)
                    assert devrt.current_device("mtia") is device


@pytest.mark.parametrize("protocol", WAYS)
@pytest.mark.parametrize("error", [None, KeyError])
def test_an_import_restores_the_streams_that_a_producer_changed(
        two, protocol, error):
    """And the import is in the order of the one that was told."""
    kind, way = WAYS[protocol]
    on_host = kind in (MovesByNumpy, MovesByArray)
    producer = kind(
        devrt.array(host(), device="cpu" if on_host else two[1]), protocol)
    producer.error = error
    producer.streams = [devrt.Stream(device) for device in two]
    for mine in (devrt.Stream(two[1]), devrt.default_stream(two[1])):
        with mine:
            for import_it in (way, devrt.asarray):
                if error is None:
                    y = import_it(producer)
                    assert kind is not MovesByCai or y.home_stream is mine
                else:
                    with pytest.raises(KeyError):
                        import_it(producer)
                assert [devrt.current_stream(device) for device in two] == [
                    devrt.default_stream(two[0]), mine]
                assert devrt.current_device("mtia") is two[1]


def test_an_import_keeps_the_stream_that_was_current(two):
    """Though the producer drops what nobody else has."""
    x = devrt.array(host(), device=two[0])
    kept = [devrt.Stream(two[0])]
    identity = kept[0].id
    devrt.set_stream(kept[0])

    class Drops(stubs.Producer):
        def answer(self, keywords):
            devrt.set_stream(devrt.default_stream(two[0]))
            kept.clear()
            gc.collect()
            return stubs.Forged(host(), device=self._device, data=x.ptr).capsule()

    try:
        y = devrt.from_dlpack(Drops(None, x.__dlpack_device__()))
        assert devrt.current_stream(two[0]).id == identity
        assert y.home_stream.id == identity and (y.numpy() == host()).all()
        del y
    finally:
        devrt.set_stream(devrt.default_stream(two[0]))


def test_the_device_of_an_empty_array_is_the_one_that_was_current(two):
    """No address tells the device (E15): the current one of cuda where
    there is one."""
    if devrt.cuda.is_available():
        two = devrt.devices("cuda")
        if len(two) < 2:
            pytest.skip("one device of cuda")
    before = devrt.current_device(two[0].backend)

    class Empty(Moves):
        @property
        def __cuda_array_interface__(self):
            self.move("cai")
            return {"shape": (0,), "typestr": "<f4", "version": 3,
                    "data": (0, False)}

    empty = Empty(None, "cai")
    for device, empty.to in (two[:2], two[1::-1]):
        with device:
            for way in (devrt.from_cuda_array_interface, devrt.asarray):
                assert way(empty).device is device
    assert devrt.current_device(two[0].backend) is before


def test_stream_0_is_the_default_queue_where_streams_have_no_numbers(two):
    """CUDA's warning is CUDA's, and its 1 is nobody's here (E3)."""
    x = devrt.array(host(), device=two[1])
    interface = {"shape": (12,), "typestr": "<f4", "version": 3,
                 "data": (x.ptr, False), "stream": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = devrt.from_cuda_array_interface(interface, owner=x)
    assert y.home_stream is devrt.default_stream(two[1])
    assert (y.numpy() == host()).all()


@pytest.mark.parametrize("member", ["export", "work_stream"])
def test_an_exchange_api_that_changes_the_device(two, member):
    x = devrt.array(host(), device="mtia:1")
    moves = Moves(x, member)

    class Api(stubs.ForeignApi):
        def work_stream_of(self, kind, index, out):
            moves.move("work_stream")
            return super().work_stream_of(kind, index, out)

    def make():
        moves.move("export")
        return x

    api = Api(make, devrt.Array.__dlpack_c_exchange_api__)

    class Foreign:
        __dlpack_c_exchange_api__ = api.capsule

    moves.streams = [devrt.Stream(device) for device in two]
    for device, moves.to in (two, two[::-1]):
        with device:
            y = devrt.from_dlpack(Foreign())
            assert y.home_stream is devrt.default_stream(two[1])
            assert (y.numpy() == host()).all()
            assert devrt.current_device("mtia") is device
            assert [devrt.current_stream(d) for d in two] == [
                devrt.default_stream(d) for d in two]
