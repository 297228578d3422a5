// SPDX-License-Identifier: Apache-2.0
//
// Makes arrays of a program's objects: array, asarray and from_pointer.

#include <cstring>
#include <string>

#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"
#include "python/src/keep_current.h"
#include "python/src/owner.h"
#include "python/src/run_allocation.h"
#include "python/src/stream.h"

namespace devrt::python {
namespace {

bool Has(PyObject* object, const char* name) {
  const KeepCurrent keep;
  // Libraries define protocols on the type or on the object.
  PyObject* found = PyObject_GetAttrString(object, name);
  if (found == nullptr) {
    // Only an AttributeError means that the protocol is missing.
    if (PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
    return false;
  }
  Py_DECREF(found);
  return true;
}

std::optional<Source> Shared(std::optional<Array> array) {
  if (!array.has_value()) return std::nullopt;
  return Source(*std::move(array), false);
}

std::optional<Source> FromDlpackObject(PyObject* object) {
  const Ref import(PyObject_GetAttrString(g_core_module, "from_dlpack"));
  if (!import) return std::nullopt;
  const Ref made(PyObject_CallFunctionObjArgs(import.get(), object, nullptr));
  if (!made) return std::nullopt;
  if (IsArray(made.get())) return Source(Array(ArrayOf(made.get())), false);
  PyErr_SetString(PyExc_TypeError, "from_dlpack gave no array");
  return std::nullopt;
}

std::optional<Source> FromCaiObject(PyObject* object) {
  KeepCurrent keep;
  const Ref description(
      PyObject_GetAttrString(object, "__cuda_array_interface__"));
  keep.Restore();
  if (!description) return std::nullopt;
  return Shared(FromCai(description.get(), object));
}

// Imports by NumPy: objects with one of NumPy's protocols, and dtypes such as
// bfloat16 that the buffer protocol cannot describe.
std::optional<Source> FromNumpy(PyObject* object) {
  const Ref helper(NumpyHelper("as_buffer"));
  if (!helper) return std::nullopt;
  const Ref pair(PyObject_CallFunctionObjArgs(helper.get(), object, nullptr));
  if (!pair) return std::nullopt;
  PyObject *bytes = nullptr, *name = nullptr;
  if (!PyArg_ParseTuple(pair.get(), "OO", &bytes, &name)) return std::nullopt;
  std::optional<Array> array = FromBuffer(bytes);
  DType dtype = kBool;
  if (!array.has_value() || name == Py_None) return Shared(std::move(array));
  if (!ParseDType(name, &dtype)) return std::nullopt;
  absl::StatusOr<Array> view = array->ViewAs(dtype);
  if (view.ok()) return Source(*std::move(view), false);
  Raise(view.status());
  return std::nullopt;
}

bool IsNumpyArray(PyObject* object) {
  return std::strcmp(TypeName(object), "numpy.ndarray") == 0;
}

// Returns 1 if `object` is an instance of that class, 0 if it is not or nobody
// has imported the module, and -1 with an exception set.
int IsOfClass(PyObject* object, const char* module_name, const char* name) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(),
                                          module_name);  // borrowed
  if (module == nullptr) return 0;
  const Ref type(PyObject_GetAttrString(module, name));
  return type ? PyObject_IsInstance(object, type.get()) : -1;
}

// Refuses text, whose bytes the buffer protocol offers although they are not
// numbers.  Returns false with an exception set.
bool CheckNotText(PyObject* object) {
  if (!PyBytes_Check(object)) return true;
  PyErr_Format(PyExc_TypeError,
               "an array cannot be made of %s: numpy.frombuffer(object, dtype) "
               "reads its bytes as numbers, memoryview(object) as uint8",
               TypeName(object));
  return false;
}

// Refuses masked arrays of NumPy, which offer their data without the mask.
// Returns false with an exception set.
bool CheckNotMasked(PyObject* object) {
  const int is_masked = IsOfClass(object, "numpy.ma.core", "MaskedArray");
  if (is_masked == 0) return true;
  if (is_masked == 1) {
    PyErr_SetString(
        PyExc_TypeError,
        "an array of devrt has no mask: x.filled(value) is an array "
        "without one");
  }
  return false;
}

}  // namespace

std::optional<Source> ToSource(PyObject* object, std::optional<DType> dtype) {
  if (IsArray(object)) return Source(Array(ArrayOf(object)), false);
  if (IsNumpyArray(object)) return FromNumpy(object);
  Number number;
  const int is_number = ToNumber(object, &number);
  if (is_number < 0) return std::nullopt;
  if (is_number == 1 || PyList_Check(object) || PyTuple_Check(object) ||
      PyRange_Check(object)) {
    std::optional<Array> made = FromSequence(object, dtype);
    if (!made.has_value()) return std::nullopt;
    return Source(*std::move(made), true);
  }
  if (PyObject_CheckBuffer(object)) {
    if (!CheckNotText(object) || !CheckNotMasked(object)) return std::nullopt;
    // NumPy's scalars offer their bytes without a useful format.  NumPy knows
    // the dtype.
    const int is_scalar = IsOfClass(object, "numpy", "generic");
    if (is_scalar < 0) return std::nullopt;
    if (is_scalar == 1) return FromNumpy(object);
  }
  if (Has(object, "__dlpack__")) return FromDlpackObject(object);
  if (PyErr_Occurred() != nullptr) return std::nullopt;
  if (Has(object, "__cuda_array_interface__")) return FromCaiObject(object);
  if (PyErr_Occurred() != nullptr) return std::nullopt;
  const KeepCurrent keep;
  if (PyObject_CheckBuffer(object)) return Shared(FromBuffer(object));
  for (const char* name :
       {"__array_interface__", "__array_struct__", "__array__"}) {
    if (Has(object, name)) return FromNumpy(object);
    if (PyErr_Occurred() != nullptr) return std::nullopt;
  }
  PyErr_Format(PyExc_TypeError,
               "an array cannot be made of %s: it is no number, list, tuple, "
               "range or array, and offers no protocol of arrays",
               TypeName(object));
  return std::nullopt;
}

namespace {

// What a call of array or asarray asks for.
struct ImportRequest {
  std::optional<DType> dtype;
  std::optional<Place> place;  // nullopt: not given
  bool to_device = false;      // host memory goes to the current device
  std::optional<bool> copy;
  bool copies_by_default = false;  // what copy=None means
};

PyObject* RaiseCopyRequired(const Array& array, const Place& place,
                            DType dtype) {
  const std::string text = "copy is False, and a copy is needed: the data is " +
                           std::string(array.dtype().name()) + " in " +
                           array.place().name() + ", wanted is " +
                           dtype.name() + " in " + place.name();
  PyErr_SetString(g_exceptions.copy_required, text.c_str());
  return nullptr;
}

bool IsOnHost(const Array& array) {
  return array.place().kind() == MemoryKind::kHost ||
         array.place().kind() == MemoryKind::kPinned;
}

PyObject* Finish(PyObject* object, Source source, ImportRequest request) {
  const DType dtype = request.dtype.value_or(source.array.dtype());
  if (!request.place.has_value()) {
    request.place = source.array.place();
    if (IsOnHost(source.array) && (source.fresh || request.to_device)) {
      request.place = ParsePlace(nullptr, false);
      if (!request.place.has_value()) return nullptr;
    }
  } else if (request.place->kind() == MemoryKind::kHost &&
             IsOnHost(source.array)) {
    request.place = source.array.place();  // pinned memory stays on the host
  }
  const bool changes =
      *request.place != source.array.place() || dtype != source.array.dtype();
  const bool copies = changes || (request.copy == true && !source.fresh);
  if (request.copy == false && (changes || source.fresh)) {
    return RaiseCopyRequired(source.array, *request.place, dtype);
  }
  if (!copies) {
    return IsArray(object) ? NewRef(object)
                           : WrapArray(std::move(source.array));
  }
  const bool waits = IsOnHost(source.array) ||
                     request.place->kind() == MemoryKind::kHost ||
                     request.place->kind() == MemoryKind::kPinned;
  if (waits &&
      (!WaitBefore(source.array) || !WaitForCurrentStream(*request.place))) {
    return nullptr;
  }
  const SiteHere site;
  Array from = std::move(source.array);
  absl::StatusOr<Array> made = RunAllocation([&] {
    return changes ? from.To(*request.place, dtype, false, site)
                   : from.Copy(site);
  });
  DropUnlocked(from.TakeStorage());
  return WrapArray(std::move(made));
}

bool ParseRequest(PyObject* dtype, PyObject* device, PyObject* pinned,
                  PyObject* copy, ImportRequest* request) {
  bool is_pinned = false;
  if (!ToBool(pinned, "pinned", &is_pinned)) return false;
  if (dtype != nullptr && dtype != Py_None) {
    request->dtype = kBool;
    if (!ParseDType(dtype, &*request->dtype)) return false;
  }
  if (copy != nullptr && (copy != Py_None || request->copies_by_default)) {
    request->copy = false;
    if (!ToBool(copy, "copy", &*request->copy)) return false;
  }
  if (is_pinned || (device != nullptr && device != Py_None)) {
    request->place = ParsePlace(device, is_pinned);
    return request->place.has_value();
  }
  return true;
}

PyObject* MakeArray(const Parameters& parameters, PyObject* const* args,
                    Py_ssize_t count, PyObject* names, ImportRequest request) {
  PyObject* values[5];
  if (!SortArguments(parameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ParseRequest(values[1], values[2], values[3], values[4], &request)) {
    return nullptr;
  }
  std::optional<Source> source = ToSource(values[0], request.dtype);
  return source.has_value() ? Finish(values[0], *std::move(source), request)
                            : nullptr;
}

PyObject* ArrayFunction(PyObject*, PyObject* const* args, Py_ssize_t count,
                        PyObject* names) {
  static const Parameters kParameters = {
      "array", 1, 2, 5, {"object", "dtype", "device", "pinned", "copy"}};
  ImportRequest request;
  request.to_device = true;
  request.copy = true;
  request.copies_by_default = true;
  return MakeArray(kParameters, args, count, names, request);
}

PyObject* AsArrayFunction(PyObject*, PyObject* const* args, Py_ssize_t count,
                          PyObject* names) {
  static const Parameters kParameters = {
      "asarray", 1, 2, 5, {"object", "dtype", "device", "pinned", "copy"}};
  return MakeArray(kParameters, args, count, names, ImportRequest());
}

// ---- from_pointer -----------------------------------------------------------

struct Block {
  void* address = nullptr;
  Dims shape;
  DType dtype = kBool;
  PointerOptions options;
};

bool ParseBlock(PyObject** values, Block* block) {
  PyObject* device = values[4];
  PyObject* strides = values[5];
  if (!ToAddress(values[0], "ptr", &block->address) ||
      !ParseShape(values[1], "shape", &block->shape) ||
      !ParseDType(values[2], &block->dtype)) {
    return false;
  }
  if (strides != nullptr && strides != Py_None) {
    if (!ParseShape(strides, "strides", &block->options.strides)) return false;
    if (block->options.strides.size() != block->shape.size()) {
      PyErr_Format(g_exceptions.invalid_argument,
                   "strides has %zu entries and shape %zu: each axis has one",
                   block->options.strides.size(), block->shape.size());
      return false;
    }
  }
  if (device != nullptr && device != Py_None) {
    block->options.place = ParsePlace(device, false);
    if (!block->options.place.has_value()) return false;
  }
  return true;
}

PyObject* FromPointer(PyObject*, PyObject* const* args, Py_ssize_t count,
                      PyObject* names) {
  static const Parameters kParameters = {
      "from_pointer",
      3,
      3,
      8,
      {"ptr", "shape", "dtype", "owner", "device", "strides", "readonly",
       "stream"}};
  PyObject* values[8];
  Block block;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ParseBlock(values, &block) ||
      !ToBool(values[6], "readonly", &block.options.read_only)) {
    return nullptr;
  }
  Ref stream;
  if (values[7] != nullptr && values[7] != Py_None) {
    stream = Ref(ParseStream(values[7]));
    if (!stream) return nullptr;
    block.options.stream = AsStream(stream.get())->ref;
  }
  if (values[3] != nullptr && values[3] != Py_None) {
    block.options.owner = KeepAlive(values[3]);
  }
  const SiteHere site;
  return WrapArray(WithoutLock([&] {
    return Array::FromPointer(block.address, block.shape, block.dtype,
                              std::move(block.options), site);
  }));
}

}  // namespace

PyMethodDef g_array_from_functions[] = {
    {"array", AsMethod(ArrayFunction), METH_FASTCALL | METH_KEYWORDS,
     "array(object, dtype=None, *, device=None, pinned=False, copy=True)\n"
     "--\n\n"
     "Returns a new array with the elements of `object`.\n\n"
     "object: a number, nested lists, tuples or ranges, an array of devrt,\n"
     "NumPy or another library, or an object with the buffer protocol, other\n"
     "than bytes.\n"
     "dtype: None is that of the object.  Python's numbers give bool_, int64,\n"
     "float64 or complex128.\n"
     "device: None keeps an array of a device there.  Host data goes to the\n"
     "current device.\n"
     "copy: False raises CopyRequiredError instead of copying.\n\n"
     "Raises TypeError for objects that cannot become an array, ValueError "
     "for\n"
     "ragged lists, and BufferError for arrays of dtypes and layouts that\n"
     "devrt does not have."},
    {"asarray", AsMethod(AsArrayFunction), METH_FASTCALL | METH_KEYWORDS,
     "asarray(object, dtype=None, *, device=None, pinned=False, copy=None)\n"
     "--\n\n"
     "Returns `object` as an array, without a copy where possible.\n\n"
     "Arrays stay where they are, and NumPy's stay in host memory, unless\n"
     "`device` says otherwise.  Numbers and lists go to the current device.\n"
     "Otherwise as devrt.array."},
    {"from_pointer", AsMethod(FromPointer), METH_FASTCALL | METH_KEYWORDS,
     "from_pointer(ptr, shape, dtype, *, owner=None, device=None, "
     "strides=None, readonly=False, stream=None)\n"
     "--\n\n"
     "Returns an array over memory that the program or a library allocated.\n\n"
     "ptr: an address, an int.\n"
     "owner: an object that is kept until devrt's last use of the memory is\n"
     "complete.\n"
     "device: where the memory is, which is checked.  None asks the backends.\n"
     "Memory that none of them knows is taken for host memory, unchecked: an\n"
     "address of no memory ends the process when it is read.\n"
     "strides: in bytes.  None is C order.\n"
     "stream: work on the memory may still run there, and comes first.\n\n"
     "Raises ValueError for a null pointer with elements, and for memory of\n"
     "another device than `device`."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace devrt::python
