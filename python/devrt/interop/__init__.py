# SPDX-License-Identifier: Apache-2.0
"""Memory, streams and allocators shared with other libraries.

Arrays are exchanged by `devrt.from_dlpack`, `devrt.asarray` and the functions of the
other library.  This module has what takes more than one call:

    from devrt import interop

    with devrt.stream(s, also=("torch", "cupy")):   # one stream, three libraries
        ...
    with interop.use_stream_of("torch"):            # the other way round
        ...
    with interop.exchange(x, their_stream):         # their kernels on x
        launch(x, their_stream)
    comm.Send(interop.ready(x))                     # for readers without streams

    cupy.cuda.set_allocator(interop.cupy_allocator)
    torch.cuda.memory.change_current_allocator(interop.torch_allocator())

Numba takes devrt's memory if NUMBA_CUDA_MEMORY_MANAGER=devrt.interop is in the
environment, and cuda.core takes cuda_core_memory_resource("cuda:0").

A function imports the other library when it needs it, and raises ImportError if that
library is missing.
"""

from __future__ import annotations

from typing import Any

from ._allocators import (
    Block,
    caching_allocator_alloc,
    caching_allocator_delete,
    cupy_allocator,
    cupy_c_functions,
    cupy_free,
    cupy_malloc,
    rmm_callbacks,
    stream_ends,
    torch_allocator,
    torch_allocator_path,
    torch_pool_allocator,
)
from ._cuda_core import cuda_core_memory_resource
from ._exchange import exchange, ready, set_cai_export_version
from ._streams import use_stream_of

__all__ = [
    "Block",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "cuda_core_memory_resource",
    "cupy_allocator",
    "cupy_c_functions",
    "cupy_free",
    "cupy_malloc",
    "exchange",
    "ready",
    "rmm_callbacks",
    "set_cai_export_version",
    "stream_ends",
    "torch_allocator",
    "torch_allocator_path",
    "torch_pool_allocator",
    "use_stream_of",
]


def __getattr__(name: str) -> Any:
    # Numba reads this name if NUMBA_CUDA_MEMORY_MANAGER names this module.
    if name == "_numba_memory_manager":
        from ._numba import memory_manager

        return memory_manager()
    raise AttributeError(f"module 'devrt.interop' has no attribute {name!r}")
