// SPDX-License-Identifier: Apache-2.0
//
// Methods of devrt.Array that copy elements.

#include <cstring>

#include "devrt/memory/pinned_memory.h"
#include "devrt/runtime/raw_memory.h"
#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"
#include "python/src/run_allocation.h"

namespace devrt::python {
namespace {

bool IsHost(const Place& place) {
  return place.kind() == MemoryKind::kHost ||
         place.kind() == MemoryKind::kPinned;
}

// Returns `self` itself if no copy was needed.
PyObject* SelfOrWrap(PyObject* self, absl::StatusOr<Array> array) {
  const Array& mine = ArrayOf(self);
  if (array.ok() && array->SharesStorage(mine) &&
      array->dtype() == mine.dtype() && array->data() == mine.data()) {
    DropUnlocked(array->TakeStorage());
    return NewRef(self);
  }
  return WrapArray(std::move(array));
}

PyObject* Copy(PyObject* self, PyObject*) {
  const Array array = ArrayOf(self);
  const SiteHere site;
  return WrapArray(RunAllocation([&] { return array.Copy(site); }));
}

PyObject* DeepCopy(PyObject* self, PyObject*) { return Copy(self, nullptr); }

PyObject* Contiguous(PyObject* self, PyObject*) {
  const Array array = ArrayOf(self);
  if (array.IsContiguous()) return NewRef(self);
  const SiteHere site;
  return WrapArray(RunAllocation([&] { return array.Contiguous(site); }));
}

// ---- To another place -------------------------------------------------------

struct Destination {
  std::optional<Place> place;  // nullopt: the place of the array
  std::optional<DType> dtype;
  bool non_blocking = false;
};

// The place that "cpu" means for an array.  Host memory stays where it is.  A
// copy that shall not block needs pinned memory.
Place HostFor(const Place& from, bool non_blocking) {
  if (IsHost(from)) return from;
  return non_blocking ? Place::Pinned(*from.device()) : Place::Host();
}

// Returns true if the copy blocks: one side is pageable host memory, or any
// host memory without non_blocking.
bool WillBlock(const Place& from, const Place& to, bool non_blocking) {
  const auto is_plain = [](const Place& place) {
    return place.kind() == MemoryKind::kHost;
  };
  return is_plain(from) || is_plain(to) ||
         (!non_blocking && (IsHost(from) || IsHost(to)));
}

PyObject* MoveTo(PyObject* self, const Destination& to) {
  const Array array = ArrayOf(self);
  const Place place = to.place.value_or(array.place());
  const DType dtype = to.dtype.value_or(array.dtype());
  if (place == array.place() && dtype == array.dtype()) return NewRef(self);
  if (place.kind() == MemoryKind::kHost && !WaitUntilReady(array)) {
    return nullptr;
  }
  if (WillBlock(array.place(), place, to.non_blocking) &&
      (!WaitBefore(array) || !WaitForCurrentStream(place))) {
    return nullptr;
  }
  const SiteHere site;
  return SelfOrWrap(self, RunAllocation([&] {
                      return array.To(place, dtype, to.non_blocking, site);
                    }));
}

// Improves the error about an unknown device whose text names a dtype.
void AdviseDType(PyObject* device) {
  if (!PyUnicode_Check(device)) return;
  {
    const KeepException keep;
    const char* text = PyUnicode_AsUTF8(device);
    if (text == nullptr) PyErr_Clear();
    if (text == nullptr || !DType::FromName(text).ok()) return;
  }
  PyErr_Clear();
  PyErr_Format(g_exceptions.invalid_argument,
               "device is %R, but %R is a dtype: x.astype(%R), or "
               "x.to(dtype=%R)",
               device, device, device, device);
}

bool ParseDestination(PyObject* self, PyObject* device, PyObject* dtype,
                      Destination* to) {
  if (dtype != nullptr && dtype != Py_None) {
    to->dtype = kBool;
    if (!ParseDType(dtype, &*to->dtype)) return false;
  }
  if (device == nullptr || device == Py_None) return true;
  to->place = ParsePlace(device, false);
  if (!to->place.has_value()) {
    AdviseDType(device);
    return false;
  }
  if (to->place->kind() == MemoryKind::kHost) {
    to->place = HostFor(ArrayOf(self).place(), to->non_blocking);
  }
  return true;
}

// Returns true if the first argument of to() is a dtype.  A str is always a
// device.
bool IsMeantAsDType(PyObject* object) {
  if (Py_TYPE(object) == g_dtype_type || PyType_Check(object)) return true;
  return object != Py_None && !PyUnicode_Check(object) &&
         !PyLong_Check(object) && Py_TYPE(object) != g_device_type &&
         (std::strcmp(TypeName(object), "torch.dtype") == 0 ||
          PyObject_HasAttrString(object, "isnative") != 0);
}

PyObject* To(PyObject* self, PyObject* const* args, Py_ssize_t count,
             PyObject* names) {
  static const Parameters kParameters = {
      "to", 0, 2, 3, {"device", "dtype", "non_blocking"}};
  PyObject* values[3];
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values)) {
    return nullptr;
  }
  if (values[0] != nullptr && IsMeantAsDType(values[0])) {
    if (values[1] != nullptr) {
      PyErr_SetString(PyExc_TypeError, "to() got two dtypes");
      return nullptr;
    }
    std::swap(values[0], values[1]);
  }
  Destination to;
  if (!ToBool(values[2], "non_blocking", &to.non_blocking) ||
      !ParseDestination(self, values[0], values[1], &to)) {
    return nullptr;
  }
  return MoveTo(self, to);
}

PyObject* Cpu(PyObject* self, PyObject*) {
  Destination to;
  to.place = HostFor(ArrayOf(self).place(), false);
  return MoveTo(self, to);
}

PyObject* Numpy(PyObject* self, PyObject*) {
  const Ref host(Cpu(self, nullptr));
  if (!host) return nullptr;
  const Ref helper(NumpyHelper("as_ndarray"));
  if (!helper) return nullptr;
  return PyObject_CallFunctionObjArgs(helper.get(), host.get(), nullptr);
}

PyObject* AsType(PyObject* self, PyObject* const* args, Py_ssize_t count,
                 PyObject* names) {
  static const Parameters kParameters = {"astype", 1, 1, 2, {"dtype", "copy"}};
  PyObject* values[2];
  bool copy = true;
  DType dtype = kBool;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ParseDType(values[0], &dtype) || !ToBool(values[1], "copy", &copy)) {
    return nullptr;
  }
  const Array array = ArrayOf(self);
  if (dtype == array.dtype()) return copy ? Copy(self, nullptr) : NewRef(self);
  const SiteHere site;
  return WrapArray(RunAllocation([&] { return array.Cast(dtype, site); }));
}

PyObject* IsPinnedMethod(PyObject* self, PyObject*) {
  const Array array = ArrayOf(self);
  const MemoryKind kind = array.place().kind();
  if (kind != MemoryKind::kHost) {
    return PyBool_FromLong(kind == MemoryKind::kPinned);
  }
  if (array.size() == 0) return NewRef(Py_False);
  // Another library may have registered the memory with the driver.
  const auto pinned = WithoutLock([&] { return IsPinned(array.data()); });
  return pinned.ok() ? PyBool_FromLong(*pinned) : Raise(pinned.status());
}

PyObject* Pin(PyObject* self, PyObject* const* args, Py_ssize_t count,
              PyObject* names) {
  static const Parameters kParameters = {"pin", 0, 1, 1, {"device"}};
  PyObject* device;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     &device)) {
    return nullptr;
  }
  const Place from = ArrayOf(self).place();
  if (!IsHost(from)) {
    return Raise(absl::InvalidArgumentError(
        "only host memory can be pinned, and this array is on " + from.name() +
        ": x.to('cpu', non_blocking=True) copies to pinned memory"));
  }
  if (from.kind() == MemoryKind::kPinned) return NewRef(self);
  Destination to;
  to.place = ParsePlace(device, true);
  return to.place.has_value() ? MoveTo(self, to) : nullptr;
}

// ---- Into this array --------------------------------------------------------

PyObject* CopyFrom(PyObject* self, PyObject* const* args, Py_ssize_t count,
                   PyObject* names) {
  static const Parameters kParameters = {
      "copy_", 1, 2, 2, {"source", "non_blocking"}};
  PyObject* values[2];
  bool non_blocking = false;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ToBool(values[1], "non_blocking", &non_blocking)) {
    return nullptr;
  }
  const Array array = ArrayOf(self);
  std::optional<Source> source = ToSource(values[0], array.dtype());
  if (!source.has_value()) return nullptr;
  if (!WaitBefore(array, source->array, !non_blocking)) return nullptr;
  const SiteHere site;
  const absl::Status status = WithoutLock([&] {
    const Array from = std::move(source->array);
    return array.CopyFrom(from, non_blocking, site);
  });
  return status.ok() ? NewRef(self) : Raise(status);
}

PyObject* Fill(PyObject* self, PyObject* value) {
  Number number;
  const int is_number = ToNumber(value, &number);
  if (is_number < 0) return nullptr;
  if (is_number == 0) {
    PyErr_Format(PyExc_TypeError, "fill() needs a number, not %s",
                 TypeName(value));
    return nullptr;
  }
  const Array array = ArrayOf(self);
  Scalar element(0);
  if (!ToElement(number, array.dtype(), &element)) return nullptr;
  if (!WaitBeforeFill(array)) return nullptr;
  const SiteHere site;
  const absl::Status status =
      WithoutLock([&] { return array.Fill(element, site); });
  return status.ok() ? NewRef(self) : Raise(status);
}

// ---- To Python's numbers ----------------------------------------------------

PyObject* Item(PyObject* self, PyObject*) {
  const Array array = ArrayOf(self);
  if (array.size() == 1 &&
      (!WaitUntilReady(array) || !WaitForCurrentStream(array.place()))) {
    return nullptr;
  }
  const SiteHere site;
  const auto value = WithoutLock([&] { return array.Item(site); });
  return value.ok() ? FromScalar(*value) : Raise(value.status());
}

PyObject* Complex(PyObject* self, PyObject*) {
  const Ref number(Item(self, nullptr));
  if (!number) return nullptr;
  return PyObject_CallFunctionObjArgs(
      reinterpret_cast<PyObject*>(&PyComplex_Type), number.get(), nullptr);
}

// Lists the elements of `axis` and the axes after it.  `data` is the first
// element.
PyObject* ListFrom(const Array& array, int axis, const char* data) {
  if (axis == array.ndim()) {
    return FromScalar(Scalar::FromElement(array.dtype(), data));
  }
  const auto extent =
      static_cast<Py_ssize_t>(array.shape()[static_cast<size_t>(axis)]);
  PyObject* list = PyList_New(extent);
  for (Py_ssize_t i = 0; list != nullptr && i < extent; ++i) {
    PyObject* item = ListFrom(
        array, axis + 1, data + i * array.strides()[static_cast<size_t>(axis)]);
    if (item == nullptr) {
      Py_CLEAR(list);
    } else {
      PyList_SET_ITEM(list, i, item);
    }
  }
  return list;
}

PyObject* ToList(PyObject* self, PyObject*) {
  const Ref host(Cpu(self, nullptr));
  if (!host) return nullptr;
  const Array array = ArrayOf(host.get());
  if (!WaitUntilReady(array)) return nullptr;
  return ListFrom(array, 0, static_cast<const char*>(array.data()));
}

}  // namespace

PyMethodDef g_array_copy_methods[] = {
    {"copy", Copy, METH_NOARGS,
     "copy($self, /)\n"
     "--\n\n"
     "Returns a C-contiguous copy in the same place."},
    {"__copy__", Copy, METH_NOARGS, nullptr},
    {"__deepcopy__", DeepCopy, METH_O, nullptr},
    {"contiguous", Contiguous, METH_NOARGS,
     "contiguous($self, /)\n"
     "--\n\n"
     "Returns this array if its elements are in C order without gaps, else a\n"
     "copy."},
    {"to", AsMethod(To), METH_FASTCALL | METH_KEYWORDS,
     "to($self, /, device=None, dtype=None, *, non_blocking=False)\n"
     "--\n\n"
     "Returns this array if it is there and has that dtype, else a copy.\n\n"
     "device: what devrt.device takes, or 'cpu'.  None keeps the place.  A\n"
     "dtype that is not a str may be given here too: x.to(numpy.float32).\n\n"
     "A copy to the host is complete on return.  With non_blocking it goes to\n"
     "pinned memory and is in flight on the source's current stream: "
     "x.ready()\n"
     "waits for it.  A copy from pinned memory with non_blocking does not "
     "wait\n"
     "either."},
    {"cpu", Cpu, METH_NOARGS,
     "cpu($self, /)\n"
     "--\n\n"
     "Returns this array if it is in host memory, else a copy there.  Waits."},
    {"numpy", Numpy, METH_NOARGS,
     "numpy($self, /)\n"
     "--\n\n"
     "Returns a numpy.ndarray over the memory of a host array, or of a copy "
     "on\n"
     "the host.\n\n"
     "Waits for pending uses. bfloat16 and float8 need ml_dtypes, else\n"
     "ImportError is raised; x.astype('float32').numpy() does not need it."},
    {"astype", AsMethod(AsType), METH_FASTCALL | METH_KEYWORDS,
     "astype($self, /, dtype, *, copy=True)\n"
     "--\n\n"
     "Returns the elements converted to `dtype`, in the same place.\n\n"
     "With copy=False it returns this array if the dtype is equal.  Floats\n"
     "become integers by rounding toward zero, and saturate.  NaN becomes 0."},
    {"is_pinned", IsPinnedMethod, METH_NOARGS,
     "is_pinned($self, /)\n"
     "--\n\n"
     "Returns True if the memory is page-locked host memory, by devrt or by\n"
     "any other library."},
    {"pin", AsMethod(Pin), METH_FASTCALL | METH_KEYWORDS,
     "pin($self, /, device=None)\n"
     "--\n\n"
     "Returns this array if it is pinned, else a copy in pinned memory for\n"
     "`device`.\n\n"
     "Raises ValueError for memory of a device."},
    {"copy_", AsMethod(CopyFrom), METH_FASTCALL | METH_KEYWORDS,
     "copy_($self, /, source, non_blocking=False)\n"
     "--\n\n"
     "Copies the elements of `source` into this array, broadcast and\n"
     "converted.  Returns this array.\n\n"
     "source: an array of devrt in any place, a NumPy array, or what\n"
     "devrt.asarray takes.\n\n"
     "With non_blocking the call does not wait if the host memory in use is\n"
     "pinned."},
    {"fill", Fill, METH_O,
     "fill($self, value, /)\n--\n\nSets all elements to `value`.  Returns this "
     "array."},
    {"item", Item, METH_NOARGS,
     "item($self, /)\n"
     "--\n\n"
     "Returns the only element as a Python number.  Waits for it.\n\n"
     "Raises ValueError if there are more elements or none."},
    {"__complex__", Complex, METH_NOARGS, nullptr},
    {"tolist", ToList, METH_NOARGS,
     "tolist($self, /)\n"
     "--\n\n"
     "Returns nested lists of Python numbers, or a number for a 0-d array.\n"
     "Waits."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace devrt::python
