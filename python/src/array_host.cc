// SPDX-License-Identifier: Apache-2.0
//
// Protocols of host memory: the buffer protocol, the array interface, and the
// methods that NumPy calls (E62, E63).

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"
#include "python/src/errors.h"
#include "python/src/owner.h"
#include "python/src/signal_exception.h"

namespace devrt::python {
namespace {

bool IsHost(const Array& array) {
  return array.place().kind() == MemoryKind::kHost ||
         array.place().kind() == MemoryKind::kPinned;
}

// ---- Formats ----------------------------------------------------------------

struct Format {
  DType dtype;
  char text[3];
};
const Format kFormats[] = {
    {kBool, "?"},       {kInt8, "b"},       {kInt16, "h"},   {kInt32, "i"},
    {kInt64, "l"},      {kUInt8, "B"},      {kUInt16, "H"},  {kUInt32, "I"},
    {kUInt64, "L"},     {kFloat16, "e"},    {kFloat32, "f"}, {kFloat64, "d"},
    {kComplex64, "Zf"}, {kComplex128, "Zd"}};

const char* FormatOf(DType dtype) {
  for (const Format& format : kFormats) {
    if (format.dtype == dtype) return format.text;
  }
  return nullptr;
}

// Finds the dtype for a format of one item of `size` bytes.  The size decides,
// since the sizes of the letters depend on the prefix.
std::optional<DType> DTypeOfFormat(const char* format, Py_ssize_t size) {
  if (format == nullptr) format = "B";
  if (std::strchr("@=<", format[0]) != nullptr && format[0] != 0) ++format;
  const bool complex = format[0] == 'Z';
  if (complex) ++format;
  if (format[0] == 0 || format[1] != 0) return std::nullopt;
  char kind = 0;
  if (std::strchr("bhilqn", format[0]) != nullptr) kind = 'i';
  if (std::strchr("BHILQN", format[0]) != nullptr) kind = 'u';
  if (std::strchr("efd", format[0]) != nullptr) kind = complex ? 'c' : 'f';
  if (format[0] == '?') kind = 'b';
  if (kind == 0 || (complex && kind != 'c')) return std::nullopt;
  const absl::StatusOr<DType> found =
      DType::FromName(std::string(1, kind) + std::to_string(size));
  if (!found.ok()) return std::nullopt;
  return *found;
}

// ---- Exports ----------------------------------------------------------------

// Lives as long as the Py_buffer.
struct HostView {
  Array array;
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;
};

bool HasLayout(const Array& array, int flags) {
  if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS ||
      (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
    return array.IsContiguous();
  }
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) {
    return array.IsFortranContiguous();
  }
  if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS) {
    return array.IsContiguous() || array.IsFortranContiguous();
  }
  return true;
}

int RefuseBuffer(const char* why) {
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

int CheckRequest(const Array& array, int flags) {
  if ((flags & PyBUF_WRITABLE) != 0 && array.read_only()) {
    return RefuseBuffer("the array is read-only");
  }
  if (!HasLayout(array, flags)) {
    return RefuseBuffer(
        "the array's strides are not those that are asked for; "
        "x.contiguous() has them in C order");
  }
  if ((flags & PyBUF_FORMAT) != 0 && FormatOf(array.dtype()) == nullptr) {
    PyErr_Format(PyExc_BufferError,
                 "the buffer protocol has no format for %s; x.view('u%d') has "
                 "one",
                 array.dtype().name(), static_cast<int>(array.item_size()));
    return -1;
  }
  return 0;
}

// Waits before the host may use the memory.  Returns false with an exception
// set, BufferError if a graph capture forbids the wait (E44).
bool WaitToExport(const Array& array) {
  if (WaitUntilReady(array)) return true;
  if (PyErr_ExceptionMatches(g_exceptions.stream_capture)) {
    const Ref error = TakeRaised();
    const Ref text(PyObject_Str(error.get()));
    if (text) PyErr_SetObject(PyExc_BufferError, text.get());
  } else if (!PyErr_ExceptionMatches(g_exceptions.error)) {
    KeepSignalException();
  }
  return false;
}

void* AddressFor(const Array& array) {
  // Some consumers refuse null even for arrays without elements.
  static char nothing[16];
  return array.data() != nullptr ? array.data() : nothing;
}

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  const Array array = ArrayOf(self);
  if (!IsHost(array)) {
    PyErr_Format(PyExc_TypeError,
                 "a bytes-like object is required, and this array is on %s: "
                 "x.numpy() copies it to the host",
                 array.place().name().c_str());
    return -1;
  }
  if (CheckRequest(array, flags) != 0) return -1;
  if (!WaitToExport(array)) return -1;
  auto held = std::make_unique<HostView>(HostView{array, {}, {}});
  held->shape.assign(array.shape().begin(), array.shape().end());
  held->strides.assign(array.strides().begin(), array.strides().end());
  const char* format = FormatOf(array.dtype());
  view->buf = AddressFor(array);
  view->obj = NewRef(self);
  view->len = static_cast<Py_ssize_t>(array.nbytes());
  view->itemsize = static_cast<Py_ssize_t>(array.item_size());
  view->readonly = array.read_only() ? 1 : 0;
  // A consumer that asks for no shape gets one row of bytes, as from
  // memoryview.
  view->ndim = (flags & PyBUF_ND) != 0 ? array.ndim() : 1;
  view->format =
      (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
  view->shape = (flags & PyBUF_ND) != 0 ? held->shape.data() : nullptr;
  view->strides =
      (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? held->strides.data() : nullptr;
  view->suboffsets = nullptr;
  view->internal = held.release();
  return 0;
}

void ReleaseBuffer(PyObject*, Py_buffer* view) {
  delete static_cast<HostView*>(view->internal);
}

bool RequireHost(const Array& array, const char* name) {
  if (IsHost(array)) return true;
  PyErr_Format(PyExc_AttributeError,
               "%s is offered for host memory only, and this array is on %s",
               name, array.place().name().c_str());
  return false;
}

PyObject* GetArrayInterface(PyObject* self, void*) {
  const Array array = ArrayOf(self);
  if (!RequireHost(array, "__array_interface__")) return nullptr;
  if (array.dtype().typestr() == nullptr) {
    PyErr_Format(PyExc_AttributeError, "__array_interface__ has no name for %s",
                 array.dtype().name());
    return nullptr;
  }
  if (RaiseKeptSignalException() || !WaitToExport(array)) return nullptr;
  const Ref shape(DimsToTuple(array.shape()));
  const Ref strides(array.IsContiguous() ? NewRef(Py_None)
                                         : DimsToTuple(array.strides()));
  const Ref address(PyLong_FromVoidPtr(AddressFor(array)));
  if (!shape || !strides || !address) return nullptr;
  return Py_BuildValue("{sOsssOs(OO)si}", "shape", shape.get(), "typestr",
                       array.dtype().typestr(), "strides", strides.get(),
                       "data", address.get(),
                       array.read_only() ? Py_True : Py_False, "version", 3);
}

// ---- Methods that NumPy calls -----------------------------------------------

PyObject* ToNumpyArray(PyObject* self, PyObject* const* args, Py_ssize_t count,
                       PyObject* names) {
  static const Parameters kParameters = {
      "__array__", 0, 2, 2, {"dtype", "copy"}};
  PyObject* values[2];
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values)) {
    return nullptr;
  }
  const Array& array = ArrayOf(self);
  if (!IsHost(array)) {
    PyErr_Format(PyExc_TypeError,
                 "this array is on %s, and NumPy has host arrays only: "
                 "x.numpy() copies it",
                 array.place().name().c_str());
    return nullptr;
  }
  if (RaiseKeptSignalException()) return nullptr;
  const Ref helper(NumpyHelper("to_ndarray"));
  if (!helper) return nullptr;
  return PyObject_CallFunctionObjArgs(
      helper.get(), self, values[0] != nullptr ? values[0] : Py_None,
      values[1] != nullptr ? values[1] : Py_None, nullptr);
}

PyObject* CallHelper(const char* name, PyObject* self, PyObject* args,
                     PyObject* keywords) {
  const Ref helper(NumpyHelper(name));
  if (!helper) return nullptr;
  const Ref first(PyTuple_Pack(1, self));
  if (!first) return nullptr;
  const Ref all(PySequence_Concat(first.get(), args));
  return all ? PyObject_Call(helper.get(), all.get(), keywords) : nullptr;
}

PyObject* ArrayUfunc(PyObject* self, PyObject* args, PyObject* keywords) {
  return CallHelper("array_ufunc", self, args, keywords);
}

PyObject* ArrayFunction(PyObject* self, PyObject* args, PyObject* keywords) {
  return CallHelper("array_function", self, args, keywords);
}

}  // namespace

std::optional<Array> FromBuffer(PyObject* object) {
  // The memoryview owns the buffer, and releases it with the GIL.
  const Ref memory(PyMemoryView_FromObject(object));
  if (!memory) return std::nullopt;
  const Py_buffer* view = PyMemoryView_GET_BUFFER(memory.get());
  const std::optional<DType> dtype =
      DTypeOfFormat(view->format, view->itemsize);
  if (!dtype.has_value() || view->suboffsets != nullptr) {
    PyErr_Format(PyExc_BufferError,
                 "a buffer of format '%s' with items of %zd bytes has no dtype "
                 "of devrt",
                 view->format != nullptr ? view->format : "B", view->itemsize);
    return std::nullopt;
  }
  PointerOptions options;
  const Dims shape(view->shape, view->shape + view->ndim);
  if (view->strides != nullptr) {
    options.strides.assign(view->strides, view->strides + view->ndim);
  }
  options.read_only = view->readonly != 0;
  options.owner = KeepAlive(memory.get());
  const SiteHere site;
  absl::StatusOr<Array> made = WithoutLock([&] {
    return Array::FromPointer(view->buf, shape, *dtype, std::move(options),
                              site);
  });
  if (made.ok()) return *std::move(made);
  // The buffer was wrong, not the caller's arguments.
  if (absl::IsInvalidArgument(made.status())) {
    RaiseAs(PyExc_BufferError, made.status());
  } else {
    Raise(made.status());
  }
  return std::nullopt;
}

PyMethodDef g_array_host_methods[] = {
    {"__array__", AsMethod(ToNumpyArray), METH_FASTCALL | METH_KEYWORDS,
     "__array__($self, /, dtype=None, copy=None)\n"
     "--\n\n"
     "Returns a numpy.ndarray over host memory.  Raises TypeError for memory\n"
     "of a device."},
    {"__array_ufunc__", AsMethod(ArrayUfunc), METH_VARARGS | METH_KEYWORDS,
     "__array_ufunc__($self, ufunc, method, /, *inputs, **kwargs)\n"
     "--\n\n"
     "Implements numpy.add(x, y) and other ufuncs for arrays of devrt."},
    {"__array_function__", AsMethod(ArrayFunction),
     METH_VARARGS | METH_KEYWORDS,
     "__array_function__($self, func, types, args, kwargs, /)\n"
     "--\n\n"
     "Implements numpy.sum(x) and other functions for arrays of devrt."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef g_array_host_getters[] = {
    Getter("__array_interface__", GetArrayInterface,
           "NumPy's array interface, version 3.  For host memory only."),
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot g_array_host_slots[] = {
    {Py_bf_getbuffer, AsSlot(GetBuffer)},
    {Py_bf_releasebuffer, AsSlot(ReleaseBuffer)},
    {0, nullptr}};

}  // namespace devrt::python
