// SPDX-License-Identifier: Apache-2.0
//
// Parses arguments of METH_FASTCALL functions and of tp_new.  The functions
// return false or null with an exception set on failure.

#ifndef DEVRT_PYTHON_SRC_ARGUMENTS_H_
#define DEVRT_PYTHON_SRC_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>

#include "python/src/python.h"

namespace devrt::python {

// The parameters of a function.  All may be given by name, `names[0,
// positional)` also by position.  Objects are static: `keys` holds references
// for ever.
struct Parameters {
  const char* function;
  size_t required;
  size_t positional;
  size_t count;
  const char* names[8];
  // The interned names that earlier calls passed, compared by address first.
  mutable PyObject* keys[8] = {};
};

// Puts each argument into its slot of `values`, as a borrowed reference, or
// null if the call did not pass it.  Raises TypeError.
bool SortArguments(const Parameters& parameters, PyObject* const* args,
                   size_t positional, PyObject* names, PyObject** values);

// Does so for tp_new, whose arguments are a tuple and a dict.
bool SortArguments(const Parameters& parameters, PyObject* args,
                   PyObject* keywords, PyObject** values);

// Checks that `object` is an int, not a bool.  Raises TypeError, with `what` in
// the text.
bool IsInt(PyObject* object, const char* what);
// Raises TypeError, or ValueError if the number does not fit.
bool ToInt64(PyObject* object, const char* what, int64_t* value);
// Leaves *value as it is for None and null.  Raises TypeError for anything but
// a bool.
bool ToBool(PyObject* object, const char* what, bool* value);
// Reads a number of bytes.  Raises ValueError if it is negative.  A number
// above UINT64_MAX becomes UINT64_MAX.
bool ToBytes(PyObject* object, const char* what, uint64_t* value);
// Reads a number of things, with the rules of ToBytes.
bool ToCount(PyObject* object, const char* what, uint64_t* value);
// Reads an address, 0 to 2^64 - 1.  Raises ValueError for other numbers.
bool ToAddress(PyObject* object, const char* what, void** value);

// Returns the UTF-8 text of a str and its size in bytes.  The text lives as
// long as `text`.  Raises ValueError, with `what` in the text, if the str has
// surrogates.
const char* ToUtf8(PyObject* text, const char* what, Py_ssize_t* size);

// Returns the name of the object's type, as in tp_name.
const char* TypeName(PyObject* object);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_ARGUMENTS_H_
