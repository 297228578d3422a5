// SPDX-License-Identifier: Apache-2.0
#include "python/src/dtype.h"

#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "devrt/runtime/backend.h"
#include "python/src/arguments.h"
#include "python/src/device.h"
#include "python/src/errors.h"
#include "python/src/gil.h"

namespace devrt::python {

PyTypeObject* g_dtype_type = nullptr;

namespace {

// In the order of DType::All().
PyObject* g_dtypes[32] = {};

DTypeObject* Self(PyObject* self) {
  return reinterpret_cast<DTypeObject*>(self);
}

// ---- Dtypes that programs pass ----------------------------------------------

bool FromText(std::string_view name, DType* dtype) {
  const absl::StatusOr<DType> found = DType::FromName(name);
  if (!found.ok()) {
    Raise(found.status());
    return false;
  }
  *dtype = *found;
  return true;
}

// Returns true for "cpu" and for texts that begin with the name of a known
// backend.
bool NamesDevice(std::string_view text) {
  const std::string_view backend = text.substr(0, text.find(':'));
  if (backend == "cpu") return true;
  for (const std::string& name : WithoutLock([] { return BackendNames(); })) {
    if (backend == name) return true;
  }
  return false;
}

bool FromUnicode(PyObject* text, DType* dtype) {
  Py_ssize_t size = 0;
  const char* utf8 = ToUtf8(text, "dtype", &size);
  if (utf8 == nullptr) return false;
  const std::string_view name(utf8, static_cast<size_t>(size));
  const absl::StatusOr<DType> found = DType::FromName(name);
  if (!found.ok() && NamesDevice(name)) {
    PyErr_Format(g_exceptions.invalid_argument,
                 "dtype is %R, which is a device: by keyword, device=%R, or "
                 "x.to(%R)",
                 text, text, text);
    return false;
  }
  return FromText(name, dtype);
}

// Raises that `object` is not a dtype, unless its own code has raised.
bool Refuse(PyObject* object) {
  if (PyErr_Occurred() != nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError) &&
        !PyErr_ExceptionMatches(PyExc_TypeError)) {
      return false;
    }
    PyErr_Clear();
  }
  if (Py_TYPE(object) == g_device_type) {
    PyErr_Format(PyExc_TypeError,
                 "dtype is %R, which is a device: by keyword, device=%R",
                 object, object);
    return false;
  }
  PyErr_Format(PyExc_TypeError,
               "dtype must be a devrt.DType, a name such as 'float32', a dtype "
               "of NumPy or one of bool, int, float and complex, not %s",
               TypeName(object));
  return false;
}

// Reads numpy.dtype, or an object that describes itself as one, by its `name`.
// The byte order must be the host's.
bool FromDescription(PyObject* object, DType* dtype) {
  const Ref native(PyObject_GetAttrString(object, "isnative"));
  if (!native) return Refuse(object);
  const int is_native = PyObject_IsTrue(native.get());
  if (is_native < 0) return false;
  const Ref name(PyObject_GetAttrString(object, is_native ? "name" : "str"));
  if (!name || !PyUnicode_Check(name.get())) return Refuse(object);
  return FromUnicode(name.get(), dtype);
}

bool IsOneOf(std::string_view module, std::string_view package) {
  return module == package ||
         (module.size() > package.size() && module[package.size()] == '.' &&
          module.substr(0, package.size()) == package);
}

// Returns 1 if the type belongs to a library that names scalar types after
// their dtypes, 0 if not, and -1 with an exception set.
int HasNameOfDType(PyObject* type) {
  const Ref module(PyObject_GetAttrString(type, "__module__"));
  if (!module) return -1;
  if (!PyUnicode_Check(module.get())) return 0;
  const char* name = PyUnicode_AsUTF8(module.get());
  if (name == nullptr) return -1;
  for (const char* package : {"numpy", "ml_dtypes", "jax"}) {
    if (IsOneOf(name, package)) return 1;
  }
  return 0;
}

// Reads a scalar type by the name of its class, or by the dtype that NumPy
// makes of it, if NumPy is imported.
bool FromLibrarysClass(PyObject* object, DType* dtype) {
  const char* full = reinterpret_cast<PyTypeObject*>(object)->tp_name;
  const char* dot = std::strrchr(full, '.');
  const int named = HasNameOfDType(object);
  if (named < 0) return Refuse(object);
  if (named == 1) {
    const absl::StatusOr<DType> found =
        DType::FromName(dot != nullptr ? dot + 1 : full);
    if (found.ok()) {
      *dtype = *found;
      return true;
    }
  }
  PyObject* numpy =
      PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");  // borrowed
  if (dot == nullptr || numpy == nullptr) return Refuse(object);
  const Ref made(PyObject_CallMethod(numpy, "dtype", "O", object));
  return made ? FromDescription(made.get(), dtype) : Refuse(object);
}

bool FromClass(PyObject* object, DType* dtype) {
  if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) {
    *dtype = kBool;
  } else if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) {
    *dtype = kInt64;
  } else if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) {
    *dtype = kFloat64;
  } else if (object == reinterpret_cast<PyObject*>(&PyComplex_Type)) {
    *dtype = kComplex128;
  } else {
    return FromLibrarysClass(object, dtype);
  }
  return true;
}

bool FromTorch(PyObject* object, DType* dtype) {
  const Ref text(PyObject_Str(object));  // "torch.float32"
  if (!text) return false;
  const char* name = PyUnicode_AsUTF8(text.get());
  if (name == nullptr) return false;
  const char* dot = std::strrchr(name, '.');
  return FromText(dot != nullptr ? dot + 1 : name, dtype);
}

// ---- The type ---------------------------------------------------------------

PyObject* New(PyTypeObject*, PyObject* args, PyObject* keywords) {
  static const Parameters kParameters = {"DType", 1, 1, 1, {"dtype"}};
  PyObject* value;
  DType dtype = kBool;
  if (!SortArguments(kParameters, args, keywords, &value) ||
      !ParseDType(value, &dtype)) {
    return nullptr;
  }
  return WrapDType(dtype);
}

PyObject* Repr(PyObject* self) {
  return PyUnicode_FromFormat("devrt.%U%s", Self(self)->name,
                              Self(self)->dtype == kBool ? "_" : "");
}

PyObject* Str(PyObject* self) { return NewRef(Self(self)->name); }

Py_hash_t Hash(PyObject* self) { return PyObject_Hash(Self(self)->name); }

PyObject* Compare(PyObject* self, PyObject* other, int operation) {
  if (operation != Py_EQ && operation != Py_NE) {
    return NewRef(Py_NotImplemented);
  }
  DType dtype = kBool;
  if (!ParseDType(other, &dtype)) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
    PyErr_Clear();
    return NewRef(Py_NotImplemented);
  }
  return PyBool_FromLong((Self(self)->dtype == dtype) == (operation == Py_EQ));
}

PyObject* GetName(PyObject* self, void*) { return NewRef(Self(self)->name); }

PyObject* GetItemSize(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(Self(self)->dtype.size());
}

PyObject* GetTypeString(PyObject* self, void*) {
  const char* text = Self(self)->dtype.typestr();
  return text != nullptr ? PyUnicode_FromString(text) : NewRef(Py_None);
}

PyObject* GetKind(PyObject* self, void*) {
  switch (Self(self)->dtype.kind()) {
    case DTypeKind::kBool:
      return PyUnicode_FromString("b");
    case DTypeKind::kSigned:
      return PyUnicode_FromString("i");
    case DTypeKind::kUnsigned:
      return PyUnicode_FromString("u");
    case DTypeKind::kFloat:
    case DTypeKind::kFloat8:
      return PyUnicode_FromString("f");
    case DTypeKind::kComplex:
      return PyUnicode_FromString("c");
  }
  return NewRef(Py_None);
}

PyObject* RefuseWithoutMlDTypes(PyObject* self) {
  if (!PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) return nullptr;
  PyErr_Clear();
  const Ref text(PyUnicode_FromFormat(
      "NumPy has no %U of its own, and ml_dtypes, which has it, is not "
      "installed: pip install ml_dtypes, or convert, x.astype('float32')",
      Self(self)->name));
  const Ref name(PyUnicode_FromString("ml_dtypes"));
  if (!text || !name) return nullptr;
  return PyErr_SetImportErrorSubclass(PyExc_ModuleNotFoundError, text.get(),
                                      name.get(), nullptr);
}

// Returns NumPy's dtype, or ml_dtypes' where NumPy has none.
PyObject* ToNumpy(PyObject* self, PyObject*) {
  const char* text = Self(self)->dtype.typestr();
  const Ref numpy(PyImport_ImportModule("numpy"));
  if (!numpy) return nullptr;
  if (text != nullptr) {
    return PyObject_CallMethod(numpy.get(), "dtype", "s", text);
  }
  const Ref others(PyImport_ImportModule("ml_dtypes"));
  if (!others) return RefuseWithoutMlDTypes(self);
  const Ref scalar(PyObject_GetAttr(others.get(), Self(self)->name));
  if (!scalar) return nullptr;
  return PyObject_CallMethod(numpy.get(), "dtype", "O", scalar.get());
}

PyObject* GetNumpy(PyObject* self, void*) { return ToNumpy(self, nullptr); }

PyObject* Reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("O(O)", g_dtype_type, Self(self)->name);
}

PyMethodDef g_methods[] = {
    {"numpy", ToNumpy, METH_NOARGS,
     "numpy($self, /)\n"
     "--\n\n"
     "Returns the numpy.dtype.  For bfloat16 and the float8 dtypes it is that\n"
     "of ml_dtypes.\n\n"
     "Raises ImportError if NumPy or ml_dtypes is needed and not installed."},
    {"__reduce__", Reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef g_getters[] = {
    Getter("name", GetName, "\"float32\": NumPy's or ml_dtypes' name."),
    Getter("itemsize", GetItemSize, "Bytes of an element."),
    Getter("kind", GetKind,
           "'b' bool, 'i' signed, 'u' unsigned, 'f' floating, 'c' complex."),
    Getter("str", GetTypeString,
           "NumPy's type string, \"<f4\".  None for bfloat16 and float8, which "
           "it\n"
           "cannot name."),
    // NumPy 2.4 and later read __numpy_dtype__, older ones `dtype`.
    Getter("__numpy_dtype__", GetNumpy, "What numpy.dtype(this) is."),
    Getter("dtype", GetNumpy, "What numpy.dtype(this) is."),
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

constexpr char kDoc[] =
    "DType(dtype)\n"
    "--\n\n"
    "The type of an array's elements: one of the objects devrt.float32 and so\n"
    "on.\n\n"
    "    devrt.DType('f4') is devrt.float32\n"
    "    devrt.float32 == numpy.float32                    # True\n\n"
    "devrt takes as a dtype one of these objects, a name, a dtype or scalar\n"
    "type of NumPy, ml_dtypes or PyTorch, or bool, int, float and complex for\n"
    "bool_, int64, float64 and complex128.  Raises TypeError for anything\n"
    "else, and ValueError for a dtype that devrt does not have.\n\n"
    "The hash is that of the name: a dictionary finds devrt.float32 by\n"
    "'float32', and by devrt.DType(d) for a dtype d of another library, whose\n"
    "own hash differs.";

PyType_Slot g_slots[] = {{Py_tp_new, AsSlot(New)},
                         {Py_tp_repr, AsSlot(Repr)},
                         {Py_tp_str, AsSlot(Str)},
                         {Py_tp_hash, AsSlot(Hash)},
                         {Py_tp_richcompare, AsSlot(Compare)},
                         {Py_tp_methods, g_methods},
                         {Py_tp_getset, g_getters},
                         {Py_tp_doc, const_cast<char*>(kDoc)},
                         {0, nullptr}};

PyType_Spec g_spec = {"devrt.DType", sizeof(DTypeObject), 0, Py_TPFLAGS_DEFAULT,
                      g_slots};

}  // namespace

PyObject* WrapDType(DType dtype) {
  const absl::Span<const DType> all = DType::All();
  size_t i = 0;
  while (all[i] != dtype) ++i;
  return NewRef(g_dtypes[i]);
}

bool ParseDType(PyObject* object, DType* dtype) {
  if (__builtin_expect(Py_TYPE(object) == g_dtype_type, 1)) {
    *dtype = Self(object)->dtype;
    return true;
  }
  if (PyUnicode_Check(object)) return FromUnicode(object, dtype);
  if (PyType_Check(object)) return FromClass(object, dtype);
  if (std::strcmp(TypeName(object), "torch.dtype") == 0) {
    return FromTorch(object, dtype);
  }
  return FromDescription(object, dtype);
}

bool AddDTypes(PyObject* module) {
  PyObject* type = PyType_FromSpec(&g_spec);
  if (type == nullptr) return false;
  g_dtype_type = reinterpret_cast<PyTypeObject*>(type);
  size_t i = 0;
  for (const DType dtype : DType::All()) {
    PyObject* object = g_dtype_type->tp_alloc(g_dtype_type, 0);
    if (object == nullptr) return false;
    Self(object)->dtype = dtype;
    Self(object)->name = PyUnicode_FromString(dtype.name());
    if (Self(object)->name == nullptr) return false;
    g_dtypes[i++] = object;
    // Python's own bool takes that name.
    const char* name = dtype == kBool ? "bool_" : dtype.name();
    if (PyModule_AddObject(module, name, NewRef(object)) != 0) return false;
  }
  return PyModule_AddObject(module, "DType", NewRef(type)) == 0;
}

}  // namespace devrt::python
