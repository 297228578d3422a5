# SPDX-License-Identifier: Apache-2.0
import importlib

VERSIONS = ("cupy-cuda13x", "cupy-cuda12x", "cupy")


def load():
  return importlib.import_module("cupy")


ROUTES = {
    "cupy_dlpack": lambda x: load().from_dlpack(x),
    "cupy_asarray": lambda x: load().asarray(x),
}
PLACES = ("cuda", "managed")


def host(view):
  cupy = load()
  with cupy.cuda.Device(view.device.id):
    return cupy.asnumpy(view)


def pointer(view):
  return view.data.ptr


def fill(view, value):
  view.fill(value)


def synchronize():
  load().cuda.get_current_stream().synchronize()


def make(host, place):
  cupy = load()
  if place == "cuda":
    return cupy.array(host)
  with cupy.cuda.using_allocator(cupy.cuda.malloc_managed):
    return cupy.array(host)
