# SPDX-License-Identifier: Apache-2.0
"""Numba's CUDA target. Kernels need numpy.row_stack up to numba-cuda 0.30."""
import functools
import importlib

import numpy as np

import machine
from peers import Absent

VERSIONS = ("numba-cuda",)


def load():
  if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack
  if not machine.count("cuda"):
    raise Absent("numba.cuda needs a GPU")
  cuda = importlib.import_module("numba.cuda")
  assert cuda.is_available(), "numba.cuda finds no GPU, devrt does"
  return cuda


@functools.lru_cache(maxsize=None)
def fill_kernel():
  cuda = load()

  @cuda.jit
  def kernel(a, value):
    i = cuda.grid(1)
    if i < a.size:
      a.flat[i] = value

  return kernel


@functools.lru_cache(maxsize=None)
def store_kernel():
  """As fill_kernel, of one axis, by the array's own index."""
  cuda = load()

  @cuda.jit
  def kernel(a, value):
    i = cuda.grid(1)
    if i < a.size:
      a[i] = value

  return kernel


@functools.lru_cache(maxsize=None)
def copy_kernel():
  cuda = load()

  @cuda.jit
  def kernel(source, target):
    i = cuda.grid(1)
    if i < target.size:
      target.flat[i] = source.flat[i]

  return kernel


def grid(size):
  return max((size + 127) // 128, 1), 128


def in_kernel(x):
  """A kernel over the devrt array itself; the view is the array."""
  out = load().device_array(x.shape, dtype=np.dtype(x.dtype.name))
  if x.size and x.ndim:
    copy_kernel()[grid(x.size)](x, out)
  return KernelView(x, out)


class KernelView:

  def __init__(self, array, out):
    self.array = array
    self.out = out


ROUTES = {
    "numba_kernel": in_kernel,
    "numba_cai": lambda x: load().as_cuda_array(x),
}
PLACES = ("cuda",)


def host(view):
  if isinstance(view, KernelView):
    return view.out.copy_to_host()
  if view.size and view.ndim and not view.is_c_contiguous():
    out = load().device_array(view.shape, dtype=view.dtype)
    copy_kernel()[grid(view.size)](view, out)
    return out.copy_to_host()
  return view.copy_to_host()


def pointer(view):
  if isinstance(view, KernelView):
    return view.array.ptr
  return int(view.__cuda_array_interface__["data"][0])


def fill(view, value):
  target = view.array if isinstance(view, KernelView) else view
  if target.size:
    fill_kernel()[grid(target.size)](target, value)


def synchronize():
  load().default_stream().synchronize()


def make(host, place):
  return load().to_device(host)
