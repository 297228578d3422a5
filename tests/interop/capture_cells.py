# SPDX-License-Identifier: Apache-2.0
"""Exchanges while a stream is capturing (E44, E45).

CUDA's graphs, driven through CuPy: devrt has no graphs of its own yet.
"""

import functools
import importlib

import numpy as np

import devrt
import machine
from engine import Case, expect_error


def cupy_of():
  return importlib.import_module("peers.cupy_peer").load()


def capture(body):
  """Captures on a CuPy stream that is current in devrt too, and launches."""
  cupy = cupy_of()
  stream = cupy.cuda.Stream(non_blocking=True)
  ours = devrt.Stream.from_external(stream, "cuda:0")
  with stream, ours:
    stream.begin_capture()
    try:
      kept = body(cupy, stream, ours)
    finally:
      graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
  return kept


def consumer_captures():
  """devrt to CuPy inside a capture: an edge of the graph, no error."""
  x = devrt.array(machine.values((64,)), device="cuda:0")
  out = cupy_of().zeros((64,), "float32")
  devrt.synchronize("cuda:0")

  def body(cupy, stream, ours):
    view = cupy.from_dlpack(x)
    cupy.multiply(view, 2, out=out)
    return view

  capture(body)
  np.testing.assert_array_equal(cupy_of().asnumpy(out),
                                2 * machine.values((64,)))


def producer_captures():
  """CuPy to devrt inside a capture."""
  a = cupy_of().asarray(machine.values((64,)))
  y = devrt.zeros((64,), "float32", device="cuda:0")
  devrt.synchronize("cuda:0")

  def body(cupy, stream, ours):
    x = devrt.from_dlpack(a)
    y.copy_(x)
    return x

  capture(body)
  np.testing.assert_array_equal(y.numpy(), machine.values((64,)))


def none_means_the_stream():
  """stream=None of a capturing array's stream adds no foreign edge (F45)."""
  x = devrt.array(machine.values((64,)), device="cuda:0")
  devrt.synchronize("cuda:0")
  capture(lambda cupy, stream, ours: x.__dlpack__(max_version=(1, 3)))


def host_wait_refused():
  """An export that would wait on the host raises BufferError (E44)."""
  x = devrt.array(machine.values((64,)), device="cuda:0")
  devrt.synchronize("cuda:0")

  def body(cupy, stream, ours):
    x.fill(1)
    expect_error("BufferError", lambda: x.__dlpack__(
        max_version=(1, 3), dl_device=(1, 0)))

  capture(body)


def pending_before(done):
  """Uses from before the capture: complete, they are dropped; not, refused."""
  x = devrt.array(machine.values((64,)), device="cuda:0")
  other = devrt.Stream("cuda:0")
  devrt.synchronize("cuda:0")
  if not done:
    devrt._core._spin(300_000_000, other)
  with other:
    x.fill(2)
  if done:
    devrt.synchronize("cuda:0")

  def body(cupy, stream, ours):
    if done:
      return cupy.from_dlpack(x)
    expect_error("BufferError", cupy.from_dlpack, x)
    return None

  capture(body)
  devrt.synchronize("cuda:0")


def cases():
  cupy = ("cupy_peer",)
  for name, run in (("consumer", consumer_captures),
                    ("producer", producer_captures),
                    ("none", none_means_the_stream),
                    ("host_wait", host_wait_refused),
                    ("before_done", functools.partial(pending_before, True)),
                    ("before_pending",
                     functools.partial(pending_before, False))):
    yield Case(f"capture/{name}", "Z", run, cupy, "cuda", alone=True)
