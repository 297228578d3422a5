# SPDX-License-Identifier: Apache-2.0
"""devrt.interop's allocators that know devices of CUDA by number: on a GPU or
over the fake driver."""

import ctypes
import gc

import pytest

import devrt
from devrt import interop

try:
    CUDA = devrt.devices("cuda")
except devrt.Error as error:
    pytest.skip(f"no cuda: {str(error)[:100]}", allow_module_level=True)


# L6, 1.8
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
