// SPDX-License-Identifier: Apache-2.0
//
// Arguments of METH_FASTCALL functions.

#ifndef DEVRT_PYTHON_SRC_ARGUMENTS_H_
#define DEVRT_PYTHON_SRC_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>

#include "python/src/python.h"

namespace devrt::python {

// The parameters of a function: `names[0, positional)` may be given by
// position, all by name.  Static: what it keeps of names is never let go.
struct Parameters {
  const char* function;
  size_t required;
  size_t positional;
  size_t count;
  const char* names[8];
  // The names as calls have written them, which is one object each.
  mutable PyObject* keys[8] = {};
};

// Sorts arguments into `values`, borrowed; null where not given.  False with a
// TypeError.
bool SortArguments(const Parameters& parameters, PyObject* const* args,
                   size_t positional, PyObject* names, PyObject** values);

// The same for tp_new.
bool SortArguments(const Parameters& parameters, PyObject* args,
                   PyObject* keywords, PyObject** values);

// A Python int, and no bool; false with a TypeError that names `what`.
bool IsInt(PyObject* object, const char* what);
// The value; false with a TypeError, or a ValueError where it does not fit.
bool ToInt64(PyObject* object, const char* what, int64_t* value);
// None and null keep what is there; else True or False.
bool ToBool(PyObject* object, const char* what, bool* value);
// A number of bytes: a ValueError below 0; what does not fit is UINT64_MAX.
bool ToBytes(PyObject* object, const char* what, uint64_t* value);
// The same for a number of anything.
bool ToCount(PyObject* object, const char* what, uint64_t* value);
// An address: 0 to 2^64 - 1, else a ValueError.
bool ToAddress(PyObject* object, const char* what, void** value);

// A str as UTF-8, as long as it lives, and its size; null with a ValueError
// that names `what` where it has surrogates.
const char* ToUtf8(PyObject* text, const char* what, Py_ssize_t* size);

// The name of an object's type.
const char* TypeName(PyObject* object);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_ARGUMENTS_H_
