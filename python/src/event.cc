// SPDX-License-Identifier: Apache-2.0
#include "python/src/event.h"

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "python/src/arguments.h"
#include "python/src/call_site.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/helpers.h"
#include "python/src/thread_state.h"
#include "python/src/wait.h"

namespace devrt::python {

PyTypeObject* g_event_type = nullptr;

namespace {

// ---- Creation ---------------------------------------------------------------

PyObject* Make(PyTypeObject* type, DeviceObject* device,
               const EventOptions& options) {
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  EventObject* event = AsEvent(object);
  event->device = device;
  event->options = options;
  event->abandoned = false;
  new (&event->event) std::optional<Event>();
  return object;
}

PyObject* MakeFrom(PyTypeObject* type, PyObject* const* values) {
  EventOptions options;
  if (!ToBool(values[1], "enable_timing", &options.timing) ||
      !ToBool(values[2], "blocking", &options.blocking_sync) ||
      !ToBool(values[3], "interprocess", &options.interprocess)) {
    return nullptr;
  }
  if (options.timing && options.interprocess) {
    return Raise(absl::InvalidArgumentError(
        "an interprocess event cannot be created with enable_timing=True"));
  }
  DeviceObject* device = nullptr;
  if (values[0] != nullptr && values[0] != Py_None) {
    device = ParseDevice(values[0]);
    if (device == nullptr) return nullptr;
  }
  return Make(type, device, options);
}

const Parameters kNewParameters = {
    "Event", 0, 1, 4, {"device", "enable_timing", "blocking", "interprocess"}};

PyObject* New(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  PyObject* values[4];
  if (!SortArguments(kNewParameters, args, keywords, values)) return nullptr;
  return MakeFrom(type, values);
}

// Only for devrt.Event itself, not for its subclasses.
PyObject* Vectorcall(PyObject* type, PyObject* const* args, size_t count,
                     PyObject* names) {
  const auto positional = static_cast<size_t>(PyVectorcall_NARGS(count));
  if (positional == 0 && names == nullptr) {
    return Make(reinterpret_cast<PyTypeObject*>(type), nullptr, {});
  }
  PyObject* values[4];
  if (!SortArguments(kNewParameters, args, positional, names, values)) {
    return nullptr;
  }
  return MakeFrom(reinterpret_cast<PyTypeObject*>(type), values);
}

void Dealloc(PyObject* self) {
  EventObject* event = AsEvent(self);
  PyTypeObject* type = Py_TYPE(self);
  if (event->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  const bool abandoned = event->abandoned;
  std::optional<Event> ending = std::move(event->event);
  event->event.~optional();
  type->tp_free(self);
  Py_DECREF(type);
  if (!ending.has_value()) return;
  if (abandoned) {
    new Event(*std::move(ending));
    return;
  }
  // Returning an event to the pool calls no driver, unless other processes know
  // it.
  if (!ending->options().interprocess) return;
  const KeepException keep;  // as for a stream
  const Unlocked unlocked;
  ending.reset();
}

// Gives the object an event of `device`.  Returns false with an exception set.
bool Bind(EventObject* object, DeviceObject* device) {
  const EventOptions options = object->options;
  const SiteHere site;
  auto made =
      WithoutLock([&] { return Event::Create(device->device, options, site); });
  if (!made.ok()) {
    Raise(made.status());
    return false;
  }
  if (!object->event.has_value()) {
    object->event.emplace(*std::move(made));
    object->device = device;
    return true;
  }
  // Another thread has recorded the event meanwhile.
  const Unlocked unlocked;
  made = absl::CancelledError();
  return true;
}

// Creates the event at its first record.  Both happen in one scope without the
// GIL.
bool RecordFirst(EventObject* object, StreamObject* stream) {
  DeviceObject* device =
      object->device != nullptr ? object->device : stream->device;
  const EventOptions options = object->options;
  const StreamRef on = stream->ref;
  const SiteHere site;
  auto made = WithoutLock([&]() -> absl::StatusOr<Event> {
    absl::StatusOr<Event> event = Event::Create(device->device, options, site);
    if (!event.ok()) return event;
    const absl::Status recorded = event->ref().Record(on, site);
    if (recorded.ok()) return event;
    event = recorded;  // ends it
    return event;
  });
  if (__builtin_expect(!made.ok(), 0)) {
    Raise(made.status());
    return false;
  }
  if (__builtin_expect(object->event.has_value(), 0)) {
    // The first record of another thread came first, and counts.
    const Unlocked unlocked;
    made = absl::CancelledError();
    return true;
  }
  object->event.emplace(*std::move(made));
  object->device = device;
  return true;
}

}  // namespace

PyObject* NewEvent() { return Make(g_event_type, nullptr, {}); }

bool RecordEvent(EventObject* event, StreamObject* stream) {
  if (!event->event.has_value()) return RecordFirst(event, stream);
  const EventRef ref = event->event->ref();
  const StreamRef on = stream->ref;
  const SiteHere site;
  const absl::Status status = WithoutLock([&] { return ref.Record(on, site); });
  if (__builtin_expect(status.ok(), 1)) return true;
  Raise(status);
  return false;
}

namespace {

// ---- Methods ----------------------------------------------------------------

// Returns the given stream, or the current stream of the event's device.
PyObject* ParseEventStream(const EventObject* event, PyObject* stream) {
  if ((stream == nullptr || stream == Py_None) && event->device != nullptr) {
    return CurrentStreamObject(event->device);
  }
  return ParseStream(stream);
}

PyObject* OneStream(const Parameters& parameters, PyObject* self,
                    PyObject* const* args, Py_ssize_t count, PyObject* names) {
  PyObject* stream = nullptr;
  if (count == 1 && names == nullptr) {
    stream = args[0];
  } else {
    if (!SortArguments(parameters, args, static_cast<size_t>(count), names,
                       &stream)) {
      return nullptr;
    }
  }
  return ParseEventStream(AsEvent(self), stream);
}

PyObject* Record(PyObject* self, PyObject* const* args, Py_ssize_t count,
                 PyObject* names) {
  static const Parameters kParameters = {"record", 0, 1, 1, {"stream"}};
  if (__builtin_expect(count == 1 && names == nullptr && IsStream(args[0]),
                       1)) {
    // The caller keeps the stream alive.
    if (!RecordEvent(AsEvent(self), AsStream(args[0]))) return nullptr;
    return NewRef(Py_None);
  }
  const Ref stream(OneStream(kParameters, self, args, count, names));
  if (!stream || !RecordEvent(AsEvent(self), AsStream(stream.get()))) {
    return nullptr;
  }
  return NewRef(Py_None);
}

PyObject* Wait(PyObject* self, PyObject* const* args, Py_ssize_t count,
               PyObject* names) {
  static const Parameters kParameters = {"wait", 0, 1, 1, {"stream"}};
  const Ref stream(OneStream(kParameters, self, args, count, names));
  if (!stream) return nullptr;
  const EventObject* event = AsEvent(self);
  if (!event->event.has_value()) return NewRef(Py_None);
  const EventRef ref = event->event->ref();
  const StreamRef waiting = AsStream(stream.get())->ref;
  const SiteHere site;
  return NoneOrRaise(WithoutLock([&] { return waiting.Wait(ref, site); }));
}

PyObject* Query(PyObject* self, PyObject*) {
  const EventObject* event = AsEvent(self);
  if (!event->event.has_value()) return NewRef(Py_True);
  const EventRef ref = event->event->ref();
  const SiteHere site;
  const auto done = WithoutLock([&] { return ref.Query(site); });
  return done.ok() ? PyBool_FromLong(*done) : Raise(done.status());
}

PyObject* Synchronize(PyObject* self, PyObject*) {
  EventObject* event = AsEvent(self);
  if (!event->event.has_value()) return NewRef(Py_None);
  const EventRef ref = event->event->ref();
  const SiteHere here;
  const CallSite site = here;  // for the waiting thread too
  PyObject* answer = WaitFor(
      *event->device->backend, [=] { return ref.Query(site); },
      [=] { return ref.Synchronize(site); });
  if (answer == nullptr && !PyErr_ExceptionMatches(g_exceptions.error)) {
    event->abandoned = true;  // after Ctrl-C
  }
  return answer;
}

PyObject* ElapsedTime(PyObject* self, PyObject* other) {
  if (!IsEvent(other)) {
    PyErr_Format(PyExc_TypeError, "elapsed_time() needs a devrt.Event, not %s",
                 TypeName(other));
    return nullptr;
  }
  const EventObject* begin = AsEvent(self);
  const EventObject* end = AsEvent(other);
  if (!begin->options.timing || !end->options.timing) {
    return Raise(absl::InvalidArgumentError(
        "Both events must be created with argument 'enable_timing=True'"));
  }
  if (!begin->event.has_value() || !end->event.has_value()) {
    return Raise(absl::InvalidArgumentError(
        "Both events must be recorded before calculating elapsed time"));
  }
  const EventRef first = begin->event->ref(), last = end->event->ref();
  const auto elapsed =
      WithoutLock([&] { return ElapsedMilliseconds(first, last); });
  return elapsed.ok() ? PyFloat_FromDouble(*elapsed) : Raise(elapsed.status());
}

PyObject* IpcHandle(PyObject* self, PyObject*) {
  EventObject* event = AsEvent(self);
  if (!event->event.has_value()) {
    DeviceObject* device =
        event->device != nullptr ? event->device : CurrentDeviceObject();
    if (device == nullptr || !Bind(event, device)) return nullptr;
  }
  const EventRef ref = event->event->ref();
  const auto handle = WithoutLock([&] { return ref.Export(); });
  if (!handle.ok()) return Raise(handle.status());
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(&*handle),
                                   sizeof(*handle));
}

PyObject* FromIpcHandle(PyObject* type, PyObject* const* args, Py_ssize_t count,
                        PyObject* names) {
  static const Parameters kParameters = {
      "from_ipc_handle", 2, 2, 2, {"device", "handle"}};
  PyObject* values[2];
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values)) {
    return nullptr;
  }
  DeviceObject* device = ParseDevice(values[0]);
  if (device == nullptr) return nullptr;
  if (!PyBytes_Check(values[1])) {
    PyErr_Format(PyExc_TypeError, "handle must be bytes, not %s",
                 TypeName(values[1]));
    return nullptr;
  }
  EventHandle handle;
  if (PyBytes_GET_SIZE(values[1]) != static_cast<Py_ssize_t>(sizeof(handle))) {
    return Raise(absl::InvalidArgumentError(
        "handle has " + std::to_string(PyBytes_GET_SIZE(values[1])) +
        " bytes, expected " + std::to_string(sizeof(handle))));
  }
  std::memcpy(&handle, PyBytes_AS_STRING(values[1]), sizeof(handle));
  auto opened =
      WithoutLock([&] { return Event::Open(device->device, handle); });
  if (!opened.ok()) return Raise(opened.status());
  PyObject* object =
      Make(reinterpret_cast<PyTypeObject*>(type), device, opened->options());
  if (object != nullptr) AsEvent(object)->event.emplace(*std::move(opened));
  return object;
}

PyObject* Reduce(PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError,
                  "an event cannot be pickled or copied; see ipc_handle");
  return nullptr;
}

// ---- Attributes -------------------------------------------------------------

PyObject* GetId(PyObject* self, void*) {
  const EventObject* event = AsEvent(self);
  return PyLong_FromUnsignedLongLong(
      event->event.has_value() ? event->event->id() : 0);
}

PyObject* GetNative(PyObject* self, void*) {
  const EventObject* event = AsEvent(self);
  if (!event->event.has_value()) return PyLong_FromLong(0);
  const EventRef ref = event->event->ref();
  const auto native = WithoutLock([&] { return ref.Native(); });
  return native.ok() ? PyLong_FromVoidPtr(*native) : Raise(native.status());
}

PyObject* GetDevice(PyObject* self, void*) {
  DeviceObject* device = AsEvent(self)->device;
  return device != nullptr ? NewRef(device) : NewRef(Py_None);
}

PyObject* GetTiming(PyObject* self, void*) {
  return PyBool_FromLong(AsEvent(self)->options.timing);
}

PyObject* Repr(PyObject* self) {
  const EventObject* event = AsEvent(self);
  if (!event->event.has_value()) {
    return PyUnicode_FromString("<devrt.Event, not recorded>");
  }
  return PyUnicode_FromFormat(
      "<devrt.Event %llu of %U>",
      static_cast<unsigned long long>(event->event->id()), event->device->name);
}

PyMethodDef g_methods[] = {
    {"record", AsMethod(Record), METH_FASTCALL | METH_KEYWORDS,
     "record($self, /, stream=None)\n"
     "--\n\n"
     "Captures all work that `stream` has got so far.  None is the current\n"
     "stream.\n\n"
     "The first record decides the device, unless the constructor has."},
    {"wait", AsMethod(Wait), METH_FASTCALL | METH_KEYWORDS,
     "wait($self, /, stream=None)\n"
     "--\n\n"
     "Orders later work of `stream` after the work that was captured last."},
    {"query", Query, METH_NOARGS,
     "query($self, /)\n"
     "--\n\n"
     "Returns True if the work that was captured last is complete, or if\n"
     "nothing was recorded."},
    {"synchronize", Synchronize, METH_NOARGS,
     "synchronize($self, /)\n"
     "--\n\n"
     "Waits for the work that was captured last.\n\n"
     "Raises the error of that work, if any.  Ctrl-C ends the wait."},
    {"elapsed_time", ElapsedTime, METH_O,
     "elapsed_time($self, end, /)\n"
     "--\n\n"
     "Returns the milliseconds from this event to `end`.\n\n"
     "Raises InvalidArgumentError (a ValueError) unless both were created "
     "with\n"
     "enable_timing and recorded, on one device.  Raises Error while one of\n"
     "them is not complete."},
    {"ipc_handle", IpcHandle, METH_NOARGS,
     "ipc_handle($self, /)\n"
     "--\n\n"
     "Returns bytes with which another process opens this event.  The event\n"
     "needs interprocess=True."},
    {"from_ipc_handle", AsMethod(FromIpcHandle),
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS,
     "from_ipc_handle($type, /, device, handle)\n"
     "--\n\n"
     "Returns the event of another process, on that process's number of the\n"
     "device here."},
    {"__reduce__", Reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef g_getters[] = {
    Getter("event_id", GetId, "0 before the first record, then not 0."),
    Getter("id", GetId, "As event_id."),
    Getter("native_handle", GetNative,
           "The driver's handle, or 0 before the first record."),
    Getter("device", GetDevice, "The device, or None until it is decided."),
    Getter("enable_timing", GetTiming, "True if elapsed_time() can be called."),
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef g_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, kWeakReferences, READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

constexpr char kDoc[] =
    "Event(device=None, *, enable_timing=False, blocking=False, "
    "interprocess=False)\n"
    "--\n\n"
    "A point in a stream that other streams and threads can wait for.\n\n"
    "    e = devrt.Event()\n"
    "    e.record(producer)\n"
    "    consumer.wait(e)      # no thread waits\n\n"
    "device: None is the device of the first record.\n"
    "enable_timing: for elapsed_time.\n"
    "blocking: a thread that waits sleeps.\n"
    "interprocess: other processes can open the event.\n\n"
    "Recording again replaces the captured work for later calls.  An event\n"
    "that was never recorded is complete.  `await e` waits as synchronize\n"
    "does, while the event loop goes on.";

PyType_Slot g_slots[] = {{Py_tp_new, AsSlot(New)},
                         {Py_am_await, AsSlot(Await)},
                         {Py_tp_dealloc, AsSlot(Dealloc)},
                         {Py_tp_repr, AsSlot(Repr)},
                         {Py_tp_methods, g_methods},
                         {Py_tp_getset, g_getters},
                         {Py_tp_members, g_members},
                         {Py_tp_doc, const_cast<char*>(kDoc)},
                         {0, nullptr}};

PyType_Spec g_spec = {"devrt.Event", sizeof(EventObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, g_slots};

}  // namespace

bool AddEventType(PyObject* module) {
  PyObject* type = PyType_FromSpec(&g_spec);
  if (type == nullptr) return false;
  g_event_type = reinterpret_cast<PyTypeObject*>(type);
  g_event_type->tp_vectorcall = Vectorcall;
  return PyModule_AddObject(module, "Event", NewRef(type)) == 0;
}

}  // namespace devrt::python
