# SPDX-License-Identifier: Apache-2.0
import importlib
import os

import numpy as np

from peers import Absent

VERSIONS = ("jax", "jaxlib")
# 64-bit types become 32-bit copies without it.
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def load():
  return importlib.import_module("jax")


def from_dlpack(x):
  load()
  return importlib.import_module("jax.dlpack").from_dlpack(x)


def jnp_asarray(x):
  return importlib.import_module("jax.numpy").asarray(x)


ROUTES = {"jax_dlpack": from_dlpack, "jnp_asarray": jnp_asarray}
PLACES = ("cuda", "cpu", "pinned_host")


def host(view):
  return np.array(view)


def pointer(view):
  return view.unsafe_buffer_pointer()


fill = None  # immutable


def synchronize():
  pass


def gpu():
  try:
    return load().devices("gpu")[0]
  except RuntimeError as error:
    raise Absent(f"jax has no GPU: {error}") from error


def make(host, place):
  jax = load()
  if place == "cpu":
    return jax.device_put(host, jax.devices("cpu")[0])
  if place == "cuda":
    return jax.device_put(host, gpu())
  sharding = jax.sharding.SingleDeviceSharding(gpu(), memory_kind=place)
  return jax.device_put(host, sharding)


def watch(array, place):
  """JAX counts the bytes of GPUs alone."""
  if place != "cuda":
    return None
  size = array.nbytes
  with_it = gpu().memory_stats()["bytes_in_use"]
  return lambda: gpu().memory_stats()["bytes_in_use"] <= with_it - size
