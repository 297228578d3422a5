# SPDX-License-Identifier: Apache-2.0
"""The backends of this machine, and devrt arrays of every kind on it."""

import ctypes
import functools
import time

import numpy as np

import devrt
from devrt import _core
from engine import Skip

BACKEND_OF = {"cuda": "cuda", "cuda_ro": "cuda", "managed": "cuda",
              "pinned": "cuda", "pinned_mapped": "cuda", "mtia_pinned": "mtia",
              "mtia": "mtia", "cpu": "cpu"}

# 4.3: dtypes that NumPy has too.
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
          "uint32", "uint64", "float16", "float32", "float64", "complex64",
          "complex128")
LAYOUTS = ("c", "f", "step", "offset", "transposed", "broadcast")
SHAPES = ((0,), (0, 3), (), (1,), (1 << 20,))


@functools.lru_cache(maxsize=None)
def count(backend):
  """Devices of a backend; 0 where it cannot be used."""
  if backend == "cpu":
    return 1
  try:
    return len(devrt.devices(backend))
  except devrt.Error:
    return 0


def is_fake():
  """Returns true if the driver is the fake one."""
  return count("cuda") > 0 and not hasattr(
      ctypes.CDLL("libcuda.so.1"), "cuMemAllocManaged")


def values(shape, dtype="float32"):
  """Numbers that every dtype holds."""
  size = int(np.prod(shape, dtype=np.int64))
  return (np.arange(size) % 7).astype(dtype).reshape(shape)


def host_layout(name, dtype="float32"):
  """(base, how): base is C-contiguous; how(base) is the view of that layout."""
  base = values((6, 8), dtype)
  views = {
      "c": lambda a: a,
      "f": lambda a: a.T,
      "step": lambda a: a[:, ::2],
      "offset": lambda a: a[2:, 3:],
      "transposed": lambda a: a[1:4].T,
      "broadcast": lambda a: (a[0].broadcast_to((4, 8))
                              if isinstance(a, devrt.Array)
                              else np.broadcast_to(a[0], (4, 8))),
      "negative": lambda a: a[:, ::-1],
  }
  return base, views[name]


class Managed:
  """Managed memory, which devrt itself does not allocate."""

  def __init__(self, size):
    self.cuda = ctypes.CDLL("libcuda.so.1")
    if is_fake():
      raise Skip("this driver is a fake, without managed memory")
    pointer = ctypes.c_uint64()
    code = self.cuda.cuMemAllocManaged(
        ctypes.byref(pointer), ctypes.c_size_t(max(size, 1)), 1)
    if code != 0:
      raise Skip(f"cuMemAllocManaged answers {code}")
    self.pointer = pointer.value

  def __del__(self):
    if getattr(self, "pointer", 0):
      self.cuda.cuMemFree_v2(ctypes.c_uint64(self.pointer))


def make(kind, host, device=0):
  """A devrt array of that kind with the values of a contiguous ndarray."""
  host = np.ascontiguousarray(host) if host.ndim else host
  if kind == "cpu":
    return devrt.array(host, device="cpu")
  if kind == "mtia":
    return devrt.array(host, device=f"mtia:{device}")
  if kind == "cuda":
    return devrt.array(host, device=f"cuda:{device}")
  if kind == "cuda_ro":
    return devrt.array(host, device=f"cuda:{device}").as_read_only()
  if kind == "pinned_mapped":
    return make("pinned", host, device).as_mapped()
  if kind in ("pinned", "mtia_pinned"):
    backend = BACKEND_OF[kind]
    x = devrt.empty(host.shape, host.dtype, device=f"{backend}:{device}",
                    pinned=True)
    np.asarray(x)[...] = host
    return x
  if kind == "managed":
    with devrt.device(f"cuda:{device}"):
      memory = Managed(host.nbytes)
      if host.size == 0:
        raise Skip("managed memory of size 0 is nobody's")
      x = devrt.from_pointer(memory.pointer, host.shape, host.dtype,
                             owner=memory)
      ctypes.memmove(memory.pointer, host.ctypes.data, host.nbytes)
    return x
  raise ValueError(kind)


def store_behind(spin, stream, x, value):
  """x is `value` once a kernel on `stream` has spun.

  Pinned memory is filled by the host, at once: a copy from the device's memory
  comes behind the kernel.
  """
  with stream:
    source = None
    if x.is_pinned():
      source = devrt.full(x.shape, value, x.dtype, device=stream.device)
    _core._spin(spin, stream)
    if source is None:
      x.fill(value)
    else:
      x.copy_(source, non_blocking=True)


def wait_for(condition, text):
  """Until it holds: what others release comes back when they get to it."""
  end = time.monotonic() + 10
  while not condition():
    assert time.monotonic() < end, text()
    time.sleep(0.001)


def current_devices():
  """Returns the current devices, for a comparison before and after."""
  return {backend: devrt.current_device(backend).index
          for backend in ("cuda", "mtia") if count(backend)}


def allocated():
  """Bytes that are allocated on all devices, and pinned ones."""
  total = 0
  for backend in ("cuda", "mtia"):
    if count(backend):
      total += devrt.host_memory_stats(backend)["active_bytes.current"]
    for device in range(count(backend)):
      total += devrt.memory_allocated(f"{backend}:{device}")
  return total
