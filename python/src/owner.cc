// SPDX-License-Identifier: Apache-2.0
#include "python/src/owner.h"

#include <utility>
#include <vector>

#include "devrt/runtime/mutex.h"
#include "python/src/gil.h"

namespace devrt::python {
namespace {

// Never destroyed: threads may end objects after main.
struct Queue {
  Mutex mutex;
  std::vector<PyObject*> dropped DEVRT_GUARDED_BY(mutex);
  bool scheduled DEVRT_GUARDED_BY(mutex) = false;
};

Queue* TheQueue() {
  static Queue* queue = new Queue;
  return queue;
}

// A pending call of the interpreter: with the GIL, under no lock of devrt's.
int DropQueued(void*) {
  std::vector<PyObject*> dropped;
  {
    Queue* queue = TheQueue();
    const MutexLock lock(&queue->mutex);
    dropped = std::exchange(queue->dropped, {});
    queue->scheduled = false;
  }
  for (PyObject* object : dropped) Py_DECREF(object);
  return 0;
}

void DropLater(PyObject* object) {
  if (!Py_IsInitialized() || IsFinalizing()) return;
  Queue* queue = TheQueue();
  const MutexLock lock(&queue->mutex);
  queue->dropped.push_back(object);
  // The interpreter has few places for such calls; without one now, the next
  // that is dropped asks again.
  if (!queue->scheduled) {
    queue->scheduled = Py_AddPendingCall(DropQueued, nullptr) == 0;
  }
}

}  // namespace

std::shared_ptr<void> KeepAlive(PyObject* object) {
  return std::shared_ptr<void>(NewRef(object), [](void* kept) {
    DropLater(static_cast<PyObject*>(kept));
  });
}

}  // namespace devrt::python
