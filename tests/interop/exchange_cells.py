# SPDX-License-Identifier: Apache-2.0
"""Each Z cell of devrt's exports again, through the C exchange API.

A C extension takes devrt's arrays by the table on their type, and hands them
on: by the other library's table where it has one, else as a capsule.
"""

import functools
import importlib

import numpy as np

import devrt
import exchange_consumer
import machine
from engine import Case, Count, Skip
from links import LINKS, link
from producer_cells import (HOST_KINDS, ROUTES, TABLE, peer_of, same, send,
                            settle)
from variant_cells import NEW, OLD, SIZE, adopt, pending

# Libraries with a table of their own, and the type that it is of.
TYPES = {
    "torch_dlpack": lambda: importlib.import_module("torch").Tensor,
    "cuda_core_cai": lambda: peer_of("cuda_core_cai").view_class(),
    "devrt": lambda: devrt.Array,
}
# By a capsule. The rest does not read DLPack.
CAPSULES = ("torch_dlpack", "cupy_dlpack", "numba_kernel", "jax_dlpack",
            "cuda_core_dlpack", "numpy", "numpy_cpu", "tensorflow", "devrt")


class Exchanged:
  """Presents the table of a devrt array as another library does: with DLPack alone.

  Ordered as the API says: the export joins what is pending into the current
  stream, and that is the consumer's.
  """

  def __init__(self, x, device):
    self.x = x
    self.device = device  # whose streams order it, of the host's memory too
    self.c = exchange_consumer.load()
    for name in ("ptr", "shape", "size", "ndim", "dtype"):
      setattr(self, name, getattr(x, name))

  def __dlpack_device__(self):
    return self.x.__dlpack_device__()

  def __dlpack__(self, *, stream=None, max_version=None, dl_device=None,
                 copy=None):
    legacy = max_version is None or max_version[0] < 1
    if self.__dlpack_device__()[0] == 1 or stream == -1:
      return self.c.capsule(self.x, legacy)
    with self.of(stream):
      return self.c.capsule(self.x, legacy)

  def of(self, stream):
    if stream is None:
      return devrt.default_stream(self.device)
    return devrt.Stream.from_external(stream, self.device)


def device_of(kind):
  return f"{machine.BACKEND_OF[kind]}:0"


def shape_and_place(kind, x):
  """Compares the shape and place in the table with those of the array."""
  c = exchange_consumer.load()
  if x.read_only:
    try:
      c.borrow(x)
    except BufferError:
      return
    raise AssertionError("a DLTensor cannot say that memory is read-only")
  address, shape, strides, device, dtype = c.borrow(x)
  assert address == x.ptr and shape == x.shape
  assert strides == tuple(s // x.itemsize for s in x.strides)
  assert device == tuple(x.__dlpack_device__())
  assert dtype == (2, 32, 1)
  if machine.BACKEND_OF[kind] == "cpu" or kind in HOST_KINDS:
    x.ready()
    assert c.total(x) == float(x.numpy().sum())


def work_stream(kind, x):
  c = exchange_consumer.load()
  if kind not in ("cuda", "cuda_ro", "mtia"):
    return
  stream = devrt.Stream(x.device)
  assert c.work_stream(x) is None
  with stream:
    assert c.work_stream(x) == stream.native_handle


def elsewhere(kind):
  """The deleter on a thread without the GIL, after the array is gone."""
  c = exchange_consumer.load()
  settle(kind)
  before = machine.allocated()
  held = [machine.make(kind, machine.values((SIZE,)))]
  c.drop_elsewhere(held[0], held.clear)
  settle(kind)
  after = machine.allocated()
  assert after == before, f"{before} bytes were allocated, now {after}"


def given(route, x):
  """As an object of the other library, by both tables."""
  kind = TYPES[route]()
  if route == "torch_dlpack" and not peer_of(route).has_versions():
    raise Skip("this torch has no table")
  try:
    return exchange_consumer.load().give(x, kind)
  except NotImplementedError as why:
    raise Skip(str(why)) from why


def values(kind, route, by_table):
  wanted = machine.values((6, 8))
  x = machine.make(kind, wanted)
  if machine.BACKEND_OF[kind] != "cpu":
    x.ready()  # host reads of what the other library makes of it
  view = (given(route, x) if by_table
          else send(route, Exchanged(x, device_of(kind))))
  same(peer_of(route).host(view), wanted)
  if (route, kind) not in (("jax_dlpack", "cpu"), ("tensorflow", "cpu")):
    assert peer_of(route).pointer(view) == x.ptr, "the memory is not shared"


def ordered(kind, route, by_table):
  """devrt's work on A, then the consumer's on B, without a host wait."""
  backend = machine.BACKEND_OF[kind]
  consumer = link(route, backend)
  x = machine.make(kind if kind != "cuda_ro" else "cuda",
                   np.full((SIZE,), OLD, "float32"))
  a = devrt.Stream(f"{backend}:0")
  with consumer.inside():
    pending(x, a)
    if by_table:
      with adopt(consumer.handle(), f"{backend}:0"):
        view = given(route, x)
    else:
      view = consumer.take(Exchanged(x, device_of(kind)))
    consumer.copy(view)
    assert np.all(consumer.result() == NEW), "it ran before devrt's work"
  a.synchronize()


def cell(kind, route):
  exchange_consumer.load()
  count = Count()
  if route == "devrt":
    x = machine.make(kind, machine.values((6, 8)))[1:, ::2]
    with count.variant("struct"):
      shape_and_place(kind, x)
    with count.variant("stream"):
      work_stream(kind, x)
    with count.variant("deleter"):
      elsewhere(kind)
  for by_table in (True, False):
    if route not in (TYPES if by_table else CAPSULES):
      continue
    name = "table" if by_table else "capsule"
    with count.variant(f"{name}: values"):
      values(kind, route, by_table)
    if machine.BACKEND_OF[kind] != "cpu" and route in LINKS:
      with count.variant(f"{name}: order"):
        ordered(kind, route, by_table)
  return count.finish()


def cases():
  for kind, row in TABLE.items():
    for route, code in row.items():
      if "Z" in code.split("/") and (route in TYPES or route in CAPSULES):
        yield Case(f"producer/{kind}/{route}/exchange_api", code,
                   functools.partial(cell, kind, route),
                   LINKS[route].peers if route in LINKS else (ROUTES[route],),
                   machine.BACKEND_OF[kind])
