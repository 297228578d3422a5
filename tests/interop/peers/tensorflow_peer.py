# SPDX-License-Identifier: Apache-2.0
import importlib
import os

import numpy as np

VERSIONS = ("tensorflow-cpu", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")


def load():
  return importlib.import_module("tensorflow")


def from_dlpack(x):
  """TensorFlow takes capsules of before version 1."""
  return load().experimental.dlpack.from_dlpack(x.__dlpack__())


ROUTES = {"tensorflow": from_dlpack}
PLACES = ("cpu",)


def host(view):
  return np.array(view)


def pointer(view):
  """Of the memory that it shares; .numpy() may copy."""
  return view.__array_interface__["data"][0] if hasattr(
      view, "__array_interface__") else np.asarray(memoryview(view)).ctypes.data


fill = None  # immutable


def synchronize():
  pass


def make(host, place):
  tf = load()
  with tf.device("/CPU:0"):
    return tf.constant(host)
