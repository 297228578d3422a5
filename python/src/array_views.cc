// SPDX-License-Identifier: Apache-2.0
//
// Methods of devrt.Array that return views.

#include <algorithm>
#include <vector>

#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"

namespace devrt::python {
namespace {

// Reads numbers that are passed as f(1, 2) or as f((1, 2)).
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
  // Positional arguments are the shape.
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
  // A contiguous array that cannot be viewed with that shape cannot be copied
  // to it either, so no copy is made.
  const SiteHere site;
  absl::StatusOr<Array> copied = WithoutLock([&]() -> absl::StatusOr<Array> {
    if (array.IsContiguous() && !view.ok()) return view.status();
    absl::StatusOr<Array> made = array.Copy(site);
    return made.ok() ? made->Reshape(shape) : made;
  });
  return WrapArray(std::move(copied));
}

PyObject* Permute(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  Dims numbers;
  std::vector<int> axes;
  const Array& array = ArrayOf(self);
  if (!DimsOf(args, count, "axes", &numbers) ||
      !ToAxes(numbers, array.ndim(), &axes)) {
    return nullptr;
  }
  return WrapView(self, array.Permute(axes));
}

PyObject* Transpose(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count == 0 || (count == 1 && args[0] == Py_None)) {
    return WrapView(self, ArrayOf(self).Transpose());
  }
  return Permute(self, args, count);
}

// Reads `numbers` as axes, in ascending order.  Returns false with an exception
// set.
bool SortAxes(const Dims& numbers, int ndim, std::vector<int>* axes) {
  if (!ToAxes(numbers, ndim, axes)) return false;
  for (int& axis : *axes) axis += axis < 0 ? ndim : 0;
  std::sort(axes->begin(), axes->end());
  const auto twice = std::adjacent_find(axes->begin(), axes->end());
  if (twice == axes->end()) return true;
  PyErr_Format(g_exceptions.invalid_argument, "axis %d is named twice", *twice);
  return false;
}

PyObject* Squeeze(PyObject* self, PyObject* const* args, Py_ssize_t count,
                  PyObject* names) {
  static const Parameters kParameters = {"squeeze", 0, 1, 1, {"axis"}};
  PyObject* value;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     &value)) {
    return nullptr;
  }
  Array view = ArrayOf(self);
  if (value == nullptr || value == Py_None) {
    return WrapView(self, view.Squeeze());
  }
  Dims numbers;
  std::vector<int> axes;
  if (!ParseShape(value, "axis", &numbers) ||
      !SortAxes(numbers, view.ndim(), &axes)) {
    return nullptr;
  }
  // From the last axis on, so that the axes before it keep their numbers.
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    absl::StatusOr<Array> next = view.Squeeze(*axis);
    if (!next.ok()) return Raise(next.status());
    view = *std::move(next);
  }
  return WrapView(self, std::move(view));
}

PyObject* ExpandDims(PyObject* self, PyObject* value) {
  Array view = ArrayOf(self);
  Dims numbers;
  std::vector<int> axes;
  if (!ParseShape(value, "axis", &numbers)) return nullptr;
  const int ndim = view.ndim() + static_cast<int>(numbers.size());
  if (!SortAxes(numbers, ndim, &axes)) return nullptr;
  for (const int axis : axes) {
    absl::StatusOr<Array> next = view.ExpandDims(axis);
    if (!next.ok()) return Raise(next.status());
    view = *std::move(next);
  }
  return WrapView(self, std::move(view));
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
     "reshape($self, /, *shape, copy=None)\n"
     "--\n\n"
     "Returns the elements, in C order, in another shape.\n\n"
     "shape: ints or one tuple of them.  One may be -1, which stands for the\n"
     "remaining size.\n"
     "copy: None gives a view if one is possible, else a copy.  True always\n"
     "copies, and False never does.\n\n"
     "Raises ValueError for a shape of another size, and with copy=False if\n"
     "only a copy is possible."},
    {"transpose", AsMethod(Transpose), METH_FASTCALL,
     "transpose($self, /, *axes)\n"
     "--\n\n"
     "Returns a view with the axes in reverse order, or in the order `axes`."},
    {"permute", AsMethod(Permute), METH_FASTCALL,
     "permute($self, /, *axes)\n"
     "--\n\n"
     "Returns a view with the axes in that order, a permutation of all axes."},
    {"squeeze", AsMethod(Squeeze), METH_FASTCALL | METH_KEYWORDS,
     "squeeze($self, /, axis=None)\n"
     "--\n\n"
     "Returns a view without that axis, or without the axes of a sequence,\n"
     "which must have extent 1.  None removes all axes of extent 1."},
    {"expand_dims", ExpandDims, METH_O,
     "expand_dims($self, axis, /)\n"
     "--\n\n"
     "Returns a view with a new axis of extent 1 before `axis`.  A sequence\n"
     "gives the positions of new axes in the view, as in NumPy."},
    {"broadcast_to", AsMethod(BroadcastTo), METH_FASTCALL,
     "broadcast_to($self, /, *shape)\n"
     "--\n\n"
     "Returns a view of that shape by NumPy's rules.  Repeated elements "
     "cannot\n"
     "be written."},
    {"view", View, METH_O,
     "view($self, dtype, /)\n"
     "--\n\n"
     "Returns the bytes as elements of another dtype of the same size. astype\n"
     "converts instead."},
    {"as_read_only", AsReadOnly, METH_NOARGS,
     "as_read_only($self, /)\n"
     "--\n\n"
     "Returns a view that refuses writes."},
    {"shares_storage", SharesStorage, METH_O,
     "shares_storage($self, other, /)\n"
     "--\n\n"
     "Returns True if both arrays are views of one block of memory."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace devrt::python
