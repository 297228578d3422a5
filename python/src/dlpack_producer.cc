// SPDX-License-Identifier: Apache-2.0
#include "python/src/dlpack_producer.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "python/src/arguments.h"
#include "python/src/dlpack.h"
#include "python/src/errors.h"

namespace devrt::python {
namespace {

// Interned names of attributes, methods and keywords.
struct Names {
  PyObject* dlpack;
  PyObject* dlpack_device;
  PyObject* requires_grad;
  PyObject* is_conj;
  PyObject* is_neg;
  PyObject* is_meta;
  PyObject* is_quantized;
  PyObject* layout;
  PyObject* module;
  PyObject* version;  // (1, 3)
  // Tuples of keyword names.
  PyObject* stream_version_copy;
  PyObject* stream_version;
  PyObject* version_copy;
  PyObject* version_only;
  PyObject* stream_only;
};

PyObject* Keywords(const char* a, const char* b = nullptr,
                   const char* c = nullptr) {
  const char* texts[] = {a, b, c};
  const Py_ssize_t count = c != nullptr ? 3 : (b != nullptr ? 2 : 1);
  PyObject* tuple = PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple != nullptr && i < count; ++i) {
    PyTuple_SET_ITEM(tuple, i, PyUnicode_InternFromString(texts[i]));
  }
  return tuple;
}

const Names& Known() {
  static const Names names = {
      PyUnicode_InternFromString("__dlpack__"),
      PyUnicode_InternFromString("__dlpack_device__"),
      PyUnicode_InternFromString("requires_grad"),
      PyUnicode_InternFromString("is_conj"),
      PyUnicode_InternFromString("is_neg"),
      PyUnicode_InternFromString("is_meta"),
      PyUnicode_InternFromString("is_quantized"),
      PyUnicode_InternFromString("layout"),
      PyUnicode_InternFromString("__module__"),
      Py_BuildValue("(ii)", 1, 3),
      Keywords("stream", "max_version", "copy"),
      Keywords("stream", "max_version"),
      Keywords("max_version", "copy"),
      Keywords("max_version"),
      Keywords("stream"),
  };
  return names;
}

// Decides by the library that contains the API's functions.
bool FindIsTorch(const DLPackExchangeAPI* api) {
  Dl_info info;
  if (dladdr(
          reinterpret_cast<void*>(api->managed_tensor_from_py_object_no_sync),
          &info) == 0 ||
      info.dli_fname == nullptr) {
    return false;
  }
  const char* slash = std::strrchr(info.dli_fname, '/');
  const char* file = slash != nullptr ? slash + 1 : info.dli_fname;
  constexpr char kLibrary[] = "libtorch_python.";
  return std::strncmp(file, kLibrary, sizeof kLibrary - 1) == 0;
}

bool IsTorch(const DLPackExchangeAPI* api) {
  static const DLPackExchangeAPI* last = nullptr;
  static bool is_torch = false;
  if (api != last) {
    is_torch = FindIsTorch(api);
    last = api;
  }
  return is_torch;
}

ProducerType Inspect(PyTypeObject* type) {
  const Names& names = Known();
  PyObject* capsule = nullptr;
  const DLPackExchangeAPI* const api = FindExchangeApi(type, &capsule);
  ProducerType found{api,
                     capsule,
                     _PyType_Lookup(type, names.requires_grad),
                     _PyType_Lookup(type, names.is_conj),
                     _PyType_Lookup(type, names.is_neg),
                     false};
  found.is_torch = found.api != nullptr && IsTorch(found.api);
  return found;
}

// Returns the version of the attributes of a type and its bases, or 0 if
// CPython has none.
unsigned VersionOf(const PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030B0000
  (void)type;
  return 0;  // sys._clear_type_cache() restarts the numbers
#else
#if PY_VERSION_HEX < 0x030D0000
  if ((type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) == 0) return 0;
#endif
  return type->tp_version_tag;
#endif
}

// Returns x.NAME.  `found` is the type's attribute of that name: a property
// takes precedence over the object's own attributes.
Ref Get(PyObject* x, PyObject* name, PyObject* found) {
  PyTypeObject* const type = Py_TYPE(x);
  const PyTypeObject* const kind = Py_TYPE(found);
  if (type->tp_getattro == PyObject_GenericGetAttr &&
      kind->tp_descr_get != nullptr && kind->tp_descr_set != nullptr) {
    return Ref(kind->tp_descr_get(found, x, reinterpret_cast<PyObject*>(type)));
  }
  return Ref(PyObject_GetAttr(x, name));
}

// Calls x.NAME().  `found` is the type's attribute of that name.
Ref Call(PyObject* x, PyObject* name, PyObject* found) {
  // A C function without parameters, as PyTorch's are, is called directly.
  if (Py_IS_TYPE(found, &PyMethodDescr_Type)) {
    const auto* const method = reinterpret_cast<PyMethodDescrObject*>(found);
    if (method->d_method->ml_flags == METH_NOARGS &&
        PyObject_TypeCheck(x, PyDescr_TYPE(found))) {
      return Ref(method->d_method->ml_meth(x, nullptr));
    }
  }
  return Ref(PyObject_CallMethodNoArgs(x, name));
}

struct KnownType {
  const PyTypeObject* type;
  unsigned version;
  ProducerType has;
};

__attribute__((noinline)) void Refresh(PyTypeObject* type, KnownType* known) {
  known->has = Inspect(type);
  known->type = type;
  known->version = VersionOf(type);  // the lookup has assigned one
}

bool Refuse(PyObject* x, const Ref& value, const char* why) {
  if (value.get() == Py_False) return true;
  const int yes = value ? PyObject_IsTrue(value.get()) : -1;
  if (yes == 0) return true;
  if (yes > 0) {
    PyErr_Format(PyExc_BufferError, "%s cannot be shared: %s", TypeName(x),
                 why);
  }
  return false;
}

bool RefuseCall(PyObject* x, PyObject* name, const Ref& found,
                const char* why) {
  return !found || Refuse(x, Call(x, name, found.get()), why);
}

// Compares the part of the type's module name before the first dot.
bool ModuleIs(PyTypeObject* type, const char* name) {
  const Ref module(
      PyObject_GetAttr(reinterpret_cast<PyObject*>(type), Known().module));
  if (!module || !PyUnicode_Check(module.get())) {
    PyErr_Clear();
    return false;
  }
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(module.get(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    return false;
  }
  const char* dot = std::strchr(text, '.');
  const size_t length = dot != nullptr ? static_cast<size_t>(dot - text)
                                       : static_cast<size_t>(size);
  return length == std::strlen(name) && std::memcmp(text, name, length) == 0;
}

bool ReadNumber(PyObject* object, int32_t* value) {
  const Ref number(PyNumber_Index(object));
  if (!number) return false;
  int overflow = 0;
  const int64_t wide = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  if (overflow != 0 || wide != static_cast<int32_t>(wide)) {
    PyErr_Format(PyExc_BufferError, "__dlpack_device__() names a device %R",
                 number.get());
    return false;
  }
  *value = static_cast<int32_t>(wide);
  return true;
}

// Calls __dlpack__ in one form.  The values are in the order of `keywords`.
PyObject* CallDLPack(PyObject* x, PyObject* a, PyObject* b, PyObject* c,
                     PyObject* keywords) {
  PyObject* args[] = {x, a, b, c};
  return PyObject_VectorcallMethod(Known().dlpack, args, 1, keywords);
}

// Calls __dlpack__ in its newest form.
PyObject* CallNewestDLPack(PyObject* x, PyObject* stream, bool never_copy) {
  const Names& names = Known();
  if (stream != nullptr) {
    return CallDLPack(
        x, stream, names.version, Py_False,
        never_copy ? names.stream_version_copy : names.stream_version);
  }
  return CallDLPack(x, names.version, Py_False, nullptr,
                    never_copy ? names.version_copy : names.version_only);
}

// Returns true if the exception's class is as general as RuntimeError.  Derived
// classes say more.
bool IsGeneralException(PyObject* exception) {
  for (PyObject* plain : {PyExc_RuntimeError, PyExc_NotImplementedError,
                          PyExc_ValueError, PyExc_BufferError}) {
    if (Py_IS_TYPE(exception, reinterpret_cast<PyTypeObject*>(plain))) {
      return true;
    }
  }
  return false;
}

// Returns the first non-empty line of str(exception), or null.
Ref FirstLine(PyObject* exception) {
  const Ref text(PyObject_Str(exception));
  const Ref lines(text ? PyUnicode_Splitlines(text.get(), 0) : nullptr);
  const Py_ssize_t count = lines ? PyList_GET_SIZE(lines.get()) : 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const line = PyList_GET_ITEM(lines.get(), i);
    if (PyUnicode_GET_LENGTH(line) != 0) return Ref::To(line);
  }
  PyErr_Clear();
  return Ref();
}

// PyTorch raises these for earlier work on a device, whatever is asked next.
bool IsDeviceError(PyObject* exception, PyObject* line) {
  if (!Py_IS_TYPE(exception,
                  reinterpret_cast<PyTypeObject*>(PyExc_RuntimeError))) {
    return false;
  }
  const char* const text = PyUnicode_AsUTF8(line);
  if (text == nullptr) {
    PyErr_Clear();
    return false;
  }
  return std::strncmp(text, "CUDA error", 10) == 0 ||
         std::strncmp(text, "HIP error", 9) == 0;
}

// Returns true for PyTorch's tensors and for objects that look like one.
bool HasGradients(PyObject* x) {
  const KeepException keep;
  return ProducerTypeOf(Py_TYPE(x)).requires_grad != nullptr;
}

// Returns true if x.NAME exists and is true.  Clears exceptions of the lookup.
bool IsSet(PyObject* x, PyObject* name) {
  const Ref value(PyObject_GetAttr(x, name));
  const bool set = value && PyObject_IsTrue(value.get()) > 0;
  PyErr_Clear();
  return set;
}

// Returns what a program can do about a tensor of PyTorch without plain memory,
// by the tensor's own attributes.  "" for other tensors.  Null with an
// exception set.
Ref RemedyOf(PyObject* x) {
  const Names& names = Known();
  if (!HasGradients(x)) return Ref(PyUnicode_FromString(""));
  if (IsSet(x, names.is_meta)) {
    return Ref(
        PyUnicode_FromString(" (it is on the device meta and has no memory)"));
  }
  if (IsSet(x, names.is_quantized)) {
    return Ref(PyUnicode_FromString(" (it is quantized: use .dequantize())"));
  }
  const Ref layout(PyObject_GetAttr(x, names.layout));
  const Ref text(layout ? PyObject_Str(layout.get()) : nullptr);
  PyErr_Clear();
  if (!text ||
      PyUnicode_CompareWithASCIIString(text.get(), "torch.strided") == 0) {
    return Ref(PyUnicode_FromString(""));
  }
  return Ref(
      PyUnicode_FromFormat(" (its layout is %U: use .to_dense())", text.get()));
}

// Explains a failed method of DLPack.  PyTorch's exceptions are too general;
// other libraries raise what their authors chose.
void ImproveException(PyObject* x) {
  if (HasGradients(x)) RaiseAsBufferError(x);
}

// Returns true for a TypeError, by which older protocols refuse arguments.
bool IsOldProtocol() {
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) return false;
  PyErr_Clear();
  return true;
}

}  // namespace

const ProducerType& ProducerTypeOf(PyTypeObject* type) {
  static KnownType known[8] = {};
  KnownType& entry = known[reinterpret_cast<uintptr_t>(type) / 64 % 8];
  const unsigned version = VersionOf(type);
  if (__builtin_expect(
          entry.type != type || entry.version != version || version == 0, 0)) {
    Refresh(type, &entry);
  }
  return entry.has;
}

bool CheckShareable(PyObject* x, std::optional<DLDataType> dtype) {
  const ProducerType& type = ProducerTypeOf(Py_TYPE(x));
  if (type.requires_grad == nullptr) return true;
  const Names& names = Known();
  // Only complex numbers have conjugates, and integers and bools have no
  // gradients.  The negative bit comes from imaginary parts, but
  // torch._neg_view sets it for every dtype.
  const bool whole =
      dtype.has_value() && (dtype->code == kDLInt || dtype->code == kDLUInt ||
                            dtype->code == kDLBool);
  const bool complex = !dtype.has_value() || dtype->code == kDLComplex;
  // Own references: the questions may run Python code that changes the type.
  const Ref conjugate = Ref::To(complex ? type.is_conj : nullptr);
  const Ref negative = Ref::To(type.is_neg);
  if (!whole) {
    const Ref gradient = Ref::To(type.requires_grad);
    if (!Refuse(x, Get(x, names.requires_grad, gradient.get()),
                "requires_grad is set, and devrt tells autograd nothing: use "
                ".detach()")) {
      return false;
    }
  }
  return RefuseCall(x, names.is_conj, conjugate,
                    "its conjugate bit is set: use .resolve_conj()") &&
         RefuseCall(x, names.is_neg, negative,
                    "its negative bit is set: use .resolve_neg()");
}

void RaiseAsBufferError(PyObject* x) {
  Ref exception = TakeRaised();
  if (!IsGeneralException(exception.get()))
    return RaiseAgain(std::move(exception));
  const Ref line = FirstLine(exception.get());
  if (!line || IsDeviceError(exception.get(), line.get())) {
    return RaiseAgain(std::move(exception));
  }
  const Ref remedy = RemedyOf(x);
  if (!remedy) return;
  PyErr_Format(PyExc_BufferError, "%s cannot be shared: %U%U", TypeName(x),
               line.get(), remedy.get());
}

bool GetDLPackDevice(PyObject* x, DLDevice* device) {
  const Ref answer(PyObject_CallMethodNoArgs(x, Known().dlpack_device));
  if (!answer) {
    ImproveException(x);
    return false;
  }
  if (!PyTuple_Check(answer.get()) || PyTuple_GET_SIZE(answer.get()) != 2) {
    PyErr_Format(PyExc_TypeError,
                 "__dlpack_device__() of %s returned %R, expected a tuple of "
                 "two ints",
                 TypeName(x), answer.get());
    return false;
  }
  int32_t type = 0;
  if (!ReadNumber(PyTuple_GET_ITEM(answer.get(), 0), &type) ||
      !ReadNumber(PyTuple_GET_ITEM(answer.get(), 1), &device->device_id)) {
    return false;
  }
  device->device_type = static_cast<DLDeviceType>(type);
  return true;
}

PyObject* GetDLPackCapsule(PyObject* x, PyObject* stream, bool never_copy,
                           bool* passed) {
  *passed = stream != nullptr;
  PyObject* answer = CallNewestDLPack(x, stream, never_copy);
  if (answer == nullptr && stream != nullptr && IsOldProtocol()) {
    answer = CallDLPack(x, stream, nullptr, nullptr, Known().stream_only);
  }
  if (answer == nullptr && IsOldProtocol()) {
    *passed = false;
    answer = CallDLPack(x, nullptr, nullptr, nullptr, nullptr);
  }
  if (answer == nullptr) {
    ImproveException(x);
    return nullptr;
  }
  if (PyCapsule_CheckExact(answer)) return answer;
  PyErr_Format(PyExc_TypeError,
               "__dlpack__() of %s returned a %s, expected a "
               "capsule",
               TypeName(x), TypeName(answer));
  Py_DECREF(answer);
  return nullptr;
}

bool IsNumpy(PyObject* x) {
  for (PyTypeObject* type = Py_TYPE(x); type != nullptr; type = type->tp_base) {
    if (std::strcmp(type->tp_name, "numpy.ndarray") == 0) return true;
  }
  return false;
}

bool IsImmutable(PyTypeObject* type) {
  return ModuleIs(type, "jax") || ModuleIs(type, "jaxlib") ||
         ModuleIs(type, "tensorflow");
}

}  // namespace devrt::python
