# SPDX-License-Identifier: Apache-2.0
"""DLPack's C exchange API, devrt's own and others' (E12)."""

import ctypes
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")

import devrt
from devrt.testing import Flag

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import stubs  # noqa: E402


def host(shape=(2, 3), dtype="float32"):
    return (np.arange(np.prod(shape)) % 7).astype(dtype).reshape(shape)


# E12
def test_own_exchange_api():
    capsule = devrt.Array.__dlpack_c_exchange_api__
    assert stubs.name_of(capsule) == "dlpack_exchange_api"
    api = stubs.ExchangeApi.of(capsule)
    assert (api.major, api.minor) == (1, 3)
    assert not api.prev
    assert all([api.allocator, api.from_py, api.to_py, api.borrow, api.stream])
    assert devrt.Array.__dlpack_c_exchange_api__ is capsule


def test_exchange_round_trip():
    api = stubs.ExchangeApi.of(devrt.Array.__dlpack_c_exchange_api__)
    for device in ("cpu", "mtia:0", "mtia:1"):
        x = devrt.array(host(), device=device)
        tensor = api.export(x)
        assert (tensor.contents.major, tensor.contents.minor) == (1, 3)
        y = api.wrap(tensor)
        assert y.ptr == x.ptr and (y.numpy() == host()).all()


# E12
def test_exchange_refuses_others():
    api = stubs.ExchangeApi.of(devrt.Array.__dlpack_c_exchange_api__)
    with pytest.raises(TypeError):
        api.export(np.zeros(3))
    with pytest.raises(TypeError):
        api.view(object())
    backwards = devrt.array(host((6,)), device="cpu")[::-1]
    with pytest.raises(BufferError):
        api.export(backwards)
    with pytest.raises(BufferError):
        api.view(backwards)


def test_exchange_view():
    api = stubs.ExchangeApi.of(devrt.Array.__dlpack_c_exchange_api__)
    x = devrt.array(host((4, 6)), device="mtia:1")[::2, 1:]
    tensor = api.view(x)
    assert tensor.data == x.ptr
    assert tensor.shape[:2] == [2, 5] and tensor.strides[:2] == [12, 1]
    assert (tensor.device.type, tensor.device.id) == (12, 1)
    # Many at once, as the arguments of one launch.
    views = [api.view(x[i % 2 :]) for i in range(100)]
    assert all(view.strides[:2] == [12, 1] for view in views)


# E12
def test_exchange_view_of_read_only():
    api = stubs.ExchangeApi.of(devrt.Array.__dlpack_c_exchange_api__)
    for device in ("cpu", "mtia:1"):
        x = devrt.array(host((4,)), device=device).as_read_only()
        with pytest.raises(BufferError, match="read-only"):
            api.view(x)  # a DLTensor has no flags
        tensor = api.export(x)
        assert tensor.contents.flags & stubs.READ_ONLY
        assert api.wrap(tensor).read_only


# E12
@pytest.mark.parametrize("way", ["export", "view"])
def test_an_exchange_joins_pending_work(two, way):
    api = stubs.ExchangeApi.of(devrt.Array.__dlpack_c_exchange_api__)
    x = devrt.array(host(), device=two[1])
    other, current, gate = devrt.Stream(two[1]), devrt.Stream(two[1]), Flag(two[1])
    devrt.synchronize(two[1])
    gate.wait_on(other)
    x.record_use(other)
    with current, two[0]:
        tensor = getattr(api, way)(x)
        assert not current.query()
        if way == "export":
            api.wrap(tensor)  # which takes it
    gate.set()
    devrt.synchronize(two[1])


# E12
@pytest.mark.parametrize("way", ["export", "view"])
def test_exchange_counts_as_a_use_of_the_current_stream(two, way):
    """Its memory is nobody's before that stream's work is done."""
    api = stubs.ExchangeApi.of(devrt.Array.__dlpack_c_exchange_api__)
    home, current, gate = devrt.Stream(two[1]), devrt.Stream(two[1]), Flag(two[1])
    with home:
        x = devrt.empty(512, "uint8", device=two[1])
    pointer = x.ptr
    with current:
        tensor = getattr(api, way)(x)
    gate.wait_on(current)
    if way == "export":
        stubs.DELETER(tensor.contents.deleter)(ctypes.addressof(tensor.contents))
        assert not x.is_ready()
    del x
    home.synchronize()
    with home:
        early = devrt.empty(512, "uint8", device=two[1])
        gate.set()
        current.synchronize()
        late = devrt.empty(512, "uint8", device=two[1])
    assert early.ptr != pointer == late.ptr


# E12
def test_exchange_stream():
    api = stubs.ExchangeApi.of(devrt.Array.__dlpack_c_exchange_api__)
    assert api.work_stream(1, 0) is None
    assert api.work_stream(12, 1) is None
    s = devrt.Stream("mtia:1")
    with s, devrt.device("mtia:0"):
        assert api.work_stream(12, 1) == s.native_handle
        assert api.work_stream(12, 0) is None
    for pair in ((12, 9), (12, -1), (77, 0)):
        with pytest.raises(ValueError):
            api.work_stream(*pair)


def test_exchange_allocator():
    api = stubs.ExchangeApi.of(devrt.Array.__dlpack_c_exchange_api__)
    before = devrt.memory_allocated("mtia:1")
    tensor, said = api.allocate((3, 4), (2, 32), (12, 1))
    assert said == []
    x = api.wrap(tensor)
    assert x.shape == (3, 4) and x.device == devrt.Device("mtia:1")
    assert x.dtype == devrt.float32 and x.is_contiguous
    del x
    devrt.synchronize("mtia:1")
    devrt.zeros((1,), "float32", device="mtia:1")
    assert devrt.memory_allocated("mtia:1") == before


@pytest.mark.parametrize(
    "shape, dtype, device, kind",
    [
        ((1 << 50,), (0, 8), (12, 0), "MemoryError"),
        ((-1,), (0, 8), (12, 0), "ValueError"),
        ((1,), (99, 8), (12, 0), "ValueError"),
        ((1,), (0, 8), (12, 99), "ValueError|BufferError"),
    ],
)
def test_exchange_allocator_reports_once(shape, dtype, device, kind):
    api = stubs.ExchangeApi.of(devrt.Array.__dlpack_c_exchange_api__)
    tensor, said = api.allocate(shape, dtype, device)
    assert not tensor
    assert len(said) == 1 and said[0][0] in kind.split("|") and said[0][1]
    tensor, said = api.allocate(shape, dtype, device, silent=True)
    assert not tensor and said == []


def test_a_tensor_stays_the_callers_where_no_object_can_be_made(run_program):
    """Its consumer deletes it then, and nobody else may."""
    pytest.importorskip("_testcapi")
    done = run_program(
        """
        import ctypes, sys
        import _testcapi
        import numpy as np
        import devrt
        sys.path.insert(0, sys.argv[1])
        import stubs
        api = stubs.ExchangeApi.of(devrt.Array.__dlpack_c_exchange_api__)
        to_py = stubs.TO_PY(api.to_py)
        # Objects that ended are used again, and need no memory.
        alive = [devrt.zeros(1, device="cpu") for _ in range(20)]
        forged = [stubs.Forged(np.zeros(4, "float32")) for _ in range(60)]
        failed = []
        for number, lent in enumerate(forged):
            out = ctypes.c_void_p()
            tensor, place = ctypes.pointer(lent.struct), ctypes.byref(out)
            _testcapi.set_nomemory(number, number + 1)
            try:
                to_py(tensor, place)
            except (MemoryError, ctypes.ArgumentError):
                pass
            finally:
                _testcapi.remove_mem_hooks()
            if not out.value:
                failed.append(lent.deleted)
        print(len(failed) > 0, len(failed) < 60, sum(failed))
        """,
        str(pathlib.Path(stubs.__file__).parent))
    assert done.stdout == "True True 0\n", done.stdout + done.stderr
