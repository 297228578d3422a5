# SPDX-License-Identifier: Apache-2.0
"""devrt as producer: each kind of array to each library."""

import functools
import gc
import importlib
import threading

import numpy as np

import devrt
import machine
from engine import Case, Count, Skip, expect_error, names_of
from machine import BACKEND_OF

# Route: the peer module that has it.
ROUTES = {
    "torch_dlpack": "torch_peer", "torch_cai": "torch_peer",
    "torch_capsule": "torch_peer",
    "cupy_dlpack": "cupy_peer", "cupy_asarray": "cupy_peer",
    "numba_kernel": "numba_peer", "numba_cai": "numba_peer",
    "jax_dlpack": "jax_peer", "jnp_asarray": "jax_peer",
    "cuda_core_dlpack": "cuda_core_peer", "cuda_core_cai": "cuda_core_peer",
    "numpy": "numpy_peer", "numpy_cpu": "numpy_peer",
    "numpy_asarray": "numpy_peer", "numpy_buffer": "numpy_peer",
    "numba_njit": "njit_peer", "tensorflow": "tensorflow_peer",
    "devrt": "devrt_peer",
}

# Without the CUDA Array Interface each says it in its own way.
NO_CAI = "E:AttributeError/BufferError/RuntimeError/TypeError/ValueError"

# The table. What is not in it is not applicable. "!" behind a code: the case
# may end its process.
TABLE = {
    "cuda": {
        "torch_dlpack": "Z", "torch_cai": "U", "cupy_dlpack": "Z",
        "cupy_asarray": "H", "numba_kernel": "Z", "numba_cai": "H",
        "jax_dlpack": "Z", "jnp_asarray": "U", "cuda_core_dlpack": "Z",
        "cuda_core_cai": "Z", "numpy": "E:BufferError/RuntimeError", "numpy_cpu": "C",
        "numpy_asarray": "E:TypeError", "numpy_buffer": "E:TypeError",
        "devrt": "Z",
    },
    "cuda_ro": {
        "torch_dlpack": "Z", "torch_cai": "E:TypeError", "cupy_dlpack": "Z",
        "cupy_asarray": "H", "numba_kernel": "Z", "numba_cai": "H",
        "jax_dlpack": "E:BufferError", "jnp_asarray": "U",
        "cuda_core_dlpack": "Z", "cuda_core_cai": "Z",
        "numpy": "E:BufferError/RuntimeError", "numpy_cpu": "C", "devrt": "Z",
    },
    "managed": {
        "torch_dlpack": "E:BufferError", "torch_cai": "U", "cupy_dlpack": "Z",
        "cupy_asarray": "H", "numba_kernel": "Z", "numba_cai": "H",
        "jax_dlpack": "E:TypeError", "jnp_asarray": "U",
        "cuda_core_dlpack": "Z", "cuda_core_cai": "Z", "numpy": "W",
        "numpy_cpu": "W", "devrt": "Z",
    },
    "pinned": {
        "torch_dlpack": "E:BufferError", "torch_capsule": "W",
        "cupy_dlpack": "E:TypeError", "cupy_asarray": "C", "numba_kernel": "Z",
        "numba_cai": "E:TypeError", "jax_dlpack": "W", "jnp_asarray": "C",
        "cuda_core_dlpack": "Z", "cuda_core_cai": NO_CAI, "numpy": "W",
        "numpy_cpu": "W", "numpy_asarray": "W", "numpy_buffer": "W",
        "numba_njit": "W", "devrt": "Z",
    },
    "pinned_mapped": {  # x.as_mapped(): kernels may reach it
        "torch_dlpack": "E:BufferError", "torch_capsule": "W",
        "torch_cai": "U", "cupy_dlpack": "E:TypeError", "cupy_asarray": "H",
        "numba_kernel": "Z", "numba_cai": "H", "jax_dlpack": "W",
        "jnp_asarray": "U", "cuda_core_dlpack": "Z", "cuda_core_cai": "Z",
        "numpy": "W", "numpy_cpu": "W", "numpy_asarray": "W",
        "numpy_buffer": "W", "numba_njit": "W", "devrt": "Z",
    },
    "mtia_pinned": {
        "numpy": "W", "numpy_cpu": "W", "numpy_asarray": "W",
        "numpy_buffer": "W", "numba_njit": "W", "jax_dlpack": "W",
        "devrt": "Z",
    },
    "mtia": {
        "torch_dlpack": "E:ModuleNotFoundError/RuntimeError",
        "cupy_dlpack": "E:TypeError",
        "cupy_asarray": "E:TypeError", "numba_kernel": "E:ValueError",
        "numba_cai": "E:TypeError", "jax_dlpack": "E:TypeError",
        "jnp_asarray": "E:TypeError", "cuda_core_dlpack": "E:BufferError",
        "cuda_core_cai": NO_CAI, "numpy": "E:BufferError/RuntimeError",
        "numpy_cpu": "C",  # the host cannot reach mtia's memory
        "numpy_asarray": "E:TypeError", "numpy_buffer": "E:TypeError",
        "tensorflow": "E:InvalidArgumentError", "devrt": "Z",
    },
    "cpu": {
        "torch_dlpack": "Z", "cupy_dlpack": "E:TypeError", "cupy_asarray": "C",
        "numba_kernel": "E:NumbaError/CudaAPIError/TypeError/ValueError!",
        "numba_cai": "E:TypeError",
        "jax_dlpack": "Z/C", "jnp_asarray": "C",
        "cuda_core_dlpack": "Z", "cuda_core_cai": NO_CAI, "numpy": "Z",
        "numpy_cpu": "Z", "numpy_asarray": "Z", "numpy_buffer": "Z",
        "numba_njit": "Z", "tensorflow": "Z/C", "devrt": "Z",
    },
}

def peer_of(route):
  return importlib.import_module("peers." + ROUTES[route])


def send(route, x):
  return peer_of(route).ROUTES[route](x)


def send_and_wait(route, x):
  """So that what a kernel does wrong is seen."""
  view = send(route, x)
  peer_of(route).synchronize()
  return view


def same(got, wanted, what=""):
  np.testing.assert_array_equal(np.asarray(got), wanted, err_msg=what)


def host_of(x):
  return x.numpy()


def is_shared(x, peer, view):
  return x.size == 0 or peer.pointer(view) == x.ptr


# ---- What each code demands --------------------------------------------------


def check_shared(route, kind, code, x, wanted, writable):
  """Z, H, U, W: the same memory, writes seen both ways."""
  peer = peer_of(route)
  if code == "U":
    x.ready()
  view = send(route, x)
  shared = is_shared(x, peer, view)
  if "C" not in code.split("/"):
    assert shared, f"{peer.pointer(view):#x} is not {x.ptr:#x}"
  same(peer.host(view), wanted)
  if not shared or not x.size or wanted.dtype == np.bool_:
    return view
  if writable and peer.fill is not None:
    with devrt.interop.exchange(x, None):
      peer.fill(view, 3)
      peer.synchronize()
    same(host_of(x), np.full_like(wanted, 3), "what the peer wrote")
    x.fill(5)
    x.ready()
    if route != "numba_kernel":  # its view is of the time of the launch
      same(peer.host(view), np.full_like(wanted, 5), "what devrt wrote")
  return view


def check_copied(route, x, wanted):
  peer = peer_of(route)
  view = send(route, x)
  if x.size:
    assert not is_shared(x, peer, view), "the memory is shared"
  same(peer.host(view), wanted)


def plain(kind, route, code):
  """The cell once: float32, (6, 8), contiguous."""
  wanted = machine.values((6, 8))
  x = machine.make(kind, wanted)
  before = machine.current_devices()
  if code.startswith("E:"):
    error = expect_error(code[2:].rstrip("!"), send_and_wait, route, x)
    same(host_of(x), wanted)
    return f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
  if code == "C":
    check_copied(route, x, wanted)
  else:
    check_shared(route, kind, code, x, wanted, kind != "cuda_ro")
  if route not in ("jax_dlpack",):  # leaves another device current (E6)
    assert machine.current_devices() == before
  return None


# ---- Variants ----------------------------------------------------------------

# Routes that take C- or F-contiguous memory alone; TensorFlow C.
# Others they may refuse, so.
COMPACT = {
    "jax_dlpack": "JaxRuntimeError/XlaRuntimeError",
    "jnp_asarray": "JaxRuntimeError/XlaRuntimeError/ValueError",
    "tensorflow": "InvalidArgumentError/UnimplementedError",
}

# Memory with a negative stride: how devrt refuses it, and "" where it does not.
# Where __cuda_array_interface__ is not there, the consumer says so.
NEGATIVE = {
    **dict.fromkeys(("numpy_asarray", "numpy_buffer", "numba_njit"), ""),
    **dict.fromkeys(("cupy_asarray", "jnp_asarray"), ""),  # copies on the host
    **dict.fromkeys(("torch_cai", "numba_cai", "numba_kernel", "cuda_core_cai"),
                    "AttributeError/BufferError/NumbaError/TypeError/ValueError"),
    "torch_dlpack": "BufferError/RuntimeError",  # what torch makes of it
}


HOST_KINDS = ("cpu", "pinned", "pinned_mapped", "mtia_pinned")


def dtype_refused(route, name):
  """Why the peer has no such dtype, or None."""
  if route == "torch_cai" and name in ("uint16", "uint32", "uint64"):
    return "torch reads no such type string"
  if route == "torch_dlpack" and not peer_of(route).has_dtype(name):
    return "not in this torch"
  return None


def variant(route, kind, code, x, wanted):
  if code == "C":
    check_copied(route, x, wanted)
  else:
    check_shared(route, kind, code, x, wanted, writable=False)


def variants(kind, route, code):
  count = Count()
  for name in machine.DTYPES:
    with count.variant(name):
      if dtype_refused(route, name):
        raise Skip("no such dtype there")
      wanted = machine.values((4, 3), name)
      variant(route, kind, code, machine.make(kind, wanted), wanted)
  for shape in machine.SHAPES:
    with count.variant(f"shape {shape}"):
      if route == "numba_kernel" and shape == ():
        raise Skip("the kernels of this suite want an axis")
      wanted = machine.values(shape)
      variant(route, kind, code, machine.make(kind, wanted), wanted)
  for name in machine.LAYOUTS:
    with count.variant(f"layout {name}"):
      layout(route, kind, code, name)
  with count.variant("layout negative"):
    negative(route, kind)
  return count.finish()


def layout(route, kind, code, name):
  base, how = machine.host_layout(name)
  x = how(machine.make(kind, base))
  wanted = how(base)
  if route in COMPACT and name not in ("c", "f") or (
      route == "tensorflow" and name != "c"):
    try:
      view = send(route, x)
    except Exception as error:
      expected = set(COMPACT[route].split("/"))
      assert expected & set(names_of(error)), f"{type(error)}: {error}"
    else:
      same(peer_of(route).host(view), wanted)
    return
  view = send(route, x) if code != "U" else send_ready(route, x)
  same(peer_of(route).host(view), wanted)
  if code in ("Z", "H", "U", "W"):
    assert is_shared(x, peer_of(route), view)


def send_ready(route, x):
  x.ready()
  return send(route, x)


def negative(route, kind):
  """devrt refuses what ends torch's process (E10, E13)."""
  base, how = machine.host_layout("negative")
  x = how(machine.make(kind, base))
  refused = NEGATIVE.get(route, "BufferError")
  if route == "numpy_cpu" and kind not in HOST_KINDS:
    refused = ""  # a copy has strides of its own
  if refused:
    expect_error(refused, send, route, x)


def lifetime(kind, route):
  """Either end first, on any thread, and all memory is back in the end."""
  count = Count()
  for order in ("producer first", "consumer first"):
    for where in (here, elsewhere):
      with count.variant(f"{order}, {where.__name__}"):
        ends(kind, route, order == "producer first", where)
  return count.finish()


def here(call):
  call()


def elsewhere(call):
  thread = threading.Thread(target=call)
  thread.start()
  thread.join()


def ends(kind, route, producer_first, where):
  peer = peer_of(route)
  settle(kind)
  before = machine.allocated()
  wanted = machine.values((1 << 12,))
  held = [machine.make(kind, wanted)]
  held.append(send(route, held[0]))
  where(lambda: held.pop(0 if producer_first else 1))
  for _ in range(4):  # would take the memory if it were free
    machine.make(kind, np.zeros((1 << 12,), "float32"))
  same((peer.host if producer_first else host_of)(held[0]), wanted,
       "the other end is gone")
  peer.synchronize()
  where(held.clear)
  # JAX lets go on threads of its own.
  machine.wait_for(
      lambda: settle(kind) or machine.allocated() == before,
      lambda: f"{before} bytes were allocated, now {machine.allocated()}")


def settle(kind):
  """Makes the calls that free memory released by consumers."""
  gc.collect()
  for backend in ("mtia", "cuda"):
    for device in range(machine.count(backend)):
      devrt.synchronize(f"{backend}:{device}")
  probe = machine.make(kind, machine.values((4,)))
  del probe
  if "pinned" in kind:  # what streams used counts until somebody looks
    devrt.empty_host_cache(machine.BACKEND_OF[kind])


def threads(kind, route):
  """Eight threads at once, with collections."""
  failures = []

  def body():
    try:
      for i in range(12):
        wanted = machine.values((64,))
        x = machine.make(kind, wanted)
        view = send(route, x)
        same(peer_of(route).host(view), wanted)
        if i % 4 == 0:
          gc.collect()
    except Exception as error:
      failures.append(f"{type(error).__name__}: {error}")

  workers = [threading.Thread(target=body, daemon=True) for _ in range(8)]
  for worker in workers:
    worker.start()
  for worker in workers:
    worker.join(60)
    assert not worker.is_alive(), "no end within 60 s"
  assert not failures, failures[0]


# ---- All of them -------------------------------------------------------------

def cases():
  for kind, row in TABLE.items():
    backend = BACKEND_OF[kind]
    for route, code in row.items():
      dies = code.endswith("!")
      code = code.rstrip("!")

      def case(suffix, run, **more):
        return Case(f"producer/{kind}/{route}{suffix}", code, run,
                    (ROUTES[route],), backend, **more)

      yield case("", functools.partial(plain, kind, route, code),
                 alone=dies, dies=dies)
      if code.startswith("E:"):
        continue
      yield case("/variants", functools.partial(variants, kind, route, code))
      # jnp.asarray does not keep the owner of what it shares.
      if code != "C" and route != "jnp_asarray":
        yield case("/lifetime", functools.partial(lifetime, kind, route))
      if code != "C":
        yield case("/threads", functools.partial(threads, kind, route))
