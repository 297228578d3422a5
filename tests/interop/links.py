# SPDX-License-Identifier: Apache-2.0
"""Consumers with a stream of their own, for the proofs of order (4.5).

A link takes a devrt array on its stream B and copies it there with its own
library; nothing in it waits on the host before `result`.
"""

import contextlib
import importlib

import numpy as np

import devrt


def peer(name):
  return importlib.import_module("peers." + name)


class Unordered:
  """The control: the same memory, without order."""

  def __init__(self, x):
    self.x = x
    if hasattr(type(x), "__cuda_array_interface__"):
      # By hand: to read x's orders its home stream, and by that one's rules
      # perhaps the consumer's.
      self.__cuda_array_interface__ = {
          "shape": x.shape, "typestr": np.dtype(x.dtype.name).str,
          "data": (x.ptr, False), "version": 3, "stream": None}

  def __dlpack_device__(self):
    return self.x.__dlpack_device__()

  def __dlpack__(self, **keywords):
    if keywords.get("dl_device") is None:
      keywords["stream"] = -1
    return self.x.__dlpack__(**keywords)


class TorchLink:
  peers = ("torch_peer",)

  def __init__(self, route, device=0, stream=None):
    torch = self.torch = peer("torch_peer").load()
    self.route = peer("torch_peer").ROUTES[route]
    self.device = device
    self.stream = stream or torch.cuda.Stream(device)

  def current(self):
    return self.torch.cuda.stream(self.stream)

  def take(self, x):
    with self.current():
      return self.route(x)

  def copy(self, view):
    with self.current():
      self.out = view.clone()

  def result(self):
    self.stream.synchronize()
    return self.out.cpu().numpy()

  def handle(self):
    return self.stream


class CupyLink:
  peers = ("cupy_peer",)

  def __init__(self, route, device=0, stream=None):
    cupy = self.cupy = peer("cupy_peer").load()
    self.route = peer("cupy_peer").ROUTES[route]
    self.device = device
    with cupy.cuda.Device(device):
      self.stream = stream or cupy.cuda.Stream(non_blocking=True)

  @contextlib.contextmanager
  def current(self):
    with self.cupy.cuda.Device(self.device), self.stream:
      yield

  def take(self, x):
    with self.current():
      return self.route(x)

  def copy(self, view):
    with self.current():
      self.out = view.copy()

  def result(self):
    self.stream.synchronize()
    with self.cupy.cuda.Device(self.device):
      return self.cupy.asnumpy(self.out)

  def handle(self):
    return self.stream


class NumbaLink:
  """Its import is the launch."""
  peers = ("numba_peer",)

  def __init__(self, route, device=0):
    self.cuda = peer("numba_peer").load()
    self.stream = self.cuda.stream()
    self.out = None

  def take(self, x):
    p = peer("numba_peer")
    if self.out is None:
      # Kept: Numba frees what was let go by calls that wait for the device.
      self.out = self.cuda.device_array((x.x if isinstance(x, Unordered)
                                         else x).shape, "float32")
    p.copy_kernel()[p.grid(self.out.size) + (self.stream,)](x, self.out)
    return self.out

  def copy(self, view):
    pass

  def result(self):
    self.stream.synchronize()
    return self.out.copy_to_host()

  def handle(self):
    return self.stream


class JaxLink:
  """It has one stream, which it shows to nobody."""
  peers = ("jax_peer",)

  def __init__(self, route, device=0):
    self.jax = peer("jax_peer").load()
    self.route = peer("jax_peer").ROUTES[route]
    import jax.numpy as jnp
    self.jnp = jnp

  def take(self, x):
    return self.route(x)

  def copy(self, view):
    self.out = view + 0

  def result(self):
    return np.array(self.out)

  def handle(self):
    return None


class CoreLink:
  """cuda.core's view for a stream of CuPy's, which copies."""
  peers = ("cuda_core_peer", "cupy_peer")

  def __init__(self, route, device=0):
    self.cupy_link = CupyLink("cupy_dlpack", device)
    core = peer("cuda_core_peer")
    core.load()
    self.method = ("from_dlpack" if route.endswith("dlpack")
                   else "from_cuda_array_interface")
    self.view_class = core.view_class()

  def take(self, x):
    stream = self.cupy_link.stream.ptr
    return getattr(self.view_class, self.method)(x, stream_ptr=stream)

  def copy(self, view):
    cupy = self.cupy_link.cupy
    memory = cupy.cuda.UnownedMemory(view.ptr, view.size * 4
                                     if hasattr(view, "size") else
                                     int(np.prod(view.shape)) * 4, view, 0)
    array = cupy.ndarray(view.shape, "float32",
                         cupy.cuda.MemoryPointer(memory, 0))
    self.cupy_link.copy(array)

  def result(self):
    return self.cupy_link.result()

  def handle(self):
    return self.cupy_link.stream


class DevrtLink:
  """devrt on another stream of its own."""
  peers = ("devrt_peer",)

  def __init__(self, route, device=0, backend="mtia"):
    self.stream = devrt.Stream(f"{backend}:{device}")

  def take(self, x):
    with self.stream:
      return devrt.from_dlpack(x)

  def copy(self, view):
    with self.stream:
      self.out = view.copy()

  def result(self):
    self.stream.synchronize()
    return self.out.numpy()

  def handle(self):
    return self.stream


LINKS = {
    "torch_dlpack": TorchLink, "torch_cai": TorchLink,
    "cupy_dlpack": CupyLink, "cupy_asarray": CupyLink,
    "numba_kernel": NumbaLink, "jax_dlpack": JaxLink,
    "cuda_core_dlpack": CoreLink, "cuda_core_cai": CoreLink,
    "devrt": DevrtLink,
}
