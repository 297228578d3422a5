// SPDX-License-Identifier: Apache-2.0
#include "python/src/array_owner.h"

#include <memory>
#include <new>

#include "arrays/storage/storage.h"
#include "python/src/owner.h"

namespace devrt::python {
namespace {

PyTypeObject* g_link_type = nullptr;

struct OwnerLink {
  PyObject_HEAD  // NOLINT
      std::weak_ptr<internal::Storage>
          storage;
  std::weak_ptr<void> owner;
};

OwnerLink* AsLink(PyObject* object) {
  return reinterpret_cast<OwnerLink*>(object);
}

// The collector may count the owner's reference as the arrays' own only if
// nothing else has the memory: no running call, no other library, and no device
// (E36), because the collector calls the owner's finalizers before the arrays
// end.  Nothing new can get the memory while the collector runs.
int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const OwnerLink* link = AsLink(self);
  if (link->storage.use_count() != Py_REFCNT(self) ||
      link->owner.use_count() != 1) {
    return 0;
  }
  const std::shared_ptr<internal::Storage> storage = link->storage.lock();
  if (storage->IsBusy()) return 0;
  const std::shared_ptr<void> owner = link->owner.lock();
  Py_VISIT(static_cast<PyObject*>(owner.get()));
  return 0;
}

void Dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (const std::shared_ptr<void> owner = AsLink(self)->owner.lock()) {
    *LinkOf(owner) = nullptr;
  }
  AsLink(self)->storage.~weak_ptr();
  AsLink(self)->owner.~weak_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyType_Slot g_slots[] = {{Py_tp_traverse, AsSlot(Traverse)},
                         {Py_tp_dealloc, AsSlot(Dealloc)},
                         {0, nullptr}};
PyType_Spec g_spec = {"devrt._core._OwnerLink", sizeof(OwnerLink), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, g_slots};

}  // namespace

bool AddOwnerLinks() {
  g_link_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&g_spec));
  if (g_link_type == nullptr) return false;
  g_link_type->tp_new = nullptr;
  return true;
}

bool FindOwnerLink(const Array& array, PyObject** link) {
  *link = nullptr;
  const std::shared_ptr<void>& owner = array.storage()->owner();
  PyObject** known = owner != nullptr ? LinkOf(owner) : nullptr;
  if (known == nullptr) return true;
  if (*known != nullptr) {
    *link = NewRef(*known);
    return true;
  }
  auto* made = PyObject_GC_New(OwnerLink, g_link_type);
  if (made == nullptr) return false;
  new (&made->storage) std::weak_ptr<internal::Storage>(array.storage());
  new (&made->owner) std::weak_ptr<void>(owner);
  *link = reinterpret_cast<PyObject*>(made);
  *known = *link;
  PyObject_GC_Track(*link);
  return true;
}

}  // namespace devrt::python
