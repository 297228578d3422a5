# SPDX-License-Identifier: Apache-2.0
"""DLPack as producer: E48 to E51, E1 to E12."""
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")

import devrt
from devrt.testing import Flag

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import stubs  # noqa: E402

V1 = (1, 0)


def arange(n=12, dtype="float32", device="cpu"):
    return devrt.array(np.arange(n).astype(dtype), device=device)


@pytest.fixture(params=["cpu", "mtia:0", "mtia:1", "pinned"])
def x(request):
    if request.param == "pinned":
        x = devrt.empty((12,), "float32", device="mtia:0", pinned=True)
        np.asarray(x)[...] = np.arange(12)
        return x
    return arange(device=request.param)


# ---- __dlpack_device__ (E1) --------------------------------------------------


def test_device_pairs():
    assert arange().__dlpack_device__() == (1, 0)
    assert arange(device="mtia:0").__dlpack_device__() == (12, 0)
    assert arange(device="mtia:1").__dlpack_device__() == (12, 1)
    pair = arange(device="mtia:1").__dlpack_device__()
    assert [type(item) for item in pair] == [int, int]


# E6
def test_device_needs_no_current_device(two):
    a = arange(device="mtia:1")
    for device in two:
        with device:
            assert a.__dlpack_device__() == (12, 1)


# ---- Versions (E51) ----------------------------------------------------------


@pytest.mark.parametrize(
    "asked, name",
    [
        (None, "dltensor"),
        ((0, 8), "dltensor"),
        ((1, 0), "dltensor_versioned"),
        ((1, 3), "dltensor_versioned"),
        ((2, 0), "dltensor_versioned"),
        ((1 << 80, 0), "dltensor_versioned"),
    ],
)
def test_max_version(x, asked, name):
    capsule = x.__dlpack__(max_version=asked)
    assert stubs.name_of(capsule) == name
    if name == "dltensor_versioned":
        struct = stubs.tensor_of(capsule)
        assert (struct.major, struct.minor) == (1, 3)


@pytest.mark.parametrize(
    "asked", [1, "1", (1,), (1, 0, 0), [1, 0], (1.0, 0), (True, 0), (-1, 0), ("1", 0)]
)
def test_max_version_of_a_wrong_type(x, asked):
    with pytest.raises(TypeError):
        x.__dlpack__(max_version=asked)


# E48
def test_struct_has_the_members_of_the_array(x):
    for asked in (None, V1):
        tensor = stubs.tensor_of(x.__dlpack__(max_version=asked)).tensor
        assert (tensor.device.type, tensor.device.id) == x.__dlpack_device__()
        assert tensor.data == x.ptr
        assert tensor.byte_offset == 0
        assert tensor.ndim == 1 and tensor.shape[0] == 12
        assert tensor.strides[0] == 1
        assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (2, 32, 1)


def test_struct_of_a_view(x):
    y = x.reshape(3, 4)[1:, ::2]
    tensor = stubs.tensor_of(y.__dlpack__(max_version=V1)).tensor
    assert tensor.data == y.ptr == x.ptr + 16
    assert tensor.byte_offset == 0
    assert tensor.shape[:2] == [2, 2] and tensor.strides[:2] == [4, 2]


def test_zero_size_has_no_address():
    for device in ("cpu", "mtia:0"):
        e = devrt.empty((0, 3), "float32", device=device)
        tensor = stubs.tensor_of(e.__dlpack__(max_version=V1)).tensor
        assert tensor.data is None
        assert tensor.strides  # not null for ndim > 0


def test_array_without_axes_has_ndim_0():
    e = devrt.zeros((), "float32", device="cpu")
    assert stubs.tensor_of(e.__dlpack__(max_version=V1)).tensor.ndim == 0


# E48
@pytest.mark.parametrize(
    "dtype, code, bits",
    [
        ("bool", 6, 8),
        ("int8", 0, 8),
        ("int16", 0, 16),
        ("int32", 0, 32),
        ("int64", 0, 64),
        ("uint8", 1, 8),
        ("uint16", 1, 16),
        ("uint32", 1, 32),
        ("uint64", 1, 64),
        ("float16", 2, 16),
        ("float32", 2, 32),
        ("float64", 2, 64),
        ("bfloat16", 4, 16),
        ("complex64", 5, 64),
        ("complex128", 5, 128),
        ("float8_e4m3fn", 10, 8),
        ("float8_e5m2", 12, 8),
    ],
)
def test_dtype_codes(dtype, code, bits):
    for device in ("cpu", "mtia:0"):
        e = devrt.empty((2,), dtype, device=device)
        found = stubs.tensor_of(e.__dlpack__(max_version=V1)).tensor.dtype
        assert (found.code, found.bits, found.lanes) == (code, bits, 1)
        assert devrt.from_dlpack(e).dtype == e.dtype


# ---- stream (E49) ------------------------------------------------------------

WRONG_TYPES = [1.0, "1", True, False, (1,), object()]


def outcome(call):
    try:
        call()
    except Exception as error:
        return type(error).__mro__
    return None


@pytest.mark.parametrize(
    "stream, raises",
    [
        (None, None),
        (-1, None),
        (0, ValueError),
        (1, ValueError),
        (2, ValueError),
        (12345, ValueError),
        (-2, ValueError),
        (1 << 70, ValueError),
    ],
)
def test_stream_of_cpu(stream, raises):
    found = outcome(lambda: arange().__dlpack__(stream=stream))
    assert found is None if raises is None else raises in found


@pytest.mark.parametrize(
    "stream, raises",
    [
        (None, None),
        (-1, None),
        (0, None),
        (1, ValueError),
        (2, ValueError),
        (12345, ValueError),
        (-2, ValueError),
        (1 << 70, ValueError),
    ],
)
def test_stream_of_mtia(stream, raises):
    found = outcome(lambda: arange(device="mtia:0").__dlpack__(stream=stream))
    assert found is None if raises is None else raises in found


def test_stream_of_mtia_by_handle():
    s = devrt.Stream("mtia:0")
    other = devrt.Stream("mtia:1")
    a = arange(device="mtia:0")
    a.__dlpack__(stream=s.native_handle)
    with pytest.raises(ValueError):
        a.__dlpack__(stream=other.native_handle)


# E2
@pytest.mark.parametrize("stream", WRONG_TYPES)
def test_stream_of_a_wrong_type(x, stream):
    with pytest.raises(TypeError):
        x.__dlpack__(stream=stream)


# E2
def test_keywords_and_their_types_are_checked(x):
    with pytest.raises(TypeError):
        x.__dlpack__(1)
    with pytest.raises(TypeError):
        x.__dlpack__(streams=1)
    with pytest.raises(TypeError):
        x.__dlpack__(copy=1)
    with pytest.raises(TypeError):
        x.__dlpack__(dl_device=[1, 0])
    with pytest.raises(TypeError):
        x.__dlpack__(dl_device=1)


# ---- dl_device and copy (E50) ------------------------------------------------


def copied(capsule):
    return bool(stubs.tensor_of(capsule).flags & 2)


@pytest.mark.parametrize("copy", [None, False])
def test_own_device_is_shared(x, copy):
    for device in (None, x.__dlpack_device__()):
        capsule = x.__dlpack__(max_version=V1, dl_device=device, copy=copy)
        assert stubs.tensor_of(capsule).tensor.data == x.ptr
        assert not copied(capsule)


def test_copy_true(x):
    capsule = x.__dlpack__(max_version=V1, copy=True)
    assert copied(capsule)
    y = devrt.from_dlpack(capsule)
    assert y.ptr != x.ptr
    assert (y.numpy() == x.numpy()).all()


def test_to_the_host(x):
    capsule = x.__dlpack__(max_version=V1, dl_device=(1, 0))
    tensor = stubs.tensor_of(capsule).tensor
    assert (tensor.device.type, tensor.device.id) == (1, 0)
    assert (stubs.copy_of(capsule, "float32", (12,)) == np.arange(12)).all()
    forced = x.__dlpack__(max_version=V1, dl_device=(1, 0), copy=True)
    assert copied(forced)
    assert stubs.tensor_of(forced).tensor.data != x.ptr


# E9
def test_host_accessible_memory_is_not_copied():
    p = devrt.empty((4,), "float32", device="mtia:0", pinned=True)
    capsule = p.__dlpack__(max_version=V1, dl_device=(1, 0), copy=False)
    assert stubs.tensor_of(capsule).tensor.data == p.ptr


def test_to_a_peer():
    a = arange(device="mtia:0")
    capsule = a.__dlpack__(max_version=V1, dl_device=(12, 1))
    assert copied(capsule)
    b = devrt.from_dlpack(capsule)
    assert b.device == devrt.Device("mtia:1")
    assert (b.numpy() == a.numpy()).all()
    with pytest.raises(devrt.CopyRequiredError) as caught:
        a.__dlpack__(max_version=V1, dl_device=(12, 1), copy=False)
    assert isinstance(caught.value, BufferError)
    assert isinstance(caught.value, ValueError)


def test_the_stream_of_a_peers_copy_is_the_peers(two):
    a, own = arange(device=two[0]), devrt.Stream(two[0])
    peers = devrt.Stream(two[1])
    how = dict(max_version=V1, dl_device=(12, 1))
    with pytest.raises(ValueError, match="stream"):
        a.__dlpack__(stream=own.native_handle, **how)
    b = devrt.from_dlpack(a.__dlpack__(stream=peers.native_handle, **how))
    assert (b.numpy() == a.numpy()).all()


def test_a_copy_is_made_on_the_consumers_stream(two):
    simulator = devrt.mtia.simulator
    a, s = arange(device=two[0]), devrt.Stream(two[0])
    a.ready()
    simulator.enable_timeline()
    try:
        devrt.testing.spin(0.01, s)
        capsule = a.__dlpack__(stream=s.native_handle, copy=True, max_version=V1)
        operations = [op for op in simulator.timeline()
                      if op["kind"] in ("kernel", "copy")]
    finally:
        simulator.enable_timeline(False)
    assert len(operations) > 1 and len({op["stream"] for op in operations}) == 1
    del capsule


# E5: who may write comes after those that read.
def test_an_export_waits_for_writes_and_a_writable_one_for_reads(two):
    a, gate = arange(device=two[0]), Flag(two[0])
    reader = devrt.Stream(two[0])
    devrt.synchronize(two[0])
    gate.wait_on(reader)
    a.record_use(reader, writes=False)
    behind = []
    for given in (a.as_read_only(), a):
        s = devrt.Stream(two[0])
        given.__dlpack__(stream=s.native_handle, max_version=V1)
        behind.append(not s.query())
    gate.set()
    devrt.synchronize(two[0])
    assert behind == [False, True]


# E8
@pytest.mark.parametrize("asked", [None, V1])
def test_releasing_a_capsule_records_a_use_of_its_stream(two, asked):
    a, s, gate = arange(device=two[0]), devrt.Stream(two[0]), Flag(two[0])
    for given, stream, counts in (
            (a, s.native_handle, True), (a.as_read_only(), s.native_handle, True),
            (a, -1, False), (a, None, False)):
        if asked is None and given is not a:
            continue
        devrt.synchronize(two[0])
        capsule = given.__dlpack__(stream=stream, max_version=asked)
        gate.wait_on(s)
        ready = [a.is_ready()]
        del capsule
        ready.append(a.is_ready())
        gate.set()
        devrt.synchronize(two[0])
        gate.clear()
        assert ready == [True, not counts]


def test_readers_do_not_come_after_a_consumer_that_only_reads(two):
    a, gate = arange(device=two[0]), Flag(two[0])
    behind = []
    for given in (a.as_read_only(), a):
        s, reader = devrt.Stream(two[0]), devrt.Stream(two[0])
        devrt.synchronize(two[0])
        capsule = given.__dlpack__(stream=s.native_handle, max_version=V1)
        gate.wait_on(s)
        del capsule
        a.as_read_only().__dlpack__(stream=reader.native_handle, max_version=V1)
        behind.append(not reader.query())
        gate.set()
        devrt.synchronize(two[0])
        gate.clear()
    assert behind == [False, True]


@pytest.mark.parametrize("pair", [(12, 9), (12, -1), (2, 0), (4, 0), (1, 1), (1 << 40, 0)])
@pytest.mark.parametrize("copy", [None, False, True])
def test_devices_that_cannot_be(pair, copy):
    with pytest.raises(BufferError):
        arange(device="mtia:0").__dlpack__(max_version=V1, dl_device=pair, copy=copy)


# ---- Read-only and strides (E10) ---------------------------------------------


def test_read_only(x):
    r = x.as_read_only()
    assert stubs.tensor_of(r.__dlpack__(max_version=V1)).flags & stubs.READ_ONLY
    with pytest.raises(BufferError):
        r.__dlpack__()
    assert not stubs.tensor_of(
        r.__dlpack__(max_version=V1, copy=True)).flags & stubs.READ_ONLY
    r.__dlpack__(copy=True)
    assert devrt.from_dlpack(r).read_only


def test_negative_stride_is_refused(x):
    backwards = x[::-1]
    for asked in (None, V1):
        with pytest.raises(BufferError, match="copy"):
            backwards.__dlpack__(max_version=asked)
    capsule = backwards.__dlpack__(max_version=V1, copy=True)
    assert (devrt.from_dlpack(capsule).numpy() == np.arange(12)[::-1]).all()


def test_broadcast_is_exported(x):
    wide = x.reshape(1, 12).broadcast_to((3, 12))
    tensor = stubs.tensor_of(wide.__dlpack__(max_version=V1)).tensor
    assert tensor.strides[:2] == [0, 1]
