# SPDX-License-Identifier: Apache-2.0
"""Errors of CUDA: on a GPU or over the fake driver."""

import ctypes

import pytest

import devrt

try:
    devrt.devices("cuda")
except devrt.Error as error:
    pytest.skip(f"no cuda: {str(error)[:100]}", allow_module_level=True)


def test_cudart_answers_with_cudas_numbers():
    runtime = devrt.cuda.cudart()
    buffer = ctypes.create_string_buffer(4096)
    pointer = ctypes.addressof(buffer)
    assert runtime.cudaHostUnregister(pointer) == 713
    assert runtime.cudaHostRegister(pointer, 80, 0) == 0
    assert runtime.cudaHostRegister(pointer, 80, 0) == 712
    assert runtime.cudaHostUnregister(pointer + 1) == 1
    assert runtime.cudaHostUnregister(pointer) == 0
    assert runtime.cudaHostUnregister(pointer) == 713
    assert runtime.cudaHostRegister(0, 80, 0) == 1
    assert runtime.cudaHostRegister(pointer, 0, 0) == 1


def test_cudart_raises_type_errors():
    with pytest.raises(TypeError):
        devrt.cuda.cudart().cudaHostRegister("a", 1, 0)


@pytest.mark.parametrize("index", range(devrt.cuda.device_count()))
def test_out_of_memory_names_the_device(index):
    device = f"cuda:{index}"
    for call in (lambda: devrt.empty(2**57, device=device),
                 lambda: devrt.empty(2**48, device=device),
                 lambda: devrt.cuda.caching_allocator_alloc(2**50, device=device)):
        with pytest.raises(devrt.OutOfMemoryError) as info:
            call()
        error = info.value
        assert (error.code, error.device, error.sticky) == (
            "RESOURCE_EXHAUSTED", device, False)
