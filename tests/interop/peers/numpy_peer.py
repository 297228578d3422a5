# SPDX-License-Identifier: Apache-2.0
import numpy as np

VERSIONS = ("numpy",)


def load():
  return np


def from_dlpack(x):
  return np.from_dlpack(x)


def from_dlpack_cpu(x):
  return np.from_dlpack(x, device="cpu")


ROUTES = {
    "numpy": from_dlpack,
    "numpy_cpu": from_dlpack_cpu,
    "numpy_asarray": np.asarray,
    "numpy_buffer": lambda x: np.asarray(memoryview(x)),
}
PLACES = ("cpu",)


def host(view):
  return np.array(view)


def pointer(view):
  return view.ctypes.data


def fill(view, value):
  view[...] = value


def synchronize():
  pass


def make(host, place):
  return host.copy()
