# SPDX-License-Identifier: Apache-2.0
"""Cells with a condition: bound and created streams, settings."""

import functools
import importlib
import os
import time

import numpy as np

import devrt
import engine
import machine
from consumer_cells import OnlyCai
from devrt import _core
from engine import Case, Count, Skip, expect_error

OLD, NEW = 1.0, 2.0
SIZE = 1 << 14
SPIN = 60_000_000
NO_WAIT = 0.030


def peer(name):
  return importlib.import_module("peers." + name)


# ---- JAX ---------------------------------------------------------------------


def jnp_created_stream(kind):
  """jnp.asarray takes no created stream; nothing pending, it needs none."""
  x = machine.make(kind, np.full((SIZE,), OLD, "float32"))
  stream = devrt.Stream("cuda:0")
  asarray = peer("jax_peer").ROUTES["jnp_asarray"]
  if kind != "cuda_ro":
    machine.store_behind(SPIN, stream, x, NEW)
  else:
    _core._spin(SPIN, stream)
    x.record_use(stream, writes=False)
  with stream:
    error = expect_error("JaxRuntimeError/XlaRuntimeError", asarray, x)
    x.ready()
    np.testing.assert_array_equal(np.array(asarray(x)), x.numpy())
  return f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"


# ---- Numba -------------------------------------------------------------------


def numba_bound():
  """An array of a bound stream is ordered by an event, of stream 0 too."""
  cuda = peer("numba_peer").load()
  count = Count()
  for name, make in (("created", cuda.stream), ("0", cuda.default_stream),
                     ("legacy", cuda.legacy_default_stream),
                     ("per-thread", cuda.per_thread_default_stream)):
    with count.variant(name):
      bound_to(cuda, make())
  return count.finish()


def adopted(stream):
  handle = stream.__cuda_stream__()[1]
  if handle in (0, 1):
    return devrt.default_stream("cuda:0")
  if handle == 2:
    return devrt.per_thread_default_stream("cuda:0")
  return devrt.Stream.from_external(stream, "cuda:0")


def bound_to(cuda, stream):
  array = cuda.to_device(np.full((SIZE,), OLD, "float32"), stream=stream)
  assert array.__cuda_array_interface__["stream"] is not None
  fill = peer("numba_peer").fill_kernel()[
      peer("numba_peer").grid(SIZE) + (stream,)]
  a, b = adopted(stream), devrt.Stream("cuda:0")
  fill(array, OLD)
  devrt.from_cuda_array_interface(array).copy()
  devrt.synchronize("cuda:0")
  for sync in (True, False):
    _core._spin(SPIN, a)
    fill(array, NEW)
    with b:
      begin = time.monotonic()
      x = devrt.from_cuda_array_interface(array, sync=sync)
      took = time.monotonic() - begin
      running = not a.query()
      copy = x.copy()
    b.synchronize()
    assert running and took < NO_WAIT, f"the host waited {took * 1e3:.1f} ms"
    wanted = NEW if sync else OLD  # the control
    assert (copy.numpy() == wanted).all(), f"sync={sync}: {copy[:1].numpy()}"
    a.synchronize()
    fill(array, OLD)
    devrt.synchronize("cuda:0")


def numba_layouts():
  cuda = peer("numba_peer").load()
  count = Count()
  host = machine.values((6, 8))
  arrays = {
      "strided": (cuda.to_device(host)[::2], host[::2]),
      "both axes": (cuda.to_device(host)[1::2, ::2], host[1::2, ::2]),
      "Fortran": (cuda.to_device(np.asfortranarray(host)), host),
      "transposed": (cuda.to_device(host).T, host.T),
  }
  for name, (array, wanted) in arrays.items():
    with count.variant(name):
      x = devrt.from_cuda_array_interface(array)
      assert x.ptr == array.__cuda_array_interface__["data"][0]
      assert x.strides == array.strides, (x.strides, array.strides)
      np.testing.assert_array_equal(x.numpy(), wanted)
      x.fill(3)
      x.ready()
      assert (np.asarray(devrt.from_cuda_array_interface(array).numpy())
              == 3).all()
  return count.finish()


# ---- CuPy --------------------------------------------------------------------


def cupy_version_2():
  """Without a stream: nothing to be ordered by; DLPack as ever."""
  os.environ["CUPY_CUDA_ARRAY_INTERFACE_EXPORT_VERSION"] = "2"
  reason = engine.has_peer("cupy_peer", True)  # reads that when it is loaded
  if reason:
    raise Skip(reason)
  cupy = peer("cupy_peer").load()
  wanted = machine.values((6, 8))
  array = peer("cupy_peer").make(wanted, "cuda")
  cupy.cuda.get_current_stream().synchronize()
  interface = array.__cuda_array_interface__
  assert interface["version"] == 2 and "stream" not in interface, interface
  for take in (lambda: devrt.from_cuda_array_interface(OnlyCai(array)),
               lambda: devrt.asarray(OnlyCai(array)),
               lambda: devrt.from_dlpack(array)):
    x = take()
    assert x.ptr == array.data.ptr
    np.testing.assert_array_equal(x.numpy(), wanted)


def cases():
  for kind in ("cuda", "cuda_ro", "managed", "pinned_mapped"):
    yield Case(f"producer/{kind}/jnp_asarray/created_stream",
               "E:JaxRuntimeError", functools.partial(jnp_created_stream, kind),
               ("jax_peer",), "cuda")
  yield Case("consumer/numba/cuda/cai_bound", "Z", numba_bound,
             ("numba_peer",), "cuda")
  yield Case("consumer/numba/cuda/cai/layouts", "U", numba_layouts,
             ("numba_peer",), "cuda")
  yield Case("consumer/cupy/cuda/cai_version_2", "U", cupy_version_2, (),
             "cuda", alone=True)
