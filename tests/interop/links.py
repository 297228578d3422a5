# SPDX-License-Identifier: Apache-2.0
"""Consumers with a stream of their own, for the proofs of order.

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

  def inside(self):
    return contextlib.nullcontext()

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

  def inside(self):
    return contextlib.nullcontext()

  @contextlib.contextmanager
  def current(self):
    with self.cupy.cuda.Device(self.device), self.stream:
      yield

  def take(self, x):
    with self.current():
      return self.route(x)

  def copy(self, view):
    with self.current():
      self.out = view + 0  # a kernel, which reads memory of any kind

  def result(self):
    self.stream.synchronize()
    with self.cupy.cuda.Device(self.device):
      return self.cupy.asnumpy(self.out)

  def handle(self):
    return self.stream


class NumbaLink:
  """By numba_kernel its import is the launch, by numba_cai a launch follows.

  Its streams and kernels are of the device that is current: inside().
  """
  peers = ("numba_peer",)

  def __init__(self, route, device=0, stream=None):
    self.cuda = peer("numba_peer").load()
    self.route = route
    self.device = device
    with self.inside():
      self.stream = self.cuda.stream() if stream is None else stream
    self.out = None

  def inside(self):
    return self.cuda.gpus[self.device]

  def take(self, x):
    if self.out is None:
      # Kept: Numba frees what was let go by calls that wait for the device.
      self.out = self.cuda.device_array((x.x if isinstance(x, Unordered)
                                         else x).shape, "float32")
    if self.route == "numba_cai":
      return self.cuda.as_cuda_array(x)
    self.launch(x)
    return self.out

  def launch(self, x):
    p = peer("numba_peer")
    p.copy_kernel()[p.grid(self.out.size) + (self.stream,)](x, self.out)

  def copy(self, view):
    if self.route == "numba_cai":
      self.launch(view)

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

  def inside(self):
    return contextlib.nullcontext()

  def take(self, x):
    return self.route(x)

  def copy(self, view):
    # Memory of the host is read where it is.
    on_host = str(view.sharding.memory_kind).endswith("pinned_host")
    self.out = np.array(view) if on_host else view + 0

  def result(self):
    return np.array(self.out)

  def handle(self):
    return None


class CoreLink:
  """cuda.core's view for a stream of CuPy's, which copies."""
  peers = ("cuda_core_peer", "cupy_peer")

  def __init__(self, route, device=0, stream=None):
    self.cupy_link = CupyLink("cupy_dlpack", device, stream)
    core = peer("cuda_core_peer")
    core.load()
    self.method = ("from_dlpack" if route.endswith("dlpack")
                   else "from_cuda_array_interface")
    self.view_class = core.view_class()

  def inside(self):
    """By handle it wants the data's device to be current."""
    return self.cupy_link.cupy.cuda.Device(self.cupy_link.device)

  def take(self, x):
    # The two default streams have numbers of their own.
    stream = self.cupy_link.stream.ptr or 1
    return getattr(self.view_class, self.method)(x, stream_ptr=stream)

  def copy(self, view):
    cupy = self.cupy_link.cupy
    memory = cupy.cuda.UnownedMemory(
        view.ptr, max(int(np.prod(view.shape)), 1) * 4, view,
        self.cupy_link.device)
    array = cupy.ndarray(view.shape, "float32",
                         cupy.cuda.MemoryPointer(memory, 0))
    self.cupy_link.copy(array)

  def result(self):
    return self.cupy_link.result()

  def handle(self):
    return self.cupy_link.stream


class NumpyLink:
  """The host, which reads at once."""
  peers = ("numpy_peer",)

  def __init__(self, route, device=0):
    self.route = peer("numpy_peer").ROUTES[route]

  def inside(self):
    return contextlib.nullcontext()

  def take(self, x):
    return self.route(x)

  def copy(self, view):
    self.out = np.array(view)

  def result(self):
    return self.out

  def handle(self):
    return None


class DevrtLink:
  """devrt on another stream of its own."""
  peers = ("devrt_peer",)

  def __init__(self, route, device=0, backend="mtia", stream=None):
    self.stream = stream or devrt.Stream(f"{backend}:{device}")

  def inside(self):
    return contextlib.nullcontext()

  def take(self, x):
    with self.stream:
      if isinstance(x, Unordered):  # memory that devrt does not know again
        x = x.x
        return devrt.from_pointer(x.ptr, x.shape, x.dtype, owner=x)
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
    "torch_capsule": TorchLink,
    "cupy_dlpack": CupyLink, "cupy_asarray": CupyLink,
    "numba_kernel": NumbaLink, "numba_cai": NumbaLink,
    "jax_dlpack": JaxLink, "jnp_asarray": JaxLink,
    "cuda_core_dlpack": CoreLink, "cuda_core_cai": CoreLink,
    "numpy": NumpyLink, "numpy_cpu": NumpyLink, "devrt": DevrtLink,
}


def link(route, backend, device=0, **more):
  make = LINKS[route]
  if make is DevrtLink:
    return make(route, device, backend, **more)
  return make(route, device, **more)
