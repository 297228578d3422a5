# SPDX-License-Identifier: Apache-2.0
"""Proofs of order: what a consumer sees behind a spinning producer (4.5)."""

import functools
import os
import random
import time

import numpy as np

import devrt
import machine
from devrt import _core, interop
from engine import Case
from links import LINKS, CupyLink, DevrtLink, TorchLink, Unordered

OLD, NEW, JUNK = 1.0, 2.0, 3.0
SIZE = 1 << 14
SPIN = {"cuda": 300_000_000, "mtia": 300_000_000}
QUICK = bool(os.environ.get("DEVRT_INTEROP_QUICK"))
REPETITIONS = {"cuda": 3 if QUICK else 20, "mtia": 3 if QUICK else 20}
NO_WAIT = 0.030  # seconds; a host wait would take ten times that
PRODUCERS = {
    "torch_dlpack": "Z", "cupy_dlpack": "Z", "cupy_asarray": "H",
    "numba_kernel": "Z", "jax_dlpack": "Z", "cuda_core_dlpack": "Z",
    "cuda_core_cai": "Z", "devrt": "Z",
}


def delay():
  """So that no order comes of the host's own timing."""
  time.sleep(random.choice((0, 0, 0.0005, 0.002)))


class Trial:
  """One producer stream A on a device, and a consumer's link."""

  def __init__(self, backend, link, device=0):
    self.backend = backend
    self.link = link
    self.device = f"{backend}:{device}"
    self.stream = devrt.Stream(self.device)
    self.x = devrt.full((SIZE,), OLD, "float32", device=self.device)
    self.x.ready()

  def produce(self, value=NEW):
    with self.stream:
      _core._spin(SPIN[self.backend], self.stream)
      self.x.fill(value)

  def once(self, ordered):
    """What the consumer's copy holds; and how long its import took."""
    self.x.fill(OLD)
    self.x.ready()
    devrt.synchronize(self.device)
    self.produce()
    delay()
    begin = time.monotonic()
    view = self.link.take(self.x if ordered else Unordered(self.x))
    took = time.monotonic() - begin
    running = not self.stream.query()
    delay()
    self.link.copy(view)
    out = self.link.result()
    self.stream.synchronize()
    return out, took, running


def all_are(out, value):
  return bool(np.all(out == value))


def wait_free(code, took, running):
  if code == "H":
    assert not running, "it was to wait on the host, and did not"
    return
  assert running, "the producer had finished: the host waited"
  assert took < NO_WAIT, f"the exchange took {took * 1e3:.1f} ms"


def producer(route, code, backend, device):
  """devrt on A, the library on B; and the control."""
  make = LINKS[route]
  link = (DevrtLink(route, device, backend) if make is DevrtLink
          else make(route, device))
  trial = Trial(backend, link, device)
  warm(trial)
  before = machine.current_devices()
  for i in range(REPETITIONS[backend]):
    out, took, running = trial.once(ordered=True)
    wait_free(code, took, running)
    assert all_are(out, NEW), f"trial {i}: out[0] is {out[0]}, expected {NEW}"
  if route != "jax_dlpack":
    assert machine.current_devices() == before
  # devrt knows its own memory again, whatever the capsule says.
  if code != "Z" or route in ("devrt", "jax_dlpack"):
    return "no control: this consumer cannot be told to order nothing"
  out, _, _ = trial.once(ordered=False)
  assert all_are(out, OLD), (
      "the control saw the new value: the trial proves nothing")
  return None


def warm(trial):
  for ordered in (True, False):
    view = trial.link.take(trial.x if ordered or isinstance(
        trial.link, DevrtLink) else Unordered(trial.x))
    trial.link.copy(view)
    trial.link.result()
  trial.produce()
  devrt.synchronize(trial.device)


def mtia_control():
  """mtia, the schedule that runs what is not ordered first: without an order
  the copy sees the old value."""
  trial = Trial("mtia", DevrtLink("devrt"))
  trial.produce()
  capsule = trial.x.__dlpack__(stream=-1, max_version=(1, 3))
  tensor = stub_tensor(capsule)
  with trial.link.stream:
    # Memory that devrt does not know to be the same.
    view = devrt.from_pointer(tensor, (SIZE,), "float32", device="mtia:0",
                              owner=capsule)
  trial.link.copy(view)
  assert all_are(trial.link.result(), OLD), "the control saw the new value"
  devrt.synchronize("mtia:0")


def stub_tensor(capsule):
  from stubs import tensor_of
  return tensor_of(capsule).tensor.data


def hand_back(route, backend):
  """interop.exchange: work on B, leave, work on A sees it."""
  make = LINKS[route]
  link = DevrtLink(route, 0, backend) if make is DevrtLink else make(route)
  trial = Trial(backend, link)
  for _ in range(REPETITIONS[backend]):
    trial.x.fill(OLD)
    with interop.exchange(trial.x, link.handle()) as b:
      _core._spin(SPIN[backend] // 10, b)
      fill_on(link, trial.x, b)
    with trial.stream:
      y = trial.x + 0.0
    assert all_are(y.numpy(), NEW)


def fill_on(link, x, stream):
  """By the peer's own means, unknown to devrt."""
  if isinstance(link, DevrtLink):
    raw = devrt.from_pointer(x.ptr, x.shape, x.dtype, device=x.device, owner=x)
    with stream:
      raw.fill(NEW)
    return
  view = link.take(Unordered(x))
  with link.current():
    if isinstance(link, TorchLink):
      view.fill_(NEW)
    else:
      view.fill(NEW)


def reverse(route, backend, registered):
  """B reads slowly, lets go; the producer's next block is not that memory
  before B is done."""
  make = LINKS[route]
  link = DevrtLink(route, 0, backend) if make is DevrtLink else make(route)
  adopted = devrt.Stream.from_external(link.handle()) if (
      registered and not isinstance(link, DevrtLink)) else link.handle()
  for _ in range(REPETITIONS[backend]):
    trial = Trial(backend, link)
    with trial.stream:
      x = devrt.full((SIZE,), OLD, "float32", device=trial.device)
    view = link.take(x)
    _core._spin(SPIN[backend] // 10, adopted)
    link.copy(view)
    del view, x
    with trial.stream:
      junk = devrt.full((SIZE,), JUNK, "float32", device=trial.device)
    assert all_are(link.result(), OLD), "the memory was used again too early"
    del junk


def consumer(name, device):
  """The library on A, devrt on B."""
  make = {"torch": TorchLink, "cupy": CupyLink}[name]
  link = make(name + "_dlpack", device)
  b = devrt.Stream(f"cuda:{device}")
  with link.current():
    if name == "torch":
      x = link.torch.full((SIZE,), OLD, device=f"cuda:{device}")
    else:
      x = link.cupy.full((SIZE,), OLD, "float32")
  a = devrt.Stream.from_external(link.stream, f"cuda:{device}")
  devrt.synchronize(f"cuda:{device}")
  for i in range(REPETITIONS["cuda"]):
    with link.current():
      x.fill_(OLD) if name == "torch" else x.fill(OLD)
    devrt.synchronize(f"cuda:{device}")
    with link.current():
      _core._spin(SPIN["cuda"], a)
      x.fill_(NEW) if name == "torch" else x.fill(NEW)
      delay()
      with b:
        begin = time.monotonic()
        y = devrt.from_dlpack(x)
        took = time.monotonic() - begin
        running = not a.query()
        copy = y.copy()
    wait_free("Z", took, running)
    assert all_are(copy.numpy(), NEW), f"trial {i}"


def host_reads(kind):
  """W: NumPy takes it behind devrt's wait."""
  backend = machine.BACKEND_OF[kind]
  stream = devrt.Stream(f"{backend}:0")
  x = machine.make(kind, np.full((SIZE,), OLD, "float32"))
  for _ in range(REPETITIONS[backend]):
    x.fill(OLD)
    x.ready()
    with stream:
      _core._spin(SPIN[backend] // 10, stream)
      x.fill(NEW)
    if kind == "mtia":
      view = np.from_dlpack(x, device="cpu")
    else:
      view = np.from_dlpack(x)
    assert all_are(view, NEW)


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


def cases():
  for route, code in PRODUCERS.items():
    peers = LINKS[route].peers
    backends = ("mtia", "cuda") if route == "devrt" else ("cuda",)
    for backend in backends:
      for device in (0, 1):
        if device and route in ("numba_kernel", "cuda_core_cai", "cupy_asarray",
                                "cuda_core_dlpack"):
          continue  # they need the data's device current
        yield Case(f"ordering/{backend}:{device}/{route}", code,
                   functools.partial(producer, route, code, backend, device),
                   peers, backend, device + 1)
  yield Case("ordering/mtia/control", "Z", mtia_control, (), "mtia")
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
  for kind in ("mtia", "mtia_pinned", "pinned"):
    yield Case(f"ordering/{kind}/numpy", "W", functools.partial(host_reads, kind),
               ("numpy_peer",), machine.BACKEND_OF[kind])
  for backend in ("mtia", "cuda"):
    yield Case(f"ordering/{backend}/ready", "W",
               functools.partial(ready_waits, backend), (), backend)
