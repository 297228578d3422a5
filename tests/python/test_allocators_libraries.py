# SPDX-License-Identifier: Apache-2.0
"""Allocators that RMM, CuPy, cuda.core, Numba and PyTorch are given (E20, E21)."""

import gc
import pathlib
import sys
import types
import warnings
import weakref

import pytest

import devrt
from devrt import interop
from devrt.testing import Flag

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import stubs  # noqa: E402


# ---- Allocators (E20, E21) ---------------------------------------------------


def allocated():
    devrt.synchronize("mtia:0")
    devrt.zeros((1,), "float32", device="mtia:0")
    return devrt.memory_allocated("mtia:0")


class Handle:
    """A stream as cuda.core has them."""

    def __init__(self, handle):
        self.handle = handle


def by_rmm(resource, pointer, stream):
    interop.rmm_callbacks("mtia:0")[1](pointer, 512, stream)


def by_cuda_core(resource, pointer, stream):
    resource.deallocate(pointer, 512, stream=stream)


@pytest.mark.parametrize("give_back, kind", [
    (by_rmm, lambda s: s), (by_rmm, lambda s: s.native_handle),
    (by_rmm, lambda s: stubs.RmmStream(s.native_handle)),
    (by_cuda_core, lambda s: Handle(s.native_handle)), (by_cuda_core, lambda s: s)])
def test_memory_goes_back_in_the_order_of_a_stream(cuda_core, give_back, kind):
    """The block is not reused before that stream's work is done."""
    home, last, gate = devrt.Stream("mtia:0"), devrt.Stream("mtia:0"), Flag("mtia:0")
    pointer = interop.caching_allocator_alloc(512, "mtia:0", home)
    gate.wait_on(last)
    give_back(cuda_core, pointer, kind(last))
    for idle in (home, devrt.default_stream("mtia:0")):
        idle.synchronize()
    early = interop.caching_allocator_alloc(512, "mtia:0", home)
    gate.set()
    last.synchronize()
    interop.stream_ends(last, "mtia:0")
    late = interop.caching_allocator_alloc(512, "mtia:0", home)
    assert early != pointer == late
    for each in (early, late):
        interop.caching_allocator_delete(each)


def test_own_streams_are_not_adopted():
    """A block for a devrt.Stream does not outlive it as a foreign one."""
    s = devrt.Stream("mtia:0")
    alloc, free = interop.rmm_callbacks("mtia:0")
    before = allocated()
    free(alloc(512, s), 512, s)
    block = interop.Block(512, "mtia:0", s)
    del block, s
    assert allocated() == before


def test_rmm_callbacks_allocate_and_free():
    alloc, free = interop.rmm_callbacks("mtia:0")
    s = devrt.Stream("mtia:0")
    before = allocated()
    for stream in (0, s.native_handle, stubs.RmmStream(s.native_handle)):
        pointer = alloc(512, stream)
        assert isinstance(pointer, int) and pointer
        free(pointer, 512, stream)
    interop.stream_ends(s.native_handle, "mtia:0")
    assert alloc(0, 0) == 0
    free(0, 0, 0)
    assert allocated() == before
    with pytest.raises(MemoryError):
        alloc(1 << 50, 0)


@pytest.fixture
def cupy(monkeypatch):
    """CuPy's memory classes; its device 0 is mtia:0."""
    from devrt.interop import _allocators

    stream = devrt.Stream("mtia:0")

    class UnownedMemory:
        def __init__(self, ptr, size, owner, device_id=-1):
            assert device_id == 0
            self.ptr, self.size, self.owner = ptr, size, owner

    class MemoryPointer:
        def __init__(self, memory, offset):
            self.mem, self.ptr = memory, memory.ptr + offset

    module = types.SimpleNamespace(
        cuda=types.SimpleNamespace(
            Device=lambda: types.SimpleNamespace(id=0),
            get_current_stream=lambda: stubs.CupyStream(stream.native_handle),
            UnownedMemory=UnownedMemory,
            MemoryPointer=MemoryPointer,
        )
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(_allocators, "device_name", lambda device: "mtia:0")
    return module


def test_cupy_allocator(cupy):
    before = allocated()
    pointer = interop.cupy_allocator(80)
    assert pointer.ptr and pointer.mem.size == 80
    assert devrt.memory_allocated("mtia:0") == before + 512
    del pointer
    assert allocated() == before
    with pytest.raises(devrt.OutOfMemoryError):
        interop.cupy_allocator(1 << 50)
    assert interop.cupy_allocator(0).ptr == 0


# E38
def test_cupy_c_functions():
    malloc, free = interop.cupy_c_functions()
    assert interop.cupy_c_functions() == (malloc, free)
    assert isinstance(malloc, int) and isinstance(free, int) and malloc != free


@pytest.fixture
def cuda_core(monkeypatch):
    """A memory resource, and of cuda.core what calls it."""

    class MemoryResource:
        pass

    class Buffer:
        @classmethod
        def from_handle(cls, ptr, size, mr=None, owner=None, *, stream=None):
            assert owner is None
            made = cls()
            made.handle, made.size, made.mr, made.stream = ptr, size, mr, stream
            return made

        def close(self):
            self.mr.deallocate(self.handle, self.size, stream=self.stream)

    core = types.ModuleType("cuda.core")
    core.Buffer, core.MemoryResource = Buffer, MemoryResource
    cuda = types.ModuleType("cuda")
    cuda.core = core
    monkeypatch.setitem(sys.modules, "cuda", cuda)
    monkeypatch.setitem(sys.modules, "cuda.core", core)
    from devrt.interop import _cuda_core

    monkeypatch.setattr(_cuda_core, "_class", None)
    return interop.cuda_core_memory_resource("mtia:0")


def test_cuda_core(cuda_core):
    """The calls that cuda.core makes."""
    resource = cuda_core
    assert resource.is_device_accessible and not resource.is_host_accessible
    assert resource.is_managed is False and resource.device_id == 0
    s = devrt.Stream("mtia:0")
    before = allocated()
    for stream in (None, types.SimpleNamespace(handle=s.native_handle)):
        buffer = resource.allocate(512, stream=stream)
        assert devrt.memory_allocated("mtia:0") == before + 512
        buffer.close()
    assert allocated() == before
    with pytest.raises(MemoryError):
        resource.allocate(1 << 50, stream=None)
    with pytest.warns(devrt.InteropWarning):
        resource.deallocate(12345, 16, stream=None)


def test_cuda_core_keeps_streams_until_they_end(cuda_core):
    s = devrt.Stream("mtia:0")
    theirs = Handle(s.native_handle)
    alive = weakref.ref(theirs)
    buffer = cuda_core.allocate(512, stream=theirs)
    buffer.stream = None
    buffer.close()
    del theirs
    gc.collect()
    assert alive() is not None
    interop.stream_ends(s, "mtia:0")
    assert alive() is None


def test_cuda_core_has_memory_back_that_becomes_no_buffer(cuda_core, monkeypatch):
    def refuse(*arguments, **keywords):
        raise KeyboardInterrupt

    before = allocated()
    monkeypatch.setattr(sys.modules["cuda.core"].Buffer, "from_handle", refuse)
    for stream in (None, Handle(0)):
        with pytest.raises(KeyboardInterrupt):
            cuda_core.allocate(512, stream=stream)
    assert allocated() == before


class Closed:
    """A stream that has ended."""

    @property
    def handle(self):
        raise RuntimeError("the stream is closed")


@pytest.mark.parametrize("stream", [Closed(), object(), "x", 1.5, -5, 1 << 70],
                         ids=lambda s: str(s)[:12])
def test_cuda_core_gives_back_in_the_order_of_no_stream(cuda_core, stream):
    before = allocated()
    buffer = cuda_core.allocate(512, stream=None)
    buffer.stream = stream
    with pytest.warns(devrt.InteropWarning, match="after all work of mtia:0"):
        buffer.close()
    assert allocated() == before


def test_a_block_that_cannot_be_given_back_so_can_be_otherwise():
    """On a stream that nobody knows; then without one."""
    before = allocated()
    pointer = interop.caching_allocator_alloc(512, "mtia:0")
    with pytest.raises(devrt.Error):
        interop.rmm_callbacks("mtia:0")[1](pointer, 512, 123456789)
    interop.caching_allocator_delete(pointer)
    assert allocated() == before


def test_cuda_core_gives_back_after_the_work_of_a_stream_unknown(
        cuda_core, monkeypatch):
    """The block may be in use on it."""
    calls = []
    buffer = cuda_core.allocate(512, stream=None)
    native = types.SimpleNamespace(
        _free_native=lambda *arguments: calls.append(arguments))
    with monkeypatch.context() as patch:
        patch.setattr("devrt.interop._allocators._native", native)
        device = types.SimpleNamespace(
            _wait_for_work=lambda: calls.append("waits"))
        patch.setattr("devrt._core.Device", {"mtia:0": device}.get)
        with pytest.warns(devrt.InteropWarning):
            cuda_core.deallocate(buffer.handle, 512, stream=Closed())
    assert calls == ["waits", (buffer.handle,)]
    buffer.close()


def test_cuda_core_never_raises(cuda_core, monkeypatch):
    class Number:
        def __int__(self):
            raise KeyError("no")

    for pointer in ("x", None, -5, 1 << 64, 77, Number()):
        with pytest.warns(devrt.InteropWarning, match="could not be given back"):
            cuda_core.deallocate(pointer, 512)
    cuda_core.deallocate(0, 512, stream=Closed())
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cuda_core.deallocate(77, 1)
        buffer = cuda_core.allocate(512, stream=None)
        cuda_core.deallocate(buffer.handle, 512, stream=Closed())
    assert [one.exc_type for one in seen] == [devrt.InteropWarning] * 2
    seen.clear()


@pytest.fixture
def numba_manager(monkeypatch):
    """The manager's class, and of Numba what calls it; its device is mtia:0."""

    class Mixin:
        pass

    class HostOnly:
        def __init__(self, *, context):
            self.context = context

    class MemoryPointer:
        def __init__(self, context, pointer, size, owner=None, finalizer=None):
            self.pointer, self.size, self.finalizer = pointer, size, finalizer

    cuda = types.ModuleType("numba.cuda")
    cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager = Mixin, HostOnly
    cuda.MemoryPointer = MemoryPointer
    cuda.MemoryInfo = lambda free, total: (free, total)
    numba = types.ModuleType("numba")
    numba.cuda = cuda
    monkeypatch.setitem(sys.modules, "numba", numba)
    monkeypatch.setitem(sys.modules, "numba.cuda", cuda)
    from devrt.interop import _numba

    monkeypatch.setattr(_numba, "_class", None)
    manager = interop._numba_memory_manager
    monkeypatch.setattr(manager, "_device", lambda self: "mtia:0")
    return manager


def test_numba_manager_answers_numbas_calls(numba_manager):
    """The calls that Numba makes."""
    manager = numba_manager
    assert interop._numba_memory_manager is manager
    assert manager(context=None).interface_version == 1  # touches no device
    context = types.SimpleNamespace(device=types.SimpleNamespace(id=0))
    made = manager(context=context)
    made.initialize()
    before = allocated()
    memory = made.memalloc(512)
    assert memory.pointer.value and devrt.memory_allocated("mtia:0") == before + 512
    memory.finalizer()
    assert allocated() == before
    free, total = made.get_memory_info()
    assert 0 < free <= total


def test_numba_gives_a_block_to_nobody_before_its_work_is_over(numba_manager):
    """Of a stream that Numba has not named; the next user's may be another."""
    made = numba_manager(
        context=types.SimpleNamespace(device=types.SimpleNamespace(id=0)))
    busy, gate = devrt.Stream("mtia:0", blocking=True), Flag("mtia:0")
    memory = made.memalloc(512)
    gate.wait_on(busy)
    memory.finalizer()
    early = made.memalloc(512)
    gate.set()
    devrt.synchronize("mtia:0")
    late = made.memalloc(512)
    for each in (early, late):
        each.finalizer()
    assert early.pointer.value != memory.pointer.value == late.pointer.value


TORCH_SETTERS = {
    "set_init_fn", "set_reset_fn", "set_memory_fraction_fn", "set_base_alloc_fn",
    "set_record_stream_fn", "set_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn", "set_release_pool"}


@pytest.fixture
def torch(monkeypatch):
    """PyTorch's pluggable allocator, as of 2.11."""

    class Native:
        def __init__(self):
            self.given = {}

        def __getattr__(self, name):
            if name not in TORCH_SETTERS:
                raise AttributeError(name)
            return lambda address: self.given.__setitem__(name, address)

    class CUDAPluggableAllocator:
        def __init__(self, path, alloc, free):
            self.functions = (path, alloc, free)
            self._allocator = Native()

        def allocator(self):
            return self._allocator

    memory = types.SimpleNamespace(CUDAPluggableAllocator=CUDAPluggableAllocator)
    module = types.SimpleNamespace(cuda=types.SimpleNamespace(memory=memory))
    monkeypatch.setitem(sys.modules, "torch", module)
    try:
        interop.torch_allocator_path()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return module


def test_torch_gets_every_function_it_has_a_setter_for(torch):
    made = interop.torch_allocator()
    assert made.functions[1:] == ("devrt_torch_alloc", "devrt_torch_free")
    given = made.allocator().given
    assert set(given) == TORCH_SETTERS - {"set_init_fn"}
    assert all(given.values()) and len(set(given.values())) == len(given)
    assert not interop.torch_pool_allocator().allocator().given


def test_a_torch_that_drops_a_function_is_refused(torch, monkeypatch):
    monkeypatch.setattr(
        sys.modules[__name__], "TORCH_SETTERS",
        TORCH_SETTERS - {"set_record_stream_fn"})
    with pytest.raises(NotImplementedError, match="set_record_stream_fn"):
        interop.torch_allocator()


def test_the_path_of_the_torch_allocator():
    """It is built beside devrt, or says where it has looked."""
    try:
        path = interop.torch_allocator_path()
    except FileNotFoundError as error:
        assert "libdevrt_torch.so" in str(error)
    else:
        assert pathlib.Path(path).name == "libdevrt_torch.so"
