# SPDX-License-Identifier: Apache-2.0
"""Proofs of order: what a consumer sees behind a spinning producer."""

import functools
import os
import random
import time

import numpy as np

import devrt
import machine
from devrt import _core, interop
from engine import Case
from links import (LINKS, CupyLink, DevrtLink, JaxLink, TorchLink, Unordered,
                   link)

OLD, NEW, JUNK = 1.0, 2.0, 3.0
SIZE = 1 << 14
SPIN = {"cuda": 300_000_000, "mtia": 300_000_000}
# Where the host waits for each, and nothing but the control is held against
# a time.
SHORT_SPIN = 60_000_000
QUICK = bool(os.environ.get("DEVRT_INTEROP_QUICK"))
NO_CONTROLS = bool(os.environ.get("DEVRT_INTEROP_NO_CONTROLS"))
REPETITIONS = 3 if QUICK else 20
TOGETHER = 4  # trials whose kernels spin at once, where nobody waits
NO_WAIT = 0.030  # seconds; a host wait would take ten times that
# Kind of array: what is proven of which route.
PRODUCERS = {
    "cuda": {
        "torch_dlpack": "Z", "torch_cai": "U", "cupy_dlpack": "Z",
        "cupy_asarray": "H", "numba_kernel": "Z", "numba_cai": "H",
        "jax_dlpack": "Z", "jnp_asarray": "U", "cuda_core_dlpack": "Z",
        "cuda_core_cai": "Z", "devrt": "Z",
    },
    "managed": {
        "torch_cai": "U", "cupy_dlpack": "Z", "cupy_asarray": "H",
        "numba_kernel": "Z", "numba_cai": "H", "cuda_core_dlpack": "Z",
        "cuda_core_cai": "Z", "numpy": "W", "devrt": "Z",
    },
    "pinned": {
        "torch_capsule": "W", "numba_kernel": "Z", "jax_dlpack": "W",
        "cuda_core_dlpack": "Z", "numpy": "W", "devrt": "Z",
    },
    "pinned_mapped": {
        "torch_cai": "U", "cupy_asarray": "H", "numba_cai": "H",
        "cuda_core_cai": "Z",
    },
    "mtia_pinned": {"numpy": "W"},
    "mtia": {"devrt": "Z"},
}
# Where nothing can be told to go without order, and why.
NO_CONTROL = {
    ("pinned", "torch_capsule"):
        "devrt answers for the host, whatever the stream",
    ("mtia_pinned", "numpy"): "the simulator runs at once what nobody holds",
}


def delay():
  """So that no order comes of the host's own timing."""
  time.sleep(random.choice((0, 0, 0.0005, 0.002)))


class Trial:
  """One producer stream A on a device, and a consumer's link."""

  def __init__(self, kind, link, device=0, spin=None):
    self.backend = machine.BACKEND_OF[kind]
    self.link = link
    self.device = f"{self.backend}:{device}"
    self.spin = SPIN[self.backend] if spin is None else spin
    self.stream = devrt.Stream(self.device)
    self.x = machine.make(kind, np.full((SIZE,), OLD, "float32"), device)
    self.x.ready()

  def produce(self, value=NEW):
    machine.store_behind(self.spin, self.stream, self.x, value)

  def restore(self):
    self.x.fill(OLD)
    self.x.ready()

  def exchange(self, code, ordered=True):
    """(seconds, whether A was running): the trial's steps 2 to 4."""
    x = self.x if ordered else Unordered(self.x)
    self.produce()
    delay()
    begin = time.monotonic()
    if code == "U" and ordered:  # the prior wait that it takes
      x.ready()
    view = self.link.take(x)
    took = time.monotonic() - begin
    running = not self.finished(0 if code == "Z" else NO_WAIT / 3)
    delay()
    self.link.copy(view)
    return took, running

  def finished(self, seconds):
    """Within these: an event is over before its stream says that it is."""
    end = time.monotonic() + seconds
    while not self.stream.query():
      if time.monotonic() > end:
        return False
    return True

  def result(self):
    out = self.link.result()
    self.stream.synchronize()
    return out


def all_are(out, value):
  return bool(np.all(out == value))


def wait_free(code, took, running):
  if code != "Z":
    assert not running, "it was to wait on the host, and did not"
    return
  assert running, "the producer had finished: the host waited"
  assert took < NO_WAIT, f"the exchange took {took * 1e3:.1f} ms"


def producer(kind, route, code, device):
  """devrt on A, the library on B; and the control."""
  backend = machine.BACKEND_OF[kind]
  together = TOGETHER if code == "Z" and backend == "cuda" else 1
  spin = SPIN[backend] if code == "Z" else SHORT_SPIN
  trials = [Trial(kind, link(route, backend, device), device, spin)
            for _ in range(together)]
  before = machine.current_devices()
  with trials[0].link.inside():
    for trial in trials:
      warm(trial, (kind, route) not in NO_CONTROL)
    for first in range(0, REPETITIONS, together):
      several(trials, first, code)
    if (kind, route) in NO_CONTROL:
      return "no control: " + NO_CONTROL[kind, route]
    if NO_CONTROLS:
      return "no control: --no-controls"
    if code != "Z" and kind.startswith("pinned") and machine.is_fake():
      return "no control: the fake driver runs a stream that is asked often"
    trials[0].restore()
    devrt.synchronize(trials[0].device)
    trials[0].spin = SPIN[backend]
    trials[0].exchange(code, ordered=False)
    assert all_are(trials[0].result(), OLD), (
        "the control saw the new value: the trial proves nothing")
  if LINKS[route] is not JaxLink:  # it leaves another one current (E6)
    assert machine.current_devices() == before
  return None


def several(trials, first, code):
  for trial in trials:
    trial.restore()
  devrt.synchronize(trials[0].device)
  for i, trial in enumerate(trials):
    took, running = trial.exchange(code)
    try:
      wait_free(code, took, running)
    except AssertionError as error:
      raise AssertionError(f"trial {first + i}: {error}") from None
  for i, trial in enumerate(trials):
    out = trial.result()
    assert all_are(out, NEW), (
        f"trial {first + i}: out[0] is {out[0]}, expected {NEW}")


def warm(trial, control):
  for x in (trial.x, Unordered(trial.x)) if control else (trial.x,):
    view = trial.link.take(x)
    trial.link.copy(view)
    trial.link.result()
  spin, trial.spin = trial.spin, 1000
  trial.produce()
  trial.spin = spin
  devrt.synchronize(trial.device)


def hand_back(route, backend):
  """interop.exchange: work on B, leave, work on A sees it."""
  consumer_of = link(route, backend)
  trial = Trial(backend, consumer_of)
  for _ in range(REPETITIONS):
    trial.x.fill(OLD)
    with interop.exchange(trial.x, consumer_of.handle()) as b:
      _core._spin(SPIN[backend] // 10, b)
      fill_on(consumer_of, trial.x, b)
    with trial.stream:
      y = trial.x + 0.0
    assert all_are(y.numpy(), NEW)


def fill_on(consumer_of, x, stream):
  """By the peer's own means, unknown to devrt."""
  if isinstance(consumer_of, DevrtLink):
    raw = devrt.from_pointer(x.ptr, x.shape, x.dtype, device=x.device, owner=x)
    with stream:
      raw.fill(NEW)
    return
  view = consumer_of.take(Unordered(x))
  with consumer_of.current():
    if isinstance(consumer_of, TorchLink):
      view.fill_(NEW)
    else:
      view.fill(NEW)


def reverse(route, backend, registered):
  """B reads slowly, lets go; the producer's next block is not that memory
  before B is done."""
  consumer_of = link(route, backend)
  adopted = devrt.Stream.from_external(consumer_of.handle()) if (
      registered and route != "devrt") else consumer_of.handle()
  for _ in range(REPETITIONS):
    trial = Trial(backend, consumer_of)
    with trial.stream:
      x = devrt.full((SIZE,), OLD, "float32", device=trial.device)
    view = consumer_of.take(x)
    _core._spin(SPIN[backend] // 10, adopted)
    consumer_of.copy(view)
    del view, x
    with trial.stream:
      junk = devrt.full((SIZE,), JUNK, "float32", device=trial.device)
    assert all_are(consumer_of.result(), OLD), (
        "the memory was used again too early")
    del junk


class ImportTrial:
  """The library on A, devrt on B."""

  def __init__(self, name, device):
    make = {"torch": TorchLink, "cupy": CupyLink}[name]
    self.name = name
    self.link = make(name + "_dlpack", device)
    self.device = f"cuda:{device}"
    self.b = devrt.Stream(self.device)
    with self.link.current():
      if name == "torch":
        self.x = self.link.torch.full((SIZE,), OLD, device=self.device)
      else:
        self.x = self.link.cupy.full((SIZE,), OLD, "float32")
    self.a = devrt.Stream.from_external(self.link.stream, self.device)

  def fill(self, value):
    with self.link.current():
      (self.x.fill_ if self.name == "torch" else self.x.fill)(value)

  def exchange(self):
    with self.link.current():
      _core._spin(SPIN["cuda"], self.a)
      self.fill(NEW)
      delay()
      with self.b:
        begin = time.monotonic()
        y = devrt.from_dlpack(self.x)
        took = time.monotonic() - begin
        running = not self.a.query()
        self.copy = y.copy()
    wait_free("Z", took, running)


def consumer(name, device):
  trials = [ImportTrial(name, device) for _ in range(TOGETHER)]
  for trial in trials:  # warms
    with trial.b:
      trial.copy = devrt.from_dlpack(trial.x).copy()
  for first in range(0, REPETITIONS, TOGETHER):
    for trial in trials:
      trial.fill(OLD)
    devrt.synchronize(f"cuda:{device}")
    for trial in trials:
      trial.exchange()
    for i, trial in enumerate(trials):
      assert all_are(trial.copy.numpy(), NEW), f"trial {first + i}"


def host_reads_copies():
  """mtia's memory on the host: a copy, behind devrt's wait."""
  stream = devrt.Stream("mtia:0")
  x = machine.make("mtia", np.full((SIZE,), OLD, "float32"))
  for _ in range(REPETITIONS):
    x.fill(OLD)
    x.ready()
    with stream:
      _core._spin(SPIN["mtia"] // 10, stream)
      x.fill(NEW)
    assert all_are(np.from_dlpack(x, device="cpu"), NEW)


def ready_waits(backend):
  """interop.ready: for the memory's work, not for the device."""
  busy, quick = devrt.Stream(f"{backend}:0"), devrt.Stream(f"{backend}:0")
  x = devrt.full((SIZE,), OLD, "float32", device=f"{backend}:0")
  interop.ready(x)
  _core._spin(SPIN[backend], busy)
  with quick:
    x.fill(NEW)
  assert interop.ready(x) is x
  assert x.is_ready()
  if backend == "cuda":
    assert not busy.query(), "it waited for the device"
  busy.synchronize()


# Memory of the host, and managed memory, which has no other device's kind.
HERE_ALONE = ("pinned", "pinned_mapped", "mtia_pinned", "managed")


def cases():
  for kind, row in PRODUCERS.items():
    backend = machine.BACKEND_OF[kind]
    for route, code in row.items():
      for device in (0,) if kind in HERE_ALONE else (0, 1):
        name = f"{kind}:{device}" if kind == backend else kind
        yield Case(f"ordering/{name}/{route}", code,
                   functools.partial(producer, kind, route, code, device),
                   LINKS[route].peers, backend, device + 1)
  yield Case("ordering/mtia/numpy_cpu", "C", host_reads_copies,
             ("numpy_peer",), "mtia")
  for route, backend in (("devrt", "mtia"), ("devrt", "cuda"),
                         ("torch_dlpack", "cuda"), ("cupy_dlpack", "cuda")):
    yield Case(f"ordering/{backend}/{route}/hand_back", "Z",
               functools.partial(hand_back, route, backend),
               LINKS[route].peers, backend)
    yield Case(f"ordering/{backend}/{route}/reverse", "Z",
               functools.partial(reverse, route, backend, True),
               LINKS[route].peers, backend)
  for name in ("torch", "cupy"):
    for device in (0, 1):
      yield Case(f"ordering/cuda:{device}/from_{name}", "Z",
                 functools.partial(consumer, name, device), (name + "_peer",),
                 "cuda", device + 1)
  for backend in ("mtia", "cuda"):
    yield Case(f"ordering/{backend}/ready", "W",
               functools.partial(ready_waits, backend), (), backend)
