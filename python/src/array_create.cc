// SPDX-License-Identifier: Apache-2.0
//
// Creates arrays: empty, zeros, ones, full, arange and the *_like functions.

#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"
#include "python/src/run_allocation.h"

namespace devrt::python {
namespace {

// The arguments that all functions here share.
struct Request {
  Dims shape;
  DType dtype = kFloat64;
  std::optional<Place> place;
};

bool ParseRequest(PyObject* shape, PyObject* dtype, PyObject* device,
                  PyObject* pinned, Request* request) {
  bool is_pinned = false;
  if (!ToBool(pinned, "pinned", &is_pinned) ||
      (dtype != nullptr && dtype != Py_None &&
       !ParseDType(dtype, &request->dtype)) ||
      !ParseShape(shape, "shape", &request->shape)) {
    return false;
  }
  request->place = ParsePlace(device, is_pinned);
  return request->place.has_value();
}

PyObject* MakeEmpty(const Request& request) {
  const SiteHere site;
  return WrapArray(RunAllocation([&] {
    return Array::Empty(request.shape, request.dtype, *request.place, site);
  }));
}

PyObject* MakeFull(const Request& request, const Scalar& value) {
  const SiteHere site;
  return WrapArray(RunAllocation([&] {
    return Array::Full(request.shape, request.dtype, value, *request.place,
                       site);
  }));
}

PyObject* MakeZeros(const Request& request) {
  const SiteHere site;
  return WrapArray(RunAllocation([&] {
    return Array::Zeros(request.shape, request.dtype, *request.place, site);
  }));
}

enum class Content { kEmpty, kZeros, kOnes };

PyObject* Make(Content content, const Request& request) {
  switch (content) {
    case Content::kEmpty:
      return MakeEmpty(request);
    case Content::kZeros:
      return MakeZeros(request);
    case Content::kOnes:
      break;
  }
  return MakeFull(request, Scalar(1));
}

const char* NameOf(Content content) {
  const char* names[] = {"empty", "zeros", "ones"};
  return names[static_cast<int>(content)];
}

template <Content content>
PyObject* New(PyObject*, PyObject* const* args, Py_ssize_t count,
              PyObject* names) {
  static const Parameters kParameters = {
      NameOf(content), 1, 2, 4, {"shape", "dtype", "device", "pinned"}};
  PyObject* values[4];
  Request request;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ParseRequest(values[0], values[1], values[2], values[3], &request)) {
    return nullptr;
  }
  return Make(content, request);
}

bool ParseFill(PyObject* object, Number* number) {
  const int is_number = ToNumber(object, number);
  if (is_number < 0) return false;
  if (is_number == 1) return true;
  PyErr_Format(PyExc_TypeError, "fill_value must be a number, not %s",
               TypeName(object));
  return false;
}

PyObject* MakeFull(const Request& request, const Number& number) {
  Scalar value(0);
  if (!ToElement(number, request.dtype, &value)) return nullptr;
  return MakeFull(request, value);
}

PyObject* Full(PyObject*, PyObject* const* args, Py_ssize_t count,
               PyObject* names) {
  static const Parameters kParameters = {
      "full", 2, 3, 5, {"shape", "fill_value", "dtype", "device", "pinned"}};
  PyObject* values[5];
  Request request;
  Number number;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ParseFill(values[1], &number)) {
    return nullptr;
  }
  request.dtype = DTypeOf(number);
  if (!ParseRequest(values[0], values[2], values[3], values[4], &request)) {
    return nullptr;
  }
  return MakeFull(request, number);
}

// ---- Like another -----------------------------------------------------------

bool ParseLike(const char* function, PyObject* like, PyObject* dtype,
               PyObject* device, PyObject* pinned, Request* request) {
  if (!IsArray(like)) {
    PyErr_Format(PyExc_TypeError, "%s() needs a devrt.Array, not %s", function,
                 TypeName(like));
    return false;
  }
  const Array& array = ArrayOf(like);
  request->shape.assign(array.shape().begin(), array.shape().end());
  request->dtype = array.dtype();
  bool is_pinned = false;
  if (!ToBool(pinned, "pinned", &is_pinned) ||
      (dtype != nullptr && dtype != Py_None &&
       !ParseDType(dtype, &request->dtype))) {
    return false;
  }
  const bool same_place =
      !is_pinned && (device == nullptr || device == Py_None);
  if (!same_place) {
    request->place = ParsePlace(device, is_pinned);
  } else if (array.place().kind() == MemoryKind::kManaged) {
    request->place = Place(*array.place().device());
  } else {
    request->place = array.place();
  }
  return request->place.has_value();
}

const char* LikeNameOf(Content content) {
  const char* names[] = {"empty_like", "zeros_like", "ones_like"};
  return names[static_cast<int>(content)];
}

template <Content content>
PyObject* Like(PyObject*, PyObject* const* args, Py_ssize_t count,
               PyObject* names) {
  static const Parameters kParameters = {
      LikeNameOf(content), 1, 2, 4, {"x", "dtype", "device", "pinned"}};
  PyObject* values[4];
  Request request;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ParseLike(kParameters.function, values[0], values[1], values[2],
                 values[3], &request)) {
    return nullptr;
  }
  return Make(content, request);
}

PyObject* FullLike(PyObject*, PyObject* const* args, Py_ssize_t count,
                   PyObject* names) {
  static const Parameters kParameters = {
      "full_like", 2, 3, 5, {"x", "fill_value", "dtype", "device", "pinned"}};
  PyObject* values[5];
  Request request;
  Number number;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ParseFill(values[1], &number) ||
      !ParseLike("full_like", values[0], values[2], values[3], values[4],
                 &request)) {
    return nullptr;
  }
  return MakeFull(request, number);
}

// ---- arange -----------------------------------------------------------------

bool ParseBound(PyObject* object, Scalar* value) {
  Number number;
  const int is_number = ToNumber(object, &number);
  if (is_number < 0) return false;
  if (is_number == 1 && number.value.kind() != DTypeKind::kComplex) {
    const bool whole = number.value.kind() != DTypeKind::kFloat || number.huge;
    return ToElement(number, whole ? DTypeOf(number) : kFloat64, value);
  }
  PyErr_Format(PyExc_TypeError, "arange() needs real numbers, not %s",
               TypeName(object));
  return false;
}

PyObject* Arange(PyObject*, PyObject* const* args, Py_ssize_t count,
                 PyObject* names) {
  static const Parameters kParameters = {
      "arange",
      1,
      4,
      6,
      {"start", "stop", "step", "dtype", "device", "pinned"}};
  PyObject* values[6];
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values)) {
    return nullptr;
  }
  Scalar bounds[3] = {Scalar(0), Scalar(0), Scalar(1)};
  const bool has_stop = values[1] != nullptr && values[1] != Py_None;
  if (has_stop ? !ParseBound(values[0], &bounds[0]) ||
                     !ParseBound(values[1], &bounds[1])
               : !ParseBound(values[0], &bounds[1])) {
    return nullptr;
  }
  if (values[2] != nullptr && !ParseBound(values[2], &bounds[2])) {
    return nullptr;
  }
  Request request;
  request.dtype = kInt64;
  for (const Scalar& bound : bounds) {
    if (bound.kind() == DTypeKind::kFloat) request.dtype = kFloat64;
  }
  const Ref no_shape(PyTuple_New(0));
  if (!no_shape || !ParseRequest(no_shape.get(), values[3], values[4],
                                 values[5], &request)) {
    return nullptr;
  }
  const SiteHere site;
  return WrapArray(RunAllocation([&] {
    return Array::Arange(bounds[0], bounds[1], bounds[2], request.dtype,
                         *request.place, site);
  }));
}

#define DEVRT_PLACE_TEXT                                                      \
  "device: what devrt.device takes, or 'cpu'.  None is the current device.\n" \
  "pinned: use page-locked host memory for that device.\n\n"                  \
  "Raises ValueError for an impossible shape or dtype, and\n"                 \
  "OutOfMemoryError.  "                                                       \
  "Ctrl-C ends the wait for memory that work still uses."

}  // namespace

PyMethodDef g_array_create_functions[] = {
    {"empty", AsMethod(New<Content::kEmpty>), METH_FASTCALL | METH_KEYWORDS,
     "empty(shape, dtype='float64', *, device=None, pinned=False)\n"
     "--\n\n"
     "Returns a C-contiguous array with undefined elements.\n\n"
     "shape: an int or a sequence of ints.\n" DEVRT_PLACE_TEXT},
    {"zeros", AsMethod(New<Content::kZeros>), METH_FASTCALL | METH_KEYWORDS,
     "zeros(shape, dtype='float64', *, device=None, pinned=False)\n"
     "--\n\n"
     "Returns a C-contiguous array of zeros.\n\n"
     "shape: an int or a sequence of ints.\n" DEVRT_PLACE_TEXT},
    {"ones", AsMethod(New<Content::kOnes>), METH_FASTCALL | METH_KEYWORDS,
     "ones(shape, dtype='float64', *, device=None, pinned=False)\n"
     "--\n\n"
     "Returns a C-contiguous array of ones.\n\n"
     "shape: an int or a sequence of ints.\n" DEVRT_PLACE_TEXT},
    {"full", AsMethod(Full), METH_FASTCALL | METH_KEYWORDS,
     "full(shape, fill_value, dtype=None, *, device=None, pinned=False)\n"
     "--\n\n"
     "Returns a C-contiguous array filled with one number.\n\n"
     "shape: an int or a sequence of ints.\n"
     "dtype: None is that of the number: bool_, int64, float64 or complex128,\n"
     "or a NumPy scalar's own.\n" DEVRT_PLACE_TEXT},
    {"empty_like", AsMethod(Like<Content::kEmpty>),
     METH_FASTCALL | METH_KEYWORDS,
     "empty_like(x, dtype=None, *, device=None, pinned=False)\n"
     "--\n\n"
     "Returns empty(...) with the shape, dtype and place of x."},
    {"zeros_like", AsMethod(Like<Content::kZeros>),
     METH_FASTCALL | METH_KEYWORDS,
     "zeros_like(x, dtype=None, *, device=None, pinned=False)\n"
     "--\n\n"
     "Returns zeros(...) with the shape, dtype and place of x."},
    {"ones_like", AsMethod(Like<Content::kOnes>), METH_FASTCALL | METH_KEYWORDS,
     "ones_like(x, dtype=None, *, device=None, pinned=False)\n"
     "--\n\n"
     "Returns ones(...) with the shape, dtype and place of x."},
    {"full_like", AsMethod(FullLike), METH_FASTCALL | METH_KEYWORDS,
     "full_like(x, fill_value, dtype=None, *, device=None, pinned=False)\n"
     "--\n\n"
     "Returns full(...) with the shape, dtype and place of x."},
    {"arange", AsMethod(Arange), METH_FASTCALL | METH_KEYWORDS,
     "arange(start, stop=None, step=1, dtype=None, *, device=None, "
     "pinned=False)\n"
     "--\n\n"
     "Returns start, start + step, ... up to but without stop. arange(n)\n"
     "begins at 0.\n\n"
     "dtype: None is int64, or float64 if one of the numbers is a "
     "float.\n" DEVRT_PLACE_TEXT},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace devrt::python
