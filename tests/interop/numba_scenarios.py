# SPDX-License-Identifier: Apache-2.0
"""Numba's CUDA target end to end, the scenarios N2 to N4."""

import functools
import importlib

import numpy as np

import devrt
import machine
from engine import Case, Count, expect_error


def cuda_of():
  return importlib.import_module("peers.numba_peer").load()


def n2():
  """as_cuda_array on all dtypes, shared both ways, with strides."""
  cuda = cuda_of()
  count = Count()
  for name in machine.DTYPES:
    with count.variant(name):
      wanted = machine.values((10,), name)
      x = devrt.array(wanted, device="cuda:0")
      assert cuda.is_cuda_array(x)
      a = cuda.as_cuda_array(x)
      assert (a.dtype, a.shape, a.strides) == (
          wanted.dtype, x.shape, x.strides)
      np.testing.assert_array_equal(a.copy_to_host(), wanted)
      if name != "bool":
        x[:5].fill(11)
        x.ready()
        assert (a.copy_to_host()[:5] == 11).all()
      half = x[::2]
      assert cuda.as_cuda_array(half).strides == half.strides
  for place in ("cpu", "mtia:0"):
    with count.variant(place):
      host = devrt.zeros((3,), device=place)
      assert not cuda.is_cuda_array(host)
      expect_error("TypeError", cuda.as_cuda_array, host)
  return count.finish()


def n3():
  """Numba's arrays in devrt."""
  cuda = cuda_of()
  sources = {
      "0-d": np.array(3, "float32"),
      "2-D": machine.values((2, 3)),
  }
  views = {
      "offset": lambda a: a[1:],
      "new axis": lambda a: a.reshape(6, 1),
      "strided": lambda a: a[::2],
  }
  count = Count()
  for name, host in sources.items():
    with count.variant(name):
      check_import(cuda, cuda.to_device(host), host)
  for name, view in views.items():
    with count.variant(name):
      host = machine.values((6,))  # check_import writes: each has its own
      check_import(cuda, view(cuda.to_device(host)), view(host))
  with count.variant("another device"):
    other_device(cuda.to_device(machine.values((6,))))
  return count.finish()


def check_import(cuda, array, host):
  x = devrt.asarray(array)
  assert x.ptr == array.__cuda_array_interface__["data"][0]
  np.testing.assert_array_equal(x.numpy(), host)
  x.fill(42)
  x.ready()
  assert (array.copy_to_host() == 42).all()
  again, first = x.__cuda_array_interface__, array.__cuda_array_interface__
  for key in ("shape", "typestr", "data"):
    assert again[key] == first[key], key
  copy = devrt.from_cuda_array_interface(array, copy=True)
  cpu = devrt.from_cuda_array_interface(array, device="cpu")
  x.fill(1)
  x.ready()
  assert (copy.numpy() == 42).all() and (cpu.numpy() == 42).all()
  del array
  assert (x.numpy() == 1).all()


def other_device(array):
  if machine.count("cuda") < 2:
    return
  x = devrt.from_cuda_array_interface(array, device="cuda:1")
  mine, theirs = x.__cuda_array_interface__, array.__cuda_array_interface__
  assert mine["data"] != theirs["data"]
  assert mine["typestr"] == theirs["typestr"]
  assert mine["shape"] == theirs["shape"]


def n4_inside():
  """Data of device 1 inside numba.cuda.gpus[1]."""
  cuda = cuda_of()
  peer = importlib.import_module("peers.numba_peer")
  x = devrt.array(machine.values((64,)), device="cuda:1")
  with cuda.gpus[1]:
    a = cuda.as_cuda_array(x)
    np.testing.assert_array_equal(a.copy_to_host(), machine.values((64,)))
    peer.fill_kernel()[peer.grid(64)](x, 3.0)
    cuda.synchronize()
  assert (x.numpy() == 3).all()


def n4_outside():
  """With device 0 current, the import succeeds and the data are readable."""
  cuda = cuda_of()
  x = devrt.array(machine.values((64,)), device="cuda:1")
  a = cuda.as_cuda_array(x)
  np.testing.assert_array_equal(a.copy_to_host(), machine.values((64,)))


def n4_kernel():
  """A kernel on device 0 over memory of device 1: faults, or reads by a peer
  access that somebody has enabled."""
  cuda = cuda_of()
  peer = importlib.import_module("peers.numba_peer")
  x = devrt.array(machine.values((64,)), device="cuda:1")
  try:
    peer.fill_kernel()[peer.grid(64)](x, 3.0)
    cuda.synchronize()
  except Exception as error:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
  raise AssertionError("the kernel reached memory of another device")


def read_only():
  """A kernel that writes by index does not compile: the type is read-only.
  Through a.flat Numba does not look at that."""
  peer = importlib.import_module("peers.numba_peer")
  peer.load()
  x = devrt.array(machine.values((64,)), device="cuda:0").as_read_only()
  expect_error("TypingError",
               lambda: peer.store_kernel()[peer.grid(64)](x, 3.0))
  np.testing.assert_array_equal(x.numpy(), machine.values((64,)))


def cases():
  numba = ("numba_peer",)
  yield Case("scenario/N2", "Z", n2, numba, "cuda")
  yield Case("scenario/N3", "Z", n3, numba, "cuda")
  yield Case("scenario/N4/inside", "Z", n4_inside, numba, "cuda", 2)
  yield Case("scenario/N4/outside", "H", n4_outside, numba, "cuda", 2)
  yield Case("scenario/N4/kernel", "E", n4_kernel, numba, "cuda", 2, alone=True,
             dies=True)
  yield Case("producer/cuda_ro/numba_kernel/writes", "E:TypingError", read_only,
             numba, "cuda")
