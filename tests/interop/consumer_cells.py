# SPDX-License-Identifier: Apache-2.0
"""devrt as consumer: each library's arrays in devrt."""

import functools
import gc
import importlib
import weakref

import numpy as np

import devrt
import machine
from engine import Case, Count, Skip, expect_error

# peer: {place: code}; by from_dlpack.
DLPACK = {
    "torch_peer": {"cuda": "Z", "cpu": "Z", "pinned": "Z"},
    "cupy_peer": {"cuda": "Z", "managed": "Z"},
    "numba_peer": {"cuda": "E:AttributeError"},
    "jax_peer": {"cuda": "Z", "cpu": "Z", "pinned_host": "Z"},
    "cuda_core_peer": {"cuda": "U"},
    "numpy_peer": {"cpu": "Z"},
    "tensorflow_peer": {"cpu": "Z"},
    "devrt_peer": {"cpu": "Z", "mtia": "Z", "cuda": "Z"},
}
# By __cuda_array_interface__, DLPack hidden.
CAI = {
    "torch_peer": {"cuda": "U"},
    "cupy_peer": {"cuda": "Z"},
    "numba_peer": {"cuda": "U"},
    "jax_peer": {"cuda": "U"},
}
# Their DLPack tensors hold the Python object.
HOLDS_ITSELF = ("cupy_peer", "numpy_peer", "cuda_core_peer")
IMMUTABLE = ("jax_peer", "tensorflow_peer")
BACKEND = {"cuda": "cuda", "managed": "cuda", "pinned": "cuda",
           "pinned_host": "cuda", "mtia": "mtia", "cpu": "cpu"}


def peer(name):
  return importlib.import_module("peers." + name)


class OnlyCai:
  """Hides DLPack."""

  def __init__(self, array):
    self.array = array

  @property
  def __cuda_array_interface__(self):
    return self.array.__cuda_array_interface__


def take(name, place, array, how):
  if how == "cai":
    return devrt.from_cuda_array_interface(OnlyCai(array))
  return devrt.from_dlpack(array)


def settle(name, code):
  """For producers that order nothing."""
  if code == "U":
    peer(name).synchronize()
    if devrt_has_cuda():
      devrt.synchronize("cuda:0")


def devrt_has_cuda():
  return machine.count("cuda") > 0


def address(name, array):
  if name == "cuda_core_peer":
    return int(array.handle)
  return peer(name).pointer(array)


def same(x, wanted):
  got = x.numpy()
  if got.dtype == np.int8 and wanted.dtype != np.int8:  # cuda.core's Buffer
    got = got.view(wanted.dtype).reshape(wanted.shape)
  np.testing.assert_array_equal(got, wanted)


def plain(name, place, code, how):
  wanted = machine.values((6, 8))
  array = peer(name).make(wanted, place)
  if code.startswith("E:"):
    error = expect_error(code[2:], take, name, place, array, how)
    return f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
  before = machine.current_devices()
  settle(name, code)
  x = take(name, place, array, how)
  assert machine.current_devices() == before
  same(x, wanted)
  assert x.ptr == address(name, array), "the memory is not shared"
  if name in IMMUTABLE:
    assert x.read_only, "immutable memory can be written"
    expect_error("ValueError", x.fill, 1)
    return None
  write_both(name, array, x, wanted)
  return None


def write_both(name, array, x, wanted):
  if peer(name).fill is None:
    return
  x.fill(3)
  x.ready()
  np.testing.assert_array_equal(peer(name).host(array),
                                np.full_like(wanted, 3))


def variants(name, place, code, how):
  count = Count()
  for dtype in machine.DTYPES:
    with count.variant(dtype):
      wanted = machine.values((4, 3), dtype)
      try:
        array = peer(name).make(wanted, place)
      except Exception as error:  # it has no such dtype
        raise Skip(str(error)) from error
      if peer(name).host(array).dtype != wanted.dtype:
        raise Skip("the peer has it as another dtype")
      if not getattr(peer(name), "has_dtype", lambda _: True)(dtype):
        raise Skip("not by DLPack")
      settle(name, code)
      same(take(name, place, array, how), wanted)
  for shape in machine.SHAPES:
    with count.variant(f"shape {shape}"):
      wanted = machine.values(shape)
      array = peer(name).make(wanted, place)
      settle(name, code)
      same(take(name, place, array, how), wanted)
  with count.variant("device='cpu' copies"):
    wanted = machine.values((4, 3))
    array = peer(name).make(wanted, place)
    if how == "dlpack":
      x = devrt.from_dlpack(array, device="cpu", copy=True)
      assert x.ptr != address(name, array)
      same(x, wanted)
      if place not in ("cpu", "pinned", "pinned_host"):
        expect_error("CopyRequiredError",
                     lambda: devrt.from_dlpack(array, device="cpu", copy=False))
  return count.finish()


def lifetime(name, place, code, how):
  """The import keeps the memory; its end releases the producer's."""
  wanted = machine.values((1 << 12,))
  drain(name)
  before = machine.allocated()
  array = peer(name).make(wanted, place)
  settle(name, code)
  released = watch(name, place, how, array)
  x = take(name, place, array, how)
  view = x[16:32]
  del array, x
  gc.collect()
  for _ in range(4):
    peer(name).make(np.zeros((1 << 12,), "float32"), place)
  if name == "cuda_core_peer":  # its Buffer is bytes
    wanted = wanted.view("int8")
  np.testing.assert_array_equal(view.numpy(), wanted[16:32])
  assert released is None or not released(), "released under the import"
  del view
  machine.wait_for(lambda: drain(name) or (
      machine.allocated() <= before and (released is None or released())),
                   lambda: "the producer's memory is not released")
  if released is None and name != "devrt_peer":
    return "the library does not tell what it has released"
  return None


def watch(name, place, how, array):
  """Returns a function that says whether the producer's memory was released, or None."""
  if hasattr(peer(name), "watch"):
    return peer(name).watch(array, place)
  if how == "dlpack" and name not in HOLDS_ITSELF:
    return None
  try:
    alive = weakref.ref(array)  # what is exported holds the object itself
  except TypeError:
    return None
  return lambda: alive() is None


def drain(name):
  """Makes the calls that free released memory."""
  gc.collect()
  peer(name).synchronize()
  for backend in ("mtia", "cuda"):
    for device in range(machine.count(backend)):
      devrt.synchronize(f"{backend}:{device}")
  devrt.zeros((1,), device="cpu")


def layouts_of_numpy():
  count = Count()
  for name in machine.LAYOUTS + ("negative",):
    with count.variant(name):
      base, how = machine.host_layout(name)
      array = how(base)
      x = devrt.from_dlpack(array)
      np.testing.assert_array_equal(x.numpy(), array)
      assert x.strides == array.strides
      assert x.read_only == (not array.flags.writeable)
  return count.finish()


def numpy_extras():
  """Read-only arrays, scalars, and foreign byte order."""
  array = machine.values((4,))
  array.flags.writeable = False
  assert devrt.from_dlpack(array).read_only
  expect_error("AttributeError", devrt.from_dlpack, np.float32(1))
  expect_error("BufferError", devrt.from_dlpack, machine.values((4,), ">f4"))
  expect_error("CopyRequiredError",
               lambda: devrt.from_dlpack(machine.values((4,)), device="mtia:0",
                                         copy=False))


def torch_extras():
  torch = peer("torch_peer").load()
  device = "cuda" if devrt_has_cuda() else "cpu"
  grad = torch.ones(4, device=device, requires_grad=True)
  expect_error("BufferError", devrt.from_dlpack, grad)
  z = torch.ones(4, dtype=torch.complex64, device=device)
  expect_error("BufferError", devrt.from_dlpack, z.conj())
  expect_error("BufferError", devrt.from_dlpack, z.conj().imag)
  half = torch.full((4,), 1.5, dtype=torch.bfloat16, device=device)
  x = devrt.from_dlpack(half)
  assert x.dtype.name == "bfloat16" and x.ptr == half.data_ptr()
  if device == "cuda":
    expect_error("RuntimeError", lambda: devrt.from_cuda_array_interface(grad))
    expect_error("BufferError",
                 lambda: devrt.from_cuda_array_interface(half))


def torch_methods():
  """The path without the exchange API gives the same."""
  torch = peer("torch_peer").load()
  device = "cuda" if devrt_has_cuda() else "cpu"

  class Methods:

    def __init__(self, tensor):
      self.tensor = tensor

    def __dlpack__(self, **keywords):
      return self.tensor.__dlpack__(**keywords)

    def __dlpack_device__(self):
      return self.tensor.__dlpack_device__()

  tensor = torch.arange(16, dtype=torch.float32, device=device)
  x = devrt.from_dlpack(Methods(tensor))
  assert x.ptr == tensor.data_ptr()
  np.testing.assert_array_equal(x.numpy(), np.arange(16, dtype="float32"))


def cupy_extras():
  """Both devices' managed memory; a negative stride; a capsule as it is."""
  cupy = peer("cupy_peer").load()
  for device in range(min(machine.count("cuda"), 2)):
    with cupy.cuda.Device(device):
      array = peer("cupy_peer").make(machine.values((8,)), "managed")
      x = devrt.from_dlpack(array)
    assert x.ptr == array.data.ptr
    np.testing.assert_array_equal(x.numpy(), machine.values((8,)))
  array = cupy.arange(8, dtype="float32")
  expect_error("BufferError", devrt.from_dlpack, array[::-1])
  capsule = array.toDlpack() if hasattr(array, "toDlpack") else (
      array.__dlpack__())
  cupy.cuda.get_current_stream().synchronize()
  x = devrt.from_dlpack(capsule)
  assert x.ptr == array.data.ptr
  expect_error("ValueError", devrt.from_dlpack, capsule)


def other_device(name):
  """Data on device 1, device 0 current everywhere."""
  cupy = peer("cupy_peer").load()
  torch = peer("torch_peer").load() if name == "torch_peer" else None
  wanted = machine.values((64,))
  if torch is not None:
    array = torch.from_numpy(wanted).to("cuda:1")
  else:
    with cupy.cuda.Device(1):
      array = cupy.array(wanted)
  before = machine.current_devices()
  x = devrt.from_dlpack(array)
  assert x.device.name == "cuda:1"
  assert machine.current_devices() == before
  np.testing.assert_array_equal(x.numpy(), wanted)


def cases():
  for how, table in (("dlpack", DLPACK), ("cai", CAI)):
    for name, row in table.items():
      for place, code in row.items():

        def case(suffix, run):
          return Case(
              f"consumer/{name[:-5]}/{place}/{how}{suffix}", code,
              functools.partial(run, name, place, code, how), (name,),
              BACKEND[place])

        yield case("", plain)
        if not code.startswith("E:"):
          if name != "cuda_core_peer":  # its Buffer is bytes
            yield case("/variants", variants)
          yield case("/lifetime", lifetime)
  yield Case("consumer/numpy/layouts", "Z", layouts_of_numpy, ("numpy_peer",))
  yield Case("consumer/numpy/extras", "E", numpy_extras, ("numpy_peer",), "mtia")
  yield Case("consumer/torch/extras", "E", torch_extras, ("torch_peer",))
  yield Case("consumer/torch/methods", "Z", torch_methods, ("torch_peer",))
  yield Case("consumer/cupy/extras", "Z", cupy_extras, ("cupy_peer",), "cuda")
  for name in ("torch_peer", "cupy_peer"):
    yield Case(f"consumer/{name[:-5]}/other_device", "Z",
               functools.partial(other_device, name), (name, "cupy_peer"),
               "cuda", 2)
