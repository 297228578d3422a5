# SPDX-License-Identifier: Apache-2.0
"""RMM, TensorFlow and pytorch-pfn-extras in stubs' shapes, and allocators.

On a machine with CUDA; tests/python has the same shapes on mtia.
"""

import devrt
import machine
import stubs
from devrt import interop
from engine import Case


def rmm_buffer():
  """Version 0 of CUDA Array Interface."""
  x = devrt.array(machine.values((16,), "uint8"), device="cuda:0")
  devrt.synchronize("cuda:0")
  y = devrt.from_cuda_array_interface(stubs.RmmBuffer(x.ptr, 16))
  assert y.ptr == x.ptr and (y.numpy() == machine.values((16,), "uint8")).all()


def rmm_callbacks():
  alloc, free = interop.rmm_callbacks()
  before = devrt.memory_allocated("cuda:0")
  stream = devrt.Stream("cuda:0")
  for handle in (0, stream, stubs.RmmStream(stream.native_handle)):
    pointer = alloc(4096, handle)
    assert devrt.memory_allocated("cuda:0") - before == 4096
    free(pointer, 4096, handle)
  interop.stream_ends(stream.native_handle, "cuda:0")
  assert devrt.memory_allocated("cuda:0") == before


def pfn_extras():
  """torch's names with a device number and a raw handle."""
  before = devrt.memory_allocated("cuda:0")
  stream = devrt.Stream("cuda:0")
  pointer = interop.caching_allocator_alloc(4096, 0, stream.native_handle)
  assert devrt.memory_allocated("cuda:0") - before == 4096
  interop.caching_allocator_delete(pointer)
  interop.stream_ends(stream.native_handle, "cuda:0")
  assert devrt.memory_allocated("cuda:0") == before


def cases():
  for name, run in (("rmm_buffer", rmm_buffer), ("rmm_callbacks", rmm_callbacks),
                    ("pfn_extras", pfn_extras)):
    yield Case(f"stubs/{name}", "Z", run, (), "cuda")
