# SPDX-License-Identifier: Apache-2.0
"""devrt.interop's allocators that know devices of CUDA by number: on a GPU or
over the fake driver."""

import ctypes
import gc
import sys
import time
import types

import pytest

import devrt
from devrt import interop

try:
    CUDA = devrt.devices("cuda")
except devrt.Error as error:
    pytest.skip(f"no cuda: {str(error)[:100]}", allow_module_level=True)


# E38, E20
@pytest.mark.parametrize("index", range(len(CUDA)))
def test_cupy_c_functions_are_called_with_their_addresses_alone(index):
    # With the interpreter's lock, as CuPy calls them.
    malloc = ctypes.PYFUNCTYPE(
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(
            interop.cupy_c_functions()[0])
    free = ctypes.PYFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(
            interop.cupy_c_functions()[1])
    gc.collect()
    before = [devrt.memory_allocated(device) for device in CUDA]
    pointer = malloc(None, 1000, index)
    now = [devrt.memory_allocated(device) for device in CUDA]
    assert pointer and now[index] == before[index] + 1024
    assert now[:index] + now[index + 1:] == before[:index] + before[index + 1:]
    x = devrt.from_pointer(pointer, (250,), "float32", device=CUDA[index])
    assert x.fill(2).numpy().sum() == 500
    x.ready()
    del x
    free(None, pointer, index)
    assert [devrt.memory_allocated(device) for device in CUDA] == before
    # Null, and no exception, where there is no room or no such device.
    assert malloc(None, 1 << 60, index) is None
    assert malloc(None, 1000, len(CUDA)) is None
    free(None, None, index)


# ---- Captures (docs/decisions/0014) ------------------------------------------


@pytest.fixture(scope="module")
def driver():
    return ctypes.CDLL("libcuda.so.1")


class Capture:
    """Another library's, and the graph that comes of it."""

    def __init__(self, driver, stream):
        self.driver, self.handle = driver, ctypes.c_void_p(stream.native_handle)
        assert driver.cuStreamBeginCapture_v2(self.handle, 0) == 0
        self.graph = ctypes.c_void_p()

    def end(self):
        assert self.driver.cuStreamEndCapture(
            self.handle, ctypes.byref(self.graph)) == 0

    def destroy(self):
        assert self.driver.cuGraphDestroy(self.graph) == 0


def by_block(stream):
    block = interop.Block(4 << 20, CUDA[0], stream.native_handle)
    return block.ptr, lambda: block.__del__()


def by_native_allocation(stream):
    pointer = interop.caching_allocator_alloc(4 << 20, 0, stream.native_handle)
    return pointer, lambda: interop.caching_allocator_delete(pointer)


def by_own_stream(stream):
    pointer = devrt.caching_allocator_alloc(4 << 20, stream)
    return pointer, lambda: devrt.caching_allocator_delete(pointer)


def by_rmm(stream):
    alloc, free = interop.rmm_callbacks(0)
    pointer = alloc(4 << 20, stream.native_handle)
    return pointer, lambda: free(pointer, 4 << 20, stream.native_handle)


def by_cupy(stream):
    """CuPy's pointer keeps the block; its stream is whatever is current."""
    Module = types.SimpleNamespace
    cuda = Module(Device=lambda: Module(id=0), get_current_stream=lambda: Module(
                      ptr=stream.native_handle, wait_event=print),
                  UnownedMemory=lambda *arguments: arguments,
                  MemoryPointer=lambda memory, offset: memory)
    sys.modules["cupy"] = Module(cuda=cuda)
    try:
        pointer, _, block, _ = interop.cupy_allocator(4 << 20)
    finally:
        del sys.modules["cupy"]
    return pointer, lambda: block.__del__()


def by_cuda_core(stream):
    """Its Buffer calls deallocate with a stream."""
    from devrt.interop import _cuda_core

    core = types.ModuleType("cuda.core")
    core.MemoryResource = object
    core.Buffer = types.SimpleNamespace(
        from_handle=lambda pointer, size, mr, stream: pointer)
    sys.modules["cuda.core"], kept = core, sys.modules.get("cuda.core")
    try:
        resource = _cuda_core._make_class()("cuda:0")
    finally:
        del sys.modules["cuda.core"]
        if kept is not None:
            sys.modules["cuda.core"] = kept
    theirs = types.SimpleNamespace(handle=stream.native_handle)
    pointer = resource.allocate(4 << 20, stream=theirs)
    return pointer, lambda: resource.deallocate(pointer, 4 << 20, stream=theirs)


@pytest.mark.parametrize("take", [by_block, by_native_allocation, by_own_stream,
                                  by_rmm, by_cupy, by_cuda_core])
@pytest.mark.parametrize("freed", ["within", "behind"])
def test_memory_of_a_capture_is_its_graphs(driver, take, freed):
    stream = devrt.Stream(CUDA[0])
    _, give_back = take(stream)  # as a warm-up does
    give_back()
    capture = Capture(driver, stream)
    pointer, give_back = take(stream)
    if freed == "within":
        give_back()
    capture.end()
    if freed == "behind":
        give_back()
    assert pointer not in given(take, stream)
    capture.destroy()
    assert comes_back(pointer, take, stream)
    interop.stream_ends(stream, CUDA[0])


def given(take, stream):
    """Where the next blocks of the stream are."""
    blocks = [take(stream) for _ in range(8)]
    for _, give_back in blocks:
        give_back()
    return [pointer for pointer, _ in blocks]


def comes_back(pointer, take, stream):
    """The driver ends a graph on a thread of its own."""
    end = time.monotonic() + 20
    while pointer not in given(take, stream):
        if time.monotonic() > end:
            return False
    return True


def test_a_block_that_a_graph_keeps_is_given_back_once(driver):
    stream = devrt.Stream(CUDA[0])
    by_own_stream(stream)[1]()
    capture = Capture(driver, stream)
    pointer, give_back = by_own_stream(stream)
    give_back()
    with pytest.raises(devrt.InvalidArgumentError, match="did not give|before"):
        give_back()
    capture.end()
    capture.destroy()
    assert comes_back(pointer, by_own_stream, stream)
