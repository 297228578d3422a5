# SPDX-License-Identifier: Apache-2.0
"""The calls that an exchange costs: none on one stream (E40)."""

import functools

import numpy as np

import devrt
import machine
from calls import ORDERS, WAITS, Recorded, count
from devrt import _core
from engine import Case, Skip
from links import LINKS, link
from producer_cells import ROUTES, TABLE
from variant_cells import NEW, OLD, SIZE, SPIN, STREAMS, adopt


def records():
  found = Recorded()
  if not found.is_there:
    raise Skip("there is no trace layer beside the package")
  return found


def exchange(calls, consumer, x, a, current):
  """The calls of an import behind pending work of A, and what it read."""
  machine.store_behind(SPIN, a, x, NEW)
  with consumer.inside(), current:
    calls.begin()
    view = consumer.take(x)
    found = calls.take()
    consumer.copy(view)
    assert np.all(consumer.result() == NEW)
  return found


def make(kind, device=0):
  x = machine.make(kind if kind != "cuda_ro" else "cuda",
                   np.full((SIZE,), OLD, "float32"), device)
  x.ready()
  return x


def named(found):
  return ", ".join(call.name for call in found) or "none"


# A reader of an interface uses the memory for as long as the array lives, on a stream
# that its library may destroy at any time. Each read therefore records the stream's
# position (F22).
READERS = ("cupy_asarray", "torch_cai", "numba_cai", "jnp_asarray",
           "cuda_core_cai")


def same_stream(kind, route, code):
  """Neither event nor wait; one record for each read of an interface."""
  calls = records()
  backend = machine.BACKEND_OF[kind]
  consumer = link(route, backend)
  a = adopt(consumer.handle(), f"{backend}:0")
  x = make(kind)
  for attempt in ("warm", "counted"):
    found = exchange(calls, consumer, x, a, a)
    if attempt == "counted" and route in READERS:
      orders = [call for call in found if call.name in ORDERS + WAITS]
      assert all(call.name == "event_record" for call in orders) and (
          len(orders) <= 3), f"calls: {named(found)}"
    elif attempt == "counted":
      assert not count(found, ORDERS + WAITS), f"calls: {named(found)}"
    del found
  if "pinned" in kind and route == "devrt":
    return  # no import orders it, but each use
  # That it can be seen: the same with another stream.
  b = devrt.Stream(f"{backend}:0")
  found = exchange(calls, consumer, x, b, a)
  assert count(found, ("stream_wait_event",)), f"calls: {named(found)}"
  if code == "Z":
    assert not count(found, WAITS), f"the host waits: {named(found)}"


def no_event_elsewhere(kind, route):
  """Data and streams on device 1: device 0, current, gets no event."""
  calls = records()
  backend = machine.BACKEND_OF[kind]
  calls.begin()
  zero = devrt.Stream(f"{backend}:0")  # one whose device is seen
  del zero
  consumer = link(route, backend, 1)
  a = devrt.Stream(f"{backend}:1")
  x = make(kind, 1)
  devrt.set_device(f"{backend}:0")
  found = exchange(calls, consumer, x, a, devrt.Device(f"{backend}:0"))
  assert count(found, ("stream_wait_event",)), f"calls: {named(found)}"
  for call in found:
    if call.name == "event_create":
      assert call.device == 1, f"an event of device {call.device}"
    if call.name in ("event_record", "stream_wait_event"):
      device = calls.devices.get(call.stream, 1)
      assert device == 1, f"{call.name} on a stream of device {device}"


def cases():
  for kind, row in TABLE.items():
    backend = machine.BACKEND_OF[kind]
    if backend == "cpu":
      continue
    for route, code in row.items():
      code = code.rstrip("!")
      if code in ("Z", "H", "U") and ROUTES[route] in STREAMS:
        yield Case(f"producer/{kind}/{route}/same_stream", code,
                   functools.partial(same_stream, kind, route, code),
                   LINKS[route].peers, backend, counted=True)
      # Numba's kernels fault outside of their device. cuda.core makes its event in
      # the context that is current, where the number 1 of an interface's stream
      # means that device's legacy stream: nothing orders the consumer.
      if (code == "Z" and kind in ("cuda", "mtia") and "numba" not in route
          and route != "cuda_core_cai"):
        yield Case(f"ordering/{kind}:1/{route}/no_event_elsewhere", code,
                   functools.partial(no_event_elsewhere, kind, route),
                   LINKS[route].peers, backend, 2, counted=True)
