/* SPDX-License-Identifier: Apache-2.0
 *
 * A consumer of DLPack's C exchange API in C, as another library's extension
 * would be: it looks the table up on an object's type, and knows nothing of
 * whose type that is.  exchange_consumer.py compiles it.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>
#include <pthread.h>
#include <stdlib.h>

#include "devrt/arrays/dlpack_abi.h"

static const char kApi[] = "dlpack_exchange_api";
static const char kVersioned[] = "dltensor_versioned";
static const char kLegacy[] = "dltensor";

/* The table of a type, or of an object's type; NULL with an exception. */
static const DLPackExchangeAPI* ApiOf(PyObject* object) {
  PyObject* type = PyType_Check(object) ? object : (PyObject*)Py_TYPE(object);
  PyObject* capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
  if (capsule == NULL) return NULL;
  const DLPackExchangeAPI* api = PyCapsule_GetPointer(capsule, kApi);
  Py_DECREF(capsule); /* the table lives as long as the process */
  while (api != NULL && api->header.version.major != 1) {
    api = (const DLPackExchangeAPI*)api->header.prev_api;
    if (api == NULL) {
      PyErr_SetString(PyExc_BufferError, "no exchange API of version 1");
    }
  }
  return api;
}

static DLManagedTensorVersioned* Export(PyObject* object) {
  const DLPackExchangeAPI* api = ApiOf(object);
  DLManagedTensorVersioned* tensor = NULL;
  if (api == NULL) return NULL;
  if (api->managed_tensor_from_py_object_no_sync(object, &tensor) != 0) {
    return NULL;
  }
  return tensor;
}

/* ---- Capsules, for libraries that take nothing else ---------------------- */

static void DeleteLegacy(DLManagedTensor* self) {
  DLManagedTensorVersioned* tensor = self->manager_ctx;
  free(self);
  tensor->deleter(tensor);
}

static void DropVersioned(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kVersioned)) return;
  DLManagedTensorVersioned* tensor = PyCapsule_GetPointer(capsule, kVersioned);
  tensor->deleter(tensor);
}

static void DropLegacy(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kLegacy)) return;
  DLManagedTensor* tensor = PyCapsule_GetPointer(capsule, kLegacy);
  tensor->deleter(tensor);
}

/* capsule(x, legacy) */
static PyObject* Capsule(PyObject* self, PyObject* args) {
  PyObject* object;
  int legacy;
  (void)self;
  if (!PyArg_ParseTuple(args, "Op", &object, &legacy)) return NULL;
  DLManagedTensorVersioned* tensor = Export(object);
  if (tensor == NULL) return NULL;
  if (!legacy) return PyCapsule_New(tensor, kVersioned, DropVersioned);
  if (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY) {
    tensor->deleter(tensor);
    PyErr_SetString(PyExc_BufferError, "read-only, which no capsule says");
    return NULL;
  }
  DLManagedTensor* old = malloc(sizeof *old);
  old->dl_tensor = tensor->dl_tensor;
  old->manager_ctx = tensor;
  old->deleter = DeleteLegacy;
  return PyCapsule_New(old, kLegacy, DropLegacy);
}

/* give(x, Type): as an object of another library, by the tables of both. */
static PyObject* Give(PyObject* self, PyObject* args) {
  PyObject *object, *type;
  (void)self;
  if (!PyArg_ParseTuple(args, "OO", &object, &type)) return NULL;
  const DLPackExchangeAPI* target = ApiOf(type);
  if (target == NULL) return NULL;
  DLManagedTensorVersioned* tensor = Export(object);
  if (tensor == NULL) return NULL;
  void* made = NULL;
  if (target->managed_tensor_to_py_object_no_sync(tensor, &made) != 0) {
    return NULL;
  }
  return made;
}

/* ---- What a library of kernels does ----------------------------------------
 */

/* borrow(x): (address, shape, strides, (device), (dtype)), nothing kept. */
static PyObject* Borrow(PyObject* self, PyObject* object) {
  DLTensor t;
  (void)self;
  const DLPackExchangeAPI* api = ApiOf(object);
  if (api == NULL) return NULL;
  if (api->dltensor_from_py_object_no_sync(object, &t) != 0) return NULL;
  PyObject* shape = PyTuple_New(t.ndim);
  PyObject* strides = PyTuple_New(t.ndim);
  for (int32_t i = 0; i < t.ndim; ++i) {
    PyTuple_SetItem(shape, i, PyLong_FromLongLong(t.shape[i]));
    PyTuple_SetItem(strides, i, PyLong_FromLongLong(t.strides[i]));
  }
  return Py_BuildValue(
      "(KNN(ii)(iii))", (unsigned long long)(uintptr_t)t.data + t.byte_offset,
      shape, strides, (int)t.device.device_type, (int)t.device.device_id,
      (int)t.dtype.code, (int)t.dtype.bits, (int)t.dtype.lanes);
}

/* work_stream(x): the stream's number on x's device, or None for NULL. */
static PyObject* WorkStream(PyObject* self, PyObject* object) {
  int type, device;
  void* stream = NULL;
  (void)self;
  const DLPackExchangeAPI* api = ApiOf(object);
  PyObject* place = PyObject_CallMethod(object, "__dlpack_device__", NULL);
  if (api == NULL || place == NULL) {
    Py_XDECREF(place);
    return NULL;
  }
  const int read = PyArg_ParseTuple(place, "ii", &type, &device);
  Py_DECREF(place);
  if (!read) return NULL;
  if (api->current_work_stream((DLDeviceType)type, device, &stream) != 0) {
    return NULL;
  }
  if (stream == NULL) Py_RETURN_NONE;
  return PyLong_FromVoidPtr(stream);
}

static double Sum(const DLTensor* t, int32_t axis, const char* at) {
  if (axis == t->ndim) return *(const float*)at;
  double total = 0;
  for (int64_t i = 0; i < t->shape[axis]; ++i) {
    total +=
        Sum(t, axis + 1, at + i * t->strides[axis] * (int64_t)sizeof(float));
  }
  return total;
}

/* total(x): of float32 memory that the host can read. */
static PyObject* Total(PyObject* self, PyObject* object) {
  (void)self;
  DLManagedTensorVersioned* tensor = Export(object);
  if (tensor == NULL) return NULL;
  const DLTensor* t = &tensor->dl_tensor;
  const double total = Sum(t, 0, (const char*)t->data + t->byte_offset);
  tensor->deleter(tensor);
  return PyFloat_FromDouble(total);
}

static void* Delete(void* tensor) {
  ((DLManagedTensorVersioned*)tensor)->deleter(tensor);
  return NULL;
}

/* drop_elsewhere(x, call): an export whose deleter runs on a thread that has
   no GIL, after call(). */
static PyObject* DropElsewhere(PyObject* self, PyObject* args) {
  PyObject *object, *call;
  pthread_t thread;
  int failed = 0;
  (void)self;
  if (!PyArg_ParseTuple(args, "OO", &object, &call)) return NULL;
  DLManagedTensorVersioned* tensor = Export(object);
  if (tensor == NULL) return NULL;
  PyObject* said = PyObject_CallObject(call, NULL);
  Py_BEGIN_ALLOW_THREADS;
  failed = pthread_create(&thread, NULL, Delete, tensor);
  if (!failed) failed = pthread_join(thread, NULL);
  Py_END_ALLOW_THREADS;
  if (failed) {
    Py_XDECREF(said);
    PyErr_SetString(PyExc_OSError, "no thread");
    return NULL;
  }
  return said;
}

static PyMethodDef kMethods[] = {
    {"capsule", Capsule, METH_VARARGS, NULL},
    {"give", Give, METH_VARARGS, NULL},
    {"borrow", Borrow, METH_O, NULL},
    {"work_stream", WorkStream, METH_O, NULL},
    {"total", Total, METH_O, NULL},
    {"drop_elsewhere", DropElsewhere, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef kModule = {PyModuleDef_HEAD_INIT,
                                     "exchange_consumer_c",
                                     NULL,
                                     -1,
                                     kMethods,
                                     NULL,
                                     NULL,
                                     NULL,
                                     NULL};

PyMODINIT_FUNC PyInit_exchange_consumer_c(void) {
  return PyModule_Create(&kModule);
}
