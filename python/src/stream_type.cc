// SPDX-License-Identifier: Apache-2.0
//
// The types devrt.Stream and devrt.cuda.Stream.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "python/src/arguments.h"
#include "python/src/call_site.h"
#include "python/src/errors.h"
#include "python/src/event.h"
#include "python/src/gil.h"
#include "python/src/helpers.h"
#include "python/src/host_call.h"
#include "python/src/stream.h"
#include "python/src/thread_state.h"
#include "python/src/wait.h"

namespace devrt::python {

PyTypeObject* g_stream_type = nullptr;
PyTypeObject* g_cuda_stream_type = nullptr;

namespace {

const char* KindName(StreamKind kind) {
  switch (kind) {
    case StreamKind::kCreated:
      return "created";
    case StreamKind::kDefault:
      return "default";
    case StreamKind::kPerThread:
      return "per_thread";
    case StreamKind::kExternal:
      return "external";
  }
  return "unknown";
}

// ---- Creation ---------------------------------------------------------------

// Checks that streams of the backend may have this type.  Returns false with an
// exception set.
bool IsOfType(PyTypeObject* type, const std::string& backend) {
  if (backend == "cuda" || !PyType_IsSubtype(type, g_cuda_stream_type)) {
    return true;
  }
  Raise(absl::InvalidArgumentError("Expected a cuda device, but got: " +
                                   backend));
  return false;
}

// Finds the stream with that id, device and device type.
PyObject* Rebuild(PyTypeObject* type, PyObject* const* values) {
  int64_t id = 0, index = 0, device_type = 0;
  if (!ToInt64(values[0], "stream_id", &id)) return nullptr;
  if (values[1] == nullptr || values[2] == nullptr) {
    PyErr_SetString(PyExc_TypeError,
                    "stream_id goes with device_index and device_type");
    return nullptr;
  }
  if (!ToInt64(values[1], "device_index", &index) ||
      !ToInt64(values[2], "device_type", &device_type)) {
    return nullptr;
  }
  const char* names[] = {"cuda", "hip", "mtia"};
  const int types[] = {1, 6, 19};
  for (int i = 0; i < 3; ++i) {
    if (types[i] != device_type) continue;
    if (!IsOfType(type, names[i])) return nullptr;
    BackendEntry* backend = OpenBackend(names[i]);
    if (backend == nullptr) return nullptr;
    DeviceObject* device = ParseDevice(values[1], backend);
    if (device == nullptr) return nullptr;
    PyObject* found = id == 0 ? nullptr : FindStream(static_cast<uint64_t>(id));
    const Ref original(id == 0 ? DefaultStreamObject(device)
                               : Ref::To(found).Release());
    if (original && AsStream(original.get())->device == device) {
      StreamObject* stream = AsStream(original.get());
      return MakeStream(type, stream->ref, device, stream->handle);
    }
    if (PyErr_Occurred() != nullptr) return nullptr;
    return Raise(absl::InvalidArgumentError(
        "stream_id " + std::to_string(id) + " is no stream of " +
        device->device.name() + " that is alive"));
  }
  return Raise(absl::InvalidArgumentError(
      "device_type " + std::to_string(device_type) +
      " has no backend of that number; see devrt.DeviceType"));
}

PyObject* Create(PyTypeObject* type, DeviceObject* device,
                 const StreamOptions& options) {
  const SiteHere site;
  auto made = WithoutLock(
      [&] { return Stream::Create(device->device, options, site); });
  if (!made.ok()) return Raise(made.status());
  const StreamRef ref = made->ref();
  auto handle = std::make_shared<StreamHandle>();
  handle->stream = *std::move(made);
  return MakeStream(type, ref, device, std::move(handle));
}

PyObject* New(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const Parameters kParameters = {
      "Stream",
      0,
      2,
      6,
      {"device", "priority", "blocking", "stream_id", "device_index",
       "device_type"}};
  PyObject* values[6];
  if (!SortArguments(kParameters, args, keywords, values)) return nullptr;
  if (values[3] != nullptr) {
    if (values[0] != nullptr || values[1] != nullptr || values[2] != nullptr) {
      PyErr_SetString(PyExc_TypeError,
                      "stream_id goes with device_index and device_type only");
      return nullptr;
    }
    return Rebuild(type, values + 3);
  }
  if (values[4] != nullptr || values[5] != nullptr) {
    PyErr_SetString(PyExc_TypeError,
                    "device_index and device_type go with stream_id");
    return nullptr;
  }
  BackendEntry* backend = nullptr;
  if (PyType_IsSubtype(type, g_cuda_stream_type)) {
    backend = OpenBackend("cuda");
    if (backend == nullptr) return nullptr;
  }
  StreamOptions options;
  int64_t priority = 0;
  if (values[1] != nullptr && !ToInt64(values[1], "priority", &priority)) {
    return nullptr;
  }
  // A device's range is far smaller, and clamps the value (C22).
  options.priority = static_cast<int>(
      priority < INT32_MIN ? INT32_MIN
                           : (priority > INT32_MAX ? INT32_MAX : priority));
  if (!ToBool(values[2], "blocking", &options.blocking)) return nullptr;
  DeviceObject* device = ParseDevice(values[0], backend);
  return device != nullptr ? Create(type, device, options) : nullptr;
}

void Dealloc(PyObject* self) {
  StreamObject* stream = AsStream(self);
  PyTypeObject* type = Py_TYPE(self);
  if (stream->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  ForgetStream(self);
  Py_CLEAR(stream->protocol);
  std::shared_ptr<StreamHandle> handle = std::move(stream->handle);
  stream->handle.~shared_ptr();
  type->tp_free(self);
  Py_DECREF(type);
  if (handle == nullptr) return;
  const KeepException keep;  // owners that end here may run Python code
  const Unlocked unlocked;
  handle.reset();
}

// ---- Attributes -------------------------------------------------------------

PyObject* Repr(PyObject* self) {
  const StreamObject* stream = AsStream(self);
  if (stream->ref.kind() == StreamKind::kDefault) {
    return PyUnicode_FromFormat("<devrt.Stream: default stream of %U>",
                                stream->device->name);
  }
  return PyUnicode_FromFormat("<devrt.Stream %llu of %U, %s>",
                              static_cast<unsigned long long>(stream->ref.id()),
                              stream->device->name,
                              KindName(stream->ref.kind()));
}

Py_hash_t Hash(PyObject* self) {
  const StreamObject* stream = AsStream(self);
  return static_cast<Py_hash_t>((stream->ref.id() << 8) ^
                                stream->device->index);
}

PyObject* Compare(PyObject* self, PyObject* other, int operation) {
  if ((operation != Py_EQ && operation != Py_NE) || !IsStream(other)) {
    return NewRef(Py_NotImplemented);
  }
  const bool equal = AsStream(self)->ref == AsStream(other)->ref;
  return PyBool_FromLong(equal == (operation == Py_EQ));
}

PyObject* GetId(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(AsStream(self)->ref.id());
}

PyObject* GetDevice(PyObject* self, void*) {
  return NewRef(AsStream(self)->device);
}

PyObject* GetDeviceIndex(PyObject* self, void*) {
  return PyLong_FromLong(AsStream(self)->device->device.index());
}

PyObject* GetDeviceType(PyObject* self, void*) {
  return PyLong_FromLong(AsStream(self)->device->backend->device_type);
}

PyObject* GetKind(PyObject* self, void*) {
  return PyUnicode_FromString(KindName(AsStream(self)->ref.kind()));
}

PyObject* GetPriority(PyObject* self, void*) {
  return PyLong_FromLong(AsStream(self)->ref.priority());
}

PyObject* GetNative(PyObject* self, void*) {
  const StreamRef ref = AsStream(self)->ref;
  const auto native = WithoutLock([&] { return ref.Native(); });
  if (!native.ok()) return Raise(native.status());
  return PyLong_FromVoidPtr(*native);
}

// Checked here, since a program can change an object's class.
PyObject* GetCudaStream(PyObject* self, void*) {
  const BackendEntry* backend = AsStream(self)->device->backend;
  if (!IsOfType(g_cuda_stream_type, backend->backend.name())) return nullptr;
  return GetNative(self, nullptr);
}

PyObject* CudaStream(PyObject* self, PyObject*) {
  StreamObject* stream = AsStream(self);
  if (stream->protocol == nullptr) {
    const Ref native(GetCudaStream(self, nullptr));
    if (!native) return nullptr;
    PyObject* answer = Py_BuildValue("(iO)", 0, native.get());
    if (answer == nullptr) return nullptr;
    Py_XSETREF(stream->protocol, answer);
  }
  return NewRef(stream->protocol);
}

// ---- Methods ----------------------------------------------------------------

PyObject* Enter(PyObject* self, PyObject*) { return EnterStreamObject(self); }

PyObject* Exit(PyObject* self, PyObject* const*, Py_ssize_t) {
  return LeaveObject(self);
}

PyObject* Query(PyObject* self, PyObject*) {
  const StreamRef ref = AsStream(self)->ref;
  const SiteHere site;
  const auto done = WithoutLock([&] { return ref.Query(site); });
  return done.ok() ? PyBool_FromLong(*done) : Raise(done.status());
}

PyObject* Synchronize(PyObject* self, PyObject*) {
  const StreamRef ref = AsStream(self)->ref;
  const std::vector<uint64_t> calls = HostCallsOf(ref.device(), ref);
  const Ref done(SynchronizeStream(self));
  return done ? WaitForHostCalls(calls) : nullptr;
}

PyObject* Wait(PyObject* self, PyObject* other) {
  const StreamRef ref = AsStream(self)->ref;
  const SiteHere site;
  if (IsStream(other)) {
    const StreamRef source = AsStream(other)->ref;
    return NoneOrRaise(WithoutLock([&] { return ref.Wait(source, site); }));
  }
  if (IsEvent(other)) {
    const EventObject* event = AsEvent(other);
    if (!event->event.has_value()) return NewRef(Py_None);
    const EventRef source = event->event->ref();
    return NoneOrRaise(WithoutLock([&] { return ref.Wait(source, site); }));
  }
  PyErr_Format(PyExc_TypeError,
               "wait() needs a devrt.Event or a devrt.Stream, not %s",
               TypeName(other));
  return nullptr;
}

PyObject* Record(PyObject* self, PyObject* const* args, Py_ssize_t count,
                 PyObject* names) {
  static const Parameters kParameters = {"record", 0, 1, 1, {"event"}};
  PyObject* event;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     &event)) {
    return nullptr;
  }
  Ref recorded;
  if (event == nullptr || event == Py_None) {
    recorded = Ref(NewEvent());
    if (!recorded) return nullptr;
  } else if (IsEvent(event)) {
    recorded = Ref::To(event);
  } else {
    PyErr_Format(PyExc_TypeError, "event must be a devrt.Event or None, not %s",
                 TypeName(event));
    return nullptr;
  }
  if (!RecordEvent(AsEvent(recorded.get()), AsStream(self))) return nullptr;
  return recorded.Release();
}

PyObject* Reduce(PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError, "a stream cannot be pickled or copied");
  return nullptr;
}

PyMethodDef g_methods[] = {
    {"__enter__", Enter, METH_NOARGS, nullptr},
    {"__exit__", AsMethod(Exit), METH_FASTCALL, nullptr},
    {"__reduce__", Reduce, METH_NOARGS, nullptr},
    {"query", Query, METH_NOARGS,
     "query($self, /)\n"
     "--\n\n"
     "Returns True if all work that this stream has got so far is complete."},
    {"synchronize", Synchronize, METH_NOARGS,
     "synchronize($self, /)\n"
     "--\n\n"
     "Waits for all work that this stream has got so far, and for its\n"
     "functions of launch_host_func.  Inside such a function it waits for the\n"
     "other work alone.\n\n"
     "Raises the error of that work, if any.  Ctrl-C ends the wait."},
    {"wait", Wait, METH_O,
     "wait($self, other, /)\n"
     "--\n\n"
     "Orders later work of this stream after `other`.\n\n"
     "other: an Event, for the work that it captured last, or a Stream, for\n"
     "all work that it has got so far.\n\n"
     "The calling thread waits only if `other` belongs to another backend."},
    {"wait_event", Wait, METH_O,
     "wait_event($self, event, /)\n"
     "--\n\n"
     "As wait()."},
    {"wait_stream", Wait, METH_O,
     "wait_stream($self, stream, /)\n"
     "--\n\n"
     "As wait()."},
    {"record", AsMethod(Record), METH_FASTCALL | METH_KEYWORDS,
     "record($self, /, event=None)\n"
     "--\n\n"
     "Records `event`, or a new one, on this stream, and returns it."},
    {"record_event", AsMethod(Record), METH_FASTCALL | METH_KEYWORDS,
     "record_event($self, /, event=None)\n"
     "--\n\n"
     "As record()."},
    {"_launch_host_call", LaunchHostCall, METH_VARARGS,
     "_launch_host_call($self, callable, ranges, /)\n--\n\nSee host_call.h."},
    {"launch_host_func", AsMethod(LaunchHostFunction),
     METH_VARARGS | METH_KEYWORDS,
     "launch_host_func($self, function, /, *args, **kwargs)\n"
     "--\n\n"
     "Calls function(*args, **kwargs) after all earlier work of this stream,\n"
     "on a thread of devrt.\n\n"
     "synchronize() of the stream and of its device wait for the function.\n"
     "Later work, events and query() do not.  Returns a HostFuture: result()\n"
     "returns or raises what the function did, or raises the error of the\n"
     "earlier work, in which case the function did not run.\n\n"
     "Raises TypeError for generator and coroutine functions, whose bodies "
     "run\n"
     "later."},
    {"from_external", AsMethod(FromExternal),
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS,
     "from_external($type, /, stream, device=None)\n"
     "--\n\n"
     "Adopts another library's stream, without owning it.\n\n"
     "stream: an object with __cuda_stream__(), which belongs to cuda and is\n"
     "kept alive, or a native handle.  If the object refers to the returned\n"
     "stream, the cycle is not collected, because the end of the stream needs\n"
     "the object.\n"
     "device: where the stream is.  Without it the driver is asked.\n\n"
     "Handles 0, 1 and 2 of CUDA are default streams of `device`, or of the\n"
     "current device.  Raises TypeError for an object that does not follow\n"
     "version 0 of the protocol, and InvalidArgumentError (a ValueError) for "
     "a\n"
     "stream of another device."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef g_getters[] = {
    Getter("id", GetId,
           "Number of the stream, never reused.  0 for a default stream."),
    Getter("stream_id", GetId, "As id."),
    Getter("device", GetDevice, "The device of the stream."),
    Getter("device_index", GetDeviceIndex,
           "Index of the device within its backend."),
    Getter("device_type", GetDeviceType, "A devrt.DeviceType, as int."),
    Getter("kind", GetKind,
           "'created', 'default', 'per_thread' or 'external'."),
    Getter("priority", GetPriority,
           "Lower is more urgent.  Within the device's range."),
    Getter("native_handle", GetNative,
           "The driver's handle, valid while this object lives."),
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef g_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, kWeakReferences, READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

constexpr char kDoc[] =
    "Stream(device=None, priority=0, *, blocking=False, stream_id=..., "
    "device_index=..., device_type=...)\n"
    "--\n\n"
    "A queue of operations on one device, and the context in which it is\n"
    "current.\n\n"
    "    s = devrt.Stream('mtia:1')\n"
    "    with s:\n"
    "        ...           # s is current, and so is its device\n\n"
    "device: what devrt.device takes.  None is the current device.\n"
    "priority: lower is more urgent.  Clamped to the device's range.\n"
    "blocking: the stream takes part in the order of the default stream.\n\n"
    "Each call makes a new stream.  Stream(stream_id=..., device_index=...,\n"
    "device_type=...) returns an object for a living stream.\n\n"
    "Operations of one stream run in the order of submission.  Streams are\n"
    "not ordered with one another.  Contexts can be nested, and entered by\n"
    "many threads and asyncio tasks at once.  A stream is also a decorator.\n"
    "`await s` waits for the stream's work while the event loop goes on.\n"
    "Functions of launch_host_func have futures, which can be awaited.";

PyType_Slot g_slots[] = {{Py_tp_new, AsSlot(New)},
                         {Py_am_await, AsSlot(Await)},
                         {Py_tp_dealloc, AsSlot(Dealloc)},
                         {Py_tp_repr, AsSlot(Repr)},
                         {Py_tp_call, AsSlot(Decorate)},
                         {Py_tp_hash, AsSlot(Hash)},
                         {Py_tp_richcompare, AsSlot(Compare)},
                         {Py_tp_methods, g_methods},
                         {Py_tp_getset, g_getters},
                         {Py_tp_members, g_members},
                         {Py_tp_doc, const_cast<char*>(kDoc)},
                         {0, nullptr}};

PyType_Spec g_spec = {"devrt.Stream", sizeof(StreamObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, g_slots};

PyMethodDef g_cuda_methods[] = {
    {"__cuda_stream__", CudaStream, METH_NOARGS,
     "__cuda_stream__($self, /)\n--\n\n"
     "(0, handle): version 0 of the protocol, and the cudaStream_t."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef g_cuda_getters[] = {
    Getter("cuda_stream", GetCudaStream, "The cudaStream_t, as int."),
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

constexpr char kCudaDoc[] =
    "Stream(device=None, priority=0, *, blocking=False)\n"
    "--\n\n"
    "A devrt.Stream of CUDA, which other libraries accept by __cuda_stream__.";

PyType_Slot g_cuda_slots[] = {{Py_tp_methods, g_cuda_methods},
                              {Py_tp_getset, g_cuda_getters},
                              {Py_tp_doc, const_cast<char*>(kCudaDoc)},
                              {0, nullptr}};

PyType_Spec g_cuda_spec = {"devrt.cuda.Stream", sizeof(StreamObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           g_cuda_slots};

}  // namespace

PyObject* SynchronizeStream(PyObject* stream) {
  const StreamRef ref = AsStream(stream)->ref;
  const SiteHere here;
  const CallSite site = here;  // for the waiting thread too
  const std::shared_ptr<StreamHandle> handle = AsStream(stream)->handle;
  return WaitFor(
      *AsStream(stream)->device->backend, [=] { return ref.Query(site); },
      [=, handle = handle] { return ref.Synchronize(site); });
}

bool AddStreamTypes(PyObject* module) {
  PyObject* base = PyType_FromSpec(&g_spec);
  if (base == nullptr) return false;
  g_stream_type = reinterpret_cast<PyTypeObject*>(base);
  const Ref bases(PyTuple_Pack(1, base));
  if (!bases) return false;
  PyObject* cuda = PyType_FromSpecWithBases(&g_cuda_spec, bases.get());
  if (cuda == nullptr) return false;
  g_cuda_stream_type = reinterpret_cast<PyTypeObject*>(cuda);
  return PyModule_AddObject(module, "Stream", NewRef(base)) == 0 &&
         PyModule_AddObject(module, "CudaStream", NewRef(cuda)) == 0;
}

}  // namespace devrt::python
