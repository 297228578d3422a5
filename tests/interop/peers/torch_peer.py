# SPDX-License-Identifier: Apache-2.0
import importlib
import inspect

from peers import Absent

VERSIONS = ("torch",)


def load():
  return importlib.import_module("torch")


def gpu():
  if not load().cuda.is_available():
    raise Absent("torch finds no GPU")


def from_dlpack(x):
  return load().from_dlpack(x)


def capsule(x):
  """Pinned arrays reach torch as a capsule of type (1, 0) (E1)."""
  return load().from_dlpack(x.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))


def as_tensor(x):
  return load().as_tensor(x, device="cuda")


ROUTES = {"torch_dlpack": from_dlpack, "torch_capsule": capsule,
          "torch_cai": as_tensor}
PLACES = ("cuda", "cpu", "pinned")


def has_versions():
  """Of DLPack's tensors; before, nothing can say that memory is read-only."""
  return "max_version" in inspect.signature(
      load().Tensor.__dlpack__).parameters


def has_dtype(name):
  """Returns true if DLPack exchanges the dtype; for bool, where fp8 is known."""
  return hasattr(load(), "float8_e4m3fn" if name == "bool" else name)


def host(view):
  torch = load()
  if view.dtype == torch.bfloat16 or "float8" in str(view.dtype):
    view = view.to(torch.float32)  # NumPy has none of them
  return view.detach().cpu().numpy().copy()


def pointer(view):
  return view.data_ptr()


def fill(view, value):
  view.fill_(value)


def synchronize():
  torch = load()
  if torch.cuda.is_available():
    torch.cuda.current_stream().synchronize()


def make(host, place):
  torch = load()
  tensor = torch.from_numpy(host.copy())
  if place == "pinned":
    return tensor.pin_memory()
  return tensor.to("cuda") if place == "cuda" else tensor


def watch(array, place):
  """Returns a function that says whether the storage and its bytes are released."""
  torch = load()
  from torch.multiprocessing.reductions import StorageWeakRef
  untyped = (array.untyped_storage() if hasattr(array, "untyped_storage")
             else array.storage()._storage)  # before 2.0
  storage, size = StorageWeakRef(untyped), untyped.nbytes()
  del untyped
  with_it = torch.cuda.memory_allocated() if place == "cuda" else 0

  def released():
    return storage.expired() and (
        place != "cuda" or torch.cuda.memory_allocated() <= with_it - size)

  return released
