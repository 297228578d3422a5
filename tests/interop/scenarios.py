# SPDX-License-Identifier: Apache-2.0
"""Scenarios that must work end to end, without Numba's and MPI's."""

import functools
import importlib

import numpy as np

import devrt
import machine
from devrt import interop
from engine import Case, expect_error


def peer(name):
  return importlib.import_module("peers." + name)


def cupy_of():
  return peer("cupy_peer").load()


def torch_of():
  return peer("torch_peer").load()


def same(got, wanted):
  np.testing.assert_array_equal(np.asarray(got), wanted)


def c1():
  """asarray and as_tensor: equal pointers, writes visible."""
  cupy, torch = cupy_of(), torch_of()
  x = devrt.array(machine.values((8,)), device="cuda:0")
  c = cupy.asarray(x)
  assert c.data.ptr == x.ptr
  c[:] = 4
  cupy.cuda.get_current_stream().synchronize()
  same(x.numpy(), np.full(8, 4, "float32"))
  y = devrt.asarray(c)
  assert y.ptr == x.ptr
  y.fill(6)
  y.ready()
  same(cupy.asnumpy(c), np.full(8, 6, "float32"))
  t = torch.as_tensor(x, device="cuda")
  assert t.data_ptr() == x.ptr
  t += 1
  torch.cuda.synchronize()
  same(x.numpy(), np.full(8, 7, "float32"))


def c2():
  """A Numba kernel on the default and a created stream; a CuPy raw kernel."""
  cuda = peer("numba_peer").load()
  cupy = cupy_of()
  fill = peer("numba_peer").fill_kernel()
  grid = peer("numba_peer").grid(256)
  x = devrt.zeros((256,), "float32", device="cuda:0")
  fill[grid](x, 2.0)
  cuda.synchronize()
  same(x.numpy(), np.full(256, 2, "float32"))
  stream = cuda.stream()
  with interop.exchange(x, stream):
    fill[grid + (stream,)](x, 3.0)
  same((x + 0.0).numpy(), np.full(256, 3, "float32"))
  kernel = cupy.RawKernel(
      'extern "C" __global__ void twice(float* x) {'
      ' x[blockDim.x * blockIdx.x + threadIdx.x] *= 2; }', "twice")
  view = cupy.from_dlpack(x)
  kernel((2,), (128,), (view,))
  back = devrt.from_dlpack(view)
  assert back.ptr == x.ptr
  same(back.numpy(), np.full(256, 6, "float32"))


def c3():
  """Autograd through torch, devrt, CuPy and torch."""
  torch, cupy = torch_of(), cupy_of()

  def hop(tensor, factor):
    x = devrt.from_dlpack(tensor.detach())
    y = cupy.from_dlpack(x) * factor
    return torch.from_dlpack(devrt.from_dlpack(y))

  class Scale(torch.autograd.Function):

    @staticmethod
    def forward(context, tensor):
      return hop(tensor, 3)

    @staticmethod
    def backward(context, gradient):
      return hop(gradient.contiguous(), 3)

  t = torch.arange(8, dtype=torch.float32, device="cuda", requires_grad=True)
  y = Scale.apply(t)
  y.sum().backward()
  same(y.detach().cpu(), 3 * np.arange(8, dtype="float32"))
  same(t.grad.cpu(), np.full(8, 3, "float32"))


def c4_cupy():
  """CuPy's arrays live in devrt's memory."""
  cupy = cupy_of()
  before = devrt.memory_allocated("cuda:0")
  cupy.cuda.set_allocator(interop.cupy_allocator)
  try:
    a = cupy.zeros((10,), "int64")
    assert devrt.memory_allocated("cuda:0") - before == 512
    same(cupy.asnumpy(a), np.zeros(10))
    expect_error("OutOfMemoryError", cupy.empty, (1 << 50,), "int8")
    del a
    assert devrt.memory_allocated("cuda:0") == before
    pair = cupy.cuda.PythonFunctionAllocator(
        interop.cupy_malloc, interop.cupy_free)
    cupy.cuda.set_allocator(pair.malloc)
    b = cupy.ones((10,), "int64")
    assert devrt.memory_allocated("cuda:0") - before == 512
    same(cupy.asnumpy(b), np.ones(10))
    del b
    assert devrt.memory_allocated("cuda:0") == before
  finally:
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)


def c4_torch():
  """In a process of its own: torch takes an allocator before CUDA is used."""
  torch = torch_of()
  torch.cuda.memory.change_current_allocator(interop.torch_allocator())
  t = torch.ones(10, dtype=torch.int64, device="cuda")
  assert devrt.memory_allocated("cuda:0") >= 512
  same(t.cpu(), np.ones(10))
  expect_error("RuntimeError",
               lambda: torch.empty(1 << 50, dtype=torch.int8, device="cuda"))
  del t
  torch.cuda.synchronize()
  assert devrt.memory_allocated("cuda:0") == 0


def c4_torch_pool():
  torch = torch_of()
  pool = torch.cuda.MemPool(interop.torch_pool_allocator().allocator())
  before = devrt.memory_allocated("cuda:0")
  with torch.cuda.use_mem_pool(pool):
    t = torch.ones(1 << 20, device="cuda")
    assert devrt.memory_allocated("cuda:0") > before
    expect_error("OutOfMemoryError",
                 lambda: torch.empty(1 << 50, dtype=torch.int8, device="cuda"))
  same(t[:4].cpu(), np.ones(4))


def c4_numba():
  """In a process of its own: before Numba has a context."""
  cuda = peer("numba_peer").load()
  cuda.set_memory_manager(interop._numba_memory_manager)
  before = devrt.memory_allocated("cuda:0")
  a = cuda.to_device(machine.values((10,), "int64"))
  assert devrt.memory_allocated("cuda:0") - before == 512
  same(a.copy_to_host(), machine.values((10,), "int64"))
  free, total = cuda.current_context().get_memory_info()
  assert 0 < free <= total
  del a
  cuda.current_context().deallocations.clear()
  assert devrt.memory_allocated("cuda:0") == before


def c4_cuda_core():
  core = peer("cuda_core_peer").load()
  device = core.Device(0)
  before = devrt.memory_allocated("cuda:0")
  resource = interop.cuda_core_memory_resource("cuda:0")
  stream = device.create_stream()
  buffer = resource.allocate(1024, stream=stream)
  assert buffer.size == 1024 and int(buffer.handle)
  assert devrt.memory_allocated("cuda:0") - before == 1024
  buffer.close(stream)
  stream.sync()
  assert devrt.memory_allocated("cuda:0") == before


def c5():
  """One stream in three libraries, from either side."""
  torch, cupy = torch_of(), cupy_of()
  s = devrt.Stream("cuda:0")
  former = torch.cuda.current_stream().cuda_stream
  with devrt.stream(s, also=("torch", "cupy")):
    handles = {s.native_handle, torch.cuda.current_stream().cuda_stream,
               cupy.cuda.get_current_stream().ptr,
               devrt.current_stream("cuda:0").native_handle}
    assert len(handles) == 1, handles
  assert torch.cuda.current_stream().cuda_stream == former
  with torch.cuda.stream(torch.cuda.Stream()):
    with devrt.stream(interop.use_stream_of("torch"), also="cupy"):
      handles = {torch.cuda.current_stream().cuda_stream,
                 cupy.cuda.get_current_stream().ptr,
                 devrt.current_stream("cuda:0").native_handle}
      assert len(handles) == 1, handles
  with devrt.stream(devrt.default_stream("cuda:0"), also=("torch", "cupy")):
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert cupy.cuda.get_current_stream().ptr == 0
  own = devrt.per_thread_default_stream("cuda:0")

  def enter():
    with devrt.stream(own, also=("torch",)):
      pass

  expect_error("ValueError", enter)


def c6():
  """Unowned memory both ways; external streams with devices."""
  cupy = cupy_of()
  x = devrt.array(machine.values((8,)), device="cuda:0")
  memory = cupy.cuda.UnownedMemory(x.ptr, x.nbytes, x)
  view = cupy.ndarray((8,), "float32", cupy.cuda.MemoryPointer(memory, 0))
  del x
  same(cupy.asnumpy(view), machine.values((8,)))
  a = cupy.arange(8, dtype="float32")
  y = devrt.from_pointer(a.data.ptr, a.shape, "float32", owner=a)
  assert y.device.name == "cuda:0"
  del a
  same(y.numpy(), np.arange(8, dtype="float32"))
  expect_error("ValueError", devrt.from_pointer, 0, (8,), "float32")
  stream = cupy.cuda.Stream(non_blocking=True)
  assert devrt.Stream.from_external(stream).device.name == "cuda:0"
  devrt.Stream.from_external(stream, "cuda:0")
  if machine.count("cuda") > 1:
    expect_error("ValueError", devrt.Stream.from_external, stream, "cuda:1")


def c8(name, place):
  """A raw legacy capsule, once."""
  array = peer(name).make(machine.values((8,)), place)
  capsule = array.__dlpack__()
  if place == "cuda":
    peer(name).synchronize()
  x = devrt.from_dlpack(capsule)
  same(x.numpy(), machine.values((8,)))
  expect_error("ValueError", devrt.from_dlpack, capsule)


def c9(kind):
  """NumPy's functions over device arrays."""
  wanted = machine.values((4, 3))
  x = machine.make(kind, wanted)
  y = np.add(x, x)
  assert isinstance(y, devrt.Array) and y.device == x.device
  same(y.numpy(), wanted + wanted)
  total = np.sum(x)
  assert isinstance(total, devrt.Array) and total.ndim == 0
  assert float(total.numpy()) == float(wanted.sum())
  expect_error("TypeError", np.add, x, wanted)
  expect_error("TypeError", np.asarray, x)
  expect_error("TypeError", np.linalg.norm, x)


def n1(kind):
  """Export version 2: these five keys and no other."""
  x = machine.make(kind, np.arange(10, dtype="float64"))
  x.cai_export_version = 2
  d = x.__cuda_array_interface__
  assert set(d) == {"shape", "strides", "typestr", "data", "version"}, d
  assert d["shape"] == (10,) and d["strides"] is None
  assert d["typestr"] == "<f8" and d["version"] == 2
  assert d["data"] == (x.ptr, False)
  assert not hasattr(devrt.zeros((3,), device="cpu"),
                     "__cuda_array_interface__")


def cases():
  both = ("cupy_peer", "torch_peer")
  yield Case("scenario/C1", "Z", c1, both, "cuda")
  yield Case("scenario/C2", "Z", c2, ("numba_peer", "cupy_peer"), "cuda")
  yield Case("scenario/C3", "Z", c3, both, "cuda")
  yield Case("scenario/C4/cupy", "Z", c4_cupy, ("cupy_peer",), "cuda", alone=True)
  yield Case("scenario/C4/torch", "Z", c4_torch, ("torch_peer",), "cuda",
             alone=True)
  yield Case("scenario/C4/torch_pool", "Z", c4_torch_pool, ("torch_peer",),
             "cuda", alone=True)
  yield Case("scenario/C4/numba", "Z", c4_numba, ("numba_peer",), "cuda",
             alone=True)
  yield Case("scenario/C4/cuda_core", "Z", c4_cuda_core, ("cuda_core_peer",),
             "cuda", alone=True)
  yield Case("scenario/C5", "Z", c5, both, "cuda")
  yield Case("scenario/C6", "Z", c6, ("cupy_peer",), "cuda")
  for name in ("cupy_peer", "torch_peer", "jax_peer", "numpy_peer"):
    place = "cuda" if name in ("cupy_peer", "torch_peer") else "cpu"
    yield Case(f"scenario/C8/{name[:-5]}", "Z",
               functools.partial(c8, name, place), (name,), place)
  for kind in ("mtia", "cuda"):
    yield Case(f"scenario/C9/{kind}", "Z", functools.partial(c9, kind),
               ("numpy_peer",), kind)
  yield Case("scenario/N1", "Z", functools.partial(n1, "cuda"), (), "cuda")
