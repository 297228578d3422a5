// SPDX-License-Identifier: Apache-2.0
//
// The state that each thread keeps for Python: the objects of its current
// streams, and the contexts that it has entered.
//
// The library and, for devices, the driver decide what is current.  The
// references here keep a current stream alive, and let current_stream() return
// the object that was entered.
//
// __enter__ pushes a ContextEntry onto the thread's own stack, so one object
// may be entered many times and by several threads (F4).  An entry may be left
// before those above it, as happens with generators.  It then hands what it has
// to restore to the entry above that would overwrite it.
//
// If code runs in a contextvars context that Context.run has entered, as an
// asyncio task does, then entries belong to that context.  Each such context
// has a context variable with a chain of nodes, one for each __enter__ that was
// not left.  A copied context, such as the context of a new task, begins with
// the chain of its original.  CPython does not report that a thread changes to
// another context, so FollowContext compares at the next call: it leaves the
// nodes that only the former chain has, and enters those that only the new one
// has.  Entries from outside of every Context.run have no nodes, and lie below
// all of them.
//
// Everything here needs the GIL.

#ifndef DEVRT_PYTHON_SRC_THREAD_STATE_H_
#define DEVRT_PYTHON_SRC_THREAD_STATE_H_

#include <memory>
#include <unordered_map>
#include <vector>

#include "devrt/guards/enter.h"
#include "devrt/streams/current_streams.h"
#include "python/src/device.h"
#include "python/src/gil.h"
#include "python/src/python.h"

namespace devrt::python {

// The object of a device's current stream, and the slot that it stands for.
struct CurrentSlot {
  internal::StreamSlot slot{nullptr, 0};
  PyObject* stream = nullptr;
};

struct ContextEntry {
  PyObject* owner;                   // the object that was entered
  DeviceObject* device;              // null if the entry sets nothing
  BackendEntry* active;              // the active backend before
  internal::SavedContext context{};  // if has_context
  CurrentSlot stream{};              // the current stream before, if has_stream
  bool has_context = false;
  bool has_stream = false;
  // One __enter__ of a ThreadContext pushes an entry for each stream and device
  // that it sets.  All but the first of them have false here.
  bool first = true;
  // The node of this entry.  Null if the entry belongs to the thread alone.
  PyObject* node = nullptr;
};

struct ThreadState : SeenContext {
  std::vector<CurrentSlot> current;  // by the device's index
  std::vector<ContextEntry> entries;
  PyObject* node = nullptr;  // the last node of the chain that is entered
  // The thread's contextvars context outside of every Context.run.  Null if the
  // thread had changed contexts before its first call of devrt.
  PyObject* outermost = nullptr;
  // How many times each object was entered and not left, in all contexts.
  std::unordered_map<PyObject*, int> open;
  BackendEntry* active = nullptr;
  bool attached = false;  // the interpreter tells when the thread ends
};

// Returns the state of this thread as it is, or null if it has none.
inline ThreadState* KnownThread() {
  return static_cast<ThreadState*>(t_seen_context);
}

// Returns the state of this thread, after FollowContext.  Null with an
// exception set on failure.
ThreadState* LookAtThread();

inline ThreadState* Thread() {
  return IsSeen(PyThreadState_Get()) ? KnownThread() : LookAtThread();
}

// Makes the context variable.  Returns false with an exception set on failure.
bool AddTaskContexts();

// Returns the slot of the device with that index.
inline CurrentSlot* SlotOfThread(ThreadState* thread, uint32_t index) {
  if (__builtin_expect(index >= thread->current.size(), 0)) {
    thread->current.resize(index + 1);
  }
  return &thread->current[index];
}

// METH_NOARGS functions of contexts.
PyObject* EnterDeviceObject(PyObject* self);
PyObject* EnterStreamObject(PyObject* self);
// Enters a ThreadContext, given the objects of its streams, and its devices.
// If one of them cannot be entered, nothing has changed, and false is returned.
// An exception is set then, unless the thread may not enter contexts or a
// stream has ended.
bool EnterAll(PyObject* self, const std::vector<PyObject*>& streams,
              const std::vector<Device>& devices, BackendEntry* active);
// Does so without a node.  PushThreadContext, in contexts.cc, reads the streams
// and devices from the ThreadContext.
bool PushThreadContext(ThreadState* thread, PyObject* self);
bool PushAll(ThreadState* thread, PyObject* self,
             const std::vector<PyObject*>& streams,
             const std::vector<Device>& devices, BackendEntry* active);
// Undoes the innermost __enter__ of `self` on this thread.  Raises an Error if
// there is none.
PyObject* LeaveObject(PyObject* self);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_THREAD_STATE_H_
