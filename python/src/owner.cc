// SPDX-License-Identifier: Apache-2.0
#include "python/src/owner.h"

#include <utility>
#include <vector>

#include "devrt/runtime/mutex.h"
#include "python/src/errors.h"
#include "python/src/gil.h"

namespace devrt::python {

std::atomic<bool> g_owners_wait{false};

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

std::vector<PyObject*> TakeDropped() {
  Queue* queue = TheQueue();
  const MutexLock lock(&queue->mutex);
  g_owners_wait.store(false, std::memory_order_relaxed);
  return std::exchange(queue->dropped, {});
}

// A pending call of the interpreter, for owners that end while no thread
// returns from the library soon.
int DropPending(void*) {
  {
    Queue* queue = TheQueue();
    const MutexLock lock(&queue->mutex);
    queue->scheduled = false;
  }
  DropOwners();
  return 0;
}

void DropLater(PyObject* object) {
  if (!Py_IsInitialized() || IsFinalizing()) return;
  Queue* queue = TheQueue();
  const MutexLock lock(&queue->mutex);
  queue->dropped.push_back(object);
  g_owners_wait.store(true, std::memory_order_relaxed);
  // The interpreter has room for few pending calls.  If it has none, the next
  // owner that ends asks again.
  if (!queue->scheduled) {
    queue->scheduled = Py_AddPendingCall(DropPending, nullptr) == 0;
  }
}

struct Drop {
  void operator()(void* kept) const { DropLater(static_cast<PyObject*>(kept)); }
  PyObject* link = nullptr;
};

}  // namespace

void DropOwners() {
  // Dropping an owner may end others.  The loop takes those, instead of a
  // recursion as deep as their chain.
  static thread_local bool dropping = false;
  if (dropping || IsFinalizing()) return;
  dropping = true;
  const KeepException keep;
  while (OwnersWait()) {
    for (PyObject* object : TakeDropped()) DropReference(object);
  }
  dropping = false;
}

std::shared_ptr<void> KeepAlive(PyObject* object) {
  return std::shared_ptr<void>(NewRef(object), Drop());
}

PyObject** LinkOf(const std::shared_ptr<void>& kept) {
  Drop* drop = std::get_deleter<Drop>(kept);
  return drop != nullptr ? &drop->link : nullptr;
}

}  // namespace devrt::python
