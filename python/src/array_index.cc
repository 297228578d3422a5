// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes of array[...], and iteration.

#include "absl/status/status.h"
#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"
#include "python/src/device.h"

namespace devrt::python {
namespace {

std::optional<Array> Keep(absl::StatusOr<Array> array) {
  if (array.ok()) return *std::move(array);
  Raise(array.status());
  return std::nullopt;
}

bool IsInteger(PyObject* key) {
  if (PyLong_Check(key)) return !PyBool_Check(key);
  // Arrays and NumPy's bools have __index__ too, but select elements otherwise.
  return PyIndex_Check(key) && !IsArray(key) && !PySequence_Check(key) &&
         !IsForeignBool(key);
}

bool IsBasic(PyObject* key) {
  return key == Py_None || key == Py_Ellipsis || PySlice_Check(key) ||
         IsInteger(key);
}

std::optional<Array> IndexAxis(const Array& view, int axis, PyObject* key) {
  const int64_t extent = view.shape()[static_cast<size_t>(axis)];
  // An int beyond Py_ssize_t raises IndexError too.
  const Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred() != nullptr) return std::nullopt;
  if (index < -extent || index >= extent) {
    PyErr_Format(PyExc_IndexError,
                 "index %zd is out of range for an axis of extent %lld", index,
                 static_cast<long long>(extent));
    return std::nullopt;
  }
  return Keep(view.Index(axis, index));
}

std::optional<Array> SliceAxis(const Array& view, int axis, PyObject* key) {
  Py_ssize_t begin = 0, end = 0, step = 0;
  if (PySlice_Unpack(key, &begin, &end, &step) != 0) return std::nullopt;
  const auto* slice = reinterpret_cast<PySliceObject*>(key);
  Slice range;
  if (slice->start != Py_None) range.begin = begin;
  if (slice->stop != Py_None) range.end = end;
  range.step = step;
  return Keep(view.SliceAxis(axis, range));
}

struct Keys {
  PyObject* const* items;
  Py_ssize_t count;
};

// Returns how many axes the keys select from, or -1 with an exception set.
int CountAxes(const Keys& keys, const Array& array) {
  int taken = 0;
  int ellipses = 0;
  for (Py_ssize_t i = 0; i < keys.count; ++i) {
    PyObject* key = keys.items[i];
    if (!IsBasic(key)) {
      PyErr_Format(PyExc_TypeError,
                   "arrays are indexed by ints, slices, ... and None, not by "
                   "%s: boolean and integer arrays choose no elements here",
                   TypeName(key));
      return -1;
    }
    if (key == Py_Ellipsis) {
      ++ellipses;
    } else if (key != Py_None) {
      ++taken;
    }
  }
  if (ellipses <= 1 && taken <= array.ndim()) return taken;
  if (ellipses > 1) {
    PyErr_SetString(PyExc_IndexError, "an index can have one ... only");
  } else {
    PyErr_Format(PyExc_IndexError,
                 "%d indices are too many for an array of %d axes", taken,
                 array.ndim());
  }
  return -1;
}

std::optional<Array> Select(const Array& array, const Keys& keys) {
  const int taken = CountAxes(keys, array);
  if (taken < 0) return std::nullopt;
  std::optional<Array> view = array;
  int axis = 0;
  for (Py_ssize_t i = 0; i < keys.count && view.has_value(); ++i) {
    PyObject* key = keys.items[i];
    if (key == Py_Ellipsis) {
      axis += array.ndim() - taken;
    } else if (key == Py_None) {
      view = Keep(view->ExpandDims(axis++));
    } else if (PySlice_Check(key)) {
      view = SliceAxis(*view, axis++, key);
    } else {
      view = IndexAxis(*view, axis, key);
    }
  }
  return view;
}

std::optional<Array> Select(PyObject* self, PyObject* key) {
  const Array array = ArrayOf(self);
  if (!PyTuple_Check(key)) return Select(array, Keys{&key, 1});
  const Py_ssize_t count = PyTuple_GET_SIZE(key);
  PyObject* const* items = &PyTuple_GET_ITEM(key, 0);
  return Select(array, Keys{items, count});
}

PyObject* Subscript(PyObject* self, PyObject* key) {
  std::optional<Array> view = Select(self, key);
  return view.has_value() ? WrapView(self, *std::move(view)) : nullptr;
}

// As in NumPy, leading axes of extent 1 that the target lacks are dropped.
Array WithoutLeadingOnes(Array value, int ndim) {
  while (value.ndim() > ndim && value.shape()[0] == 1) {
    value = *value.Index(0, 0);
  }
  return value;
}

int AssignSubscript(PyObject* self, PyObject* key, PyObject* value) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_TypeError, "elements of an array cannot be deleted");
    return -1;
  }
  const std::optional<Array> target = Select(self, key);
  if (!target.has_value()) return -1;
  const SiteHere site;
  Number number;
  const int is_number = ToNumber(value, &number);
  if (is_number < 0) return -1;
  absl::Status status;
  if (is_number == 1) {
    Scalar element(0);
    if (!ToElement(number, target->dtype(), &element)) return -1;
    if (!WaitBeforeFill(*target)) return -1;
    status = WithoutLock([&] { return target->Fill(element, site); });
  } else {
    std::optional<Source> source = ToSource(value, target->dtype());
    if (!source.has_value() || !WaitBefore(*target, source->array)) return -1;
    status = WithoutLock([&] {
      const Array from =
          WithoutLeadingOnes(std::move(source->array), target->ndim());
      return target->CopyFrom(from, false, site);
    });
  }
  if (status.ok()) return 0;
  Raise(status);
  return -1;
}

PyObject* Item(PyObject* self, Py_ssize_t index) {
  const Array array = ArrayOf(self);
  if (array.ndim() == 0 || index < 0 || index >= array.shape()[0]) {
    PyErr_SetString(PyExc_IndexError, "index is out of range");
    return nullptr;
  }
  return WrapView(self, array.Index(0, index));
}

PyObject* Iterate(PyObject* self) {
  if (ArrayOf(self).ndim() != 0) return PySeqIter_New(self);
  PyErr_SetString(PyExc_TypeError, "a 0-d array cannot be iterated over");
  return nullptr;
}

}  // namespace

PyType_Slot g_array_index_slots[] = {
    {Py_mp_subscript, AsSlot(Subscript)},
    {Py_mp_ass_subscript, AsSlot(AssignSubscript)},
    {Py_sq_item, AsSlot(Item)},
    {Py_tp_iter, AsSlot(Iterate)},
    {0, nullptr}};

}  // namespace devrt::python
