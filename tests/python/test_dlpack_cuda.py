# SPDX-License-Identifier: Apache-2.0
"""CUDA's rows of E49 and E50, on a GPU or over the fake driver."""

import ctypes
import gc
import pathlib
import sys
import warnings

import pytest

np = pytest.importorskip("numpy")

import devrt
from devrt.testing import Flag, spin

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import stubs  # noqa: E402

V1 = (1, 0)


@pytest.fixture(autouse=True)
def there_is_cuda():
    try:
        devrt.devices("cuda")
    except devrt.Error as error:
        pytest.skip(f"no cuda: {str(error)[:100]}")


def values():
    return np.arange(12, dtype="float32")


@pytest.fixture
def x():
    return devrt.array(values(), device="cuda:0")


@pytest.fixture
def pinned():
    return devrt.empty((12,), "float32", device="cuda:0", pinned=True)


def last():
    return len(devrt.devices("cuda")) - 1


@pytest.fixture
def managed():
    """Another library's managed memory of the last device, 12 floats."""
    driver = ctypes.CDLL("libcuda.so.1")
    address = ctypes.c_uint64()
    with devrt.Device(f"cuda:{last()}"):
        assert driver.cuMemAllocManaged(ctypes.byref(address),
                                        ctypes.c_size_t(48), 1) == 0
    yield address.value
    for device in devrt.devices("cuda"):
        devrt.synchronize(device)
    with devrt.Device(f"cuda:{last()}"):
        assert driver.cuMemFree_v2(address) == 0


def of_methods(forged, told):
    class Producer:
        def __dlpack_device__(self):
            return (13, 0)

        def __dlpack__(self, *, stream, max_version):
            assert stream == told.native_handle
            return forged.capsule()

    return Producer()


def of_exchange_api(forged, told):
    own = devrt.Array.__dlpack_c_exchange_api__
    api = stubs.ForeignApi(lambda: forged, own)
    api.stream = told.native_handle

    def export(x, out):
        out[0] = ctypes.pointer(forged.struct)
        return 0

    api.keep = stubs.FROM_PY(export)
    api.table.from_py = ctypes.cast(api.keep, ctypes.c_void_p).value
    producer = type("Producer", (), {"__dlpack_c_exchange_api__": api.capsule})()
    producer.api = api
    return producer


# E6: (13, 0) is of every device, and the driver tells of which
@pytest.mark.parametrize("make", [of_methods, of_exchange_api])
def test_managed_memory_is_ordered_on_its_own_device(managed, make):
    if last() == 0:
        pytest.skip("one device")
    there = f"cuda:{last()}"
    told, here = devrt.Stream("cuda:0"), devrt.Stream(there)
    forged = stubs.Forged(values(), device=(13, 0), data=managed)
    producer = make(forged, told)
    spin(100, told)  # as the producer's work is before it
    with told, here:
        y = devrt.from_dlpack(producer)
    assert y.place == f"managed memory of {there}"
    assert y.home_stream == here
    assert y.__dlpack_device__() == (13, 0)
    assert not here.query()
    here.synchronize()
    assert told.query()
    del y
    gc.collect()
    assert forged.deleted == 1


# E12
def test_the_work_stream_of_managed_memory_is_the_current_stream():
    api = stubs.ExchangeApi.of(devrt.Array.__dlpack_c_exchange_api__)
    s = devrt.Stream("cuda:0")
    assert api.work_stream(13, 0) is None
    with s:
        assert api.work_stream(13, 0) == s.native_handle
        assert api.work_stream(3, 0) is None
    with pytest.raises(ValueError):
        api.work_stream(13, 77)


def test_dlpack_device_of_device_and_pinned_memory(x, pinned):
    assert x.__dlpack_device__() == (2, 0)
    assert pinned.__dlpack_device__() == (3, 0)
    other = devrt.array(values(), device=f"cuda:{last()}")
    with devrt.device("cuda:0"):
        assert other.__dlpack_device__() == (2, last())
    there = devrt.empty((1,), device=f"cuda:{last()}", pinned=True)
    assert there.__dlpack_device__() == (3, 0)


@pytest.mark.parametrize("stream", [None, -1, 1, 2])
def test_legal_streams_are_accepted(x, pinned, stream):
    for a in (x, pinned):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            struct = stubs.tensor_of(a.__dlpack__(stream=stream, max_version=V1))
        assert struct.tensor.data == a.ptr


@pytest.mark.parametrize(
    "stream, raises",
    [(-2, ValueError), (1 << 70, ValueError), (True, TypeError), (1.0, TypeError), ("1", TypeError)],
)
def test_streams_that_cannot_be(x, pinned, stream, raises):
    for a in (x, pinned):
        with pytest.raises(raises):
            a.__dlpack__(stream=stream)


def test_a_handle(x):
    """The consumer's stream comes behind the array's work, and no thread waits."""
    producer, consumer = devrt.Stream("cuda:0"), devrt.Stream("cuda:0")
    flag = Flag("cuda:0")
    try:
        with producer:
            flag.wait_on(producer)
            x.fill(3)
        assert consumer.query()
        struct = stubs.tensor_of(
            x.__dlpack__(stream=consumer.native_handle, max_version=V1))
        assert struct.tensor.data == x.ptr
        assert not consumer.query() and not producer.query()
    finally:
        flag.set()
    consumer.synchronize()
    assert producer.query()


@pytest.mark.parametrize("number", [None, 1, 2])
def test_stream_numbers_are_of_the_datas_device(number):
    device = devrt.device(f"cuda:{last()}")
    a = devrt.array(values(), device=device)
    named = (devrt.per_thread_default_stream if number == 2
             else devrt.default_stream)
    producer, current = devrt.Stream(device), devrt.Stream(device)
    flag = Flag(device)
    devrt.synchronize(device)
    flag.wait_on(producer)
    a.record_use(producer)
    with current, devrt.device("cuda:0"):
        a.__dlpack__(stream=number, max_version=V1)
        try:
            assert not named(device).query() and current.query()
        finally:
            flag.set()
    devrt.synchronize(device)


@pytest.mark.parametrize("order", ["x, p, x", "p, p"])
def test_zero_warns_once(run_program, order):
    ended = run_program(
        f"""
        import warnings
        import devrt
        x = devrt.zeros((3,), "float32", device="cuda:0")
        p = devrt.zeros((3,), "float32", device="cuda:0", pinned=True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for a in ({order}):
                a.__dlpack__(stream=0, max_version=(1, 0))
        assert [w.category for w in seen] == [devrt.InteropWarning], seen
        assert "DEVRT_DLPACK_STRICT" in str(seen[0].message)
        print("ok")
        """
    )
    assert ended.stdout == "ok\n", ended.stderr


def test_zero_as_an_error_comes_before_any_effect(run_program):
    ended = run_program(
        """
        import time
        import warnings
        import devrt
        from devrt.testing import Flag
        def ends(stream, within):
            event, end = stream.record(), time.monotonic() + within
            while not event.query() and time.monotonic() < end:
                time.sleep(0.001)
            return event.query()
        x = devrt.zeros((3,), "float32", device="cuda:0")
        devrt.synchronize("cuda:0")
        s, gate = devrt.Stream("cuda:0"), Flag("cuda:0")
        gate.wait_on(s)
        x.record_use(s)
        usual = devrt.default_stream("cuda:0")
        warnings.simplefilter("error", devrt.InteropWarning)
        for copy in (None, True):
            held = devrt.memory_allocated("cuda:0")
            try:
                x.__dlpack__(stream=0, copy=copy)
            except devrt.InteropWarning:
                # Neither was the default stream put behind s, nor a copy made.
                print(ends(usual, 20),
                      devrt.memory_allocated("cuda:0") - held)
        capsule = x.__dlpack__(stream=1)
        print(ends(usual, 0.02))
        gate.set()
        usual.synchronize()
        """
    )
    assert ended.stdout == "True 0\n" * 2 + "False\n", ended.stderr


def test_strict_setting_refuses_stream_0(run_program):
    ended = run_program(
        """
        import devrt
        x = devrt.zeros((3,), "float32", device="cuda:0")
        for a in (x, devrt.zeros((3,), "float32", device="cuda:0", pinned=True)):
            try:
                a.__dlpack__(stream=0)
            except ValueError as error:
                print("ok")
        """,
        env={"DEVRT_DLPACK_STRICT": "1"},
    )
    assert ended.stdout == "ok\nok\n", ended.stderr


# ---- As consumer (E56, E57) --------------------------------------------------


class Producer:
    def __init__(self, x):
        self.x = x
        self.calls = []

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()

    def __dlpack__(self, **keywords):
        self.calls.append(keywords)
        return self.x.__dlpack__(**keywords)


def test_the_default_stream_is_told_as_1(x):
    producer = Producer(x)
    devrt.from_dlpack(producer)
    assert producer.calls == [{"stream": 1, "max_version": (1, 3)}]


def test_a_created_stream_is_told_by_its_handle(x):
    producer = Producer(x)
    s = devrt.Stream("cuda:0")
    with s:
        devrt.from_dlpack(producer)
    assert producer.calls[0]["stream"] == s.native_handle


def test_a_per_thread_stream_is_told_by_a_bridge(x):
    producer = Producer(x)
    with devrt.per_thread_default_stream("cuda:0"):
        devrt.from_dlpack(producer)
        devrt.from_dlpack(producer)
    told = [call["stream"] for call in producer.calls]
    assert told[0] > 2 and told[0] == told[1]


def test_no_stream_for_pinned_memory(pinned):
    producer = Producer(pinned)
    y = devrt.from_dlpack(producer)
    assert producer.calls == [{"max_version": (1, 3)}]
    assert y.ptr == pinned.ptr


def test_exchange_api_streams(x):
    api = stubs.ExchangeApi.of(devrt.Array.__dlpack_c_exchange_api__)
    assert api.work_stream(2, 0) is None
    assert api.work_stream(3, 0) is None
    s = devrt.Stream("cuda:0")
    with s:
        assert api.work_stream(2, 0) == s.native_handle
    with devrt.per_thread_default_stream("cuda:0"):
        assert api.work_stream(2, 0) == 2
    with pytest.raises(ValueError):
        api.work_stream(2, 99)


def test_order_behind_a_foreign_exchange_api(x):
    """The producer's current stream, whatever it is, comes first."""
    s = devrt.Stream("cuda:0")
    told = []

    class Api(stubs.ForeignApi):
        def work_stream_of(self, kind, index, out):
            told.append((kind, index))
            out[0] = s.native_handle
            return 0

    api = Api(lambda: x, devrt.Array.__dlpack_c_exchange_api__)

    class Foreign:
        __dlpack_c_exchange_api__ = api.capsule

    y = devrt.from_dlpack(Foreign())
    assert told == [(2, 0)]
    assert (y.numpy() == values()).all()


def test_to_the_host_and_to_a_peer(x):
    assert (np.from_dlpack(x, device="cpu") == values()).all()
    if last() > 0:
        capsule = x.__dlpack__(max_version=V1, dl_device=(2, 1))
        y = devrt.from_dlpack(capsule)
        assert y.device.name == "cuda:1" and (y.numpy() == values()).all()
    with pytest.raises(devrt.CopyRequiredError):
        x.__dlpack__(max_version=V1, dl_device=(1, 0), copy=False)


# ---- Order, shown by values --------------------------------------------------


class Slow:
    """Memory that a stream of a foreign library writes behind a kernel that
    spins; devrt does not know of that work."""

    def __init__(self, stream=None):
        self.stream = stream or devrt.Stream("cuda:0")
        device = self.stream.device
        self.x = devrt.zeros((12,), "float32", device=device)
        self.x.ready()
        raw = devrt.from_pointer(
            self.x.ptr, (12,), "float32", device=device, owner=self.x)
        devrt._core._spin(100_000_000, self.stream)
        with self.stream:
            raw.fill(7)
        self.raw = raw

    def seen(self, y):
        out = y.copy().numpy()
        self.stream.synchronize()
        return set(out.tolist())


def test_without_an_order_the_old_value_is_seen():
    slow = Slow()
    capsule = slow.x.__dlpack__(stream=-1, max_version=V1)
    assert slow.seen(devrt.from_dlpack(capsule)) == {0}


def test_the_exchange_api_orders():
    slow = Slow()

    class Api(stubs.ForeignApi):
        def work_stream_of(self, kind, index, out):
            out[0] = slow.stream.native_handle
            return 0

    api = Api(lambda: slow.x, devrt.Array.__dlpack_c_exchange_api__)

    class Foreign:
        __dlpack_c_exchange_api__ = api.capsule

    assert slow.seen(devrt.from_dlpack(Foreign())) == {7}


def test_the_exchange_api_orders_by_numbers_of_the_datas_device():
    """2 is a stream of each device."""
    device = devrt.device(f"cuda:{last()}")
    slow = Slow(devrt.per_thread_default_stream(device))

    class Api(stubs.ForeignApi):
        def work_stream_of(self, kind, index, out):
            assert index == device.index
            out[0] = 2
            return 0

    api = Api(lambda: slow.x, devrt.Array.__dlpack_c_exchange_api__)

    class Foreign:
        __dlpack_c_exchange_api__ = api.capsule

    with devrt.Stream(device), devrt.device("cuda:0"):
        assert slow.seen(devrt.from_dlpack(Foreign())) == {7}


def test_each_device_has_a_bridge_of_its_own():
    for device in devrt.devices("cuda"):
        producer = Producer(devrt.array(values(), device=device))
        with devrt.per_thread_default_stream(device), devrt.device("cuda:0"):
            y = devrt.from_dlpack(producer)
            assert (y.numpy() == values()).all()
        number = producer.calls[0]["stream"]
        assert number > 2  # no default stream, of which each device has one
        told = devrt.Stream.from_external(number, device)
        assert told.device is device
        del told


def test_a_bridge_orders():
    slow = Slow()

    class Orders(Producer):
        def __dlpack__(self, stream, **keywords):
            devrt.Stream.from_external(stream, "cuda:0").wait(slow.stream)
            return self.x.__dlpack__(stream=-1, **keywords)

    with devrt.per_thread_default_stream("cuda:0"):
        assert slow.seen(devrt.from_dlpack(Orders(slow.x))) == {7}


def test_a_producer_without_streams_uses_the_default_stream():
    slow = Slow()

    class Oldest(Producer):
        def __dlpack__(self):
            devrt.default_stream("cuda:0").wait(slow.stream)
            return self.x.__dlpack__(stream=-1)

    with devrt.Stream("cuda:0"):
        assert slow.seen(devrt.from_dlpack(Oldest(slow.x))) == {7}
