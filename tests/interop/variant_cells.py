# SPDX-License-Identifier: Apache-2.0
"""The variants stream, device and access of devrt's exports."""

import contextlib
import functools
import importlib

import numpy as np

import devrt
import machine
from devrt import _core
from engine import Case, Count, Skip, expect_error
from links import LINKS, link
from producer_cells import (HOST_KINDS, ROUTES, TABLE, host_of, peer_of, same,
                            send)

OLD, NEW = 1.0, 2.0
SIZE = 1 << 12
SPIN = 3_000_000


# ---- Streams -----------------------------------------------------------------

# Each library's own streams: the legacy default, the per-thread default, and
# one of another library.


def torch_streams(device):
  torch = peer_of("torch_dlpack").load()
  return {
      "legacy": lambda: torch.cuda.default_stream(device),
      "per-thread": lambda: torch.cuda.ExternalStream(2, device=device),
      "foreign": lambda: torch.cuda.ExternalStream(
          devrt_stream(device).native_handle, device=device),
  }


def cupy_streams(device):
  cupy = peer_of("cupy_dlpack").load()
  return {
      "legacy": lambda: cupy.cuda.Stream.null,
      "per-thread": lambda: cupy.cuda.Stream.ptds,
      "foreign": lambda: cupy_stream_of(cupy, torch_stream(device)),
  }


def cupy_stream_of(cupy, stream):
  made = cupy.cuda.Stream.from_external(stream)
  made.kept = stream if hasattr(made, "__dict__") else None
  return made


def numba_streams(device):
  cuda = peer_of("numba_kernel").load()
  return {
      "legacy": cuda.legacy_default_stream,
      "per-thread": cuda.per_thread_default_stream,
      "foreign": lambda: cuda.external_stream(
          devrt_stream(device).native_handle),
  }


def devrt_streams(device, backend):
  return {
      "legacy": lambda: devrt.default_stream(f"{backend}:{device}"),
      "per-thread": lambda: per_thread(f"{backend}:{device}"),
      "foreign": lambda: foreign(backend, device),
  }


def per_thread(device):
  try:
    return devrt.per_thread_default_stream(device)
  except devrt.UnsupportedError as why:
    raise Skip(str(why)) from why


def foreign(backend, device):
  if backend != "cuda":
    raise Skip("no other library has streams of it")
  cupy = peer_of("cupy_dlpack")
  try:
    cupy = cupy.load()
  except ImportError as why:
    raise Skip("no CuPy") from why
  with cupy.cuda.Device(device):
    return devrt.Stream.from_external(
        cupy.cuda.Stream(non_blocking=True), f"cuda:{device}")


kept = []


def devrt_stream(device):
  """Kept: what is made of its handle does not."""
  kept.append(devrt.Stream(f"cuda:{device}"))
  return kept[-1]


def torch_stream(device):
  try:
    torch = importlib.import_module("torch")
  except ImportError as why:
    raise Skip("no torch") from why
  return torch.cuda.Stream(device)


STREAMS = {
    "torch_peer": torch_streams, "cupy_peer": cupy_streams,
    "numba_peer": numba_streams, "cuda_core_peer": cupy_streams,
    "devrt_peer": devrt_streams,
}


def pending(x, a):
  """x is NEW behind a kernel that spins on A."""
  x.fill(OLD)
  x.ready()
  machine.store_behind(SPIN, a, x, NEW)


def try_streams(code, consumer, x, a, is_same):
  """devrt's work on A, then the consumer's on its own: it sees that work."""
  with consumer.inside():
    pending(x, a)
    if code == "U" and not is_same:
      x.ready()
    view = consumer.take(x)
    consumer.copy(view)
    assert np.all(consumer.result() == NEW), "it ran before devrt's work"
  a.synchronize()


def adopt(handle, device):
  """The consumer's stream in devrt."""
  if isinstance(handle, devrt.Stream):
    return handle
  return devrt.Stream.from_external(handle, device)


def streams(kind, route, code):
  backend = machine.BACKEND_OF[kind]
  device = f"{backend}:0"
  wanted = np.full((SIZE,), OLD, "float32")
  writable = kind if kind != "cuda_ro" else "cuda"
  count = Count()
  x = machine.make(writable, wanted)
  made = {}
  if ROUTES[route] in STREAMS:
    make = STREAMS[ROUTES[route]]
    made = make(0, backend) if make is devrt_streams else make(0)

  def attempt(name, a, is_same, **more):
    with count.variant(name):
      attempt_one(a, is_same, more)

  def attempt_one(a, is_same, more):
    more = {key: value() for key, value in more.items()}
    consumer = link(route, backend, **more)
    ours = a() if a is not None else adopt(consumer.handle(), device)
    try_streams(code, consumer, x, ours, is_same)

  attempt("different", lambda: devrt.Stream(device), False)
  attempt("A legacy", lambda: devrt.default_stream(device), False)
  attempt("A per-thread", lambda: per_thread(device), False)
  attempt("A foreign", lambda: foreign(backend, 0), False)
  if made:
    attempt("same", None, True)
  for name, stream in made.items():
    attempt(f"B {name}", lambda: devrt.Stream(device), False, stream=stream)
  return count.finish()


def import_streams(name):
  """The library's work on A, devrt's copy on B, of each kind.

  torch refuses the number of the per-thread default stream: by a bridge.
  """
  make = {"torch_peer": torch_streams, "cupy_peer": cupy_streams}[name](0)
  route = producer_route(name)
  count = Count()
  makers = {"new": None, **make}
  theirs = [(a, "new") for a in makers] + [("new", b) for b in (
      "legacy", "per-thread", "foreign", "same")]
  for a, b in theirs:
    with count.variant(f"A {a}, B {b}"):
      more = {} if makers[a] is None else {"stream": makers[a]()}
      producer = link(route, "cuda", **more)
      try_import(name, producer, devrt_side(b, producer))
  return count.finish()


def devrt_side(name, producer):
  if name == "same":
    return adopt(producer.handle(), "cuda:0")
  if name == "new":
    return devrt.Stream("cuda:0")
  return devrt_streams(0, "cuda")[name]()


def try_import(name, producer, b):
  array = peer_of(producer_route(name)).make(
      np.full((SIZE,), OLD, "float32"), "cuda")
  devrt.synchronize("cuda:0")
  with producer.current():
    _core._spin(SPIN, adopt(producer.handle(), "cuda:0"))
    (array.fill_ if name == "torch_peer" else array.fill)(NEW)
    with b:
      copy = devrt.from_dlpack(array).copy()
  assert np.all(copy.numpy() == NEW), "devrt ran before the library's work"
  devrt.synchronize("cuda:0")


def producer_route(name):
  return name[:-5] + "_dlpack"


# ---- Devices -----------------------------------------------------------------

# cupy.asarray and torch's "cuda" copy to their current device; the others want
# the data's device to be their current one.
COPIES_TO_CURRENT = ("cupy_asarray", "torch_cai")
INSIDE = ("numba_kernel", "numba_cai", "cuda_core_cai", "cuda_core_dlpack")


def peer_devices():
  """Returns the current devices and streams of the libraries that are here."""
  found = dict(machine.current_devices())
  for backend in found.copy():
    found[backend + " stream"] = devrt.current_stream(backend + ":0").id
  import sys
  if machine.count("cuda") and "torch" in sys.modules:
    torch = sys.modules["torch"]
    if torch.cuda.is_available():
      found["torch"] = (torch.cuda.current_device(),
                        torch.cuda.current_stream().cuda_stream)
  if machine.count("cuda") and "cupy" in sys.modules:
    cupy = sys.modules["cupy"]
    found["cupy"] = (cupy.cuda.Device().id, cupy.cuda.get_current_stream().ptr)
  return found


def inside(route):
  """The data's device current in the library that wants that."""
  if route in ("numba_kernel", "numba_cai"):
    return peer_of(route).load().gpus[1]
  if route.startswith("cuda_core"):
    from peers import cupy_peer
    return cupy_peer.load().cuda.Device(1)
  return contextlib.nullcontext()


def devices(kind, route, code):
  """Data on device 1, device 0 current."""
  peer = peer_of(route)
  wanted = machine.values((64,))
  backend = machine.BACKEND_OF[kind]
  devrt.set_device(f"{backend}:0")
  peer.load()
  if code.startswith("E:"):
    x = machine.make(kind, wanted, 1)
    expect_error(code[2:], send, route, x)
    return
  x = machine.make(kind, wanted, 1)
  before = peer_devices()
  with inside(route):
    if code == "U":
      x.ready()
    view = send(route, x)
    same(peer.host(view), wanted)
    peer.synchronize()
  if kind == "cuda" and route in COPIES_TO_CURRENT:
    assert peer.pointer(view) != x.ptr, "it was to copy to its own device"
  elif "C" not in code.split("/") and route not in COPIES_TO_CURRENT:
    assert peer.pointer(view) == x.ptr, "the memory is not shared"
  if route not in ("jax_dlpack", "jnp_asarray"):
    now = peer_devices()
    after = {name: now[name] for name in before}
    assert after == before, f"{before} was current, now {after}"
  else:
    devrt.set_device(f"{backend}:0")


# ---- Access ------------------------------------------------------------------

# Read-only arrays: those that refuse them, and those that take note.
REFUSE = {"torch_cai": "TypeError", "jax_dlpack": "BufferError",
          "tensorflow": "BufferError"}
NUMPY = ("numpy", "numpy_cpu", "numpy_asarray", "numpy_buffer", "numba_njit")


def jax_host_access(x, wanted):
  """Refused, or taken: JAX's array is immutable, however it came by it."""
  try:
    view = send("jax_dlpack", x)
  except BufferError:
    return
  same(peer_of("jax_dlpack").host(view), wanted)


def access(kind, route, code):
  wanted = machine.values((64,))
  x = machine.make(kind, wanted).as_read_only()
  peer = peer_of(route)
  refused = REFUSE.get(route)
  if route == "torch_dlpack" and not peer.has_versions():
    refused = "BufferError"
  if route == "jax_dlpack" and kind in HOST_KINDS:
    jax_host_access(x, wanted)
    return
  if refused:
    expect_error(refused, send, route, x)
    same(host_of(x), wanted)
    return
  if code == "U":
    x.ready()
  view = send(route, x)
  same(peer.host(view), wanted)
  if code == "C":
    return
  if "C" not in code.split("/"):
    assert peer.pointer(view) == x.ptr, "the memory is not shared"
  if route in NUMPY:
    assert not view.flags.writeable, "read-only memory can be written"
  elif route == "devrt":
    assert view.read_only
    expect_error("ValueError", view.fill, 1)
  elif route.startswith("cuda_core"):
    assert view.readonly


def cases():
  for kind, row in TABLE.items():
    backend = machine.BACKEND_OF[kind]
    for route, code in row.items():
      code = code.rstrip("!")

      def case(suffix, run, **more):
        return Case(f"producer/{kind}/{route}{suffix}", code,
                    functools.partial(run, kind, route, code),
                    more.pop("peers", (ROUTES[route],)), backend, **more)

      if code.startswith("E:"):
        continue
      if backend != "cpu" and code != "C" and kind != "cuda_ro" and (
          route in LINKS):
        yield case("/streams", streams, peers=LINKS[route].peers)
      if kind in ("cuda", "mtia", "pinned", "managed"):
        yield case("/device", devices, devices=2)
      if kind != "cuda_ro":
        yield case("/read_only", access)
  for name in ("torch_peer", "cupy_peer"):
    yield Case(f"consumer/{name[:-5]}/cuda/dlpack/streams", "Z",
               functools.partial(import_streams, name), (name,), "cuda")
