# SPDX-License-Identifier: Apache-2.0
"""Each trap of interop.md 2.4 that needs no GPU, by a test of its own.

Elsewhere: a binding's device index, and peers that leave another device current
(tests/interop, on GPUs; test_from_dlpack.py has the latter with a stub).
"""

import gc
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")

import devrt

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
def test_a_foreign_major_is_refused_and_nothing_of_it_read(major):
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
    for x in kinds():
        y = x.reshape(3, 4)[:, ::-1]
        with pytest.raises(BufferError):
            y.__dlpack__(max_version=V1)
        assert not hasattr(y, "__cuda_array_interface__")
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

    def __init__(self, array, freed):
        self.array = array
        self.freed = freed

    def __del__(self):
        self.freed.append((self.array.ptr, devrt.current_stream("mtia:0").id))


def test_a_free_of_the_users_is_called_once_behind_all_uses():
    freed = []
    memory = devrt.array(host(), device="mtia:0")
    s = devrt.Stream("mtia:0")
    x = devrt.from_pointer(
        memory.ptr, (12,), "float32", owner=Owner(memory, freed), stream=s)
    pointer = x.ptr
    with s:
        devrt._core._spin(50_000_000, s)
        x.fill(3)
    view = x[2:]
    del x
    gc.collect()
    assert freed == []
    del view
    s.synchronize()
    for _ in range(3):  # where the library and the interpreter look
        devrt.zeros((1,), "float32", device="mtia:0")
        gc.collect()
    assert [p for p, _ in freed] == [pointer]


def test_the_struct_decides_where_it_says_something_else():
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
