# SPDX-License-Identifier: Apache-2.0
import ctypes
import importlib

import numpy as np

import machine
from peers import Absent

VERSIONS = ("cuda-core", "cuda-bindings")
CPU = 1  # of DLPack


def load():
  if not machine.count("cuda"):
    raise Absent("cuda.core needs a GPU")
  core = importlib.import_module("cuda.core")
  core.Device(0).set_current()
  return core


def view_class():
  load()
  return importlib.import_module("cuda.core.utils").StridedMemoryView


def from_dlpack(x):
  # It passes on what it is given: -1 is what a caller says for host memory.
  stream = -1 if x.__dlpack_device__()[0] == CPU else 1
  return view_class().from_dlpack(x, stream_ptr=stream)


def from_cai(x):
  return view_class().from_cuda_array_interface(x, stream_ptr=1)


ROUTES = {"cuda_core_dlpack": from_dlpack, "cuda_core_cai": from_cai}
PLACES = ("cuda",)


def host(view):
  """Through CuPy, which is in all environments that have cuda.core."""
  if not view.is_device_accessible:
    return host_memory(view)
  from peers import cupy_peer
  cupy = cupy_peer.load()
  memory = cupy.cuda.UnownedMemory(view.ptr, max(extent(view), 1), view,
                                   view.device_id)
  strides = view.strides and tuple(
      s * view.dtype.itemsize for s in view.strides)
  return cupy.asnumpy(cupy.ndarray(
      view.shape, view.dtype, cupy.cuda.MemoryPointer(memory, 0), strides))


def host_memory(view):
  memory = (ctypes.c_char * max(extent(view), 1)).from_address(view.ptr)
  strides = view.strides and tuple(
      s * view.dtype.itemsize for s in view.strides)
  return np.ndarray(view.shape, view.dtype, memory, 0, strides).copy()


def extent(view):
  strides = view.strides or ()
  return view.dtype.itemsize * (1 + sum(
      s * (n - 1) for s, n in zip(strides, view.shape))) + view.dtype.itemsize * (
          0 if strides else int(np.prod(view.shape)))


def pointer(view):
  return view.ptr


fill = None


def synchronize():
  load().Device().sync()


def make(host, place):
  """A Buffer: int8, one axis; values are copied in by CuPy."""
  core = load()
  device = core.Device(0)
  buffer = device.allocate(max(host.nbytes, 1), stream=device.default_stream)
  device.sync()
  from peers import cupy_peer
  cupy = cupy_peer.load()
  memory = cupy.cuda.UnownedMemory(int(buffer.handle), buffer.size, buffer, 0)
  target = cupy.ndarray((host.nbytes,), "int8",
                        cupy.cuda.MemoryPointer(memory, 0))
  target.set(np.frombuffer(host.tobytes(), "int8"))
  return buffer
