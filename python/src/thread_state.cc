// SPDX-License-Identifier: Apache-2.0
#include "python/src/thread_state.h"

#include <utility>

#include "devrt/guards/device_guard.h"
#include "devrt/guards/enter.h"
#include "devrt/guards/stream_guard.h"
#include "devrt/streams/gate.h"
#include "python/src/context_node.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/stream.h"

namespace devrt::python {

__thread SeenContext* t_seen_context = nullptr;

namespace {

constexpr char kCapsuleName[] = "devrt.thread_state";

// Ends with the native thread.  The interpreter's dict of the thread owns it
// too.
thread_local std::shared_ptr<ThreadState> t_owner;

// Drops a thread's references to Python objects.  Does not leave its contexts:
// no code can run on the thread any more.
void Detach(ThreadState* thread) {
  thread->attached = false;
  thread->version = 0;
  std::vector<CurrentSlot> current = std::move(thread->current);
  std::vector<ContextEntry> entries = std::move(thread->entries);
  thread->current.clear();
  thread->entries.clear();
  thread->active = nullptr;
  thread->open.clear();
  for (const ContextEntry& entry : entries) {
    Py_XDECREF(entry.stream.stream);
    Py_XDECREF(entry.owner);
    Py_XDECREF(entry.node);
  }
  Py_CLEAR(thread->node);
  Py_CLEAR(thread->outermost);
  for (const CurrentSlot& slot : current) Py_XDECREF(slot.stream);
}

void DestroyCapsule(PyObject* capsule) {
  auto* held = static_cast<std::shared_ptr<ThreadState>*>(
      PyCapsule_GetPointer(capsule, kCapsuleName));
  Detach(held->get());
  delete held;
}

// Makes the device current and saves the former one.  Returns false with an
// exception set.
bool EnterContext(DeviceObject* object, internal::SavedContext* saved) {
  internal::DeviceGate* device = object->device.gate();
  internal::GuardError error;
  if (__builtin_expect(internal::InHostFunction(), 0)) {
    Raise(DeviceGuard(object->device).status());
    return false;
  }
  bool entered;
  if (__builtin_expect(object->entered, 1)) {
    // Writes only state of this thread, so the GIL stays.
    entered = internal::EnterDevice(device, saved, &error, "with");
  } else {
    // The first time may create the device's context, which takes a while.
    entered = WithoutLock(
        [&] { return internal::EnterDevice(device, saved, &error, "with"); });
    object->entered = entered;
  }
  if (__builtin_expect(!entered, 0)) {
    Raise(internal::EnterError(device, error));
    internal::DropGuardError(error);
  }
  return entered;
}

void LeaveContext(const ContextEntry& entry) {
  internal::LeaveDevice(entry.context, "with");
}

// Makes the stream current again that was current before the entry.
void RestoreStream(ThreadState* thread, const ContextEntry& entry) {
  *internal::SlotOf(entry.device->device.gate()) = entry.stream.slot;
  CurrentSlot* slot = SlotOfThread(thread, entry.device->index);
  PyObject* former = slot->stream;
  *slot = entry.stream;
  Py_XDECREF(former);
}

// Leaves an entry below others.  The next entry above that would overwrite the
// stream or device of this one restores what this one found.
void LeaveBelow(ThreadState* thread, size_t index) {
  ContextEntry entry = thread->entries[index];
  thread->entries.erase(thread->entries.begin() +
                        static_cast<std::ptrdiff_t>(index));
  std::swap(thread->entries[index].active, entry.active);
  bool context_passed = !entry.has_context;
  bool stream_passed = !entry.has_stream;
  for (size_t i = index; i < thread->entries.size(); ++i) {
    ContextEntry& above = thread->entries[i];
    if (!context_passed && above.has_context &&
        above.device->backend == entry.device->backend) {
      above.context = entry.context;
      context_passed = true;
    }
    if (!stream_passed && above.has_stream && above.device == entry.device) {
      std::swap(above.stream, entry.stream);
      stream_passed = true;
    }
  }
  if (!context_passed) LeaveContext(entry);
  if (stream_passed) {
    // `above` had saved this entry's own stream.
    Py_XDECREF(entry.stream.stream);
  } else {
    RestoreStream(thread, entry);
  }
  Py_XDECREF(entry.node);
  Py_DECREF(entry.owner);
}

void LeaveEntry(ThreadState* thread, size_t index) {
  if (__builtin_expect(index + 1 < thread->entries.size(), 0)) {
    LeaveBelow(thread, index);
    return;
  }
  const ContextEntry entry = thread->entries.back();
  thread->entries.pop_back();
  thread->active = entry.active;
  if (entry.has_stream) RestoreStream(thread, entry);
  if (entry.has_context) LeaveContext(entry);
  Py_XDECREF(entry.node);
  Py_DECREF(entry.owner);
}

// Returns true if the stream's record is still that of the object's stream.
bool IsAlive(const StreamObject* stream) {
  return internal::IsAlive(stream->ref);
}

// Makes the stream current on its device.  Returns the former one. *stale is a
// reference for the caller to drop.
CurrentSlot ExchangeStream(ThreadState* thread, PyObject* self,
                           PyObject** stale) {
  StreamObject* stream = AsStream(self);
  internal::StreamSlot* slot = internal::SlotOf(stream->device->device.gate());
  CurrentSlot* current = SlotOfThread(thread, stream->device->index);
  CurrentSlot before{*slot, nullptr};
  if (current->slot.gate == slot->gate &&
      current->slot.serial == slot->serial) {
    before.stream = current->stream;
  } else {
    *stale = current->stream;  // the library has another current stream by now
  }
  *slot = {stream->ref.gate(), stream->ref.serial()};
  *current = {*slot, NewRef(self)};
  return before;
}

ContextEntry NewEntry(const ThreadState* thread, PyObject* owner,
                      DeviceObject* device) {
  ContextEntry entry;
  entry.owner = NewRef(owner);
  entry.device = device;
  entry.active = thread->active;
  return entry;
}

bool PushDevice(ThreadState* thread, PyObject* self) {
  auto* device = reinterpret_cast<DeviceObject*>(self);
  internal::SavedContext saved;
  if (__builtin_expect(!EnterContext(device, &saved), 0)) return false;
  ContextEntry entry = NewEntry(thread, self, device);
  entry.context = saved;
  entry.has_context = true;
  thread->entries.push_back(entry);
  thread->active = device->backend;
  return true;
}

bool PushStream(ThreadState* thread, PyObject* self) {
  StreamObject* stream = AsStream(self);
  DeviceObject* device = stream->device;
  internal::SavedContext saved;
  if (__builtin_expect(!IsAlive(stream), 0)) {
    Raise(WithoutLock([&] { return StreamGuard(stream->ref).status(); }));
    return false;
  }
  if (__builtin_expect(!EnterContext(device, &saved), 0)) return false;
  PyObject* stale = nullptr;
  ContextEntry entry = NewEntry(thread, self, device);
  entry.context = saved;
  entry.has_context = true;
  entry.stream = ExchangeStream(thread, self, &stale);
  entry.has_stream = true;
  thread->entries.push_back(entry);
  thread->active = device->backend;
  Py_XDECREF(stale);
  return true;
}

// Leaves the entries of one __enter__.  `index` is the last of them.
void LeaveEntries(ThreadState* thread, size_t index) {
  bool first = false;
  for (++index; !first;) {
    first = thread->entries[--index].first;
    LeaveEntry(thread, index);
  }
}

// Notes the thread's outermost context, if the thread was in no other so far:
// CPython counts the changes from 1 on.  The context exists from the first copy
// on at the latest.  Returns false with an exception set.
bool FindOutermost(ThreadState* thread) {
  const PyThreadState* state = PyThreadState_Get();
  if (state->context_ver != 1) return true;
  const Ref copy(PyContext_CopyCurrent());
  if (!copy) return false;
  Py_XINCREF(state->context);
  Py_XSETREF(thread->outermost, state->context);
  return true;
}

ThreadState* MakeThread() {
  PyObject* dictionary = PyThreadState_GetDict();
  if (dictionary == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "this thread has no interpreter");
    return nullptr;
  }
  if (t_owner == nullptr) t_owner = std::make_shared<ThreadState>();
  auto* held = new std::shared_ptr<ThreadState>(t_owner);
  const Ref capsule(PyCapsule_New(held, kCapsuleName, DestroyCapsule));
  if (!capsule) {
    delete held;
    return nullptr;
  }
  if (PyDict_SetItemString(dictionary, kCapsuleName, capsule.get()) != 0) {
    return nullptr;
  }
  ThreadState* const thread = t_owner.get();
  t_seen_context = thread;
  thread->attached = true;
  return FindOutermost(thread) ? thread : nullptr;
}

// ---- Chains of contextvars contexts -----------------------------------------

PyObject* g_chain = nullptr;  // the context variable: the last node, or None

// Makes `node` the last node of the present context.  Returns false with an
// exception set.  The copy of the context protects its mapping: CPython 3.11
// borrows the mapping while it makes a new one, and a collection in between may
// run a finalizer that enters a context and so would free the mapping.
bool SetChain(ThreadState* thread, PyObject* node) {
  const Ref context(PyContext_CopyCurrent());
  if (!context) return false;
  const Ref token(PyContextVar_Set(g_chain, node != nullptr ? node : Py_None));
  if (!token) return false;
  Py_XINCREF(node);
  Py_XSETREF(thread->node, node);
  return true;
}

// Puts the entries from `begin` on, of a new __enter__ of `owner`, into the
// chain of the present contextvars context.  Outside of every Context.run the
// thread alone has the entries.
bool AddToChain(ThreadState* thread, PyObject* owner, size_t begin) {
  const PyObject* context = PyThreadState_Get()->context;
  if (context == nullptr || context == thread->outermost) return true;
  const Ref node(NewContextNode(owner, thread->node));
  if (!node || !SetChain(thread, node.get())) {
    const KeepException keep;
    LeaveEntries(thread, thread->entries.size() - 1);
    return false;
  }
  for (size_t i = begin; i < thread->entries.size(); ++i) {
    thread->entries[i].node = NewRef(node.get());
  }
  ++thread->open[owner];
  return true;
}

void CountLeft(ThreadState* thread, PyObject* owner) {
  const auto found = thread->open.find(owner);
  if (found != thread->open.end() && --found->second == 0) {
    thread->open.erase(found);
  }
}

// Removes `node` from the chain.  The nodes after it are replaced by new ones.
// Returns false with an exception set.
bool TakeFromChain(ThreadState* thread, PyObject* node) {
  std::vector<PyObject*> behind;  // the last one first
  for (PyObject* n = thread->node; n != node; n = AsContextNode(n)->before) {
    behind.push_back(n);
  }
  Ref last = Ref::To(AsContextNode(node)->before);
  while (!behind.empty()) {
    PyObject* const former = behind.back();
    behind.pop_back();
    last = Ref(NewContextNode(AsContextNode(former)->owner, last.get()));
    if (!last) return false;
    for (ContextEntry& entry : thread->entries) {
      if (entry.node != former) continue;
      Py_INCREF(last.get());
      Py_SETREF(entry.node, last.get());
    }
  }
  return SetChain(thread, last.get());
}

PyObject* LeaveNode(ThreadState* thread, PyObject* object) {
  const Ref node = Ref::To(object);
  for (size_t i = thread->entries.size(); i > 0; --i) {
    if (thread->entries[i - 1].node != object) continue;
    LeaveEntries(thread, i - 1);
    break;
  }
  CountLeft(thread, AsContextNode(object)->owner);
  return TakeFromChain(thread, object) ? NewRef(Py_None) : nullptr;
}

bool Push(ThreadState* thread, PyObject* owner) {
  if (IsDevice(owner)) return PushDevice(thread, owner);
  if (IsStream(owner)) return PushStream(thread, owner);
  return PushThreadContext(thread, owner);
}

// Enters what a node stands for again.  Errors are dropped, since the caller
// cannot raise.
void PushNode(ThreadState* thread, PyObject* node) {
  const size_t begin = thread->entries.size();
  if (!Push(thread, AsContextNode(node)->owner)) {
    PyErr_WriteUnraisable(AsContextNode(node)->owner);
    return;
  }
  for (size_t i = begin; i < thread->entries.size(); ++i) {
    thread->entries[i].node = NewRef(node);
  }
}

// Leaves the entries of other chains, and enters those that are missing.
void EnterChain(ThreadState* thread, PyObject* last) {
  std::vector<PyObject*> nodes;  // the first one first
  for (PyObject* n = last; n != nullptr; n = AsContextNode(n)->before) {
    nodes.insert(nodes.begin(), n);
  }
  std::vector<ContextEntry>& entries = thread->entries;
  size_t same = 0;
  size_t kept = 0;
  while (kept < entries.size() && entries[kept].node == nullptr) ++kept;
  for (; same < nodes.size() && kept < entries.size(); ++same) {
    if (entries[kept].node != nodes[same]) break;
    while (kept < entries.size() && entries[kept].node == nodes[same]) ++kept;
  }
  while (entries.size() > kept) LeaveEntry(thread, entries.size() - 1);
  for (; same < nodes.size(); ++same) PushNode(thread, nodes[same]);
}

// Returns the last node of the thread's contextvars context, or null.
Ref ChainOf(const PyThreadState* state) {
  PyObject* node = nullptr;
  if (state->context != nullptr &&
      PyContextVar_Get(g_chain, nullptr, &node) != 0) {
    PyErr_Clear();
  }
  Ref found(node);
  return found.get() == Py_None ? Ref() : std::move(found);
}

}  // namespace

void FollowContext() {
  if (IsFinalizing()) return;
  const KeepException keep;
  if (LookAtThread() == nullptr) PyErr_Clear();
}

ThreadState* LookAtThread() {
  ThreadState* thread = KnownThread();
  if (thread == nullptr || !thread->attached) thread = MakeThread();
  if (thread == nullptr) return nullptr;
  const PyThreadState* state = PyThreadState_Get();
  thread->version = state->context_ver;
  Ref node = ChainOf(state);
  if (node.get() == thread->node) return thread;
  const KeepException keep;
  EnterChain(thread, node.get());
  Py_XSETREF(thread->node, node.Release());
  return thread;
}

bool AddTaskContexts() {
  if (!AddContextNodeType()) return false;
  g_chain = PyContextVar_New("devrt.contexts", nullptr);
  // Programs import devrt outside of every Context.run, and may first call
  // devrt inside of one.
  return g_chain != nullptr && LookAtThread() != nullptr;
}

PyObject* EnterDeviceObject(PyObject* self) {
  ThreadState* thread = Thread();
  if (__builtin_expect(thread == nullptr, 0)) return nullptr;
  const size_t begin = thread->entries.size();
  return PushDevice(thread, self) && AddToChain(thread, self, begin)
             ? NewRef(self)
             : nullptr;
}

PyObject* EnterStreamObject(PyObject* self) {
  ThreadState* thread = Thread();
  if (__builtin_expect(thread == nullptr, 0)) return nullptr;
  const size_t begin = thread->entries.size();
  return PushStream(thread, self) && AddToChain(thread, self, begin)
             ? NewRef(self)
             : nullptr;
}

bool EnterAll(PyObject* self, const std::vector<PyObject*>& streams,
              const std::vector<Device>& devices, BackendEntry* active) {
  ThreadState* thread = Thread();
  if (thread == nullptr) return false;
  const size_t begin = thread->entries.size();
  return PushAll(thread, self, streams, devices, active) &&
         AddToChain(thread, self, begin);
}

bool PushAll(ThreadState* thread, PyObject* self,
             const std::vector<PyObject*>& streams,
             const std::vector<Device>& devices, BackendEntry* active) {
  if (internal::InHostFunction()) return false;
  bool entered = true;
  bool first = true;
  const auto push = [&](ContextEntry entry) {
    entry.first = std::exchange(first, false);
    thread->entries.push_back(entry);
  };
  for (PyObject* stream : streams) {
    entered = IsAlive(AsStream(stream));
    if (!entered) break;
    PyObject* stale = nullptr;
    ContextEntry entry = NewEntry(thread, self, AsStream(stream)->device);
    entry.stream = ExchangeStream(thread, stream, &stale);
    entry.has_stream = true;
    push(entry);
    Py_XDECREF(stale);
  }
  for (size_t i = 0; entered && i < devices.size(); ++i) {
    DeviceObject* device = WrapDevice(devices[i]);
    internal::SavedContext saved;
    entered = device != nullptr && EnterContext(device, &saved);
    if (!entered) break;
    ContextEntry entry = NewEntry(thread, self, device);
    entry.context = saved;
    entry.has_context = true;
    push(entry);
  }
  if (!entered && !first) {
    const KeepException keep;
    LeaveEntries(thread, thread->entries.size() - 1);
  }
  // A context that was saved before any backend was open sets nothing, but
  // needs an entry to leave.
  if (entered && first) push(NewEntry(thread, self, nullptr));
  if (entered && active != nullptr) thread->active = active;
  return entered;
}

PyObject* LeaveObject(PyObject* self) {
  ThreadState* thread = Thread();
  if (__builtin_expect(thread == nullptr, 0)) return nullptr;
  for (PyObject* n = thread->node; n != nullptr; n = AsContextNode(n)->before) {
    if (AsContextNode(n)->owner == self) return LeaveNode(thread, n);
  }
  size_t index = thread->entries.size();
  while (index > 0 && thread->entries[index - 1].owner != self) --index;
  if (__builtin_expect(index != 0, 1)) {
    LeaveEntries(thread, index - 1);
    return NewRef(Py_None);
  }
  // `self` was entered in another context, such as that of a task whose
  // generator this task ends.  Nobody can leave it there any more.
  if (thread->open.count(self) != 0) {
    CountLeft(thread, self);
    return NewRef(Py_None);
  }
  return Raise(absl::FailedPreconditionError(
      "__exit__: this thread is not inside this context; a context is left "
      "on the thread that entered it, as often as it was entered"));
}

}  // namespace devrt::python
