// SPDX-License-Identifier: Apache-2.0
//
// Methods of devrt.Array that give views.

#include <vector>

#include "python/src/arguments.h"
#include "python/src/array.h"

namespace devrt::python {
namespace {

// Numbers given as f(1, 2) or as f((1, 2)).
bool DimsOf(PyObject* const* args, Py_ssize_t count, const char* what,
            Dims* dims) {
  if (count == 1) return ParseShape(args[0], what, dims);
  const Ref tuple(PyTuple_New(count));
  if (!tuple) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyTuple_SET_ITEM(tuple.get(), i, NewRef(args[i]));
  }
  return ParseShape(tuple.get(), what, dims);
}

PyObject* Reshape(PyObject* self, PyObject* const* args, Py_ssize_t count,
                  PyObject* names) {
  static const Parameters kParameters = {"reshape", 0, 0, 1, {"copy"}};
  PyObject* copy = nullptr;
  // The shape is what is given by position.
  if (!SortArguments(kParameters, args + count, 0, names, &copy)) {
    return nullptr;
  }
  bool may_copy = true;
  bool must_copy = false;
  if (copy != nullptr && copy != Py_None) {
    if (!ToBool(copy, "copy", &must_copy)) return nullptr;
    may_copy = must_copy;
  }
  if (count == 0) {
    PyErr_SetString(PyExc_TypeError, "reshape() missing the shape");
    return nullptr;
  }
  Dims shape;
  if (!DimsOf(args, count, "shape", &shape)) return nullptr;
  const Array array = ArrayOf(self);
  absl::StatusOr<Array> view = array.Reshape(shape);
  if (view.ok() && !must_copy) return WrapView(self, std::move(view));
  if (!may_copy) return Raise(view.status());
  // What no copy can be reshaped to says the same without one.
  const CallSite site = SiteHere();
  absl::StatusOr<Array> copied = WithoutLock([&]() -> absl::StatusOr<Array> {
    if (array.IsContiguous() && !view.ok()) return view.status();
    absl::StatusOr<Array> made = array.Copy(site);
    return made.ok() ? made->Reshape(shape) : made;
  });
  return WrapArray(std::move(copied));
}

bool AxesOf(PyObject* const* args, Py_ssize_t count, std::vector<int>* axes) {
  Dims dims;
  if (!DimsOf(args, count, "axes", &dims)) return false;
  for (const int64_t axis : dims) {
    axes->push_back(axis < INT32_MIN || axis > INT32_MAX
                        ? INT32_MAX
                        : static_cast<int>(axis));
  }
  return true;
}

PyObject* Transpose(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count == 0 || (count == 1 && args[0] == Py_None)) {
    return WrapView(self, ArrayOf(self).Transpose());
  }
  std::vector<int> axes;
  if (!AxesOf(args, count, &axes)) return nullptr;
  return WrapView(self, ArrayOf(self).Permute(axes));
}

PyObject* Permute(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  std::vector<int> axes;
  if (!AxesOf(args, count, &axes)) return nullptr;
  return WrapView(self, ArrayOf(self).Permute(axes));
}

PyObject* Squeeze(PyObject* self, PyObject* const* args, Py_ssize_t count,
                  PyObject* names) {
  static const Parameters kParameters = {"squeeze", 0, 1, 1, {"axis"}};
  PyObject* value;
  std::optional<int> axis;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     &value) ||
      !ParseOptionalAxis(value, &axis)) {
    return nullptr;
  }
  if (axis.has_value()) return WrapView(self, ArrayOf(self).Squeeze(*axis));
  return WrapView(self, ArrayOf(self).Squeeze());
}

PyObject* ExpandDims(PyObject* self, PyObject* value) {
  int axis = 0;
  if (!ParseAxis(value, "axis", &axis)) return nullptr;
  return WrapView(self, ArrayOf(self).ExpandDims(axis));
}

PyObject* BroadcastTo(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  Dims shape;
  if (!DimsOf(args, count, "shape", &shape)) return nullptr;
  return WrapView(self, ArrayOf(self).BroadcastTo(shape));
}

PyObject* View(PyObject* self, PyObject* value) {
  DType dtype = kBool;
  if (!ParseDType(value, &dtype)) return nullptr;
  return WrapView(self, ArrayOf(self).ViewAs(dtype));
}

PyObject* AsReadOnly(PyObject* self, PyObject*) {
  return WrapView(self, ArrayOf(self).AsReadOnly());
}

PyObject* SharesStorage(PyObject* self, PyObject* other) {
  if (!IsArray(other)) {
    PyErr_Format(PyExc_TypeError,
                 "shares_storage() needs a devrt.Array, not %s",
                 TypeName(other));
    return nullptr;
  }
  return PyBool_FromLong(ArrayOf(self).SharesStorage(ArrayOf(other)));
}

}  // namespace

PyMethodDef g_array_view_methods[] = {
    {"reshape", AsMethod(Reshape), METH_FASTCALL | METH_KEYWORDS,
     "reshape($self, /, *shape, copy=None)\n--\n\n"
     "The same elements, in C order, in another shape.\n\n"
     "shape: ints or one tuple of them; one may be -1, what is left over.\n"
     "copy: None, a view where one is possible, else a copy; True, always a\n"
     "copy; False, never.  Raises ValueError for a shape of another size, or\n"
     "if only a copy would do and copy is False."},
    {"transpose", AsMethod(Transpose), METH_FASTCALL,
     "transpose($self, /, *axes)\n--\n\n"
     "A view with the axes in reverse order, or in the order `axes`."},
    {"permute", AsMethod(Permute), METH_FASTCALL,
     "permute($self, /, *axes)\n--\n\n"
     "A view with the axes in that order, a permutation of all of them."},
    {"squeeze", AsMethod(Squeeze), METH_FASTCALL | METH_KEYWORDS,
     "squeeze($self, /, axis=None)\n--\n\n"
     "A view without that axis, which must have extent 1, or without all such\n"
     "axes."},
    {"expand_dims", ExpandDims, METH_O,
     "expand_dims($self, axis, /)\n--\n\n"
     "A view with a new axis of extent 1 before `axis`."},
    {"broadcast_to", AsMethod(BroadcastTo), METH_FASTCALL,
     "broadcast_to($self, /, *shape)\n--\n\n"
     "A view of that shape by NumPy's rules; repeated elements are not\n"
     "written."},
    {"view", View, METH_O,
     "view($self, dtype, /)\n--\n\n"
     "The same bytes as another dtype of the same size; astype converts."},
    {"as_read_only", AsReadOnly, METH_NOARGS,
     "as_read_only($self, /)\n--\n\nA view that refuses writes."},
    {"shares_storage", SharesStorage, METH_O,
     "shares_storage($self, other, /)\n--\n\n"
     "Whether both arrays are over one memory, wherever in it."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace devrt::python
