# SPDX-License-Identifier: Apache-2.0
"""Objects in the shapes of other libraries, and forged capsules.

For libraries that are not installed where the tests run, and for what no real
library does: foreign versions, null deleters, odd strides.
"""

import ctypes

import numpy as np

CPU, CUDA, CUDA_HOST, ROCM, EXT_DEV, MANAGED = 1, 2, 3, 10, 12, 13
READ_ONLY = 1

CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class Device(ctypes.Structure):
  _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
  _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
              ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
  _fields_ = [("data", ctypes.c_void_p), ("device", Device),
              ("ndim", ctypes.c_int32), ("dtype", DataType),
              ("shape", ctypes.POINTER(ctypes.c_int64)),
              ("strides", ctypes.POINTER(ctypes.c_int64)),
              ("byte_offset", ctypes.c_uint64)]


class Legacy(ctypes.Structure):
  _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p),
              ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
  _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
              ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
              ("flags", ctypes.c_uint64), ("tensor", Tensor)]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype = ctypes.c_char_p
_name.argtypes = [ctypes.py_object]

LEGACY_NAME = b"dltensor"
VERSIONED_NAME = b"dltensor_versioned"


def name_of(capsule):
  return _name(capsule).decode()


def tensor_of(capsule):
  """The struct in a capsule, as it is now."""
  name = _name(capsule)
  kind = Versioned if b"versioned" in name else Legacy
  return kind.from_address(_pointer(capsule, name))


class Forged:
  """A DLPack tensor over an ndarray, any field of which can be wrong.

  deleted counts calls of the deleter, which may come late: objects of this
  class are kept for the process.
  """

  alive = []

  def __init__(self, array, *, versioned=True, major=1, minor=0, device=(CPU, 0),
               flags=0, strides="own", byte_offset=0, deleter=True, lanes=1,
               ndim=None, dtype=None, shape=None, data="own"):
    Forged.alive.append(self)
    self.array = array
    self.deleted = 0
    self.struct = (Versioned if versioned else Legacy)()
    self.versioned = versioned
    extents = array.shape if shape is None else shape
    self.shape = (ctypes.c_int64 * max(len(extents), 1))(*extents)
    if strides == "own":
      strides = [s // array.itemsize for s in array.strides]
    self.strides = None if strides is None else (
        ctypes.c_int64 * max(len(strides), 1))(*strides)
    tensor = self.struct.tensor
    address = array.ctypes.data if data == "own" else data
    tensor.data = None if address is None else address - byte_offset
    tensor.byte_offset = byte_offset
    tensor.device = Device(*device)
    tensor.ndim = len(extents) if ndim is None else ndim
    code, bits = dtype or (CODES[array.dtype.kind], 8 * array.itemsize)
    tensor.dtype = DataType(code, bits, lanes)
    tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
    if self.strides is not None:
      tensor.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
    self.call = DELETER(self._delete)
    if deleter:
      self.struct.deleter = ctypes.cast(self.call, ctypes.c_void_p).value
    if versioned:
      self.struct.major, self.struct.minor = major, minor
      self.struct.flags = flags

  def _delete(self, _):
    self.deleted += 1

  def capsule(self, name=None):
    if name is None:
      name = VERSIONED_NAME if self.versioned else LEGACY_NAME
    self.name = name  # the capsule does not copy it
    return _new(ctypes.addressof(self.struct), self.name, None)


class Producer:
  """An object with __dlpack__ that notes how it was called."""

  def __init__(self, capsule, device=(CPU, 0)):
    self._capsule = capsule
    self._device = device
    self.calls = []

  def __dlpack_device__(self):
    return self._device

  def __dlpack__(self, **keywords):
    self.calls.append(keywords)
    return self.answer(keywords)

  def answer(self, keywords):
    return self._capsule() if callable(self._capsule) else self._capsule


class OldProducer(Producer):
  """Knows nothing but `stream`, as libraries of before version 1."""

  def answer(self, keywords):
    if set(keywords) - {"stream"}:
      raise TypeError("unexpected keyword argument 'max_version'")
    return super().answer(keywords)


class OldestProducer(Producer):
  """Knows no argument, as TensorFlow."""

  def answer(self, keywords):
    if keywords:
      raise TypeError("takes no keyword arguments")
    return super().answer(keywords)


class TorchTensor(Producer):
  """With what devrt asks of torch's tensors."""
  requires_grad = False
  conjugate = False
  negative = False

  def is_conj(self):
    return self.conjugate

  def is_neg(self):
    return self.negative


class JaxArray(Producer):
  """Its module says that nobody may write."""
  __module__ = "jaxlib._jax"


class TensorflowTensor(OldestProducer):
  __module__ = "tensorflow.python.framework.ops"


class RmmBuffer:
  """Version 0 of CUDA Array Interface, uint8 without a stream."""

  def __init__(self, pointer, size):
    self.__cuda_array_interface__ = {
        "data": (pointer, False), "shape": (size,), "strides": None,
        "typestr": "|u1", "version": 0}


class RmmStream:
  """As rmm.pylibrmm.stream.Stream."""

  def __init__(self, handle):
    self._handle = handle

  def value(self):
    return self._handle


class CupyStream:
  """As cupy.cuda.Stream before it had __cuda_stream__."""

  def __init__(self, ptr):
    self.ptr = ptr

  def wait_event(self, event):
    raise NotImplementedError


class CupyEvent:
  """As cupy.cuda.Event."""

  def __init__(self, ptr):
    self.ptr = ptr

  def record(self, stream=None):
    raise NotImplementedError


class ExternalStreamStub:
  """A stream of some library."""

  def __init__(self, answer):
    self._answer = answer

  def __cuda_stream__(self):
    return self._answer


def copy_of(capsule, dtype, shape):
  """The values behind a capsule of host memory."""
  tensor = tensor_of(capsule).tensor
  address = (tensor.data or 0) + tensor.byte_offset
  size = int(np.prod(shape)) * np.dtype(dtype).itemsize
  data = ctypes.string_at(address, size) if size else b""
  return np.frombuffer(data, dtype).reshape(shape).copy()


# ---- The C exchange API ------------------------------------------------------

SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p,
                             ctypes.c_char_p)


class ApiTable(ctypes.Structure):
  _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
              ("prev", ctypes.c_void_p), ("allocator", ctypes.c_void_p),
              ("from_py", ctypes.c_void_p), ("to_py", ctypes.c_void_p),
              ("borrow", ctypes.c_void_p), ("stream", ctypes.c_void_p)]


FROM_PY = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object,
                            ctypes.POINTER(ctypes.POINTER(Versioned)))
TO_PY = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Versioned),
                          ctypes.POINTER(ctypes.c_void_p))
BORROW = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object,
                           ctypes.POINTER(Tensor))
WORK_STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32,
                                ctypes.POINTER(ctypes.c_void_p))
# Without the GIL.
ALLOCATOR = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Tensor),
    ctypes.POINTER(ctypes.POINTER(Versioned)), ctypes.c_void_p,
    ctypes.c_void_p)


class ExchangeApi:
  """A consumer of an exchange API."""

  def __init__(self, table):
    self.table = table
    for name in ("major", "minor", "prev", "allocator", "from_py", "to_py",
                 "borrow", "stream"):
      setattr(self, name, getattr(table, name))

  @staticmethod
  def of(capsule):
    return ExchangeApi(ApiTable.from_address(
        _pointer(capsule, b"dlpack_exchange_api")))

  def export(self, x):
    out = ctypes.POINTER(Versioned)()
    FROM_PY(self.from_py)(x, ctypes.byref(out))  # raises what is set
    return out

  def wrap(self, tensor):
    out = ctypes.c_void_p()
    TO_PY(self.to_py)(tensor, ctypes.byref(out))
    made = ctypes.cast(out, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(made))  # it was a new reference
    return made

  def view(self, x):
    out = Tensor()
    BORROW(self.borrow)(x, ctypes.byref(out))
    return out

  def work_stream(self, kind, index):
    out = ctypes.c_void_p(12345)
    WORK_STREAM(self.stream)(kind, index, ctypes.byref(out))
    return out.value

  def allocate(self, shape, dtype, device, silent=False):
    """(tensor or a null pointer, what SetError was told)."""
    said = []

    def note(context, kind, text):
      said.append((kind.decode(), text.decode()))

    call = SET_ERROR(note)
    prototype = Tensor()
    extents = (ctypes.c_int64 * len(shape))(*shape)
    prototype.ndim = len(shape)
    prototype.shape = ctypes.cast(extents, ctypes.POINTER(ctypes.c_int64))
    prototype.dtype = DataType(*dtype, 1)
    prototype.device = Device(*device)
    out = ctypes.POINTER(Versioned)()
    code = ALLOCATOR(self.allocator)(
        ctypes.byref(prototype), ctypes.byref(out), None,
        None if silent else ctypes.cast(call, ctypes.c_void_p))
    assert (code == 0) == bool(out)
    return out, said


class ForeignApi:
  """The exchange API of another library, whose tensors devrt makes."""

  def __init__(self, make, own, major=1):
    mine = ExchangeApi.of(own) if own is not None else None

    def export(x, out):
      if self.major is None:
        return 0
      out[0] = mine.export(make())
      out[0].contents.major = self.major
      return 0

    self.keep = FROM_PY(export)
    self.work = WORK_STREAM(self.work_stream_of)
    self.table = ApiTable(major, 3, None, None,
                          ctypes.cast(self.keep, ctypes.c_void_p).value, None,
                          None, ctypes.cast(self.work, ctypes.c_void_p).value)
    self.name = b"dlpack_exchange_api"
    self.capsule = _new(ctypes.addressof(self.table), self.name, None)

  stream = None  # the default one
  major = 1  # of its tensors; None: it gives none

  def work_stream_of(self, kind, index, out):
    out[0] = self.stream
    return 0
