// SPDX-License-Identifier: Apache-2.0
//
// What each thread keeps for Python: the objects of its current streams, and
// the contexts that it is in.
//
// The truth about current devices and streams is in the library and, for
// devices, in the driver; here are the references that keep a current stream
// alive and make current_stream() give back the object that was entered.
//
// A context is an entry of the thread's own stack, made by __enter__, so that
// one object may be entered many times and by several threads (F4).  An entry
// that is left before those above it, as generators can, hands what it has to
// restore to the next one above.
//
// What was entered belongs to the thread's contextvars context, if it has one:
// to an asyncio task, for example.  Each context has a chain of nodes in a
// context variable, one for each __enter__ that was not left, so that contexts
// which are copied of it, as those of the task's own tasks, begin with its
// chain.  Nobody says that the thread goes on with another context;
// FollowContext sees it at the next call, leaves what only the former chain has
// and enters what only the new one has.  The thread's own entries, of a time
// when it had no context, are below all of them.
//
// Everything here needs the GIL.

#ifndef DEVRT_PYTHON_SRC_THREAD_STATE_H_
#define DEVRT_PYTHON_SRC_THREAD_STATE_H_

#include <memory>
#include <unordered_map>
#include <vector>

#include "devrt/guards/enter.h"
#include "devrt/streams/slots.h"
#include "python/src/device.h"
#include "python/src/gil.h"
#include "python/src/python.h"

namespace devrt::python {

// The object of a device's current stream, and which stream it stands for.
struct CurrentSlot {
  internal::StreamSlot slot{nullptr, 0};
  PyObject* stream = nullptr;
};

struct ContextEntry {
  PyObject* owner;                   // what was entered
  DeviceObject* device;              // the entry's; null: sets nothing
  BackendEntry* active;              // before
  internal::SavedContext context{};  // if has_context
  CurrentSlot stream{};              // before, if has_stream
  bool has_context = false;
  bool has_stream = false;
  // A ThreadContext makes an entry for each stream and device that it sets; all
  // others are one entry, the first.
  bool first = true;
  // The node that it was entered for; null: the thread's own.
  PyObject* node = nullptr;
};

struct ThreadState : SeenContext {
  std::vector<CurrentSlot> current;  // by the device's index
  std::vector<ContextEntry> entries;
  PyObject* node = nullptr;  // the last of the chain that has been entered
  // How often objects were entered in contexts, and not left.
  std::unordered_map<PyObject*, int> open;
  BackendEntry* active = nullptr;
  bool attached = false;  // the interpreter will say when the thread ends
};

extern __thread ThreadState* t_thread;
// Null with an exception.
ThreadState* LookAtThread();

inline ThreadState* Thread() {
  return IsSeen(PyThreadState_Get()) ? t_thread : LookAtThread();
}

// Makes the context variable; false with an exception.
bool AddTaskContexts();

// The slot of a device among the objects.
inline CurrentSlot* SlotOfThread(ThreadState* thread, uint32_t index) {
  if (__builtin_expect(index >= thread->current.size(), 0)) {
    thread->current.resize(index + 1);
  }
  return &thread->current[index];
}

// METH_NOARGS and METH_FASTCALL functions of contexts.  `stream` null: a
// device.
PyObject* EnterDeviceObject(PyObject* self);
PyObject* EnterStreamObject(PyObject* self);
// Of a ThreadContext: the objects of its streams, and its devices.  False if
// one of them could not be entered, and nothing has changed; with an exception
// unless the thread may enter nothing, or a stream has ended.
bool EnterAll(PyObject* self, const std::vector<PyObject*>& streams,
              const std::vector<Device>& devices, BackendEntry* active);
// That of a ThreadContext, in contexts.cc, without a node.
bool PushThreadContext(ThreadState* thread, PyObject* self);
bool PushAll(ThreadState* thread, PyObject* self,
             const std::vector<PyObject*>& streams,
             const std::vector<Device>& devices, BackendEntry* active);
// What the innermost __enter__ of `self` in this thread has made; an Error if
// there is none.
PyObject* LeaveObject(PyObject* self);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_THREAD_STATE_H_
