// SPDX-License-Identifier: Apache-2.0
#include "python/src/arguments.h"

#include "python/src/errors.h"

namespace devrt::python {
namespace {

// Returns parameters.count if no parameter has that name.
size_t IndexOf(const Parameters& parameters, PyObject* name) {
  // Compilers of Python intern names, so the object is nearly always one that
  // an earlier call passed.
  for (size_t i = 0; i < parameters.count; ++i) {
    if (parameters.keys[i] == name) return i;
  }
  for (size_t i = 0; i < parameters.count; ++i) {
    if (PyUnicode_CompareWithASCIIString(name, parameters.names[i]) != 0) {
      continue;
    }
    if (parameters.keys[i] == nullptr) parameters.keys[i] = NewRef(name);
    return i;
  }
  return parameters.count;
}

bool StoreNamed(const Parameters& parameters, PyObject* name, PyObject* value,
                PyObject** values) {
  const size_t i = IndexOf(parameters, name);
  if (i == parameters.count) {
    PyErr_Format(PyExc_TypeError,
                 "%s() got an unexpected keyword argument '%U'",
                 parameters.function, name);
    return false;
  }
  if (values[i] != nullptr) {
    PyErr_Format(PyExc_TypeError, "%s() got two values for argument '%U'",
                 parameters.function, name);
    return false;
  }
  values[i] = value;
  return true;
}

bool StorePositional(const Parameters& parameters, PyObject* const* args,
                     size_t given, PyObject** values) {
  for (size_t i = 0; i < parameters.count; ++i) values[i] = nullptr;
  if (given > parameters.positional) {
    PyErr_Format(PyExc_TypeError,
                 "%s() takes at most %zu positional arguments (%zu given)",
                 parameters.function, parameters.positional, given);
    return false;
  }
  for (size_t i = 0; i < given; ++i) values[i] = args[i];
  return true;
}

bool HasRequired(const Parameters& parameters, PyObject** values) {
  for (size_t i = 0; i < parameters.required; ++i) {
    if (values[i] != nullptr) continue;
    PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'",
                 parameters.function, parameters.names[i]);
    return false;
  }
  return true;
}

}  // namespace

bool SortArguments(const Parameters& parameters, PyObject* const* args,
                   size_t positional, PyObject* names, PyObject** values) {
  if (!StorePositional(parameters, args, positional, values)) return false;
  if (names != nullptr) {
    const Py_ssize_t count = PyTuple_GET_SIZE(names);
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!StoreNamed(parameters, PyTuple_GET_ITEM(names, i),
                      args[positional + static_cast<size_t>(i)], values)) {
        return false;
      }
    }
  }
  return HasRequired(parameters, values);
}

bool SortArguments(const Parameters& parameters, PyObject* args,
                   PyObject* keywords, PyObject** values) {
  PyObject* items[6] = {};
  const size_t given = static_cast<size_t>(PyTuple_GET_SIZE(args));
  for (size_t i = 0; i < given && i < 6; ++i) {
    items[i] = PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i));
  }
  if (!StorePositional(parameters, items, given, values)) return false;
  if (keywords != nullptr) {
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(keywords, &position, &name, &value)) {
      if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "%s() keywords must be strings",
                     parameters.function);
        return false;
      }
      if (!StoreNamed(parameters, name, value, values)) return false;
    }
  }
  return HasRequired(parameters, values);
}

const char* ToUtf8(PyObject* text, const char* what, Py_ssize_t* size) {
  const char* utf8 = PyUnicode_AsUTF8AndSize(text, size);
  if (utf8 == nullptr && PyErr_ExceptionMatches(PyExc_UnicodeError)) {
    PyErr_Clear();
    PyErr_Format(g_exceptions.invalid_argument,
                 "%s is %R, expected a text without surrogates", what, text);
  }
  return utf8;
}

const char* TypeName(PyObject* object) { return Py_TYPE(object)->tp_name; }

bool IsInt(PyObject* object, const char* what) {
  if (PyLong_Check(object) && !PyBool_Check(object)) return true;
  PyErr_Format(PyExc_TypeError, "%s must be an int, not %s", what,
               TypeName(object));
  return false;
}

bool ToInt64(PyObject* object, const char* what, int64_t* value) {
  if (!IsInt(object, what)) return false;
  int overflow = 0;
  *value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) return true;
  PyErr_Format(g_exceptions.invalid_argument, "%s is %R, which is out of range",
               what, object);
  return false;
}

bool ToBool(PyObject* object, const char* what, bool* value) {
  if (object == nullptr) return true;
  if (!PyBool_Check(object)) {
    PyErr_Format(PyExc_TypeError, "%s must be a bool, not %s", what,
                 TypeName(object));
    return false;
  }
  *value = object == Py_True;
  return true;
}

namespace {

bool ToUnsigned(PyObject* object, const char* what, const char* expected,
                uint64_t* value) {
  if (!IsInt(object, what)) return false;
  int overflow = 0;
  const int64_t small = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow < 0 || (overflow == 0 && small < 0)) {
    PyErr_Format(g_exceptions.invalid_argument, "%s is %R, expected %s", what,
                 object, expected);
    return false;
  }
  *value = overflow > 0 ? UINT64_MAX : static_cast<uint64_t>(small);
  return true;
}

}  // namespace

bool ToBytes(PyObject* object, const char* what, uint64_t* value) {
  return ToUnsigned(object, what, "0 or more bytes", value);
}

bool ToCount(PyObject* object, const char* what, uint64_t* value) {
  return ToUnsigned(object, what, "0 or more", value);
}

bool ToAddress(PyObject* object, const char* what, void** value) {
  if (!IsInt(object, what)) return false;
  const unsigned long long address = PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    PyErr_Format(g_exceptions.invalid_argument, "%s is %R, expected an address",
                 what, object);
    return false;
  }
  *value = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
  return true;
}

}  // namespace devrt::python
