// SPDX-License-Identifier: Apache-2.0
//
// Includes Python.h ahead of every standard header, and adds what its older
// versions lack.

#ifndef DEVRT_PYTHON_SRC_PYTHON_H_
#define DEVRT_PYTHON_SRC_PYTHON_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <utility>

namespace devrt::python {

// Returns a new reference to `object`.
template <typename T>
inline PyObject* NewRef(T* object) {
  PyObject* reference = reinterpret_cast<PyObject*>(object);
  Py_INCREF(reference);
  return reference;
}

// Drops the last reference to an object.  Its destructor may run Python code:
// see WithoutUnwind in gil.h.
void DropLast(PyObject* object);

// Py_DECREF for callers with C++ frames on the stack, which must not be
// unwound.
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
  // Takes over a new reference.  Null is allowed.
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

// Casts a METH_FASTCALL function, whose type is not PyCFunction.
template <typename F>
inline PyCFunction AsMethod(F* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

template <typename F>
inline void* AsSlot(F* function) {
  return reinterpret_cast<void*>(function);
}

// The offset of an object's list of weak references: directly behind the head.
inline constexpr Py_ssize_t kWeakReferences = sizeof(PyObject);

// Makes a PyGetSetDef without a setter.
inline PyGetSetDef Getter(const char* name, getter get, const char* doc) {
  return PyGetSetDef{name, get, nullptr, doc, nullptr};
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_PYTHON_H_
