// SPDX-License-Identifier: Apache-2.0
#include "python/src/context_node.h"

namespace devrt::python {
namespace {

PyTypeObject* g_node_type = nullptr;

int TraverseNode(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(AsContextNode(self)->owner);
  Py_VISIT(AsContextNode(self)->before);
  return 0;
}

int ClearNode(PyObject* self) {
  Py_CLEAR(AsContextNode(self)->owner);
  Py_CLEAR(AsContextNode(self)->before);
  return 0;
}

void DeallocNode(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  ClearNode(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyType_Slot g_node_slots[] = {{Py_tp_dealloc, AsSlot(DeallocNode)},
                              {Py_tp_traverse, AsSlot(TraverseNode)},
                              {Py_tp_clear, AsSlot(ClearNode)},
                              {0, nullptr}};

PyType_Spec g_node_spec = {"devrt._core._ContextNode", sizeof(ContextNode), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                           g_node_slots};

}  // namespace

bool AddContextNodeType() {
  PyObject* type = PyType_FromSpec(&g_node_spec);
  if (type == nullptr) return false;
  g_node_type = reinterpret_cast<PyTypeObject*>(type);
  return true;
}

PyObject* NewContextNode(PyObject* owner, PyObject* before) {
  PyObject* object = g_node_type->tp_alloc(g_node_type, 0);
  if (object == nullptr) return nullptr;
  AsContextNode(object)->owner = NewRef(owner);
  Py_XINCREF(before);
  AsContextNode(object)->before = before;
  return object;
}

}  // namespace devrt::python
