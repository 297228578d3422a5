# SPDX-License-Identifier: Apache-2.0
"""Devices, streams, events and memory for any accelerator.

    import devrt

    with devrt.device("mtia:1"):          # current device of this thread
        copy = devrt.Stream()
        with copy:                        # current stream of mtia:1
            ...
        done = copy.record()              # an Event
    devrt.current_stream("mtia:1").wait(done)

The backends are "cuda", "hip", the simulated "mtia", and those that other packages
offer through entry points in the group "devrt.backends".  One process can use all of
them at once.  Importing devrt opens no backend, creates no context and starts no
thread.

Each thread has a current device for each backend, and a current stream for each device.
A new thread starts on device 0 and on default streams.  `devrt.cuda`, `devrt.hip`,
`devrt.mtia` and `devrt.accelerator` have the names of PyTorch's modules.

Errors are devrt.Error and its subclasses.  Arguments of a wrong type raise TypeError.
A failed exchange with another library raises BufferError, or its subclass
CopyRequiredError.
"""

import os as _os

from . import _backends, _contexts
from ._annotations import t as _t
from ._arrays import *
from ._backends import backends, is_available, load_backend, load_report
from ._contexts import device, stream, synchronize
from ._core import (
    AxisError,
    CopyRequiredError,
    CudaError,
    Device,
    DeviceError,
    DeviceFaultError,
    DeviceProperties,
    Error,
    Event,
    InteropWarning,
    InvalidArgumentError,
    OutOfMemoryError,
    Stream,
    StreamCaptureError,
    StreamPool,
    ThreadContext,
    UnsupportedError,
    Uuid,
    backend_info,
    can_access_peer,
    current_device,
    current_stream,
    default_stream,
    devices,
    disable_peer_access,
    enable_peer_access,
    get_device_properties,
    per_thread_default_stream,
    set_device,
    set_stream,
    shutdown,
)
from ._memory import *

TYPE_CHECKING = False  # type checkers take it for typing's
if TYPE_CHECKING:
    from . import accelerator, collectives, cuda, hip, interop, mtia, simulator, testing
    from ._collective_calls import CollectiveError
    from ._facade import get_device_module
    from ._host_future import HostFuture
    from ._types import DeviceType, ExternalStream
    from ._validate import *
del TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Array",
    "AxisError",
    "CollectiveError",
    "CopyRequiredError",
    "CudaError",
    "DType",
    "Device",
    "DeviceError",
    "DeviceFaultError",
    "DeviceProperties",
    "DeviceType",
    "Error",
    "Event",
    "ExternalStream",
    "Finding",
    "HostFuture",
    "InteropWarning",
    "InvalidArgumentError",
    "OutOfMemoryError",
    "RaceError",
    "Stream",
    "StreamCaptureError",
    "StreamPool",
    "ThreadContext",
    "UnsupportedError",
    "Uuid",
    "Validation",
    "absolute",
    "accelerator",
    "add",
    "allocator_settings",
    "annotate_order",
    "annotate_work",
    "arange",
    "array",
    "array_equal",
    "asarray",
    "backend_info",
    "backends",
    "bfloat16",
    "bool_",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_access_peer",
    "complex128",
    "complex64",
    "cuda",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "devices",
    "disable_peer_access",
    "divide",
    "empty",
    "empty_cache",
    "empty_host_cache",
    "empty_like",
    "enable_peer_access",
    "equal",
    "float16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "from_cuda_array_interface",
    "from_dlpack",
    "from_pointer",
    "full",
    "full_like",
    "get_device_module",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "greater",
    "greater_equal",
    "hip",
    "host_memory_stats",
    "int16",
    "int32",
    "int64",
    "int8",
    "interop",
    "is_available",
    "is_pinned",
    "less",
    "less_equal",
    "load_backend",
    "load_report",
    "logical_and",
    "logical_not",
    "logical_or",
    "max_memory_allocated",
    "max_memory_reserved",
    "maximum",
    "mean",
    "memory_allocated",
    "memory_report",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "minimum",
    "mtia",
    "multiply",
    "negative",
    "not_equal",
    "ones",
    "ones_like",
    "per_thread_default_stream",
    "pinned_alloc",
    "pinned_delete",
    "pointer_info",
    "prod",
    "record_memory_history",
    "record_stream",
    "register_host",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_allocator_settings",
    "set_device",
    "set_per_process_memory_fraction",
    "set_stream",
    "shutdown",
    "stream",
    "subtract",
    "synchronize",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "unregister_host",
    "use_on_host",
    "validate",
    "where",
    "with_accesses",
    "zeros",
    "zeros_like",
]

# The module of each name that is imported when it is first used.  Their imports, and
# those of typing, enum and threading, take longer than all others.
_LATER = {
    "accelerator": "accelerator",
    "collectives": "collectives",
    "cuda": "cuda",
    "hip": "hip",
    "interop": "interop",
    "mtia": "mtia",
    "simulator": "simulator",
    "testing": "testing",
    "CollectiveError": "_collective_calls",
    "get_device_module": "_facade",
    "HostFuture": "_host_future",
    "DeviceType": "_types",
    "ExternalStream": "_types",
    "Finding": "_validate",
    "RaceError": "_validate",
    "Validation": "_validate",
    "annotate_order": "_validate",
    "annotate_work": "_validate",
    "use_on_host": "_validate",
    "validate": "_validate",
    "with_accesses": "_validate",
}


def __getattr__(name: str) -> "_t.Any":
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'devrt' has no attribute {name!r}")
    from importlib import import_module

    found = import_module("." + module, __name__)
    value = found if module == name else getattr(found, name)
    globals()[name] = value
    return value


def __dir__() -> "_t.List[str]":
    return sorted({*globals(), *_LATER})


_backends.install()
_contexts.install()
# Ahead of the program's threads and locks, so not in _validate, which is imported late.
if _os.environ.get(
    "DEVRT_RACE_HOST_ORDER"
) == "exact" and "validate" in _os.environ.get("DEVRT_LAYERS", ""):
    from . import _host_order

    _host_order.install()
