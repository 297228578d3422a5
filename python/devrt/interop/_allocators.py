# SPDX-License-Identifier: Apache-2.0
"""Adapters through which other libraries allocate memory of devrt (E20).

Each adapter has the interface that its library expects.  Memory is allocated for work
on a native stream whose handle the library knows, and freed in the order of that
stream.  Adapters that a library has got live as long as the process (E38).
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any, Callable, Dict, Optional, Tuple

from .. import _core

# Untyped, for functions that only this package uses.
_native: Any = _core


def load(name: str) -> Any:
    """Imports another library.  Called only by functions that need it."""
    return importlib.import_module(name)


def check_device(stream: Any, device: str) -> None:
    """Raises ValueError if a devrt.Stream belongs to another device."""
    if stream.device.name != device:
        raise ValueError(
            f"memory of {device} was asked for work on a stream of "
            f"{stream.device.name}: pass a stream of {device}, or its device"
        )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def handle_of(stream: Any) -> int:
    """Returns the native handle of a stream of any library."""
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
    names = ["value", "cuda_stream"]  # RMM, PyTorch
    if callable(getattr(stream, "wait_event", None)):
        names.append("ptr")  # CuPy, whose memory and events have `ptr` too
    for name in names:
        value: Any = getattr(stream, name, None)
        value = value() if callable(value) else value
        if _is_int(value):
            return int(value)
    raise TypeError(f"stream must be a stream, not {type(stream).__name__}")


# Streams of other libraries on which memory was allocated. devrt has adopted their
# handles, so they are kept until stream_ends.
_kept: Dict[Tuple[str, int], Any] = {}


def _allocate(device: str, size: int, stream: Any) -> int:
    """Returns the address of memory for work on `stream`, which is of any library."""
    if isinstance(stream, _core.Stream):
        check_device(stream, device)
        return int(_core.caching_allocator_alloc(size, stream))
    handle = handle_of(stream)
    pointer = int(_native._alloc_native(device, size, handle))
    if handle > 2 and not isinstance(stream, int):
        _kept[device, handle] = stream
    return pointer


def _release(pointer: int, stream: Any) -> None:
    """Frees memory in the order of its own stream and of `stream`."""
    if isinstance(stream, _core.Stream):
        _core.record_stream(pointer, stream)
        _native._free_native(pointer)
    else:
        _native._free_native(pointer, handle_of(stream))


def stream_ends(stream: Any, device: Any = None) -> None:
    """Call this before a native stream is destroyed on which an adapter allocated.

    stream: the stream's handle or object.
    device: None is cuda's current device.

    Needed for streams that a program names by handle and destroys: the driver gives the
    handle to a later stream, which devrt would take for the former one.  Stream objects
    are kept until this call, or for the process.
    """
    name, handle = device_name(device), handle_of(stream)
    _native._stream_ends(name, handle)
    _kept.pop((name, handle), None)


def device_name(device: Any) -> str:
    """Returns a device's name.  None is cuda's current device, a number one of cuda."""
    if device is None:
        return _core.current_device("cuda").name
    if _is_int(device):
        return f"cuda:{device}"
    return _core.Device(device).name


class Block:
    """Device memory for work on one native stream, freed with the object."""

    __slots__ = {
        "ptr": "The address of the memory; 0 if there is none.",
        "size": "The size in bytes, as requested.",
        "device": "The name of the device, \"cuda:0\".",
        "_stream": None,
    }

    def __init__(self, size: int, device: Any = None, stream: Any = None) -> None:
        self.ptr = 0
        self.device = device_name(device)
        self.size = size
        # Keeps the stream alive, since its handle could name another stream later.
        self._stream = stream
        self.ptr = _allocate(self.device, size, stream)

    def __del__(self) -> None:
        if getattr(self, "ptr", 0):
            give_back(self.ptr)


class _Unraised:
    """Raises an error in a destructor, which Python reports without stopping."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error


def _report(text: str) -> None:
    """Warns with InteropWarning, and does not raise if warnings are errors."""
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
    """Frees memory for callers that are destructors, so it never raises.

    Frees in the order of `stream`.  If that order cannot be kept, waits for all work of
    `device` first.  Failures become an InteropWarning.
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
    """Returns the path of the file for CUDAPluggableAllocator.

    Its symbols are devrt_torch_alloc, devrt_torch_free, and devrt_torch_pool_alloc for
    a MemPool.  Raises FileNotFoundError if devrt was built without the file.
    """
    name = "libdevrt_torch.so"
    tried = []
    library = _native._library_path()
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    folders = [os.path.join(package, "lib")]
    if library:
        # Beside devrt where it is installed, or in its place in a build folder.
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


# The setters of the pluggable allocator of PyTorch 2.11, and devrt's functions for
# them.  set_init_fn is not used: devrt starts with the first allocation.
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
    """Returns an allocator for torch.cuda.memory.change_current_allocator.

    Set it before CUDA is used.  Tensor.record_stream, torch.cuda.graph with its pools,
    empty_cache and set_per_process_memory_fraction work as with PyTorch's own
    allocator.  A MemPool needs PyTorch's own allocator as the current one: see
    torch_pool_allocator.

    If memory runs out, PyTorch raises RuntimeError with devrt's text.  Raises
    NotImplementedError if this PyTorch does not accept one of the functions.
    """
    import ctypes  # takes long

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
    """Returns an allocator for torch.cuda.MemPool(allocator.allocator()).

    The pool gets its segments from devrt.  PyTorch's own allocator manages streams,
    captures and blocks.  If memory runs out, PyTorch raises its OutOfMemoryError.
    """
    return load("torch").cuda.memory.CUDAPluggableAllocator(
        torch_allocator_path(), "devrt_torch_pool_alloc", "devrt_torch_free"
    )


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Allocates with the arguments of torch.cuda.caching_allocator_alloc.

    pytorch-pfn-extras calls it.  Returns the address.

    size: in bytes.
    device: None is the current one, a number one of cuda, or a devrt.Device.
    stream: a native handle (see stream_ends) or any library's stream.  None is devrt's
    current stream.
    """
    name = device_name(device)
    if stream is None:
        stream = _core.current_stream(name)
    return _allocate(name, size, stream)


def caching_allocator_delete(pointer: int) -> None:
    """Frees memory of caching_allocator_alloc."""
    _native._free_native(pointer)


# ---- CuPy --------------------------------------------------------------------


def cupy_allocator(nbytes: int) -> Any:
    """For cupy.cuda.set_allocator: CuPy's arrays then lie in devrt's memory.

    Uses CuPy's current stream and device.  Raises OutOfMemoryError.
    """
    cupy = load("cupy")
    device = cupy.cuda.Device().id
    block = Block(nbytes, device, cupy.cuda.get_current_stream())
    memory = cupy.cuda.UnownedMemory(block.ptr, nbytes, block, device)
    return cupy.cuda.MemoryPointer(memory, 0)


def cupy_malloc(size: int, device_id: int) -> int:
    """For cupy.cuda.PythonFunctionAllocator, together with cupy_free."""
    stream = load("cupy").cuda.get_current_stream()
    return _allocate(f"cuda:{device_id}", size, stream)


def cupy_free(pointer: int, device_id: int) -> None:
    """Frees memory of cupy_malloc."""
    if pointer:
        _native._free_native(pointer)


def cupy_c_functions() -> Tuple[int, int]:
    """Returns addresses for cupy.cuda.CFunctionAllocator(0, malloc, free, owner).

    Use them for measurements only: when memory runs out they return null, which CuPy
    takes for memory.  Blocks are for the default stream, so they cannot be used in
    arrays that a captured stream uses.
    """
    malloc, free = _native._cupy_c_functions()
    return int(malloc), int(free)


# ---- RMM ---------------------------------------------------------------------


def rmm_callbacks(
    device: Any = None,
) -> Tuple[Callable[[int, Any], int], Callable[[int, int, Any], None]]:
    """Returns (alloc, free) for rmm.mr.CallbackMemoryResource.

    Each block costs a Python call.

    device: None is the device that is current when memory is allocated.
    """
    fixed = None if device is None else device_name(device)

    def alloc(nbytes: int, stream: Any) -> int:
        name = fixed or device_name(None)
        return _allocate(name, nbytes, stream)

    def free(pointer: int, nbytes: int, stream: Any) -> None:
        if pointer:
            _release(pointer, stream)

    return alloc, free
