# SPDX-License-Identifier: Apache-2.0
"""bfloat16 and fp8, which DLPack alone can name."""

import functools

import numpy as np

import devrt
import machine
from engine import Case, Count, Skip, expect_error
from producer_cells import ROUTES, peer_of, send

BF16, FP8 = ("bfloat16",), ("float8_e4m3fn", "float8_e5m2")

# The expected outcome of each route; "ml_dtypes": Z, with that package; "maybe": the
# right values, or an error.
TABLE = {
    "torch_dlpack": {BF16: "Z", FP8: "Z"},
    "jax_dlpack": {BF16: "Z", FP8: "Z"},
    "cupy_dlpack": {BF16: "ml_dtypes", FP8: "E:TypeError"},
    "cuda_core_dlpack": {BF16: "ml_dtypes", FP8: "dtype"},
    "numba_kernel": {BF16: "maybe", FP8: "E:TypeError/NumbaError"},
    "devrt": {BF16: "Z", FP8: "Z"},
    "numpy": {BF16: "E:BufferError/RuntimeError",
              FP8: "E:BufferError/RuntimeError"},
    # Neither a type string nor a format.
    "torch_cai": {BF16: "maybe", FP8: "maybe"},
    "cupy_asarray": {BF16: "maybe", FP8: "maybe"},
    "numba_cai": {BF16: "E:TypeError", FP8: "E:TypeError"},
    "numpy_asarray": {BF16: "ml_dtypes", FP8: "ml_dtypes"},
    "numpy_buffer": {BF16: "refused", FP8: "refused"},
}
KINDS = {
    "cuda": ("torch_dlpack", "jax_dlpack", "cupy_dlpack", "cuda_core_dlpack",
             "numba_kernel", "devrt", "torch_cai", "cupy_asarray", "numba_cai"),
    "mtia": ("devrt",),
    "cpu": ("torch_dlpack", "jax_dlpack", "devrt", "numpy", "numpy_asarray",
            "numpy_buffer"),
}
# 1.5, -3, 8: exact in all three.
WANTED = np.array([1.5, -3, 8, 0] * 4, "float32")


def make(kind, dtype):
  device = "cpu" if kind == "cpu" else kind + ":0"
  return devrt.array(WANTED, device=device).astype(dtype)


def has_ml_dtypes():
  try:
    import ml_dtypes  # noqa: F401
  except ImportError:
    return False
  return True


def shared(route, kind, x):
  """The values, and the memory."""
  peer = peer_of(route)
  view = send(route, x)
  got = np.asarray(peer.host(view)).astype("float32")
  np.testing.assert_array_equal(got, WANTED)
  if (route, kind) != ("jax_dlpack", "cpu"):  # it may copy
    assert peer.pointer(view) == x.ptr, "the memory is not shared"


def check(kind, route, dtype, code):
  if route == "torch_dlpack" and not peer_of(route).has_dtype(dtype):
    raise Skip("not in this torch")
  x = make(kind, dtype)
  assert x.itemsize == (2 if dtype == "bfloat16" else 1)
  assert not hasattr(x, "__cuda_array_interface__")
  if code == "ml_dtypes":
    if not has_ml_dtypes():
      raise Skip("no ml_dtypes")
    code = "Z"
  if code == "Z":
    shared(route, kind, x)
  elif code == "dtype":  # an address all the same
    view = send(route, x)
    assert view.ptr == x.ptr
    expect_error("TypeError", lambda: view.dtype)
  elif code == "maybe":  # they look for other ways in, or say why not
    no_wrong_values(route, x)
  elif code == "refused":
    expect_error("BufferError/TypeError/ValueError", send, route, x)
  else:
    expect_error(code[2:], send, route, x)
  np.testing.assert_array_equal(x.astype("float32").numpy(), WANTED)


def no_wrong_values(route, x):
  try:
    view = send(route, x)
  except Exception:
    return
  got = np.asarray(peer_of(route).host(view)).astype("float32")
  np.testing.assert_array_equal(got, WANTED)


def run(kind, route):
  count = Count()
  for names, code in TABLE[route].items():
    for dtype in names:
      with count.variant(dtype):
        check(kind, route, dtype, code)
  return count.finish()


def imports(name, place):
  """The other way: torch's, JAX's and CuPy's arrays in devrt."""
  count = Count()
  for dtype in BF16 + FP8:
    with count.variant(dtype):
      array = MAKERS[name](dtype, place)
      x = devrt.from_dlpack(array)
      assert x.dtype.name == dtype
      np.testing.assert_array_equal(x.astype("float32").numpy(), WANTED)
  return count.finish()


def torch_made(dtype, place):
  torch = peer_of("torch_dlpack").load()
  if not hasattr(torch, dtype):
    raise Skip("not in this torch")
  return torch.from_numpy(WANTED.copy()).to(place).to(getattr(torch, dtype))


def jax_made(dtype, place):
  import ml_dtypes
  return peer_of("jax_dlpack").make(
      WANTED.astype(getattr(ml_dtypes, dtype)), place)


MAKERS = {"torch": torch_made, "jax": jax_made}


def cases():
  for kind, routes in KINDS.items():
    for route in routes:
      code = {"ml_dtypes": "Z", "maybe": "E", "refused": "E"}.get(
          TABLE[route][BF16], TABLE[route][BF16])
      yield Case(f"producer/{kind}/{route}/bfloat16_fp8", code,
                 functools.partial(run, kind, route), (ROUTES[route],),
                 machine.BACKEND_OF[kind])
  for name in MAKERS:
    for place in ("cuda", "cpu"):
      yield Case(f"consumer/{name}/{place}/dlpack/bfloat16_fp8", "Z",
                 functools.partial(imports, name, place), (name + "_peer",),
                 place)
