// SPDX-License-Identifier: Apache-2.0
//
// What is current on a thread: the functions, and the type devrt.ThreadContext.

#include "python/src/contexts.h"

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "devrt/guards/thread_context.h"
#include "devrt/runtime/device.h"
#include "python/src/arguments.h"
#include "python/src/device.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/helpers.h"
#include "python/src/stream.h"
#include "python/src/thread_state.h"

namespace devrt::python {
namespace {

// ---- Functions --------------------------------------------------------------

// Reads the only, optional argument of a function.  Returns false with an
// exception set.
bool OneArgument(const Parameters& parameters, PyObject* const* args,
                 Py_ssize_t count, PyObject* names, PyObject** value) {
  *value = nullptr;
  if (count == 0 && names == nullptr) return true;
  return SortArguments(parameters, args, static_cast<size_t>(count), names,
                       value);
}

PyObject* CurrentDeviceFunction(PyObject*, PyObject* const* args,
                                Py_ssize_t count, PyObject* names) {
  static const Parameters kParameters = {
      "current_device", 0, 1, 1, {"backend"}};
  PyObject* backend = nullptr;
  if (!OneArgument(kParameters, args, count, names, &backend)) {
    return nullptr;
  }
  DeviceObject* device = nullptr;
  if (backend == nullptr || backend == Py_None) {
    device = CurrentDeviceObject();
  } else if (PyUnicode_Check(backend)) {
    Py_ssize_t size = 0;
    const char* name = ToUtf8(backend, "backend", &size);
    if (name == nullptr) return nullptr;
    BackendEntry* entry = OpenBackend({name, static_cast<size_t>(size)});
    if (entry != nullptr) device = CurrentDeviceOf(entry);
  } else {
    PyErr_Format(PyExc_TypeError, "backend must be a str or None, not %s",
                 TypeName(backend));
  }
  return device != nullptr ? NewRef(device) : nullptr;
}

PyObject* CurrentStreamFunction(PyObject*, PyObject* const* args,
                                Py_ssize_t count, PyObject* names) {
  static const Parameters kParameters = {"current_stream", 0, 1, 1, {"device"}};
  PyObject* value = nullptr;
  if (!OneArgument(kParameters, args, count, names, &value)) {
    return nullptr;
  }
  DeviceObject* device = ParseDevice(value);
  return device != nullptr ? CurrentStreamObject(device) : nullptr;
}

PyObject* DefaultStreamFunction(PyObject*, PyObject* const* args,
                                Py_ssize_t count, PyObject* names) {
  static const Parameters kParameters = {"default_stream", 0, 1, 1, {"device"}};
  PyObject* value = nullptr;
  if (!OneArgument(kParameters, args, count, names, &value)) {
    return nullptr;
  }
  DeviceObject* device = ParseDevice(value);
  return device != nullptr ? DefaultStreamObject(device) : nullptr;
}

PyObject* PerThreadStreamFunction(PyObject*, PyObject* const* args,
                                  Py_ssize_t count, PyObject* names) {
  static const Parameters kParameters = {
      "per_thread_default_stream", 0, 1, 1, {"device"}};
  PyObject* value = nullptr;
  if (!OneArgument(kParameters, args, count, names, &value)) {
    return nullptr;
  }
  DeviceObject* device = ParseDevice(value);
  if (device == nullptr) return nullptr;
  const auto ref =
      WithoutLock([&] { return PerThreadDefaultStream(device->device); });
  return ref.ok() ? WrapStream(*ref) : Raise(ref.status());
}

PyObject* SetDeviceFunction(PyObject*, PyObject* value) {
  if (value == Py_None) {
    PyErr_SetString(PyExc_TypeError,
                    "device must be a devrt.Device, str or "
                    "int, not NoneType");
    return nullptr;
  }
  DeviceObject* device = ParseDevice(value);
  ThreadState* thread = Thread();
  if (device == nullptr || thread == nullptr) return nullptr;
  const absl::Status status =
      WithoutLock([&] { return SetCurrentDevice(device->device); });
  if (!status.ok()) return Raise(status);
  thread->active = device->backend;
  return NewRef(Py_None);
}

PyObject* SetStreamFunction(PyObject*, PyObject* value) {
  if (!IsStream(value)) {
    PyErr_Format(PyExc_TypeError, "stream must be a devrt.Stream, not %s",
                 TypeName(value));
    return nullptr;
  }
  ThreadState* thread = Thread();
  if (thread == nullptr) return nullptr;
  StreamObject* stream = AsStream(value);
  const absl::Status status = WithoutLock([&] {
    const Device device = stream->device->device;
    const StreamRef before = CurrentStream(device);
    absl::Status set = SetCurrentStream(stream->ref);
    if (!set.ok()) return set;
    set = SetCurrentDevice(device);
    if (!set.ok()) SetCurrentStream(before).IgnoreError();
    return set;
  });
  if (!status.ok()) return Raise(status);
  CurrentSlot* slot = SlotOfThread(thread, stream->device->index);
  PyObject* former = slot->stream;
  *slot = {{stream->ref.gate(), stream->ref.serial()}, NewRef(value)};
  thread->active = stream->device->backend;
  Py_XDECREF(former);
  return NewRef(Py_None);
}

PyMethodDef g_functions[] = {
    {"current_device", AsMethod(CurrentDeviceFunction),
     METH_FASTCALL | METH_KEYWORDS,
     "current_device(backend=None)\n"
     "--\n\n"
     "Returns the calling thread's current device.\n\n"
     "backend: a name, \"cuda\".  None is the backend whose device or stream\n"
     "this thread made current last, else the first one that has devices.\n\n"
     "On cuda and hip, other libraries see this device as current too."},
    {"current_stream", AsMethod(CurrentStreamFunction),
     METH_FASTCALL | METH_KEYWORDS,
     "current_stream(device=None)\n"
     "--\n\n"
     "Returns the calling thread's current stream of `device`.  None is the\n"
     "current device."},
    {"default_stream", AsMethod(DefaultStreamFunction),
     METH_FASTCALL | METH_KEYWORDS,
     "default_stream(device=None)\n"
     "--\n\n"
     "Returns the default stream of `device`, id 0.  None is the current\n"
     "device."},
    {"per_thread_default_stream", AsMethod(PerThreadStreamFunction),
     METH_FASTCALL | METH_KEYWORDS,
     "per_thread_default_stream(device=None)\n"
     "--\n\n"
     "Returns the calling thread's own default stream of `device`, valid "
     "while\n"
     "the thread lives."},
    {"set_device", SetDeviceFunction, METH_O,
     "set_device(device, /)\n"
     "--\n\n"
     "Makes `device` the calling thread's current device of its backend.\n\n"
     "Prefer `with device:`, which restores the former device."},
    {"set_stream", SetStreamFunction, METH_O,
     "set_stream(stream, /)\n"
     "--\n\n"
     "Makes `stream` the calling thread's current stream of its device, and\n"
     "makes that device current.\n\n"
     "Prefer `with stream:`, which restores what was current."},
    {nullptr, nullptr, 0, nullptr}};

// ---- ThreadContext ----------------------------------------------------------

struct ContextObject {
  PyObject_HEAD  // NOLINT
      ThreadContext* context;
  BackendEntry* active;
  std::vector<PyObject*>* streams;  // keeps them alive
};

PyTypeObject* g_context_type = nullptr;

ContextObject* AsContext(PyObject* object) {
  return reinterpret_cast<ContextObject*>(object);
}

PyObject* NewContext(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError,
                  "use ThreadContext.capture() in the thread to copy");
  return nullptr;
}

PyObject* Capture(PyObject*, PyObject*) {
  ThreadState* thread = Thread();
  if (thread == nullptr) return nullptr;
  PyObject* object = g_context_type->tp_alloc(g_context_type, 0);
  if (object == nullptr) return nullptr;
  ContextObject* made = AsContext(object);
  made->streams = new std::vector<PyObject*>;
  made->active = thread->active;
  made->context =
      WithoutLock([] { return new ThreadContext(ThreadContext::Capture()); });
  for (const StreamRef ref : made->context->streams()) {
    PyObject* stream = WrapStream(ref);
    if (stream == nullptr) {
      Py_DECREF(object);
      return nullptr;
    }
    made->streams->push_back(stream);
  }
  return object;
}

void DeallocContext(PyObject* self) {
  ContextObject* context = AsContext(self);
  PyTypeObject* type = Py_TYPE(self);
  delete context->context;
  if (context->streams != nullptr) {
    for (PyObject* stream : *context->streams) Py_DECREF(stream);
    delete context->streams;
  }
  type->tp_free(self);
  Py_DECREF(type);
}

// Raises the reason why a context could not be entered.  The public
// ThreadContextScope knows it for a thread that may not enter, and for a stream
// that has ended.
PyObject* RaiseEnterError(const ThreadContext& context) {
  if (PyErr_Occurred() != nullptr) return nullptr;
  return Raise(
      WithoutLock([&] { return ThreadContextScope(context).status(); }));
}

PyObject* EnterContext(PyObject* self, PyObject*) {
  ContextObject* context = AsContext(self);
  if (!EnterAll(self, *context->streams, context->context->devices(),
                context->active)) {
    return RaiseEnterError(*context->context);
  }
  return NewRef(self);
}

PyObject* ExitContext(PyObject* self, PyObject* const*, Py_ssize_t) {
  return LeaveObject(self);
}

PyObject* GetDevices(PyObject* self, void*) {
  const std::vector<Device>& devices = AsContext(self)->context->devices();
  Ref list(PyList_New(0));
  for (const Device device : devices) {
    DeviceObject* object = WrapDevice(device);
    if (!list || object == nullptr ||
        PyList_Append(list.get(), reinterpret_cast<PyObject*>(object)) != 0) {
      return nullptr;
    }
  }
  return list.Release();
}

PyObject* GetStreams(PyObject* self, void*) {
  Ref list(PyList_New(0));
  for (PyObject* stream : *AsContext(self)->streams) {
    if (!list || PyList_Append(list.get(), stream) != 0) return nullptr;
  }
  return list.Release();
}

PyObject* ReprContext(PyObject* self) {
  std::string names;
  for (const Device device : AsContext(self)->context->devices()) {
    names += (names.empty() ? " of " : ", ") + device.name();
  }
  return PyUnicode_FromFormat("<devrt.ThreadContext%s>", names.c_str());
}

PyMethodDef g_methods[] = {
    {"__enter__", EnterContext, METH_NOARGS, nullptr},
    {"__exit__", AsMethod(ExitContext), METH_FASTCALL, nullptr},
    {"run", AsMethod(RunInContext), METH_VARARGS | METH_KEYWORDS,
     "run($self, function, /, *args, **kwargs)\n"
     "--\n\n"
     "Returns the result of function(*args, **kwargs), called inside this\n"
     "context."},
    {"capture", Capture, METH_NOARGS | METH_STATIC,
     "capture()\n"
     "--\n\n"
     "Returns the calling thread's current devices and streams, of every open\n"
     "backend."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef g_getters[] = {
    Getter("devices", GetDevices, "The current device of each open backend."),
    Getter("streams", GetStreams,
           "The current stream of each device of the open backends."),
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

constexpr char kDoc[] =
    "ThreadContext()\n"
    "--\n\n"
    "A thread's current devices and streams, for use on another thread.\n\n"
    "    context = devrt.ThreadContext.capture()\n"
    "    pool.submit(context.run, work)\n\n"
    "A new thread starts on device 0 and on default streams, so without this\n"
    "a pool's work runs there.  As a context manager and in run(), it sets\n"
    "what was captured, and restores what the thread had.  Its streams live\n"
    "as long as it does.";

PyType_Slot g_slots[] = {{Py_tp_new, AsSlot(NewContext)},
                         {Py_tp_dealloc, AsSlot(DeallocContext)},
                         {Py_tp_call, AsSlot(Decorate)},
                         {Py_tp_repr, AsSlot(ReprContext)},
                         {Py_tp_methods, g_methods},
                         {Py_tp_getset, g_getters},
                         {Py_tp_doc, const_cast<char*>(kDoc)},
                         {0, nullptr}};

PyType_Spec g_spec = {"devrt.ThreadContext", sizeof(ContextObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, g_slots};

}  // namespace

bool PushThreadContext(ThreadState* thread, PyObject* self) {
  ContextObject* context = AsContext(self);
  return PushAll(thread, self, *context->streams, context->context->devices(),
                 context->active);
}

bool AddContexts(PyObject* module) {
  if (!AddTaskContexts()) return false;
  PyObject* type = PyType_FromSpec(&g_spec);
  if (type == nullptr) return false;
  g_context_type = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddObject(module, "ThreadContext", NewRef(type)) == 0 &&
         PyModule_AddFunctions(module, g_functions) == 0;
}

}  // namespace devrt::python
