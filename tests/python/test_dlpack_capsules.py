# SPDX-License-Identifier: Apache-2.0
"""Capsules of DLPack taken by devrt.from_dlpack: E52 and E60."""

import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")

import devrt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import stubs  # noqa: E402


def host(shape=(2, 3), dtype="float32"):
    return (np.arange(np.prod(shape)) % 7).astype(dtype).reshape(shape)


def take(**what):
    """(array, the forged tensor) of what stubs.Forged takes."""
    forged = stubs.Forged(host(), **what)
    return devrt.from_dlpack(forged.capsule()), forged


# E52
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


# E60
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


# E48
def test_a_larger_minor():
    x, _ = take(minor=99)
    assert (x.numpy() == host()).all()


# E11, E32
def test_null_deleter():
    x, forged = take(deleter=False)
    del x
    assert forged.deleted == 0


# E11
def test_null_strides():
    x, _ = take(strides=None)
    assert x.strides == (12, 4)


# E11
def test_byte_offset():
    x, forged = take(byte_offset=64)
    assert x.ptr == forged.array.ctypes.data
    assert (x.numpy() == host()).all()


# E61
def test_read_only_flag_is_kept():
    x, _ = take(flags=stubs.READ_ONLY)
    assert x.read_only
    with pytest.raises(ValueError):
        x.fill(1)


def test_0d_with_null_shape():
    forged = stubs.Forged(np.array(3, "float32"))
    forged.struct.tensor.shape = None
    forged.struct.tensor.strides = None
    assert devrt.from_dlpack(forged.capsule()).item() == 3


# E60
def test_negative_strides_come_in():
    backwards = host((6,))[::-1]
    x = devrt.from_dlpack(backwards)
    assert (x.numpy() == backwards).all()


# E60
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


# E52
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
