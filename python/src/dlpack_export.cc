// SPDX-License-Identifier: Apache-2.0
//
// Array.__dlpack__ and Array.__dlpack_device__.

#include <cstdint>
#include <optional>

#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/exchange.h"
#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"
#include "python/src/dlpack.h"
#include "python/src/errors.h"
#include "python/src/gil.h"

namespace devrt::python {
namespace {

constexpr char kVersioned[] = "dltensor_versioned";
constexpr char kLegacy[] = "dltensor";

// The destructor of a capsule whose tensor nobody took (E31).
template <typename Tensor>
void Destroy(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  const KeepException keep;
  auto* tensor = static_cast<Tensor*>(PyCapsule_GetPointer(capsule, name));
  tensor->deleter(tensor);
}

void DestroyVersioned(PyObject* capsule) {
  Destroy<DLManagedTensorVersioned>(capsule, kVersioned);
}

void DestroyLegacy(PyObject* capsule) {
  Destroy<DLManagedTensor>(capsule, kLegacy);
}

template <typename Tensor>
PyObject* MakeCapsule(Tensor* tensor, const char* name,
                      PyCapsule_Destructor destructor) {
  PyObject* capsule = PyCapsule_New(tensor, name, destructor);
  if (capsule == nullptr) tensor->deleter(tensor);
  return capsule;
}

bool IsGiven(PyObject* object) {
  return object != nullptr && object != Py_None;
}

// Returns true for a tuple of two ints that are not bools.
bool IsPair(PyObject* object) {
  if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 2) return false;
  for (Py_ssize_t i = 0; i < 2; ++i) {
    PyObject* item = PyTuple_GET_ITEM(object, i);
    if (!PyLong_Check(item) || PyBool_Check(item)) return false;
  }
  return true;
}

bool ReadVersioned(PyObject* object, bool* versioned) {
  *versioned = false;
  if (!IsGiven(object)) return true;
  if (!IsPair(object)) {
    PyErr_Format(PyExc_TypeError,
                 "max_version must be None or a tuple of two ints, not %R",
                 object);
    return false;
  }
  int overflow = 0;
  const int64_t major =
      PyLong_AsLongLongAndOverflow(PyTuple_GET_ITEM(object, 0), &overflow);
  if (overflow < 0 || (overflow == 0 && major < 0)) {
    PyErr_Format(PyExc_TypeError, "max_version is %R: no version is negative",
                 object);
    return false;
  }
  *versioned = overflow > 0 || major >= 1;
  return true;
}

bool ReadDevice(PyObject* object, std::optional<DLDevice>* device) {
  if (!IsGiven(object)) return true;
  if (!IsPair(object)) {
    PyErr_Format(PyExc_TypeError,
                 "dl_device must be None or a tuple of two ints, not %R",
                 object);
    return false;
  }
  int64_t numbers[2];
  for (Py_ssize_t i = 0; i < 2; ++i) {
    int overflow = 0;
    numbers[i] =
        PyLong_AsLongLongAndOverflow(PyTuple_GET_ITEM(object, i), &overflow);
    // Like every other number that names no device.
    if (overflow != 0 || numbers[i] != static_cast<int32_t>(numbers[i])) {
      PyErr_Format(PyExc_BufferError, "dl_device %R is no device", object);
      return false;
    }
  }
  *device = DLDevice{static_cast<DLDeviceType>(numbers[0]),
                     static_cast<int32_t>(numbers[1])};
  return true;
}

bool ReadCopy(PyObject* object, std::optional<bool>* copy) {
  if (!IsGiven(object)) return true;
  bool value = false;
  if (!ToBool(object, "copy", &value)) return false;
  *copy = value;
  return true;
}

bool HasCudaNumbers(DLDevice device) {
  return device.device_type == kDLCUDA || device.device_type == kDLCUDAHost ||
         device.device_type == kDLCUDAManaged;
}

bool ReadStream(PyObject* object, const Array& array,
                std::optional<int64_t>* stream) {
  if (!IsGiven(object)) return true;
  int64_t number = 0;
  if (!ToInt64(object, "stream", &number)) return false;
  if (number == 0 && HasCudaNumbers(DLPackDevice(array.place())) &&
      !GetExchangeSettings().strict) {
    if (!WarnOfStreamZero("__dlpack__(stream=0)")) return false;
    number = 1;
  }
  *stream = number;
  return true;
}

// Returns true if the host waits (E43).
bool HostWaits(const Array& array, const DLPackExport& how) {
  const bool of_device = array.place().kind() == MemoryKind::kDevice;
  if (how.dl_device.has_value() && how.dl_device->device_type == kDLCPU) {
    return !of_device || how.copy != false;
  }
  return !of_device && (how.copy.value_or(false) || !how.stream.has_value());
}

PyObject* DLPack(PyObject* self, PyObject* const* args, Py_ssize_t count,
                 PyObject* names) {
  static const Parameters kParameters = {
      "__dlpack__", 0, 0, 4, {"stream", "max_version", "dl_device", "copy"}};
  PyObject* values[4];
  DLPackExport how;
  bool versioned = false;
  const Array& array = ArrayOf(self);
  const auto held = array.storage();  // see array_owner.h
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ReadVersioned(values[1], &versioned) ||
      !ReadCopy(values[3], &how.copy) ||
      !ReadDevice(values[2], &how.dl_device) ||
      !ReadStream(values[0], array, &how.stream)) {
    return nullptr;
  }
  if (HostWaits(array, how) && !WaitBefore(array)) return nullptr;
  const SiteHere site;
  if (!versioned) {
    const auto tensor =
        WithoutLock([&] { return ToDLPackLegacy(array, how, site); });
    if (!tensor.ok()) return RaiseExport(tensor.status());
    return MakeCapsule(*tensor, kLegacy, DestroyLegacy);
  }
  const auto tensor = WithoutLock([&] { return ToDLPack(array, how, site); });
  if (!tensor.ok()) return RaiseExport(tensor.status());
  return MakeCapsule(*tensor, kVersioned, DestroyVersioned);
}

PyObject* DLPackDeviceOf(PyObject* self, PyObject*) {
  const DLDevice device = DLPackDevice(ArrayOf(self).place());
  return Py_BuildValue("(ii)", static_cast<int>(device.device_type),
                       static_cast<int>(device.device_id));
}

PyMethodDef g_methods[] = {
    {"__dlpack__", AsMethod(DLPack), METH_FASTCALL | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None,\n"
     "           copy=None)\n"
     "--\n\n"
     "Returns a DLPack capsule over this memory, for the consumer's stream.\n\n"
     "stream: the consumer's stream, on the data's device.  It is ordered\n"
     "after all pending work on the memory.  None is the default stream, -1\n"
     "means no order, 1 and 2 are CUDA's default and per-thread streams.\n"
     "Other numbers are native handles.\n"
     "max_version: the newest version that the consumer accepts.  None and "
     "(0,\n"
     "x) give a capsule of a version before 1.\n"
     "dl_device: where the memory is wanted, (1, 0) for the host.\n"
     "copy: True copies, False never does, None copies if it must.\n\n"
     "Raises BufferError for memory that cannot be exported,\n"
     "CopyRequiredError, and ValueError for impossible streams."},
    {"__dlpack_device__", DLPackDeviceOf, METH_NOARGS,
     "__dlpack_device__($self, /)\n"
     "--\n\n"
     "Returns DLPack's name of the memory: (type, id)."},
    {nullptr, nullptr, 0, nullptr}};

PyMethodDef g_functions[] = {
    {"from_dlpack", AsMethod(FromDLPackObject), METH_FASTCALL | METH_KEYWORDS,
     "from_dlpack($module, x, /, *, device=None, copy=None)\n"
     "--\n\n"
     "Returns an array over the memory of `x`, without a copy.\n\n"
     "x: an object with __dlpack__ and __dlpack_device__, or a capsule, which\n"
     "is taken without order.\n"
     "device: where it is wanted: 'cpu', 'cuda:1', a Device.  Pinned memory "
     "is\n"
     "on the host, and stays pinned for 'cpu'.\n"
     "copy: True copies, False never does, None copies if `device` needs "
     "it.\n\n"
     "The current stream of the data's device is ordered after the producer's\n"
     "work.  The array keeps the producer's memory.  It is read-only if the\n"
     "producer says so, or does not allow writes (JAX, TensorFlow).\n\n"
     "Raises BufferError for memory that cannot be shared, CopyRequiredError,\n"
     "and AttributeError if `x` has no DLPack."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool WarnOfStreamZero(const char* where) {
  static bool warned = false;
  if (warned) return true;
  warned = PyErr_WarnFormat(
               g_exceptions.interop_warning, 1,
               "%s: 0 names no stream on CUDA; it is taken for the default "
               "stream, 1. DEVRT_DLPACK_STRICT=1 makes it an error",
               where) == 0;
  return warned;
}

bool AddDLPack(PyObject* module, PyTypeObject* array_type) {
  for (PyMethodDef* method = g_methods; method->ml_name != nullptr; ++method) {
    const Ref descriptor(PyDescr_NewMethod(array_type, method));
    if (!descriptor ||
        PyDict_SetItemString(array_type->tp_dict, method->ml_name,
                             descriptor.get()) != 0) {
      return false;
    }
  }
  const Ref capsule(NewExchangeApiCapsule());
  if (!capsule ||
      PyDict_SetItemString(array_type->tp_dict, "__dlpack_c_exchange_api__",
                           capsule.get()) != 0) {
    return false;
  }
  PyType_Modified(array_type);
  return PyModule_AddFunctions(module, g_functions) == 0;
}

}  // namespace devrt::python
