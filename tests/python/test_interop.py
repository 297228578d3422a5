# SPDX-License-Identifier: Apache-2.0
"""devrt.interop: order, shared streams, unowned memory."""

import contextlib
import sys
import threading
import time
import types

import pytest

np = pytest.importorskip("numpy")

import devrt
from devrt import interop
from devrt.testing import Flag

SPIN = 100_000_000


@pytest.fixture
def x():
    return devrt.zeros((1024,), "float32", device="mtia:0")


def unknown(x):
    """Returns an array on x's memory whose uses devrt does not connect with x."""
    return devrt.from_pointer(x.ptr, x.shape, x.dtype, device=x.device, owner=x)


# ---- exchange and ready (E17) ------------------------------------------------


def test_exchange_orders_both_ways(x):
    a, b = devrt.Stream("mtia:0"), devrt.Stream("mtia:0")
    raw = unknown(x)
    with a:
        devrt._core._spin(SPIN, a)
        x.fill(1)
    with interop.exchange(x, b) as entered:
        assert entered is b
        with b:
            seen = raw.copy()  # behind x.fill
            devrt._core._spin(SPIN, b)
            raw.fill(2)
    with a:
        after = x + 0.0  # behind raw.fill
    assert (seen.numpy() == 1).all()
    assert (after.numpy() == 2).all()


def test_exchange_does_not_wait(x):
    a, b = devrt.Stream("mtia:0"), devrt.Stream("mtia:0")
    with a:
        devrt._core._spin(SPIN, a)
        x.fill(1)
    with interop.exchange(x, b):
        assert not a.query()
    devrt.synchronize("mtia:0")


def test_exchange_tells_its_uses_after_an_exception(x):
    b = devrt.Stream("mtia:0")
    with pytest.raises(KeyError):
        with interop.exchange(x, b):
            devrt._core._spin(SPIN, b)
            raise KeyError
    assert not x.is_ready()
    x.ready()
    assert b.query()


def pinned(x):
    return devrt.zeros(x.shape, x.dtype, device="mtia:0", pinned=True)


@pytest.mark.parametrize("kind", [pinned, unknown], ids=["pinned", "borrowed"])
def test_exchange_of_memory_without_a_home_stream(x, kind):
    """Uses of such memory have streams, too: both ways, by values."""
    a, b = devrt.Stream("mtia:0"), devrt.Stream("mtia:0")
    y = kind(x)
    y.ready()
    assert y.home_stream is None
    raw = devrt.from_pointer(y.ptr, y.shape, y.dtype, owner=y)
    ones, twos = (devrt.full(x.shape, n, x.dtype, device="mtia:0") for n in (1, 2))
    devrt.synchronize("mtia:0")
    with a:
        devrt._core._spin(SPIN, a)
        y.copy_(ones, non_blocking=True)
    with interop.exchange(y, b) as entered:
        assert entered is b and not a.query()
        with b:
            seen = devrt.zeros(x.shape, x.dtype, device="mtia:0")
            seen.copy_(raw, non_blocking=True)
            devrt._core._spin(SPIN, b)
            raw.copy_(twos, non_blocking=True)
    assert not y.is_ready()
    with a:
        after = devrt.zeros(x.shape, x.dtype, device="mtia:0")
        after.copy_(y, non_blocking=True)
    assert (seen.numpy() == 1).all()
    assert (after.numpy() == 2).all()
    with interop.exchange(y, None) as entered:
        assert entered == devrt.current_stream("mtia:0")


def test_exchange_takes_handles_and_hosts(x):
    b = devrt.Stream("mtia:0")
    with interop.exchange(x, None) as s:
        assert s == devrt.current_stream("mtia:0")
    host = devrt.zeros((3,), device="cpu")
    with interop.exchange(host, b) as s:
        assert s is b
    with pytest.raises(TypeError):
        interop.exchange(np.zeros(3), b)
    with pytest.raises(TypeError):
        interop.exchange(x, b, writes=1)
    with pytest.raises(TypeError):
        interop.exchange(x, object())
    for junk in ("junk", 1.5, object()):
        with pytest.raises(TypeError):
            interop.exchange(host, junk)
    with interop.exchange(host, b.native_handle) as s:
        assert isinstance(s, devrt.Stream) and s.native_handle == b.native_handle
    with interop.exchange(host, None) as s:
        assert s is None


def test_exchange_with_the_stream_that_is_current_on_entry(x):
    """And on exit still with that one."""
    a, b = devrt.Stream("mtia:0"), devrt.Stream("mtia:0")
    context = interop.exchange(x, None)
    raw = unknown(x)
    x.fill(1)
    with a:
        with context as outer:
            assert outer is a
            with b, context as inner:
                assert inner is b
                devrt._core._spin(SPIN, b)
                raw.fill(2)
            assert not x.is_ready()
        after = x + 0.0
    assert (after.numpy() == 2).all()
    assert isinstance(leave(context), devrt.Error)


def test_exchange_of_work_that_only_reads(x):
    """Readers do not wait for it; writers do."""
    gate = Flag("mtia:0")
    for writes in (False, True):
        a, b = devrt.Stream("mtia:0"), devrt.Stream("mtia:0")
        devrt.synchronize("mtia:0")
        with interop.exchange(x, b, writes=writes):
            gate.wait_on(b)
        with a:
            seen = x + 1
            end = time.monotonic() + (0 if writes else 30)
            while not a.query() and time.monotonic() < end:
                pass
            assert a.query() is not writes
            x.fill(1)
            assert not a.query()
        gate.set()
        devrt.synchronize("mtia:0")
        gate.clear()
        del seen


def test_only_the_entering_thread_can_leave_an_exchange(x):
    context = interop.exchange(x, None)
    failures = []
    with context:
        worker = threading.Thread(target=lambda: failures.append(leave(context)))
        worker.start()
        worker.join()
    assert isinstance(failures[0], devrt.Error)


def test_exchange_takes_handles_of_the_datas_device(two):
    x = devrt.ones(3, device=two[1])
    with two[0], interop.exchange(x, 0) as entered:
        assert entered == devrt.default_stream(two[1])


def test_exchange_of_a_stream_of_another_device(x):
    """Kernels of a peer may use the memory, too."""
    b = devrt.Stream("mtia:1")
    x.fill(1)
    with interop.exchange(x, b):
        with b:
            seen = unknown(x).to("mtia:1")
    assert (seen.numpy() == 1).all()
    x.ready()


def test_a_type_string_is_read_to_its_end(x):
    interface = {"shape": (1,), "typestr": "<f4", "strides": None, "version": 3,
                 "data": (x.ptr, False)}
    assert devrt.from_cuda_array_interface(interface).dtype == devrt.float32
    for typestr in ("<f4\0junk", "<f4\0", "<f4 "):
        with pytest.raises(ValueError, match="typestr"):
            devrt.from_cuda_array_interface({**interface, "typestr": typestr})


def test_versions_of_the_thread():
    set_version = interop.set_cai_export_version
    assert set_version(2) is None
    seen = []
    other = threading.Thread(target=lambda: seen.append(set_version(3)))
    other.start()
    other.join()
    assert seen == [None]
    for value, error in ((1, ValueError), (4, ValueError), ("2", TypeError),
                         (True, TypeError), (2.0, TypeError)):
        with pytest.raises(error):
            set_version(value)
    assert set_version(None) == 2


def test_ready_waits_for_an_array(x):
    a = devrt.Stream("mtia:0")
    with a:
        devrt._core._spin(SPIN, a)
        x.fill(1)
    assert not x.is_ready()
    assert interop.ready(x) is x
    assert x.is_ready()
    host = devrt.zeros((3,), device="cpu")
    assert interop.ready(host) is host
    for thing in (None, 1, np.zeros(3)):
        with pytest.raises(TypeError):
            interop.ready(thing)


# ---- Shared current streams, with stubs of torch and CuPy --------------------


class Library:
    """torch's and cupy's streams, as far as devrt calls them."""

    def __init__(self):
        self.current = ["default"]
        self.fail = False

    @contextlib.contextmanager
    def use(self, stream):
        before = list(self.current)
        self.current.append(stream)
        try:
            yield
        finally:
            self.current[:] = before  # what it has found
            if self.fail:
                raise RuntimeError("cannot restore")


@pytest.fixture
def libraries(monkeypatch):
    """mtia passes for cuda here."""
    from devrt.interop import _streams

    torch, cupy = Library(), Library()
    torch.cuda = types.SimpleNamespace(
        stream=torch.use,
        default_stream=lambda d: ("default", d),
        ExternalStream=lambda handle, device: ("external", handle, device),
        current_device=lambda: 1,
        current_stream=lambda d: ("of", d),
    )

    class CupyStream:
        null = contextlib.nullcontext()

    cupy.cuda = types.SimpleNamespace(
        Stream=CupyStream,
        ExternalStream=lambda handle, device: cupy.use(("external", handle, device)),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(_streams, "GPU", ("cuda", "hip", "mtia"))
    return torch, cupy


def test_one_stream_in_three_libraries(libraries, two):
    torch, cupy = libraries
    s = devrt.Stream("mtia:1")
    shared = devrt.stream(s, also=("torch", "cupy"))
    for _ in range(2):
        with shared as entered:
            assert entered is s
            assert devrt.current_stream("mtia:1") is s
            assert torch.current[-1] == cupy.current[-1]
            assert torch.current[-1] == ("external", s.native_handle, 1)
            with shared:
                assert len(torch.current) == 3
        assert torch.current == cupy.current == ["default"]


def test_default_streams_are_mapped(libraries):
    torch, _ = libraries
    with devrt.stream(devrt.default_stream("mtia:1"), also="torch"):
        assert torch.current[-1] == ("default", 1)


def test_shared_streams_decorate(libraries):
    torch, _ = libraries
    s = devrt.Stream("mtia:1")

    @devrt.stream(s, also="torch")
    def inside():
        return devrt.current_stream(), torch.current[-1]

    assert inside() == (s, ("external", s.native_handle, 1))
    assert torch.current == ["default"]


def test_every_library_is_restored_if_a_restore_fails(libraries):
    torch, cupy = libraries
    cupy.fail = True
    s = devrt.Stream("mtia:0")
    with pytest.raises(RuntimeError, match="cannot restore"):
        with devrt.stream(s, also=("torch", "cupy")):
            pass
    assert torch.current == cupy.current == ["default"]


def test_a_failed_enter_restores_every_library(libraries):
    torch, cupy = libraries

    def refuse(handle, device):
        raise RuntimeError("no")

    cupy.cuda.ExternalStream = refuse
    s = devrt.Stream("mtia:0")
    with pytest.raises(RuntimeError, match="no"):
        with devrt.stream(s, also=("torch", "cupy")):
            raise AssertionError("entered")
    assert torch.current == ["default"]


def test_shared_by_threads(libraries):
    torch, _ = libraries
    shared = devrt.stream(devrt.Stream("mtia:0"), also="torch")
    with shared:
        worker = threading.Thread(target=lambda: shared.__exit__(None, None, None))
        failures = []
        worker.run = lambda: failures.append(leave(shared))
        worker.start()
        worker.join()
    assert isinstance(failures[0], devrt.Error)


def leave(context):
    try:
        context.__exit__(None, None, None)
    except Exception as error:
        return error
    return None


def test_also_of_a_library_that_is_not_there(monkeypatch, libraries):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match="cupy"):
        devrt.stream(devrt.Stream("mtia:0"), also=("torch", "cupy"))


def test_also_refuses_other_names_and_devices():
    s = devrt.Stream("mtia:0")
    with pytest.raises(ValueError, match="jax"):
        devrt.stream(s, also=("jax",))
    with pytest.raises(ValueError, match="mtia"):
        devrt.stream(s, also="torch")
    for also in (1, (1,), None):
        with pytest.raises(TypeError):
            devrt.stream(s, also=also)
    with pytest.raises(TypeError):
        devrt.stream(None, also="torch")


def test_use_stream_of_refuses_devices_the_library_lacks(monkeypatch, libraries, two):
    for device in ("mtia:1", two[1]):
        with pytest.raises(ValueError, match="Expected a cuda device, but got: mtia"):
            interop.use_stream_of("torch", device)
    for device in (True, 1.5):
        with pytest.raises(TypeError, match="device must be"):
            interop.use_stream_of("torch", device)
    for name in ("torch", "cupy"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match=f"library='{name}': {name} cannot"):
            interop.use_stream_of(name)


def test_use_stream_of_bad_names():
    with pytest.raises(ValueError, match="numba"):
        interop.use_stream_of("numba")
    with pytest.raises(TypeError):
        interop.use_stream_of(1)


def test_no_other_attribute():
    with pytest.raises(AttributeError):
        interop.no_such_thing


def test_import_of_nothing(run_program):
    """devrt.interop imports no other library."""
    ended = run_program(
        """
        import sys
        import devrt.interop
        found = {"numpy", "torch", "cupy", "numba", "jax", "cuda"} & set(sys.modules)
        print(sorted(found))
        """
    )
    assert ended.stdout == "[]\n", ended.stderr


# ---- Unowned memory ----------------------------------------------------------


def test_from_pointer_and_back(x):
    x.fill(4)
    y = devrt.from_pointer(x.ptr, (4,), "float32", owner=x)
    assert y.device == x.device and y.ptr == x.ptr
    assert y.nbytes == 16
    assert (y.numpy() == 4).all()
    with pytest.raises(ValueError):
        devrt.from_pointer(0, (4,), "float32")
    with pytest.raises(ValueError):
        devrt.from_pointer(x.ptr, (4,), "float32", device="mtia:1")
