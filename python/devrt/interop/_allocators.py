# SPDX-License-Identifier: Apache-2.0
"""devrt's memory for other libraries (E20).

Each adapter has the shape that its host calls.  Memory is for work on a native
stream, whose handle the host knows, and goes back in the order of that stream.
Adapters that a host was given live as long as the process (E38).
"""

from __future__ import annotations

import ctypes
import importlib
import os
import warnings
from typing import Any, Callable, Dict, Optional, Tuple

from .. import _core

# With what it has for this package alone.
_native: Any = _core


def load(name: str) -> Any:
    """Another library; only functions that need it call this."""
    return importlib.import_module(name)

__all__ = [
    "Block",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "cuda_core_memory_resource",
    "cupy_allocator",
    "cupy_c_functions",
    "cupy_free",
    "cupy_malloc",
    "handle_of",
    "rmm_callbacks",
    "stream_ends",
    "torch_allocator",
    "torch_allocator_path",
    "torch_pool_allocator",
]


def check_device(stream: Any, device: str) -> None:
    """Raises ValueError if a devrt.Stream is of another device."""
    if stream.device.name != device:
        raise ValueError(
            f"memory of {device} was asked for work on a stream of "
            f"{stream.device.name}: pass a stream of {device}, or its device"
        )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def handle_of(stream: Any) -> int:
    """The native handle of anything that is a stream somewhere."""
    if stream is None:
        return 0
    if _is_int(stream):
        return int(stream)
    if isinstance(stream, _core.Stream):
        return stream.native_handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if callable(protocol):
        answer = protocol()
        if not (
            isinstance(answer, tuple)
            and len(answer) == 2
            and all(_is_int(item) for item in answer)
            and answer[0] == 0
        ):
            raise TypeError(
                f"__cuda_stream__() of {type(stream).__name__} returned "
                f"{answer!r}, expected (0, handle)"
            )
        return int(answer[1])
    names = ["value", "cuda_stream"]  # RMM; PyTorch
    if callable(getattr(stream, "wait_event", None)):
        names.append("ptr")  # CuPy, where memory and events have one, too
    for name in names:
        value: Any = getattr(stream, name, None)
        value = value() if callable(value) else value
        if _is_int(value):
            return int(value)
    raise TypeError(f"stream must be a stream, not {type(stream).__name__}")


# Streams of other libraries on which memory was asked for. Their handles are
# adopted, and must not die before that ends: see stream_ends.
_kept: Dict[Tuple[str, int], Any] = {}


def _allocate(device: str, size: int, stream: Any) -> int:
    """Address of memory for work on `stream`, in whatever form it comes."""
    if isinstance(stream, _core.Stream):
        check_device(stream, device)
        return int(_core.caching_allocator_alloc(size, stream))
    handle = handle_of(stream)
    pointer = int(_native._alloc_native(device, size, handle))
    if handle > 2 and not isinstance(stream, int):
        _kept[device, handle] = stream
    return pointer


def _release(pointer: int, stream: Any) -> None:
    """In the order of `stream`, too."""
    if isinstance(stream, _core.Stream):
        _core.record_stream(pointer, stream)
        _native._free_native(pointer)
    else:
        _native._free_native(pointer, handle_of(stream))


def stream_ends(stream: Any, device: Any = None) -> None:
    """Before a native stream is destroyed on which an adapter gave memory.

    stream: its handle, or the object; device: None the current one of cuda.

    Needed for streams that a program names by their handles and destroys; the
    driver gives a handle to the next stream, which would be taken for the old
    one.  Stream objects are kept until then, or for the process.
    """
    name, handle = _device_name(device), handle_of(stream)
    _native._stream_ends(name, handle)
    _kept.pop((name, handle), None)


def _device_name(device: Any) -> str:
    """None: the current device of cuda; a number: one of cuda."""
    if device is None:
        return _core.current_device("cuda").name
    if _is_int(device):
        return f"cuda:{device}"
    return _core.Device(device).name


class Block:
    """Device memory for work on one native stream; given back with the object.

    Attributes: ptr, size, device.
    """

    __slots__ = ("ptr", "size", "device", "_stream")

    def __init__(self, size: int, device: Any = None, stream: Any = None) -> None:
        self.ptr = 0
        self.device = _device_name(device)
        self.size = size
        # A recycled handle would name another stream.
        self._stream = stream
        self.ptr = _allocate(self.device, size, stream)

    def __del__(self) -> None:
        if getattr(self, "ptr", 0):
            give_back(self.ptr)


class _Unraised:
    """Python reports what a destructor raises, and goes on."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error


def _report(text: str) -> None:
    """An InteropWarning that does not raise where warnings are errors."""
    try:
        warnings.warn(text, _core.InteropWarning, stacklevel=3)
    except _core.InteropWarning as error:
        _Unraised(error)


def give_back(
    pointer: Any,
    stream: Any = None,
    device: Optional[str] = None,
    handle_of: Callable[[Any], int] = handle_of,
) -> None:
    """Never raises: its callers are destructors.

    In the order of `stream`; where that cannot be told, after all work of
    `device`.  What goes wrong is an InteropWarning.
    """
    try:
        address = int(pointer)
        if address == 0:
            return
        try:
            handle = None if stream is None else handle_of(stream)
            _native._free_native(address, handle)
        except Exception as error:  # noqa: BLE001: any stream
            if stream is None or device is None:
                raise
            _core.Device(device)._wait_for_work()
            _native._free_native(address)
            _report(
                f"memory at {address:#x} was given back after all work of "
                f"{device}, not in the order of a stream: {error}"
            )
    except Exception as error:  # noqa: BLE001: nobody can take it
        _report(f"memory at {_address(pointer)} could not be given back: {error}")


def _address(pointer: Any) -> str:
    return hex(pointer) if isinstance(pointer, int) else type(pointer).__name__


# ---- PyTorch, and what calls as it does --------------------------------------


def torch_allocator_path() -> str:
    """The file of CUDAPluggableAllocator: symbols devrt_torch_alloc,
    devrt_torch_free, and devrt_torch_pool_alloc for a MemPool.

    Raises FileNotFoundError where devrt was built without it.
    """
    name = "libdevrt_torch.so"
    tried = []
    library = _native._library_path()
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    folders = [os.path.join(package, "lib")]
    if library:
        # Where devrt is, as installed, or as in a build folder.
        beside = os.path.dirname(os.path.realpath(library))
        folders += [
            beside,
            os.path.join(os.path.dirname(beside), "memory", "torch"),
        ]
    for folder in folders:
        path = os.path.join(folder, name)
        tried.append(path)
        if os.path.exists(path):
            return path
    raise FileNotFoundError("no such file: " + ", ".join(tried))


# What sets each function of the pluggable allocator of PyTorch 2.11, and devrt's
# function.  set_init_fn is left out: devrt begins with the first allocation.
_TORCH_FUNCTIONS = {
    "set_record_stream_fn": "devrt_torch_record_stream",
    "set_reset_fn": "devrt_torch_empty_cache",
    "set_memory_fraction_fn": "devrt_torch_set_memory_fraction",
    "set_base_alloc_fn": "devrt_torch_base_allocation",
    "set_begin_allocate_to_pool": "devrt_torch_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "devrt_torch_end_allocate_to_pool",
    "set_release_pool": "devrt_torch_release_pool",
}


def torch_allocator() -> Any:
    """For torch.cuda.memory.change_current_allocator, before CUDA is used.

    Tensor.record_stream, torch.cuda.graph with its pools, empty_cache and
    set_per_process_memory_fraction work as with PyTorch's own allocator; a
    MemPool needs PyTorch's own as the current one (torch_pool_allocator).

    Without room PyTorch raises RuntimeError with devrt's text.  Raises
    NotImplementedError for a PyTorch that cannot be given a function.
    """
    path = torch_allocator_path()
    made = load("torch").cuda.memory.CUDAPluggableAllocator(
        path, "devrt_torch_alloc", "devrt_torch_free"
    )
    functions = ctypes.CDLL(path)
    allocator = made.allocator()
    for setter, function in _TORCH_FUNCTIONS.items():
        if not hasattr(allocator, setter):
            raise NotImplementedError(
                f"the allocator of this PyTorch has no {setter}: without "
                f"{function} tensors would be overwritten; use PyTorch 2.3 or "
                "later"
            )
        address = ctypes.cast(getattr(functions, function), ctypes.c_void_p)
        getattr(allocator, setter)(address.value)
    return made


def torch_pool_allocator() -> Any:
    """For torch.cuda.MemPool(interop.torch_pool_allocator().allocator()).

    The pool gets its segments from devrt; PyTorch's own allocator keeps streams,
    captures and blocks, and asks for nothing else.

    Without room PyTorch raises its OutOfMemoryError.
    """
    return load("torch").cuda.memory.CUDAPluggableAllocator(
        torch_allocator_path(), "devrt_torch_pool_alloc", "devrt_torch_free"
    )


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """torch.cuda.caching_allocator_alloc's shape, as pytorch-pfn-extras calls it.

    device: None the current one, a number of cuda, or a devrt.Device.
    stream: a native handle (see stream_ends), or any library's stream; None:
    devrt's current one.
    """
    name = _device_name(device)
    if stream is None:
        stream = _core.current_stream(name)
    return _allocate(name, size, stream)


def caching_allocator_delete(pointer: int) -> None:
    """Gives back what caching_allocator_alloc gave."""
    _native._free_native(pointer)


# ---- CuPy --------------------------------------------------------------------


def cupy_allocator(nbytes: int) -> Any:
    """For cupy.cuda.set_allocator: CuPy's arrays live in devrt's memory.

    For CuPy's current stream and device.  Raises OutOfMemoryError.
    """
    cupy = load("cupy")
    device = cupy.cuda.Device().id
    block = Block(nbytes, device, cupy.cuda.get_current_stream())
    memory = cupy.cuda.UnownedMemory(block.ptr, nbytes, block, device)
    return cupy.cuda.MemoryPointer(memory, 0)


def cupy_malloc(size: int, device_id: int) -> int:
    """With cupy_free for cupy.cuda.PythonFunctionAllocator."""
    stream = load("cupy").cuda.get_current_stream()
    return _allocate(f"cuda:{device_id}", size, stream)


def cupy_free(pointer: int, device_id: int) -> None:
    """See cupy_malloc."""
    if pointer:
        _native._free_native(pointer)


def cupy_c_functions() -> Tuple[int, int]:
    """Addresses for cupy.cuda.CFunctionAllocator(0, malloc, free, owner).

    For measurements: CuPy takes the null pointer, by which they say that there
    is no room, for memory.  Blocks are for the default stream: not for arrays
    that a captured stream uses.
    """
    malloc, free = _native._cupy_c_functions()
    return int(malloc), int(free)


# ---- RMM ---------------------------------------------------------------------


def rmm_callbacks(
    device: Any = None,
) -> Tuple[Callable[[int, Any], int], Callable[[int, int, Any], None]]:
    """(alloc, free) for rmm.mr.CallbackMemoryResource: a Python call per block.

    device: None the one that is current when memory is asked for.
    """
    fixed = None if device is None else _device_name(device)

    def alloc(nbytes: int, stream: Any) -> int:
        name = fixed or _device_name(None)
        return _allocate(name, nbytes, stream)

    def free(pointer: int, nbytes: int, stream: Any) -> None:
        if pointer:
            _release(pointer, stream)

    return alloc, free


# ---- cuda.core ---------------------------------------------------------------


def cuda_core_memory_resource(device: Any = None) -> Any:
    """A cuda.core MemoryResource over devrt's memory of one device."""
    from ._cuda_core import make_resource

    return make_resource(_device_name(device))
