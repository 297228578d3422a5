# SPDX-License-Identifier: Apache-2.0
"""Numba's CPU target: compiled functions over the host's view of an array."""
import functools
import importlib

import numpy as np

VERSIONS = ("numba",)


def load():
  return importlib.import_module("numba")


@functools.lru_cache(maxsize=None)
def _double():
  return load().njit(lambda a: a * 2)


@functools.lru_cache(maxsize=None)
def _set():

  def body(a, value):
    for i in np.ndindex(a.shape):
      a[i] = value

  return load().njit(body)


def through_njit(x):
  """A view that compiled code has read."""
  view = np.asarray(x)
  if view.dtype == np.float32 and view.ndim:
    assert np.array_equal(_double()(view), view * 2)
  return view


ROUTES = {"numba_njit": through_njit}
PLACES = ()


def host(view):
  return np.array(view)


def pointer(view):
  return view.ctypes.data


def fill(view, value):
  if view.ndim and view.dtype == np.float32:
    _set()(view, np.float32(value))
  else:
    view[...] = value


def synchronize():
  pass
