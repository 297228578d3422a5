// SPDX-License-Identifier: Apache-2.0
//
// Python.h first, and what is missing in its older versions.

#ifndef DEVRT_PYTHON_SRC_PYTHON_H_
#define DEVRT_PYTHON_SRC_PYTHON_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <utility>

namespace devrt::python {

// A new reference to `object`.
template <typename T>
inline PyObject* NewRef(T* object) {
  PyObject* reference = reinterpret_cast<PyObject*>(object);
  Py_INCREF(reference);
  return reference;
}

// Drops the last reference to an object, whose end may run Python code: see
// Staying in gil.h.
void DropLast(PyObject* object);

// Py_DECREF, where C++ frames are on the stack that must not be unwound.
inline void DropReference(PyObject* object) {
  if (Py_REFCNT(object) > 1) {
    Py_DECREF(object);
  } else {
    DropLast(object);
  }
}

// A strong reference.  Needs the GIL wherever it changes or ends.
class Ref {
 public:
  Ref() = default;
  // Takes over a new reference; null is allowed.
  explicit Ref(PyObject* stolen) : object_(stolen) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    PyObject* former = std::exchange(object_, other.Release());
    if (former != nullptr) DropReference(former);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) DropReference(object_);
  }

  static Ref To(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  PyObject* get() const { return object_; }
  PyObject* Release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// METH_FASTCALL functions have other types than PyCFunction.
template <typename F>
inline PyCFunction AsMethod(F* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

template <typename F>
inline void* AsSlot(F* function) {
  return reinterpret_cast<void*>(function);
}

// Where objects have their list of weak references: directly behind the head.
inline constexpr Py_ssize_t kWeakReferences = sizeof(PyObject);

// A getter of PyGetSetDef, without a setter.
inline PyGetSetDef Getter(const char* name, getter get, const char* doc) {
  return PyGetSetDef{name, get, nullptr, doc, nullptr};
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_PYTHON_H_
